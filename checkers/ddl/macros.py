"""Checks the replicated tables that one statement ON CLUSTER created with macros."""

from collections.abc import Iterable
from dataclasses import dataclass

from checkers.conclusion import conclude, count_kinds, few_of_each_kind, mapping_of, summarize
from checkers.phrasing import listed, number, seconds
from harness.core.history import History
from harness.core.op import Kind, Op
from harness.core.verdict import Anomaly, Verdict

INSERT, ROWS = "final-insert", "final-rows"


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
    """Judges tables that were created with the path ".../{shard}/..." and the replica "{replica}",
    where each host has macros of its own. At rest each host inserts a row into each of its tables
    ("final-insert", ok value {"row": n, "tables": [names]}) and then lists them ("final-rows":
    {"shard": s, "tables": {name: {"path", "replica", "rows": [row]}}}).

    INVALID: a table's replica is not named after its host ("misnamed"); hosts of one shard have
    different paths, or hosts of two shards the same ("misplaced"); an acknowledged row is not on
    another host of the shard that has the table ("not-replicated"), or is on another shard
    ("strayed").
    """

    name = "macros"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs a row that reached another host, and an answer of each
        host that was queried."""
        tables, queried = _tables(history)
        inserted = _inserted(history)
        broken: list[Anomaly] = []
        reached = 0
        for name, found in sorted(tables.items()):
            broken += _named(name, found)
            for node, row in sorted(inserted.get(name, {}).items()):
                own = next((one for one in found if one.node == node), None)
                if own is not None:
                    others = [one for one in found if one.node != node and one.shard == own.shard]
                    reached += sum(row in one.rows for one in others)
                    broken += _spread(name, row, own, found)
        kinds = count_kinds(broken)
        answered = {one.node for found in tables.values() for one in found}
        silent = sorted(queried - answered) if tables else []
        doubts = [f"no tables of {listed(silent)}"] if silent else []
        doubts += [] if reached else ["no row had to reach another host"]
        summary = (
            f"{number(len(tables), 'table')} created ON CLUSTER with macros: "
            f"{number(reached, 'row')} on another host of their shard"
        )
        return Verdict(
            checker=self.name,
            status=conclude(broken, doubts=doubts),
            summary=summarize(broken, doubts, summary),
            checked=reached,
            anomalies=few_of_each_kind(broken),
            figures={"tables": len(tables), "replicated": reached, "anomalies": {**kinds}},
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
        shard = int(mapping_of(end).get("shard", 0))
        for name, state in (mapping_of(end).get("tables") or {}).items():
            rows = frozenset(state["rows"])
            table = MacroTable(node, shard, str(state["path"]), str(state["replica"]), rows, end)
            out.setdefault(str(name), []).append(table)
    return out, queried


def _inserted(history: History) -> dict[str, dict[str, int]]:
    """Return the acknowledged row of each host, by table."""
    out: dict[str, dict[str, int]] = {}
    for _, end in history.answered(INSERT):
        for table in mapping_of(end).get("tables") or ():
            out.setdefault(str(table), {})[str(end.node)] = int(mapping_of(end).get("row", -1))
    return out


def _named(name: str, found: list[MacroTable]) -> Iterable[Anomaly]:
    for one in found:
        if one.replica != one.node:
            text = f"{name} on {one.node} is replica {one.replica} of {one.path}"
            yield _anomaly("misnamed", text, one)
    for at, one in enumerate(found):
        for other in found[at + 1 :]:
            if (one.shard == other.shard) != (one.path == other.path):
                text = (
                    f"{name} is at {one.path} on {one.node}, of shard {one.shard}, and at "
                    f"{other.path} on {other.node}, of shard {other.shard}"
                )
                yield _anomaly("misplaced", text, one, other)


def _spread(name: str, row: int, own: MacroTable, found: list[MacroTable]) -> Iterable[Anomaly]:
    for one in found:
        if one.shard == own.shard and row not in one.rows:
            text = f"row {row} of {name}, inserted on {own.node}, is not on {one.node}"
            yield _anomaly("not-replicated", text, one)
        elif one.shard != own.shard and row in one.rows:
            text = (
                f"row {row} of {name}, inserted on {own.node}, is on {one.node}, of another shard"
            )
            yield _anomaly("strayed", text, one)


def _anomaly(kind: str, text: str, *tables: MacroTable) -> Anomaly:
    end = tables[-1].end
    return Anomaly(
        kind=kind,
        text=f"{text}, at rest at {seconds(end.time_ns)}",
        ops=tuple(sorted({one.end.index for one in tables})),
        time_ns=end.time_ns,
    )
