"""Checks the replicated tables that one statement ON CLUSTER created with macros.

The statement names the path ".../{shard}/..." and the replica "{replica}", and each host has macros
of its own. At rest each host inserts a row into each of its tables, and then lists their paths,
replicas and rows; the last answer of each host counts.

Violated:
misnamed        a table's replica is not named after its host
misplaced       two hosts of one shard have different paths of a table, or two hosts of different
                shards the same path
not-replicated  an acknowledged row is not on another host of its shard that has the table
strayed         an acknowledged row is on a host of another shard

Doubtful: no row had to reach another host, and a host that did not answer.

It would not do to look at rows alone, because an insert may be refused. This is misplaced:
    final-insert on ch1 → fail     t on ch1 of shard 1 at /t/1     t on ch2 of shard 2 at /t/1
"""

from dataclasses import dataclass

import msgspec

from checkers.conclusion import Findings
from checkers.look import decode
from checkers.phrasing import listed, number, seconds
from harness.core.history import History
from harness.core.op import Kind, Op
from harness.core.verdict import Verdict

INSERT, ROWS = "final-insert", "final-rows"


class InsertedRow(msgspec.Struct, frozen=True):
    """Answer to "final-insert" of a host."""

    row: int = -1
    """The row that it inserted into each of its tables."""
    tables: list[str] = []


class CreatedTable(msgspec.Struct, frozen=True):
    """Replicated table of a host, as it was created."""

    path: str
    replica: str
    rows: list[int]


class CreatedTables(msgspec.Struct, frozen=True):
    """Look at a host's tables, by name."""

    shard: int = 0
    tables: dict[str, CreatedTable] = {}


@dataclass(frozen=True, slots=True)
class MacroTable:
    """Table of one host."""

    node: str
    shard: int
    path: str
    replica: str
    rows: frozenset[int]
    end: Op
    """End of the call that listed it."""


class Macros:
    """Judges the tables by "final-insert" and "final-rows" of each host."""

    name = "macros"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs a row that reached another host, and an answer of each
        host that was queried."""
        tables, queried = _tables(history)
        inserted = _inserted(history)
        found = Findings(self.name)
        reached = 0
        for name, on_hosts in sorted(tables.items()):
            _judge_names(found, name, on_hosts)
            for node, row in sorted(inserted.get(name, {}).items()):
                own = next((one for one in on_hosts if one.node == node), None)
                if own is not None:
                    others = [t for t in on_hosts if t.node != node and t.shard == own.shard]
                    reached += sum(row in one.rows for one in others)
                    _judge_row(found, name, row, own, on_hosts)
        answered = {one.node for on_hosts in tables.values() for one in on_hosts}
        silent = sorted(queried - answered) if tables else []
        if silent:
            found.add_doubt(f"no tables of {listed(silent)}")
        if not reached:
            found.add_doubt("no row had to reach another host")
        return found.verdict(
            checked=reached,
            broken=found.tally,
            held=f"{number(len(tables), 'table')} created ON CLUSTER with macros: "
            f"{number(reached, 'row')} on another host of their shard",
            figures={"tables": len(tables), "replicated": reached},
        )


def _tables(history: History) -> tuple[dict[str, list[MacroTable]], set[str]]:
    """Return the tables in the last answer of each host, by name, and the queried hosts."""
    last: dict[str, Op] = {}
    queried = set()
    for pair in history.calls(ROWS):
        queried.add(str(pair.invoke.node))
        if pair.kind is Kind.OK and pair.end is not None:
            last[str(pair.invoke.node)] = pair.end
    out: dict[str, list[MacroTable]] = {}
    for node, end in sorted(last.items()):
        look = decode(end, CreatedTables)
        for name, one in look.tables.items():
            rows = frozenset(one.rows)
            table = MacroTable(node, look.shard, one.path, one.replica, rows, end)
            out.setdefault(name, []).append(table)
    return out, queried


def _inserted(history: History) -> dict[str, dict[str, int]]:
    """Return the acknowledged row of each host, by table."""
    out: dict[str, dict[str, int]] = {}
    for _, end in history.answered(INSERT):
        inserted = decode(end, InsertedRow)
        for table in inserted.tables:
            out.setdefault(table, {})[str(end.node)] = inserted.row
    return out


def _judge_names(found: Findings, name: str, on_hosts: list[MacroTable]) -> None:
    for one in on_hosts:
        if one.replica != one.node:
            text = f"{name} on {one.node} is replica {one.replica} of {one.path}"
            _add(found, "misnamed", text, one)
    for at, one in enumerate(on_hosts):
        for other in on_hosts[at + 1 :]:
            if (one.shard == other.shard) != (one.path == other.path):
                text = (
                    f"{name} is at {one.path} on {one.node}, of shard {one.shard}, and at "
                    f"{other.path} on {other.node}, of shard {other.shard}"
                )
                _add(found, "misplaced", text, one, other)


def _judge_row(
    found: Findings, name: str, row: int, own: MacroTable, on_hosts: list[MacroTable]
) -> None:
    for one in on_hosts:
        if one.shard == own.shard and row not in one.rows:
            text = f"row {row} of {name}, inserted on {own.node}, is not on {one.node}"
            _add(found, "not-replicated", text, one)
        elif one.shard != own.shard and row in one.rows:
            text = (
                f"row {row} of {name}, inserted on {own.node}, is on {one.node}, of another shard"
            )
            _add(found, "strayed", text, one)


def _add(found: Findings, kind: str, text: str, *tables: MacroTable) -> None:
    at = tables[-1].end.time_ns
    proof = [one.end for one in tables]
    found.add_anomaly(kind, f"{text}, at rest at {seconds(at)}", *proof, time_ns=at)
