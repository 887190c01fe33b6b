"""Checks that a Distributed table may be created before the local tables below it.

At rest every host selects from its Distributed tables, whose local tables do not exist; then every
host creates the local tables; then every host selects again.

Violated: a first select is answered, though no host has the local table ("answered"), or fails with
an error other than that the table is unknown or that no replica has it, or without the table's name
in its text ("unclear"); a select that follows fails, though every host has created the local table
("unusable"). Doubtful: a host that did not answer all three, and a run without a Distributed table.

A later select that fails is no anomaly by itself. It asks a host of each shard, so that it may fail
until the last host has its table:
    final-local on ch1 → ok     final-use on ch1 → 279     final-local on ch2 → info
"""

from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from checkers.conclusion import Findings
from checkers.look import decode
from checkers.phrasing import listed, number, seconds
from harness.core.history import History
from harness.core.op import Kind, Op
from harness.core.verdict import Verdict

USE, MAKE = "final-use", "final-local"
SAYS_SO = frozenset({60, 279})
"""Unknown table; all connection tries failed, because no replica of a shard has the table."""


class SelectEnd(msgspec.Struct, frozen=True):
    """End of a select from a Distributed table."""

    local: str
    """Name of the local table."""
    code: int
    """0 if it was answered, else that of the error."""
    text: str


SelectEnds: TypeAlias = dict[str, SelectEnd]
"""Look at a host's Distributed tables, by name."""


class MissingLocal:
    """Judges Distributed tables that were created over local tables which did not exist, by the
    calls "final-use" and "final-local"."""

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
        found = Findings(self.name)
        for node, end in sorted(first.items()):
            _judge_first(found, node, end)
        for node, end in sorted(last.items()) if not queried - made_on else ():
            _judge_last(found, node, end)
        tables = sum(len(decode(end, SelectEnds)) for end in first.values())
        if silent:
            found.add_doubt(f"not all answers of {listed(silent)}")
        if not tables:
            found.add_doubt("no Distributed table was created")
        return found.verdict(
            checked=tables,
            broken=found.tally,
            held=f"{number(tables, 'Distributed table')} without a local one: each select failed "
            "with an error that names it, and worked once the local tables were there",
            figures={"tables": tables},
        )


def _ends(end: Op) -> Iterable[tuple[str, SelectEnd]]:
    return sorted(decode(end, SelectEnds).items())


def _judge_first(found: Findings, node: str, end: Op) -> None:
    for table, one in _ends(end):
        if not one.code:
            _add(found, "answered", f"{table} on {node} is answered without a local table", end)
        elif one.code not in SAYS_SO or one.local not in one.text:
            text = f"{table} on {node} fails with {one.code}: {one.text[:200]}"
            _add(found, "unclear", text, end)


def _judge_last(found: Findings, node: str, end: Op) -> None:
    for table, one in _ends(end):
        if one.code:
            why = f"{table} on {node} fails though every host has the local table: "
            _add(found, "unusable", f"{why}{one.code} {one.text[:200]}", end)


def _add(found: Findings, kind: str, text: str, end: Op) -> None:
    found.add_anomaly(kind, f"{text}, at rest at {seconds(end.time_ns)}", end)
