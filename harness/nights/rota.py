"""Order of the runs of a night: every cell in turn, those whose runs cover what is rare more often.
A night begins where the last one of its matrix ended, so that nights too short for all cells reach
each in the end.

What a run on real servers covers are elements of the protocol's model (`harness.conform.coverage`).
The weight of a cell is what one of its runs adds, on average: the sum, over the elements that the
run covered, of the inverse of the number of runs that covered each, in this night and in the
store's earlier ones. A cell has as many runs in a row as its weight is times the average, at least
one and at most TURNS_MAX, so that the cluster is reused and no cell is left out.

A cell is spent if its last SPENT_RUNS runs said nothing new: each was UNKNOWN, or INVALID for known
defects that the cell had shown before. It has a turn in one of REST_ROUNDS rounds.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from checkers.replication.conformance import CONFORMANCE
from checkers.triage.explanation import KNOWN
from harness.core.verdict import Status
from harness.nights.night import Slot

TURNS_MAX: Final = 3
SPENT_RUNS: Final = 3
REST_ROUNDS: Final = 3


def replayed(results: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the names of the "steps" that a run took, and the "elements" that it covered, given
    its results.json."""
    verdicts = results.get("verdicts", ())
    own = [verdict["figures"] for verdict in verdicts if verdict["checker"] == CONFORMANCE]
    return {
        name: sorted({one for figures in own for one in figures.get(figure, ())})
        for name, figure in (("steps", "actions"), ("elements", "elements"))
    }


def reached(slot: Slot) -> Sequence[str]:
    """Return what a run has covered: elements, or steps where no more was recorded."""
    return slot.elements or slot.steps


@dataclass(frozen=True, slots=True)
class Rota:
    """The cells of a matrix in their order."""

    names: Sequence[str]
    earlier: Mapping[str, int] = field(default_factory=dict)
    """By element: the number of runs of earlier nights that covered it."""
    first: str = ""
    """The cell with which the night begins; "" or a cell that is gone: the first one."""

    def next(self, slots: Sequence[Slot]) -> int:
        """Return the position of the cell whose turn it is after these runs."""
        if not slots:
            return self.names.index(self.first) if self.first in self.names else 0
        last = slots[-1].cell
        at = self.names.index(last)
        others = (n for n, slot in enumerate(reversed(slots)) if slot.cell != last)
        had = next(others, len(slots))
        if had < self.turns(slots, last) and not _spent(slots, last):
            return at
        order = [(at + step) % len(self.names) for step in range(1, len(self.names) + 1)]
        return next((at for at in order if not self._rests(slots, self.names[at])), order[0])

    def _rests(self, slots: Sequence[Slot], cell: str) -> bool:
        """Return whether a spent cell had a run less than REST_ROUNDS rounds ago."""
        since = next((n for n, slot in enumerate(reversed(slots)) if slot.cell == cell), None)
        recent = since is not None and since < REST_ROUNDS * len(self.names) - 1
        return recent and _spent(slots, cell)

    def turns(self, slots: Sequence[Slot], cell: str) -> int:
        """Return the number of runs in a row that a cell has."""
        weights = self._weights(slots)
        own = [weight for name, weight in weights if name == cell]
        if not own:
            return 1
        average = sum(weight for _, weight in weights) / len(weights)
        return max(1, min(TURNS_MAX, round(sum(own) / len(own) / average)))

    def _weights(self, slots: Sequence[Slot]) -> list[tuple[str, float]]:
        """Return cell and weight of every run of which is known what it covered."""
        known = [slot for slot in slots if reached(slot)]
        made = Counter(element for slot in known for element in reached(slot))
        made.update(self.earlier)
        return [(slot.cell, sum(1 / made[element] for element in reached(slot))) for slot in known]


def _spent(slots: Sequence[Slot], cell: str) -> bool:
    """Return whether the last judged runs of a cell said nothing new."""
    own = [slot for slot in slots if slot.cell == cell and slot.status is not None]
    last = own[-SPENT_RUNS:]
    if len(last) < SPENT_RUNS:
        return False
    if all(slot.status is Status.UNKNOWN for slot in last):
        return True
    shown = {name for slot in own[:-SPENT_RUNS] for name in _defects(slot)}
    return all(
        slot.status is Status.INVALID
        and slot.cause is not None
        and slot.cause.status == KNOWN
        and _defects(slot) <= shown
        for slot in last
    )


def _defects(slot: Slot) -> set[str]:
    return {one.name for one in slot.cause.defects} if slot.cause is not None else set()
