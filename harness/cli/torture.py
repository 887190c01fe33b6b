"""`harness torture`: run a matrix for a night."""

import json
import shutil
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from io import StringIO
from pathlib import Path
from statistics import mean
from typing import Any

import rich_click as click
from rich.console import Console
from rich.status import Status as RichStatus
from rich.table import Table
from rich.text import Text

from checkers.triage.explanation import NOT_EXPLAINED
from harness.cli.answer import CommandAnswer, print_answer
from harness.cli.display import live_display
from harness.cli.parameter_types import WORD, Name, number, store_option
from harness.cli.progress import Pace
from harness.cli.result import STATUS_STYLE
from harness.cli.terminal import Terminal, printable
from harness.clusters.removal import clean
from harness.conform.replay import STEPS, steps_with
from harness.core.clock import utc_now
from harness.core.errors import HarnessError, UsageError
from harness.core.op import Json
from harness.core.seed import Seed
from harness.core.verdict import Status
from harness.fleet.found_runs import found_again
from harness.fleet.judges import OneProcess, OnSpark, merge_kept
from harness.fleet.stored_runs import SCRATCH, StoredRuns, restamp
from harness.nights import notification
from harness.nights.findings import FailOn, causes, records_before, verdict
from harness.nights.matrix import TortureMatrix, read_matrix
from harness.nights.night import JOURNAL, NIGHTS, Night, Slot
from harness.nights.night_summary import (
    CellSummary,
    as_json,
    cells,
    headline,
    junit,
    night_status,
    not_taken,
    steps_before,
    unexplained_first,
    why,
)
from harness.nights.rota import steps_made
from harness.nights.torture import DONE, Judges, Lane, Torture
from harness.report.run_files import draw, facts_in
from harness.report.text import text_report
from harness.run.monitor import Monitor, Phase
from harness.run.stop import Stop
from harness.spec.workload_options import workload_of
from harness.store.disk import why_unwritable
from harness.store.store import RunDirectory, Store


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
@click.option("--fresh", is_flag=True, help="Start a new night even if the last one is not over.")
@click.option(
    "--spark", type=WORD, metavar="MASTER", help="Judge on Spark. Default: in one local process."
)
@click.option(
    "--notify",
    metavar="COMMAND|URL",
    help="When the night is over, give its summary as JSON to a command on standard input, or to "
    "an http or https URL as the body of a POST.",
)
@store_option
@click.option(
    "--json", "as_json_", is_flag=True, help="Print the summary as JSON on standard output."
)
def torture(
    matrix: Path,
    hours: float | None,
    runs: int | None,
    fail_fast: bool,
    fail_on: str,
    clusters: int,
    fresh: bool,
    spark: str | None,
    notify: str | None,
    store: str,
    as_json_: bool,
) -> int:
    """Run a matrix of workloads, nemeses and settings one run at a time, and judge each.

    The same command resumes a night that was killed. If the time of that night is over, its
    unjudged runs are judged and a new night begins.
    """
    if hours is None and runs is None:
        raise UsageError("neither --hours nor --runs; expected at least one of them")
    console = Terminal(stderr=as_json_)
    torture_matrix, root, stop = read_matrix(matrix), Path(store), Stop()
    console.warn(Store(root).prepare())
    shown = partial(live_display, console=console)
    settled = [torture_matrix.settled(store, shown, stop) for _ in range(clusters)]
    lanes = [Lane(ready) for ready, _ in settled]
    simulated = any(cell.campaign.clusters.per_run for cell in lanes[0].cells)
    command = _Command(
        matrix=torture_matrix,
        missing=settled[0][1],
        root=root,
        lanes=lanes[:1] if simulated else lanes,
        runs=runs,
        hours=hours,
        fail_fast=fail_fast,
        fail_on=FailOn(fail_on),
        spark=spark,
        notify=notify,
        console=console,
        stop=stop,
    )
    night = None if fresh else command.unfinished()
    if night is not None:
        if not simulated:
            clean(store=root)
        console.print(f"resuming {night.path} at run {night.next}", highlight=False)
        if _late(night, hours):
            # Its time ran out while it was not running: judge what is left, start no run.
            command.through(night)
            night = None
    night = night or command.fresh()
    report = command.through(night)
    if as_json_:
        click.echo(json.dumps(report))
    exit_status: int = report["exit_status"]
    return exit_status


