"""`harness torture`: run a matrix for a night."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import rich_click as click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from checkers.phrasing import number as counted
from checkers.triage.explanation import NOT_EXPLAINED
from harness.cli.display import Pace, live_display
from harness.cli.parameter_types import WORD, Name, number, store_option
from harness.cli.result import STATUS_STYLE, CommandAnswer, print_answer
from harness.cli.terminal import Terminal, print_json
from harness.core.verdict import Status
from harness.fleet.engine import SPARK_FROM, EngineName
from harness.nights.alarms import Alarm
from harness.nights.findings import FailOn
from harness.nights.matrix import read_matrix
from harness.nights.night import Night, Slot
from harness.nights.night_summary import CellSummary, NightSummary
from harness.nights.runner import NightOptions, NightRunner
from harness.nights.torture import DONE
from harness.report.narrow_table import TableColumn, least_width, narrow_table
from harness.run.monitor import Monitor, Phase
from harness.run.stop import Stop
from harness.store.store import Store


@click.command("torture")
@click.argument("matrix", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--hours", type=number("hours"), help="Time budget; no run starts that would exceed it."
)
@click.option("--runs", type=number("runs"), help="Stop after this number of runs.")
@click.option(
    "--fail-fast",
    is_flag=True,
    help="Stop at the first run that fails the night (--fail-on); each run waits for the verdict "
    "on the one before.",
)
@click.option(
    "--fail-on",
    type=Name([choice.value for choice in FailOn]),
    default=FailOn.UNEXPLAINED.value,
    show_default=True,
    help="INVALID runs that fail the night: those with a finding that no earlier night had; those "
    "that are not explained by defects which the matrix accepts; or any.",
)
@click.option(
    "--clusters",
    type=number("clusters"),
    default=2,
    show_default=True,
    help="Number of clusters that take turns: a run starts on one while the last heals on another.",
)
@click.option(
    "--steer",
    is_flag=True,
    help="Let what runs reach decide which come next: half follow a run that was rare or that "
    "nothing explains, others vary intervals, durations, rates and time limits.",
)
@click.option("--fresh", is_flag=True, help="Start a new night even if the last one is not over.")
@click.option(
    "--spark", type=WORD, metavar="MASTER", help="Judge on the Spark of this master, or local[*]."
)
@click.option(
    "--engine",
    type=Name([name.value for name in EngineName]),
    default=EngineName.AUTO.value,
    show_default=True,
    help=f"What judges; auto: Spark if {SPARK_FROM:,} runs or more are to be judged and it is "
    "installed, else a process beside them.",
)
@click.option(
    "--notify",
    metavar="COMMAND|URL",
    help="When the night is over, give its summary as JSON to a shell command on standard input, "
    "or to an http or https URL as the body of a POST; slack:URL and teams:URL get a message.",
)
@click.option(
    "--markdown",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Append the summary as Markdown to a file, such as $GITHUB_STEP_SUMMARY.",
)
@store_option
@click.option(
    "--json", "as_json", is_flag=True, help="Print the summary as JSON on standard output."
)
def torture(
    matrix: Path,
    store: str,
    fail_on: str,
    engine: str,
    fresh: bool,
    as_json: bool,
    **values: Any,
) -> int:
    """Run a matrix of workloads, nemeses and settings one run at a time, and judge each.

    The same command resumes a night that was killed. If the time of that night is over, its
    unjudged runs are judged and a new night begins.
    """
    options = NightOptions(
        store=Path(store), fail_on=FailOn(fail_on), engine=EngineName(engine), **values
    )
    console = Terminal(stderr=as_json)
    torture_matrix, stop = read_matrix(matrix), Stop()
    console.warn(Store(options.store).prepare())
    runner = NightRunner(torture_matrix, options, partial(live_display, console=console), stop)
    output = _NightDisplay(console, options.runs)
    night = None if fresh else runner.resume()
    if night is not None:
        console.print(f"resuming {night.path} at run {night.next}", highlight=False)
        left_s = options.seconds_left(night)
        if left_s is not None and left_s <= 0:
            # Its time ran out while it was not running: judge what is left, start no run.
            output.summarize(runner.run(night, output))
            night = None
    summary = runner.run(night or runner.begin(), output)
    output.summarize(summary)
    if as_json:
        print_json(summary.results())
    return summary.status.exit_status


@dataclass(slots=True)
class _NightDisplay:
    """Shows nights: on a terminal a status display with the progress and a line for each live run,
    a line for each verdict, and a summary."""

    console: Console
    total: int | None
    """Number of runs after which a night ends; None if its time alone ends it."""
    spent: str = ""
    """Rate of the runs of the last night, and the mean time of each phase."""
    lines: dict[str, str] = field(default_factory=dict)
    """Line of each live run, by its title."""

    @contextmanager
    def showing(
        self, night: Night, seconds_left: float | None
    ) -> Iterator[Callable[[Monitor], None]]:
        """Show a night while the block runs; the function that it yields gets the monitor of each
        run that begins."""
        pace = Pace("runs", self.total, seconds_left, before=night.next)
        status = self.console.status("")

        def follow(monitor: Monitor) -> None:
            def show_phase(phase: Phase, note: str) -> None:
                self.lines[monitor.title] = f"{monitor.title}: {phase.value} {note}"
                if note == DONE:
                    del self.lines[monitor.title]
                done = sum(not slot.killed for slot in night.runs)
                lines = [pace.text(done), *(list(self.lines.values()) or ["judging"])]
                status.update(Text("\n".join(lines)))

            monitor.listeners.append(show_phase)

        with status if self.console.is_terminal else nullcontext():
            yield follow
        self.spent = _spent(night, pace.before, pace.clock.now_ns() / 1e9)

    def show_run(self, slot: Slot) -> None:
        """Show a run whose verdict is known, or that broke."""
        line = Text(f"run {slot.number:<4} ")
        line.append(f"{slot.verdict.value:<8}", STATUS_STYLE[slot.verdict])
        line.append(f" {slot.cell}, seed {slot.seed}, {slot.seconds:.1f} s")
        if slot.verdict is not Status.VALID:
            line.append(f": {slot.why}", "dim")
        if slot.cause is not None:
            line.append(f"; {slot.cause.text}")
        self.console.print(line, soft_wrap=True)

    def show_engine(self, text: str) -> None:
        """Say what judges, and why."""
        self.console.print(f"judged by {text}", style="dim", markup=False, highlight=False)

    def warn_unnotified(self, why: str) -> None:
        """Say that the notification failed."""
        self.console.print(f"! not notified: {why}", style="yellow", markup=False)

    def summarize(self, summary: NightSummary) -> None:
        """Show what a night came to."""
        _show_steps(self.console, summary)
        self.console.print(self.spent, style="dim", highlight=False)
        _show_cells(self.console, summary)
        _show_causes(self.console, summary)
        for cell in summary.cells:
            if cell.missing:
                text = f"NOT APPLICABLE: {cell.name} needs {cell.missing}"
                self.console.print(text, style="yellow")
        _show_alarms(self.console, summary.alarms)
        text = f"{summary.headline}; night: {summary.night.path}"
        print_answer(self.console, CommandAnswer(summary.status, text, word=summary.word))


def _spent(night: Night, first: int, seconds: float) -> str:
    """Return how many runs the night made from run `first` on, how many a minute, and the mean
    seconds of each of their phases, in words."""
    slots = [slot for slot in night.runs if slot.number >= first and slot.recorded]
    spent = {phase: [slot.phases.get(phase, 0.0) for slot in slots] for phase in Phase}
    means = (f"{phase} {mean(of):.1f}" for phase, of in spent.items() if slots and mean(of) > 0.05)
    return (
        f"{len(slots)} runs in {seconds:.0f} s, {60 * len(slots) / seconds:.1f} per minute; "
        f"mean seconds per run: {', '.join(means) or 'none'}"
    )


def _show_steps(console: Console, summary: NightSummary) -> None:
    """Print which of the steps that the servers can take no run took, if any run was replayed."""
    reached = summary.reached
    if not reached.steps:
        return
    if reached.elements:
        fresh = f"{len(summary.fresh_elements):,} of them in no earlier night"
        text = f"{len(reached.elements):,} elements of the model covered, {fresh}"
        console.print(text, highlight=False, soft_wrap=True)
    if summary.drawn:
        ways = (f"{one.way} {one.runs} (+{one.added:,})" for one in summary.drawn)
        text = f"runs drawn, and elements that they added: {', '.join(ways)}"
        console.print(text, highlight=False, soft_wrap=True)
    if aimed := summary.aimed_at:
        text = (
            f"aimed at {counted(len(aimed), 'element')} that only simulated runs had covered: "
            f"{sum(aimed.values()):,} covered now"
        )
        console.print(text, highlight=False, soft_wrap=True)
    never = summary.steps_never_taken
    others = [step for step in summary.steps_not_taken if step not in never]
    for steps, when in ((never, "in this night or an earlier one"), (others, "in this night")):
        if steps:
            text = f"steps of the model that no run took {when}: {', '.join(steps)}"
            console.print(text, highlight=False, soft_wrap=True)


def _show_causes(console: Console, summary: NightSummary) -> None:
    """Print how many runs are not explained, and which; then the number of each known defect."""
    for slot in summary.night.runs:
        if slot.is_unexplained:
            text = slot.cause.text if slot.cause else f"{NOT_EXPLAINED}: {slot.why}"
            line = Text(f"run {slot.number}, {slot.cell}: {text}", "bold red")
            console.print(line, soft_wrap=True)
    counted = summary.causes.most_common()
    known = [f"{name} {count}" for name, count in counted if name != NOT_EXPLAINED]
    if known:
        console.print(f"runs explained by {', '.join(known)}", highlight=False)


def _show_cells(console: Console, summary: NightSummary) -> None:
    ran = [cell for cell in summary.cells if not cell.missing]
    ends = [name for name in ("killed", "broken") if any(getattr(c, name) for c in ran)]
    columns = [
        TableColumn("cell", [Text(cell.name) for cell in ran]),
        TableColumn("runs", [Text(str(len(cell.slots))) for cell in ran], right=True),
        *(TableColumn(s, [_count(c.count(s), s) for c in ran], right=True) for s in Status),
        *(TableColumn(e, [Text(str(getattr(c, e))) for c in ran], right=True) for e in ends),
        TableColumn("findings", [*map(_findings, ran)]),
        TableColumn("first at", [_first(cell.first_s) for cell in ran]),
    ]
    width = max(console.width, least_width(columns))
    console.print(narrow_table(columns, width), width=width, crop=False)


def _count(count: int, status: Status) -> Text:
    return Text(str(count), STATUS_STYLE[status] if count else "dim")


def _findings(cell: CellSummary) -> Text:
    """Return the findings of a cell, and what its servers said of themselves, which fails no
    night."""
    said = (
        Text(f"{name} {count}" + (" (new)" if name in cell.health_new else ""), "dim")
        for name, count in cell.health.most_common()
    )
    found = (_finding(cell, name, count) for name, count in cell.findings.most_common())
    return Text(", ").join((*found, *said))


def _first(at_s: float | None) -> Text:
    return Text("" if at_s is None else f"{at_s:.1f} s")


def _show_alarms(console: Console, alarms: Sequence[Alarm]) -> None:
    """Print the figures that have changed, if there are any."""
    if not alarms:
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for name in ("alarm", "figure", "now", "before"):
        table.add_column(name, overflow="fold")
    for alarm in alarms:
        table.add_row(
            alarm.cell,
            Text(f"{alarm.figure} {alarm.verb}", "yellow"),
            f"{alarm.now}, {alarm.window.value}",
            alarm.past,
        )
    console.print(table)


def _finding(cell: CellSummary, name: str, count: int) -> Text:
    if name in cell.new:
        return Text(f"{name} {count} (new)", "" if name in cell.accepted else "bold red")
    return Text(f"{name} {count}", "dim" if name in cell.accepted else "")
