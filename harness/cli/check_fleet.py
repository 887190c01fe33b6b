"""`harness check STORE`: judge all runs of a store on Spark."""

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import rich_click as click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from harness.cli.catalogue import CHECKERS
from harness.cli.result import STATUS_STYLE
from harness.cli.terminal import Terminal
from harness.cli.workload import workload_of
from harness.core.clock import WallClock
from harness.core.errors import UsageError
from harness.core.op import Json
from harness.core.ranges import unknown_name
from harness.core.verdict import Status, worst
from harness.fleet.plan import Item
from harness.fleet.rows import RunSummary, read_rows, summaries
from harness.fleet.spark import Fleet, FleetProgress
from harness.fleet.task import Job
from harness.run.disk import why_unwritable
from harness.run.fleet import SCRATCH, Checked, Found, StoredRuns, check_fleet

SHOWN_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetOptions:
    """Options of the command line that concern a fleet."""

    spark: str | None
    force: bool
    checkers: str | None
    promise: str | None
    check_s: float | None


def check_store(found: Found, options: FleetOptions, *, as_json: bool) -> int:
    """Judge the runs that have changed, print a summary of all, and return the exit status."""
    console = Terminal(stderr=as_json)
    only = _only(options.checkers)
    runs = StoredRuns(workload_of, options.promise, options.check_s)
    clock = WallClock()

    def engine(job: Job, items: Sequence[Item]) -> list[Path]:
        with _progress(console) as bar:
            task = bar.add_task("starting Spark", total=len(items))
            with closing(Fleet(options.spark, found.root / SCRATCH / "spark.log")) as fleet:

                def show_progress(seen: FleetProgress) -> None:
                    text = f"judging, {seen.running} of {seen.tasks} tasks running"
                    bar.update(task, completed=seen.done, description=text)

                return fleet.judge(job, items, show_progress)

    checked = check_fleet(found, runs, engine, force=options.force, only=only)
    table = read_rows(checked.verdicts)
    found_runs = summaries(table, frozenset(found.runs))
    report = _report(found, checked, found_runs, options.promise, clock.now_ns() / 1e9)
    summary = checked.verdicts.with_suffix(".json")
    try:
        summary.write_text(json.dumps(report, indent=2) + "\n")
    except OSError as error:
        why = why_unwritable(summary, error)
        console.print(f"! {summary}: cannot be written: {why}", style="yellow", markup=False)
    if as_json:
        click.echo(json.dumps(report))
    else:
        _show(console, report, found_runs)
    return worst(one.status for one in found_runs).exit_status


def _only(checkers: str | None) -> frozenset[str] | None:
    if checkers is None:
        return None
    names = frozenset(name for name in checkers.split(",") if name)
    for name in sorted(names - set(CHECKERS)):
        raise UsageError(f"--checkers {unknown_name(name, CHECKERS, 'harness list checkers')}")
    return names


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )


def _report(
    found: Found,
    checked: Checked,
    runs: Sequence[RunSummary],
    promise: str | None,
    seconds: float,
) -> dict[str, Json]:
    statuses = Counter(one.status for one in runs)
    return {
        "store": str(found.root),
        "verdicts": str(checked.verdicts),
        "promise": promise,
        "runs": len(runs),
        "judged": len(checked.judged),
        "unchanged": len(checked.unchanged),
        "seconds": round(seconds, 3),
        "status": worst(one.status for one in runs).value,
        "statuses": {status.value: statuses[status] for status in Status},
        "anomalies": dict(Counter(kind for one in runs for kind in one.kinds).most_common()),
        "not_valid": [
            {"run": one.run, "status": one.status.value, "reason": one.reason, "note": one.note}
            for one in runs
            if one.status is not Status.VALID or one.note
        ],
    }


def _show(console: Console, report: dict[str, Json], runs: Sequence[RunSummary]) -> None:
    worst_first = sorted(
        (one for one in runs if one.status is not Status.VALID or one.note),
        key=lambda one: (not one.note, -one.status.severity, one.run),
    )
    if worst_first:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
        table.add_column("run", overflow="fold")
        table.add_column("verdict", no_wrap=True)
        table.add_column("why", overflow="fold")
        for one in worst_first[:SHOWN_MAX]:
            why = Text(one.reason)
            if one.note and one.note not in one.reason:
                why.append(f"\n! {one.note}", "yellow")
            table.add_row(one.run, Text(one.status.value, STATUS_STYLE[one.status]), why)
        console.print(table)
        if len(worst_first) > SHOWN_MAX:
            console.print(f"and {len(worst_first) - SHOWN_MAX:,} more", style="dim")
    statuses = Counter(one.status for one in runs)
    line = Text(f"{len(runs):,} runs: ")
    for status in Status:
        if statuses[status]:
            line.append(f"{statuses[status]:,} {status.value}  ", STATUS_STYLE[status])
    line.append(
        f"(promise: {report['promise'] or 'of each run'}; {report['judged']:,} judged in "
        f"{report['seconds']:.1f} s, "
        f"{report['unchanged']:,} unchanged)",
        "dim",
    )
    console.print(line)
    console.print(f"{report['verdicts']}", style="dim", highlight=False)