@dataclass(frozen=True, slots=True, kw_only=True)
class _Command:
    """Validated command line."""

    matrix: TortureMatrix
    missing: Mapping[str, str]
    """Mechanisms that the version of a cell lacks, by the name of the cell."""
    root: Path
    lanes: Sequence[Lane]
    runs: int | None
    hours: float | None
    fail_fast: bool
    fail_on: FailOn
    spark: str | None
    notify: str | None
    """Command or URL that is given the summary; None without one."""
    console: Console
    stop: Stop

    @property
    def nights(self) -> Path:
        """Return the directory of this matrix's nights."""
        return self.root / NIGHTS / self.matrix.name

    @property
    def steps(self) -> Collection[str]:
        """Return the steps of the protocol's model that servers of some cell can take."""
        found = [cell.dialect for cell in self.lanes[0].cells]
        if None in found:
            return STEPS
        return steps_with(frozenset().union(*(one.log_entries for one in found if one)))

    def last(self) -> Night | None:
        """Return the last night of this matrix; None before the first."""
        journal = max(self.nights.glob(f"*/{JOURNAL}"), default=None)
        return None if journal is None else Night.read(journal.parent)

    def unfinished(self) -> Night | None:
        """Return the last night of this matrix if it is not over."""
        night = self.last()
        if night is None or night.over or night.request["matrix"] != self.matrix.digest:
            return None
        return night

    def fresh(self) -> Night:
        """Start a new night."""
        now = utc_now()
        seed = Seed.fresh().value if self.matrix.seed is None else self.matrix.seed
        request = {
            "matrix": self.matrix.digest,
            "runs": self.runs,
            "hours": self.hours,
            "seed": str(seed),
            "first": self._first(),
            "started_utc": now.isoformat(timespec="seconds"),
            "accept": {c.name: sorted(c.accepted) for c in self.matrix.cells if c.accepted},
        }
        return Night.begun(self.nights / f"{now:%Y%m%dT%H%M%S%fZ}", request)

    def _first(self) -> str:
        """Return the cell after the one with which the last night ended; the first one without."""
        names = [cell.name for cell in self.lanes[0].cells]
        night = self.last()
        ended = "" if night is None or not night.slots else night.slots[night.next - 1].cell
        return names[(names.index(ended) + 1) % len(names)] if ended in names else names[0]

    def through(self, night: Night) -> dict[str, Any]:
        """Run a night to its end or until stopped; print and return its summary."""
        earlier, records = steps_before(night.path), records_before(night.path)
        names = [cell.name for cell in self.matrix.cells]
        before = {cell.name: cell for cell in cells(night, names, records)}
        with ExitStack() as stack:
            stack.enter_context(self.stop.obeying_signals())
            judges = stack.enter_context(_judges(self.root, self.spark))
            made = night.next
            left_s = _left_s(night, self.hours)
            pace = Pace("runs", self.runs, left_s, before=made)
            present = stack.enter_context(_StatusDisplay.shown(self.console, pace, night))
            tortured = Torture(
                store=self.root,
                night=night,
                lanes=self.lanes,
                seed=Seed(int(night.request["seed"])),
                judges=judges,
                shown=present.follow,
                on_verdict=partial(_print_run, self.console),
                stop=self.stop,
                fails=(lambda slot: before[slot.cell].fails(slot, self.fail_on))
                if self.fail_fast
                else None,
                runs=self.runs,
                seconds=left_s,
                earlier_steps=earlier,
            )
            tortured.run()
            spent = _pace(night, made, tortured.clock.now_ns() / 1e9)
        summary = cells(night, names, records, self.missing)
        report = as_json(night, summary, self.fail_on, earlier, self.steps)
        _write(night, report, summary, self.fail_on, self.root)
        merge_kept(self.root)
        paths = [slot.path for slot in night.slots.values() if slot.path is not None]
        restamp(found_again(self.root, paths), _stored_runs())
        if not self.stop:
            night.say("end")
            self._tell(night, report)
        _show_steps(self.console, steps_made(night.slots.values()), earlier, self.steps)
        self.console.print(spent, style="dim", highlight=False)
        _show(self.console, night, summary, self.fail_on)
        return report

    def _tell(self, night: Night, report: Mapping[str, Json]) -> None:
        """Notify whoever is to know that the night is over. A failure costs no more than a line."""
        if self.notify is None:
            return
        failed = notification.notify(self.notify, {"night": str(night.path), **report})
        if failed is not None:
            self.console.print(f"! not notified: {failed}", style="yellow", markup=False)


