"""`harness run`: run a workload under faults, once or several times on one cluster."""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import rich_click as click
from click.core import ParameterSource
from rich.console import Console, RenderableType
from rich.status import Status as Spinner

from checkers.headline import headline
from harness.cli.display import Pace, live_display
from harness.cli.options import COMMON, PaneledCommand, invocation_of, run_options, spec_of
from harness.cli.result import (
    CommandAnswer,
    open_page,
    print_answer,
    print_kept_cluster,
    print_result,
    result,
)
from harness.cli.terminal import Terminal, print_json
from harness.core.errors import EXIT_CRASH, HarnessError, UsageError
from harness.core.op import Json
from harness.core.verdict import Status, worst
from harness.report.pace import shortfall
from harness.run.campaign import Campaign, FinishedRun
from harness.run.monitor import Monitor
from harness.run.run_request import REPORTED, Invocation, RunRequest
from harness.run.stop import Stop
from harness.spec.run_options import OPTIONS
from harness.store.store import RunDirectory


@click.command("run", cls=PaneledCommand, common=COMMON)
@run_options
@click.pass_context
def run(context: click.RichContext, /, **_: object) -> int:
    """Run operations and faults against a cluster, and decide whether it kept its word.

    Brings the cluster up, runs the workload under the nemesis, heals, waits until the cluster
    is quiescent, reads everything on every replica, and judges the history.
    """
    request = _request(context)
    options = request.invocation
    console = Terminal(stderr=options.as_json)
    if request.no_engine is not None:
        console.print(f"simulated servers: {request.no_engine}", style="yellow", highlight=False)
    output = RunOutput(console, options.count, options.as_json)
    console.warn(request.store.prepare())
    gc.freeze()  # exempt the loaded modules from every later collection
    stop = Stop()
    with stop.obeying_signals():
        campaign = request.campaign(output.shown, stop)
        try:
            if options.jobs > 1:
                from harness.run.jobs import side_by_side  # slow to load

                with output.side_by_side():
                    made = isolated(request)
                    for report in side_by_side(made, range(options.count), options.jobs, stop):
                        output.finished(report)
            else:
                campaign.run(request.specs(), lambda run: output.finished(report_of(run, options)))
        except HarnessError as error:
            if not (options.as_json and output.reports):
                raise
            output.reports[-1]["error"] = str(error)
    _say_what_is_left(console, campaign, stop)
    output.end(open_=options.open_)
    if output.reports and "error" in output.reports[-1]:
        return EXIT_CRASH
    return output.status.exit_status


def request_for(words: Sequence[str]) -> RunRequest:
    """Return the request of a command line, without its first words. Raises UsageError."""
    try:
        return _request(run.make_context("run", [*words]))
    except click.UsageError as error:
        raise UsageError(error.format_message()) from error


def _request(context: click.Context) -> RunRequest:
    typed = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)
    stated = frozenset(
        name
        for name, entry in OPTIONS.items()
        if context.get_parameter_source(entry.parameter) in typed
    )
    spec, invocation = spec_of(context.params), invocation_of(context.params)
    return RunRequest(spec, invocation, stated=stated)


def _say_what_is_left(console: Console, campaign: Campaign, stop: Stop) -> None:
    """Print how to use and to remove a cluster that was kept."""
    kept = campaign.clusters.kept
    if stop.frozen and kept is not None:
        pods = f"docker ps -qf name={kept.name}-.*-pod"
        resume = "xargs -I{} docker exec {} sh -c 'kill -CONT -1'"
        console.print(f"{stop.reason}; they go on after: {pods} | {resume}")
    print_kept_cluster(console, kept)


@dataclass(frozen=True, slots=True)
class RunReport:
    """Output of the command about a finished run."""

    path: Path
    status: Status
    report: dict[str, Json] | None
    """Result as JSON; None without --json."""
    panel: RenderableType | None
    """Result for the terminal; None if one line is enough."""
    troubles: tuple[str, ...] = ()
    """Troubles to print below that line."""
    headline: str = ""
    """Conclusion without the status, for the answer."""


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
            print_json(self.reports[0] if self.count == 1 else self.reports)
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
        troubles=(*outcome.troubles, *filter(None, [_pace(run)])),
    )
    return RunReport(path, status, None, panel, headline=line)


def _pace(run: FinishedRun) -> str:
    """Return why a rate that was asked for was not reached; "" if it was."""
    return shortfall(run.outcome.history, run.spec.rate, run.spec.concurrency)


def isolated(request: RunRequest) -> Callable[[int], RunReport]:
    """Return the function that makes the run of a number; a job process calls it."""
    campaign = request.campaign(None, Stop())

    def make(number: int) -> RunReport:
        run = campaign.run_once(request.spec(request.given.seed.after(number)))
        return report_of(run, request.invocation)

    return make
