"""`harness check STORE`: judge all runs of a store, with processes of this machine or on Spark."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import rich_click as click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from checkers.phrasing import number
from harness.cli.progress import Pace
from harness.cli.result import STATUS_STYLE, CommandAnswer, print_answer
from harness.cli.terminal import Terminal
from harness.core.clock import WallClock
from harness.core.errors import UsageError
from harness.core.verdict import Status, worst
from harness.fleet import processes
from harness.fleet.engine import choose_engine, spark_fleet
from harness.fleet.found_runs import Found
from harness.fleet.location import Location
from harness.fleet.plan import Item
from harness.fleet.rows import RunSummary
from harness.fleet.stored_runs import Checked, StoredRuns, check_fleet
from harness.fleet.task import Job
from harness.spec.catalogue import CHECKERS, plugin_checkers
from harness.spec.workload_options import workload_of
from harness.store.disk import why_unwritable

SHOWN_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetOptions:
    """Options of the command line that concern a fleet."""

    spark: str | None
    """Master of the Spark that judges; None for processes of this machine."""
    force: bool
    checkers: str | None
    promise: str | None
    check_s: float | None


def check_store(found: Found, options: FleetOptions, *, as_json: bool) -> int:
    """Judge the runs that have changed, print a summary of all, and return the exit status."""
    console = Terminal(stderr=as_json)
    names = tuple(name for name in (options.checkers or "").split(",") if name)
    if options.checkers is not None and not names:
        raise UsageError(
            f"--checkers {options.checkers!r}: names no checker; expected names, separated by "
            "commas; harness list checkers lists them"
        )
    try:
        more = plugin_checkers(names)
    except UsageError as error:
        raise UsageError(f"--checkers {error}") from error
    # A plug-in is named by its place, its verdicts by the name that it gives them.
    known = {name for name in names if name in CHECKERS}
    only = frozenset({*known, *(one.name for one in more)}) if names else None
    runs = StoredRuns(
        workload_of, options.promise, options.check_s, partial(plugin_checkers, names)
    )
    clock = WallClock()
    used: list[str] = []

    def engine(job: Job, items: Sequence[Item]) -> list[Location]:
        on_spark, why = choose_engine(options.spark)
        used.append(why)
        with _progress(console, len(items), "starting Spark" if on_spark else "judging") as shown:
            if not on_spark:
                return processes.judge(job, items, shown)
            return _judge_on_spark(options.spark, found.root, job, items, shown)

    checked = check_fleet(found, runs, engine, force=options.force, only=only)
    summaries = list(checked.runs.values())
    report = _report(found, checked, summaries, options.promise, clock.now_ns() / 1e9)
    report["checkers"] = None if only is None else [*sorted(only)]
    report["engine"] = used[0] if used else "none: nothing changed"
    unstored = checked.unstored or _unwritten_summary(checked, report)
    console.warn(f"not stored: {unstored}" if unstored else "")
    if as_json:
        click.echo(json.dumps(report))
    else:
        _show(console, report, summaries)
    return worst(one.status for one in summaries).exit_status


def _unwritten_summary(checked: Checked, report: Mapping[str, Any]) -> str:
    """Write the summary beside the verdicts, and return why it cannot be written; "" if it is."""
    summary = Location(f"{checked.verdicts.place.uri}.json")
    try:
        with summary.output() as stream:
            stream.write(json.dumps(report, indent=2).encode() + b"\n")
    except OSError as error:
        why = str(error) if summary.path is None else why_unwritable(summary.path, error)
        return f"{summary.shown}: cannot be written: {why}"
    return ""


def _judge_on_spark(
    master: str | None,
    root: Location,
    job: Job,
    items: Sequence[Item],
    on_progress: Callable[[int], None],
) -> list[Location]:
    with spark_fleet(master, root) as fleet:
        return fleet.judge(job, items, on_progress)


@contextmanager
def _progress(console: Console, items: int, begin: str) -> Iterator[Callable[[int], None]]:
    """Show a bar while the block runs, and yield what moves it."""
    pace = Pace("items", items)
    bar = Progress(
        BarColumn(),
        TextColumn("{task.description}"),
        console=console,
        transient=True,
        auto_refresh=begin != "judging",  # its thread must not be copied to the processes
    )
    with bar:
        task = bar.add_task(begin, total=items)

        def show(done: int) -> None:
            bar.update(task, completed=done, description=f"judging: {pace.text(done)}")
            bar.refresh()

        yield show


def _report(
    found: Found,
    checked: Checked,
    runs: Sequence[RunSummary],
    promise: str | None,
    seconds: float,
) -> dict[str, Any]:
    statuses = Counter(one.status for one in runs)
    return {
        "store": found.root.shown,
        "verdicts": checked.verdicts.place.shown,
        "promise": promise,
        "runs": len(runs),
        "judged": len(checked.judged),
        "unchanged": len(checked.unchanged),
        "bytes_read": checked.bytes_read,
        "seconds": round(seconds, 3),
        "status": worst(one.status for one in runs).value,
        "statuses": {status.value: statuses[status] for status in Status},
        "anomalies": dict(Counter(kind for one in runs for kind in one.kinds).most_common()),
        "not_valid": [
            {"run": one.run, "status": one.status.value, "reason": one.reason, "note": one.note}
            for one in runs
            if one.status is not Status.VALID or one.note
        ],
        "never_began": [{"run": run, "why": why} for run, why in checked.never_began.items()],
        "unstored": checked.unstored,
    }


def _show(console: Console, report: dict[str, Any], runs: Sequence[RunSummary]) -> None:
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
    for one in report["never_began"][:SHOWN_MAX]:
        console.print(f"never began: {one['run']}: {one['why']}", style="dim", markup=False,
                      highlight=False)  # fmt: skip
    console.print(
        f"promise: {report['promise'] or 'of each run'}; {report['judged']:,} judged in "
        f"{report['seconds']:.1f} s, {report['unchanged']:,} unchanged, known from "
        f"{report['bytes_read']:,} bytes",
        style="dim",
        highlight=False,
    )
    console.print(f"judged by {report['engine']}", style="dim", highlight=False)
    print_answer(console, _answer(report, runs))


def _answer(report: dict[str, Any], runs: Sequence[RunSummary]) -> CommandAnswer:
    """Return the number of each status, and of the worst one the first run."""
    counts = Counter(one.status for one in runs)
    status = worst(counts)
    tally = ", ".join(f"{counts[one]:,} {one.value}" for one in Status if counts[one])
    first = next((one for one in runs if one.status is status), None)
    detail = "" if first is None or status is Status.VALID else f"; first: {first.run}"
    if report["never_began"]:
        detail += f"; {len(report['never_began']):,} more never began, and count as nothing"
    if report["checkers"] is not None:
        detail += f"; by {', '.join(report['checkers'])} alone, whatever other checkers find"
    text = f"{number(len(runs), 'run')}: {tally}{detail}; verdicts: {report['verdicts']}"
    return CommandAnswer(status, text)