def _late(night: Night, hours: float | None) -> bool:
    left_s = _left_s(night, hours)
    return left_s is not None and left_s <= 0


def _left_s(night: Night, hours: float | None) -> float | None:
    """Return the seconds left of the time budget, counted from the beginning of the night."""
    if hours is None:
        return None
    began = datetime.fromisoformat(night.request["started_utc"])
    return hours * 3_600 - (utc_now() - began).total_seconds()


def _stored_runs() -> StoredRuns:
    return StoredRuns(workload_of, saved=explained)


@contextmanager
def _judges(root: Path, spark: str | None) -> Iterator[Judges]:
    runs = _stored_runs()
    root.mkdir(parents=True, exist_ok=True)
    if spark is None:
        beside = OneProcess(root, runs)
        try:
            yield beside
        finally:
            beside.close()
        return
    # Spark and what it needs are loaded where they are used.
    from harness.fleet.spark import Fleet

    with closing(Fleet(spark, root / SCRATCH / "spark.log")) as fleet:
        on_spark = OnSpark(root, runs, fleet.judge)
        try:
            yield on_spark
        finally:
            on_spark.close()


def explained(directory: RunDirectory, status: Status) -> None:
    """Draw the report of a run that is not VALID; delete the server logs of a VALID one."""
    if status is Status.VALID:
        shutil.rmtree(directory.logs, ignore_errors=True)
    else:
        draw(directory)


@dataclass(slots=True)
class _StatusDisplay:
    """Status display with the progress of the night and a line for each live run, if there is a
    terminal."""

    status: RichStatus
    pace: Pace
    night: Night
    lines: dict[str, str] = field(default_factory=dict)

    @staticmethod
    @contextmanager
    def shown(console: Console, pace: Pace, night: Night) -> Iterator["_StatusDisplay"]:
        """Show the display while the block runs."""
        present = _StatusDisplay(console.status(""), pace, night)
        if not console.is_terminal:
            yield present
            return
        with present.status:
            yield present

    def follow(self, monitor: Monitor) -> None:
        """Show the phases of a run until it is done."""

        def show_phase(phase: Phase, note: str) -> None:
            self.lines[monitor.title] = f"{monitor.title}: {phase.value} {note}"
            if note == DONE:
                del self.lines[monitor.title]
            done = sum(not slot.killed for slot in list(self.night.slots.values()))
            lines = [self.pace.text(done), *(list(self.lines.values()) or ["judging"])]
            self.status.update(Text("\n".join(lines)))

        monitor.listeners.append(show_phase)


def _print_run(console: Console, slot: Slot) -> None:
    status = verdict(slot)
    line = Text(f"run {slot.number:<4} ")
    line.append(f"{status.value:<8}", STATUS_STYLE[status])
    line.append(f" {slot.cell}, seed {slot.seed}, {slot.seconds:.1f} s")
    if status is not Status.VALID:
        line.append(f": {why(slot)}", "dim")
    if slot.cause is not None:
        line.append(f"; {slot.cause.text}")
    console.print(line, soft_wrap=True)


def _pace(night: Night, before: int, seconds: float) -> str:
    """Return the rate of the runs since run number `before`, and the mean time of each phase."""
    slots = [slot for slot in night.slots.values() if slot.number >= before and slot.recorded]
    spent = {phase: [slot.phases.get(phase, 0.0) for slot in slots] for phase in Phase}
    means = (f"{phase} {mean(of):.1f}" for phase, of in spent.items() if slots and mean(of) > 0.05)
    return (
        f"{len(slots)} runs in {seconds:.0f} s, {60 * len(slots) / seconds:.1f} per minute; "
        f"mean seconds per run: {', '.join(means) or 'none'}"
    )


BODIES_MAX = 50
"""Number of runs whose witness is in junit.xml; those come first that no known defect explains."""
BODY_COLUMNS = 100


