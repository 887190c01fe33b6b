"""`harness hunt`: search for anomalies on simulated servers, steered by what runs have covered."""

import gc
import json
from contextlib import nullcontext
from pathlib import Path
from typing import Final

import msgspec
import rich_click as click
from rich.console import Console
from rich.status import Status as Spinner
from rich.table import Table

from checkers.phrasing import number as counted
from harness.cli.display import rate, span
from harness.cli.options import spec_of
from harness.cli.parameter_types import number
from harness.cli.run import run
from harness.cli.terminal import Terminal
from harness.core.errors import UsageError
from harness.core.verdict import Status, worst
from harness.run.stop import Stop
from harness.search.hunt_runs import HuntRuns, base_options
from harness.search.hunt_session import HuntReport, HuntSession, begin_hunt
from harness.spec.option import Chooser, On
from harness.spec.run_options import OPTIONS
from harness.spec.run_spec import RunSpec
from harness.store.store import Store

KEPT: Final = 3


@click.command("hunt")
@click.option("--hours", type=number("hours"), help="Time budget; no run starts after it is spent.")
@click.option("--runs", type=number("hunt_runs"), help="Stop after this number of runs.")
@click.option(
    "--jobs",
    type=number("jobs"),
    default=1,
    help="Number of parallel runs, each in a process. It does not change the runs. Default: 1.",
)
@click.option(
    "--keep",
    type=number("kept"),
    default=KEPT,
    help=f"Number of runs to store of each kind of anomaly. Default: {KEPT}.",
)
@click.option("--fresh", is_flag=True, help="Start a new hunt even if the last one is not over.")
@click.pass_context
def hunt(
    context: click.RichContext,
    /,
    hours: float | None,
    runs: int | None,
    jobs: int,
    keep: int,
    fresh: bool,
    **_: object,
) -> int:
    """Search for anomalies on simulated servers, steered by what earlier runs have covered.

    Inputs are mutations of earlier ones that reached something new: other seeds, other options of
    the nemesis, other faults. Every kind of anomaly is stored a few times, as runs that `harness
    report` shows and `harness shrink` makes small. The same command resumes a hunt that was killed.
    """
    if hours is None and runs is None:
        raise UsageError("neither --hours nor --runs; expected at least one of them")
    as_json = bool(context.params["as_json"])
    console = Terminal(stderr=as_json, highlight=False)
    given = spec_of(context.params, RunSpec(cluster="sim"))
    base = {name: value for name, value in base_options(given).items() if name != "seed"}
    store = Path(str(context.params["store"]))
    console.warn(Store(store).prepare())
    stop = Stop()
    made = HuntRuns(base, store)
    assert made.request.simulated, "it was refused otherwise"
    path, stored = begin_hunt(store, base, context.params["seed"], fresh)

    def announce(line: str) -> None:
        print(line, file=console.file, flush=True)

    session = HuntSession(
        path,
        stored,
        made,
        keep=keep,
        jobs=jobs,
        runs=runs,
        hours=hours,
        stop=stop,
        announce=announce,
    )
    gc.freeze()  # exempt the loaded modules from every later collection
    shown = console.status("") if console.is_terminal else nullcontext()
    with stop.obeying_signals(), shown as spinner:
        session.run(_HuntProgress(session, spinner).show)
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(session.report)))
    else:
        _show(console, session.report)
    return worst(Status(name) for name in stored.state.statuses).exit_status


class _HuntProgress:
    """Line about the state of a hunt, once a second."""

    def __init__(self, session: HuntSession, spinner: Spinner | None) -> None:
        self._session, self._spinner = session, spinner
        self._since = (0.0, session.state.taken)

    def show(self) -> None:
        """Renew the line, unless it is less than a second old or there is no terminal."""
        session, state, (since_s, since) = self._session, self._session.state, self._since
        passed_s = session.clock.now_ns() / 1e9 - since_s
        if self._spinner is None or passed_s < 1:
            return
        self._since = (since_s + passed_s, state.taken)
        per_s = (state.taken - since) / passed_s
        hours = session.hours
        ends = [] if hours is None else [max(0.0, hours * 3_600 - session.spent_s)]
        if session.runs is not None and per_s:
            ends.append((session.runs - state.taken) / per_s)
        left = f"{span(min(ends))} left" if ends else ""
        of = "" if session.runs is None else f" of {session.runs:,}"
        self._spinner.update(
            f"{state.taken:,}{of} runs, {rate(per_s)}; {len(state.counts):,} elements; "
            f"{len(state.kinds)} kinds of anomalies; {left}"
        )


def _show(console: Console, report: HuntReport) -> None:
    """Print what was found; the last line is the answer."""
    if report.kinds:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
        for name in ("anomaly", "runs", "first"):
            table.add_column(name, justify="left" if name == "anomaly" else "right")
        table.add_column("stored", overflow="fold")
        for kind, one in report.kinds.items():
            table.add_row(kind, f"{one.runs:,}", f"{one.first:,}", *one.stored[:1])
        console.print(table)
    for text, numbers in report.troubles.items():
        script = Path(report.hunt) / f"finds/{numbers[0]}.toml"
        console.print(f"! {counted(len(numbers), 'run')}: {text.splitlines()[0]}; {script}",
                      style="yellow", soft_wrap=True)  # fmt: skip
    for text in report.issues:
        console.print(f"! {text}", style="yellow", soft_wrap=True)
    console.print(_answer(report), soft_wrap=True)


def _answer(report: HuntReport) -> str:
    """Return the result as a line."""
    statuses = report.statuses
    status = worst(Status(name) for name in statuses).value
    tally = ", ".join(f"{statuses[s]:,} {s}" for s in Status if s in statuses)
    far = " ".join(map(str, report.distances))
    return (
        f"{status}: {counted(len(report.kinds), 'kind')} of anomalies in "
        f"{counted(report.runs, 'run')} ({tally}); {report.elements:,} elements covered, "
        f"distances {far}; {report.hunt}"
    )


_OF_RUNS = {
    entry.parameter
    for entry in OPTIONS.values()
    if On.SIMULATED in entry.option.on and Chooser.HUNT not in entry.option.chosen_by
}
hunt.params += [param for param in run.params if param.name in _OF_RUNS | {"store", "as_json"}]
