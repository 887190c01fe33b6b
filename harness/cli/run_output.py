"""What `harness run` prints: progress, the result of each run, and the answer."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import rich_click as click
from rich.console import Console
from rich.status import Status as Spinner

from checkers.headline import headline
from harness.cli.answer import CommandAnswer, open_page, print_answer
from harness.cli.display import live_display
from harness.cli.progress import Pace
from harness.cli.result import RunReport, print_result, result
from harness.core.op import Json
from harness.core.verdict import Status, worst
from harness.run.campaign import FinishedRun
from harness.run.monitor import Monitor
from harness.run.run_request import REPORTED, Invocation, RunRequest
from harness.run.stop import Stop
from harness.store.store import RunDirectory


@dataclass
class RunOutput:
    """Output of the runs of one command."""

    console: Console
    count: int
    as_json: bool
    answers: list[CommandAnswer] = field(default_factory=list)
    reports: list[dict[str, Json]] = field(default_factory=list)
    spinner: Spinner | None = None
    """Line of progress of runs in other processes."""

    def __post_init__(self) -> None:
        self._pace = Pace("runs", self.count)

    @property
    def status(self) -> Status:
        """Return the worst status of the runs so far."""
        return worst(answer.status for answer in self.answers)

    @contextmanager
    def shown(self, monitor: Monitor) -> Iterator[None]:
        """Show a run in progress, and its place among all."""
        done = len(self.answers)
        place = [f"run {done + 1:,} of {self.count:,}", *self._pace.rest(done)]
        position = "" if self.count == 1 else ", ".join(place)
        with live_display(monitor, self.console, position):
            yield

    @contextmanager
    def side_by_side(self) -> Iterator[None]:
        """Show the progress of runs in other processes, on a terminal."""
        spinner = self.console.status("") if self.console.is_terminal else None
        with spinner or nullcontext():
            self.spinner = spinner
            yield
        self.spinner = None

    def finished(self, run: RunReport) -> None:
        """Print the result of a run."""
        report = RunDirectory(run.path).report
        page = report if run.panel is not None and report.exists() else None
        self.answers.append(CommandAnswer(run.status, run.headline, page, run.path))
        if run.report is not None:
            self.reports.append(run.report)
        elif run.panel is None:
            self._print_line(f"{run.status.value} {run.path}")
            for trouble in run.troubles:
                self.console.print(f"! {trouble}", style="yellow", markup=False, soft_wrap=True)
        else:
            print_result(self.console, run.panel)
            if page is not None and self.count > 1:  # else the panel says why it was not drawn
                self.console.print(f"report: {page}", soft_wrap=True, highlight=False)
        if self.spinner is not None:
            self.spinner.update(self._pace.text(len(self.answers)))

    def _print_line(self, line: str) -> None:
        """Print a line; without a line of progress not through rich, which would take ten times as
        long."""
        if self.spinner is None:
            print(line, file=self.console.file, flush=True)
        else:
            self.console.print(line, soft_wrap=True, highlight=False)

    @property
    def page(self) -> Path | None:
        """Return the page of the run that the answer is about."""
        return CommandAnswer.of_all(self.answers).page if self.answers else None

    def end(self, *, open_: bool) -> None:
        """Print the JSON of all runs, or the answer as the last line."""
        if open_:
            open_page(self.console, self.page)
        if self.as_json:
            click.echo(json.dumps(self.reports[0] if self.count == 1 else self.reports))
        elif self.answers:
            print_answer(self.console, CommandAnswer.of_all(self.answers))


def report_of(run: FinishedRun, options: Invocation) -> RunReport:
    """Return what is printed about a run, without the history, which is too large to pickle."""
    outcome, path = run.outcome, run.directory.path
    status, line = outcome.judgement.status, headline(outcome.judgement)
    if options.as_json:
        troubles = list(outcome.troubles)
        report = {"run": str(path), "troubles": troubles, **outcome.judgement.results()}
        return RunReport(path, status, report, None, headline=line)
    if status not in REPORTED[options.report]:
        return RunReport(path, status, None, None, outcome.troubles, line)
    panel = result(
        outcome.judgement,
        outcome.history,
        title=str(path),
        workload=run.spec.workload,
        repro_command=run.spec.command,
        troubles=outcome.troubles,
    )
    return RunReport(path, status, None, panel, headline=line)


def isolated(request: RunRequest) -> Callable[[int], RunReport]:
    """Return the function that makes the run of a number; a job process calls it."""
    campaign = request.campaign(None, Stop())

    def make(number: int) -> RunReport:
        run = campaign.run_once(request.spec(request.given.seed.after(number)))
        return report_of(run, request.invocation)

    return make