def _body(root: Path, slot: Slot) -> str:
    """Return the witness of a run and the command that repeats it, as `harness report` prints
    them."""
    if not slot.path:
        return ""
    text = StringIO()
    try:
        report = text_report(facts_in(RunDirectory(root / slot.path)))
        Console(file=text, width=BODY_COLUMNS).print(report, crop=False)
    except HarnessError as error:
        return f"{root / slot.path}: {error}"
    return printable(text.getvalue())


def _write(
    night: Night,
    report: Mapping[str, Json],
    summary: list[CellSummary],
    fail_on: FailOn,
    root: Path,
) -> None:
    slots = [slot for slot in night.slots.values() if verdict(slot) is not Status.VALID]
    shown = {slot.number for slot in unexplained_first(slots)[:BODIES_MAX]}

    def body(slot: Slot) -> str:
        return _body(root, slot) if slot.number in shown else ""

    try:
        (night.path / "summary.json").write_text(json.dumps(report, indent=2) + "\n")
        junit(summary, fail_on, body).write(str(night.path / "junit.xml"), pretty=True)
    except OSError as error:
        why = why_unwritable(night.path, error)
        raise HarnessError(f"{night.path}: the summary cannot be written: {why}") from error


def _show_causes(console: Console, night: Night) -> None:
    """Print how many runs are not explained, and which; then the number of each known defect."""
    slots = list(night.slots.values())
    counted = Counter(name for slot in slots for name in causes(slot))
    fresh = [slot for slot in slots if NOT_EXPLAINED in causes(slot)]
    for slot in fresh:
        text = slot.cause.text if slot.cause else f"{NOT_EXPLAINED}: {why(slot)}"
        console.print(Text(f"run {slot.number}, {slot.cell}: {text}", "bold red"), soft_wrap=True)
    known = [f"{name} {count}" for name, count in counted.most_common() if name != NOT_EXPLAINED]
    if known:
        console.print(f"runs explained by {', '.join(known)}", highlight=False)


def _show_steps(
    console: Console, made: Counter[str], earlier: Mapping[str, int], steps: Collection[str]
) -> None:
    """Print which of the steps that the servers can take no run took, if any run was replayed."""
    if not made:
        return
    never = not_taken(made + Counter(earlier), steps)
    others = [step for step in not_taken(made, steps) if step not in never]
    for steps, when in ((never, "in this night or an earlier one"), (others, "in this night")):
        if steps:
            text = f"steps of the model that no run took {when}: {', '.join(steps)}"
            console.print(text, highlight=False, soft_wrap=True)


def _show(console: Console, night: Night, summary: list[CellSummary], fail_on: FailOn) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("cell", overflow="fold", min_width=19)
    ends = [name for name in ("killed", "broken") if any(getattr(c, name) for c in summary)]
    for name in ("runs", *Status, *ends):
        table.add_column(str(name), justify="right", no_wrap=True)
    for name in ("anomalies", "findings"):
        table.add_column(name, overflow="fold")
    table.add_column("first at", no_wrap=True, min_width=8)
    for cell in summary:
        if cell.missing:
            continue
        counts = [
            Text(f"{cell.count(status)}", STATUS_STYLE[status] if cell.count(status) else "dim")
            for status in Status
        ]
        first = "" if cell.first_s is None else f"{cell.first_s:.1f} s"
        table.add_row(
            cell.name,
            str(len(cell.slots)),
            *counts,
            *(str(getattr(cell, name)) for name in ends),
            ", ".join(f"{kind} {count}" for kind, count in cell.kinds.most_common()),
            Text(", ").join(
                _finding(cell, name, count) for name, count in cell.findings.most_common()
            ),
            first,
        )
    console.print(table)
    _show_causes(console, night)
    for cell in summary:
        if cell.missing:
            console.print(f"NOT APPLICABLE: {cell.name} needs {cell.missing}", style="yellow")
    status = night_status(summary, fail_on)
    text = f"{headline(summary)}; night: {night.path}"
    invalid = any(cell.count(Status.INVALID) for cell in summary)
    word = "ACCEPTED" if status is Status.VALID and invalid else None
    print_answer(console, CommandAnswer(status, text, word=word))


def _finding(cell: CellSummary, name: str, count: int) -> Text:
    if name in cell.new:
        return Text(f"{name} {count} (new)", "" if name in cell.accepted else "bold red")
    return Text(f"{name} {count}", "dim" if name in cell.accepted else "")
