"""`harness conform`: check a real run's ZooKeeper transactions against the model."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import rich_click as click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from checkers.phrasing import number
from harness.cli.parameter_types import WORD, json_option, store_option
from harness.cli.result import STATUS_STYLE
from harness.cli.terminal import Terminal, print_json
from harness.clusters.logs import TRANSACTIONS_FILE
from harness.conform.ensemble import Ensemble, merged, read_archive
from harness.conform.fetches import Fetch, FetchSources, fetch_sources, read_fetches
from harness.conform.protocol import DEPARTURES, protocol_of
from harness.conform.replay import Replayed, Step, replay, tables
from harness.core.dialect import Mechanism
from harness.core.errors import UsageError
from harness.core.op import Json
from harness.core.verdict import Status, worst
from harness.store.store import RunDirectory, Store

SHOWN_BYTES = 160
SERVER_LOG = "clickhouse-server.log"


@dataclass(frozen=True, slots=True)
class ConformResult:
    """Result of replaying a run's trace."""

    run: Path
    ensemble: Ensemble
    tables: tuple[Replayed, ...]
    fetches: tuple[FetchSources, ...]
    """Sources of each table's fetches; they do not decide."""

    @property
    def status(self) -> Status:
        """Return the run's status. VALID needs a table with a step, and a trace without gaps."""
        return worst(self.of(table) for table in self.tables)

    def of(self, table: Replayed) -> Status:
        """Return the status of one table. A gap could hide what explains a departure: UNKNOWN."""
        return Status.UNKNOWN if self.ensemble.gaps else table.status


@click.command("conform")
@click.argument("run", type=WORD, default="latest")
@store_option
@json_option
def conform(run: str, store: str, as_json: bool) -> int:
    """Check that the model allows what a real run did in ZooKeeper.

    Every transaction on the run's tables, in ZooKeeper's order, must be a step of the model; a
    departure is one that the model does not allow. Exit status: 0 the run conforms, 1 it departs,
    2 the trace has gaps or a transaction that the model does not cover.
    """
    found = conformance(Store(Path(store)).find(run))
    if as_json:
        print_json(_json(found))
    else:
        _show(found, Terminal())
    return found.status.exit_status


def conformance(run: RunDirectory) -> ConformResult:
    """Replay the tables of a run. Raises UsageError if it has too few transaction logs, and
    MissingMechanismError if its servers write none."""
    info = run.info()
    info.engines.dialect.require("harness conform", (Mechanism.TRANSACTION_LOG,))
    keepers = info.topology.keepers
    files = [run.logs / keeper / TRANSACTIONS_FILE for keeper in keepers]
    there = [file for file in files if file.is_file()]
    if len(there) * 2 <= len(keepers):
        raise UsageError(
            f"{run.path}: has the transaction logs of {len(there)} of {len(keepers)} ZooKeeper "
            f"servers, expected most of them as logs/<server>/{TRANSACTIONS_FILE}; only runs on "
            "containers keep them, when they end"
        )
    ensemble = merged([read_archive(file) for file in there], len(keepers))
    every = tables(ensemble.txns)
    token = run.path.name.replace("-", "_").replace(".", "_")
    own = [table for table in every if token in table] or every
    fetches = tuple(_fetches(run, info.topology.replicas, t, ensemble) for t in own)
    protocol = protocol_of(info.engines.dialect)
    replayed = tuple(replay(table, ensemble.txns, protocol) for table in own)
    return ConformResult(run.path, ensemble, replayed, fetches)


def _fetches(
    run: RunDirectory, nodes: Sequence[str], table: str, ensemble: Ensemble
) -> FetchSources:
    found: list[Fetch] = []
    for node in nodes:
        log = run.logs / node / SERVER_LOG
        if log.is_file():
            with log.open(errors="replace") as lines:
                found += read_fetches(table, node, lines)
    return fetch_sources(table, ensemble.txns, found)


def _show(found: ConformResult, console: Console) -> None:
    count = len(found.ensemble.txns)
    console.print(
        Text.assemble(
            (found.status.value, STATUS_STYLE[found.status]),
            f"  {found.run}: {count:,} ZooKeeper transactions",
        )
    )
    for gap in found.ensemble.gaps:
        console.print(Text(f"! {gap}", "yellow"))
    for table, fetches in zip(found.tables, found.fetches, strict=True):
        console.print()
        console.print(Text.assemble((table.root, "bold"), f"  {table.steps:,} steps"))
        counts = ", ".join(f"{action} {n:,}" for action, n in sorted(table.actions.items()))
        console.print(Text(counts, "dim"))
        if fetches.fetches:
            console.print(Text(fetches.text, "dim"))
        for name, count in table.departures.items():
            text = (
                f"{number(count, 'time')} {DEPARTURES[name].text}, a known departure of the server"
            )
            console.print(Text(text, "bold red"))
        if table.stopped is not None:
            _show_stopped(table, console)
    steps = sum(table.steps for table in found.tables)
    departed = sum(sum(table.departures.values()) for table in found.tables)
    stopped = sum(table.stopped is not None for table in found.tables)
    text = f": {number(steps, 'step')} of {number(len(found.tables), 'table')}"
    text += f", {number(departed, 'departure')}" if departed else ""
    text += f", stopped on {number(stopped, 'table')}" if stopped else ""
    text += (
        f", {number(len(found.ensemble.gaps), 'gap')} in the trace" if found.ensemble.gaps else ""
    )
    style = STATUS_STYLE[found.status]
    console.print()
    console.print(
        Text.assemble((found.status.value, style), text, f"; {found.run}"), soft_wrap=True
    )


def _show_stopped(table: Replayed, console: Console) -> None:
    stopped = table.stopped
    assert stopped is not None, "it stopped"
    kind = "the model has no such step" if stopped.unmodelled else "the model cannot take this step"
    grid = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    for step in table.before:
        grid.add_row("", f"{step.zxid:#x}", _words(step))
    words = _words(stopped.step) or "?"
    grid.add_row("✗", f"{stopped.step.zxid:#x}", Text(words, "bold red"))
    console.print(grid)
    console.print(f"{kind}: {stopped.why}", style="bold", highlight=False)
    for change in stopped.changes:
        data = change.data[:SHOWN_BYTES].decode(errors="backslashreplace").replace("\n", " ")
        path = change.path.removeprefix(table.root)
        console.print(Text(f"  {change.kind.value} {path} {data}", "dim"))


def _words(step: Step) -> str:
    return "; ".join(step.actions)


def _json(found: ConformResult) -> dict[str, Json]:
    return {
        "run": str(found.run),
        "status": found.status.value,
        "transactions": len(found.ensemble.txns),
        "dropped": found.ensemble.dropped,
        "gaps": list(found.ensemble.gaps),
        "tables": [
            {
                "table": table.root,
                "status": found.of(table).value,
                "steps": table.steps,
                "actions": dict(table.actions),
                "departures": dict(table.departures),
                "stopped": None
                if table.stopped is None
                else {
                    "zxid": f"{table.stopped.step.zxid:#x}",
                    "time_ms": table.stopped.step.time_ms,
                    "step": list(table.stopped.step.actions),
                    "why": table.stopped.why,
                    "unmodelled": table.stopped.unmodelled,
                },
                "fetches": {
                    "count": fetches.fetches,
                    "from_holder": fetches.from_holder,
                    "choices": fetches.choices,
                    "most_advanced": fetches.most_advanced,
                },
            }
            for table, fetches in zip(found.tables, found.fetches, strict=True)
        ],
    }
