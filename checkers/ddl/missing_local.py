"""Checks that a Distributed table may be created before the local tables below it."""

from collections.abc import Iterable, Mapping
from typing import Any

from checkers.conclusion import conclude, count_kinds, few_of_each_kind, mapping_of, summarize
from checkers.phrasing import listed, number, seconds
from harness.core.history import History
from harness.core.op import Kind, Op
from harness.core.verdict import Anomaly, Verdict

USE, MAKE = "final-use", "final-local"
SAYS_SO = frozenset({60, 279})
"""Unknown table; all connection tries failed, because no replica of a shard has the table."""


class MissingLocal:
    """Judges Distributed tables that were created over local tables which did not exist. At rest
    every host selects from its Distributed tables ("final-use": {table: {"local": name of the
    missing table, "code": 0 if it was answered, else that of the error, "text"}}), then creates the
    local tables ("final-local"), then selects again.

    INVALID: a select is answered though no host has the local table ("answered"), or fails without
    an error that says so and names it ("unclear"); or one fails after every host has created the
    local table ("unusable").
    """

    name = "missing-local"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs a table that failed and worked afterwards, and an answer
        of every host that was queried."""
        pairs = history.calls(USE, MAKE)
        made = [pair.invoke.index for pair in pairs if pair.invoke.f == MAKE]
        made_on = {p.invoke.node for p in pairs if p.invoke.f == MAKE and p.kind is Kind.OK}
        first, last = dict[str, Op](), dict[str, Op]()
        for pair in pairs:
            if pair.invoke.f == USE and pair.kind is Kind.OK and pair.end is not None:
                before = not made or pair.end.index < made[0]
                (first if before else last)[str(pair.invoke.node)] = pair.end
        queried = {str(pair.invoke.node) for pair in pairs}
        silent = sorted(queried - (first.keys() & last.keys() & made_on))
        broken = [one for node, end in sorted(first.items()) for one in _unlike(node, end)]
        if not queried - made_on:
            broken += [one for node, end in sorted(last.items()) for one in _failed(node, end)]
        tables = sum(len(mapping_of(end)) for end in first.values())
        doubts = [f"not all answers of {listed(silent)}"] if silent else []
        doubts += [] if tables else ["no Distributed table was created"]
        held = (
            f"{number(tables, 'Distributed table')} without a local one: each select failed with "
        )
        held += "an error that names it, and worked once the local tables were there"
        return Verdict(
            checker=self.name,
            status=conclude(broken, doubts=doubts),
            summary=summarize(broken, doubts, held),
            checked=tables,
            anomalies=few_of_each_kind(broken),
            figures={"tables": tables, "anomalies": {**count_kinds(broken)}},
        )


def _answers(end: Op) -> Iterable[tuple[str, str, int, str]]:
    """Return name, local table, code and text of each answer."""
    found: Mapping[str, Any] = mapping_of(end)
    return [(t, one["local"], int(one["code"]), one["text"]) for t, one in sorted(found.items())]


def _unlike(node: str, end: Op) -> Iterable[Anomaly]:
    for table, local, code, text in _answers(end):
        if not code:
            yield _anomaly("answered", f"{table} on {node} is answered without a local table", end)
        elif code not in SAYS_SO or local not in text:
            yield _anomaly("unclear", f"{table} on {node} fails with {code}: {text[:200]}", end)


def _failed(node: str, end: Op) -> Iterable[Anomaly]:
    for table, _, code, text in _answers(end):
        if code:
            said = f"{table} on {node} fails though every host has the local table: "
            yield _anomaly("unusable", f"{said}{code} {text[:200]}", end)


def _anomaly(kind: str, text: str, end: Op) -> Anomaly:
    return Anomaly(
        kind=kind,
        text=f"{text}, at rest at {seconds(end.time_ns)}",
        ops=(end.index,),
        time_ns=end.time_ns,
    )
