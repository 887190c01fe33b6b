"""Checks that an ALTER returned only when the replicas that it waits for had its columns.

An ALTER that was ok says which replicas its server must wait for, by the server's version and
settings, and of each replica that answered whether it had the column right after the ALTER had
returned. A replica has *followed* an ADD if it had the column, a DROP if it had not.

Violated: a replica that must be waited for had not followed ("unapplied"). Doubtful: no replica,
other than the one that was asked, had to be waited for and answered.

An ALTER is not judged if the columns are undecided when it returns: another call that was not
refused changes the same column and overlaps it, or is of unknown outcome and began before its end;
or the servers end an ALTER as soon as a later one has changed the list ("overlaps"), and another
one of any column overlaps it. So this is right:
    p0 add-column 1 begins     p1 drop-column 1 begins     p0 ok, ch2 without column 1     p1 ok
"""

from array import array
from bisect import bisect_right
from dataclasses import dataclass, field
from math import inf

import msgspec

from checkers.conclusion import Findings
from checkers.ddl.alters import ADD, DROP
from checkers.look import decode
from checkers.phrasing import during, number, seconds, where
from harness.core.history import History
from harness.core.op import Kind, Op
from harness.core.verdict import Verdict


class AlteredColumn(msgspec.Struct, frozen=True):
    """Look at the replicas right after an ALTER of one column had returned."""

    has: dict[str, bool] = {}
    """Whether each replica that answered has the column."""
    waits: list[str] = []
    """Replicas that the server must wait for."""
    overlaps: bool = False
    """Whether the server ends an ALTER as soon as a later one has changed the list."""


class AlterWaits:
    """Judges the calls "add-column" and "drop-column" of one column each."""

    name = "alter-waits"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs a replica, other than the one that was asked, that had to
        be waited for and answered."""
        overlaps = _Overlaps(history)
        found = Findings(self.name, kinds=["unapplied"])
        others = late = 0
        for invoke, end in history.answered(ADD, DROP):
            if overlaps.disturb(invoke, end):
                continue
            look = decode(end, AlteredColumn)
            followed = {node: had is (invoke.f == ADD) for node, had in look.has.items()}
            waits = [node for node in look.waits if node in followed]
            others += sum(node != invoke.node for node in waits)
            late += sum(not done for node, done in followed.items() if node not in waits)
            for node in waits:
                if not followed[node]:
                    _add(found, history, invoke, end, node)
        return found.verdict(
            checked=others,
            nothing="no replica was awaited",
            held=f"{number(others, 'other replica')} waited for, each had followed"
            + (f"; {late:,} not waited for were late" if late else ""),
            figures={"waited_for": others, "late": late},
        )


class _Overlaps:
    """ALTERs that were not refused, by the indices of the ops between which they were in flight."""

    def __init__(self, history: History) -> None:
        self._every = _Flights()
        self._of_column: dict[object, _Flights] = {}
        for pair in history.calls(ADD, DROP, kinds=(Kind.OK, Kind.INFO)):
            of_column = self._of_column.setdefault(_column(pair.invoke), _Flights())
            for flights in (self._every, of_column):
                flights.begins.append(pair.invoke.index)
                if pair.end is not None:
                    flights.ends.append(pair.end.index)
            if pair.kind is Kind.INFO:
                of_column.unknown = min(of_column.unknown, pair.invoke.index)
        for flights in (self._every, *self._of_column.values()):
            flights.ends = array("q", sorted(flights.ends))

    def disturb(self, invoke: Op, end: Op) -> bool:
        """Return whether another ALTER that overlaps an acknowledged one makes its columns
        undecided."""
        same = self._of_column[_column(invoke)]
        # One of unknown outcome may take effect at any later time.
        if same.overlap(invoke, end) or same.unknown < end.index:
            return True
        return decode(end, AlteredColumn).overlaps and self._every.overlap(invoke, end)


@dataclass(slots=True)
class _Flights:
    begins: "array[int]" = field(default_factory=lambda: array("q"))
    ends: "array[int]" = field(default_factory=lambda: array("q"))
    """Ends of those that ended, ascending."""
    unknown: float = inf
    """Begin of the first one whose outcome is unknown."""

    def overlap(self, invoke: Op, end: Op) -> bool:
        """Return whether one of these ALTERs was in flight during another one of them."""
        begun = bisect_right(self.begins, end.index)
        over = bisect_right(self.ends, invoke.index)
        return begun - over > 1  # the ALTER itself is one


def _column(invoke: Op) -> object:
    return invoke.value if isinstance(invoke.value, int) else repr(invoke.value)


def _add(found: Findings, history: History, invoke: Op, end: Op, node: str) -> None:
    lacks = "did not have" if invoke.f == ADD else "still had"
    text = (
        f"op #{end.index} {end.f} {invoke.value}{where(end)} was ok at "
        f"{seconds(end.time_ns)}, and {node} {lacks} the column"
        f"{during(history, end.time_ns)}"
    )
    found.add_anomaly("unapplied", text, invoke, end)
