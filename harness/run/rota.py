"""Order of the runs of a night: every cell in turn, those whose runs took rare steps more often.

The steps are those of the protocol's model (`harness.conform.replay.STEPS`), which each run on real
servers counts. The weight of a cell is what one of its runs adds, on average: the sum, over the
steps that the run took, of the inverse of the number of runs that took each, in this night and in
the store's earlier ones. A cell has as many runs in a row as its weight is times the average, at
least one and at most TURNS_MAX, so that the cluster is reused and no cell is left out.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from checkers.replication.conformance import CONFORMANCE
from harness.run.night import Slot

TURNS_MAX: Final = 3


def steps_of(results: Mapping[str, Any]) -> list[str]:
    """Return the names of the steps that a run took, given its results.json."""
    verdicts = results.get("verdicts", ())
    own = (verdict["figures"] for verdict in verdicts if verdict["checker"] == CONFORMANCE)
    return sorted({step for figures in own for step in figures.get("actions", ())})


def steps_made(slots: Iterable[Slot]) -> Counter[str]:
    """Return the number of runs that took each step."""
    return Counter(step for slot in slots for step in slot.steps)


@dataclass(frozen=True, slots=True)
class Rota:
    """The cells of a matrix in their order."""

    names: Sequence[str]
    earlier: Mapping[str, int] = field(default_factory=dict)
    """By step: the number of runs of earlier nights that took it."""

    def next(self, slots: Sequence[Slot]) -> int:
        """Return the position of the cell whose turn it is after these runs."""
        if not slots:
            return 0
        last = slots[-1].cell
        at = self.names.index(last)
        others = (n for n, slot in enumerate(reversed(slots)) if slot.cell != last)
        had = next(others, len(slots))
        return at if had < self.turns(slots, last) else (at + 1) % len(self.names)

    def turns(self, slots: Sequence[Slot], cell: str) -> int:
        """Return the number of runs in a row that a cell has."""
        weights = self._weights(slots)
        own = [weight for name, weight in weights if name == cell]
        if not own:
            return 1
        average = sum(weight for _, weight in weights) / len(weights)
        return max(1, min(TURNS_MAX, round(sum(own) / len(own) / average)))

    def _weights(self, slots: Sequence[Slot]) -> list[tuple[str, float]]:
        """Return cell and weight of every run whose steps are known."""
        known = [slot for slot in slots if slot.steps]
        made = steps_made(known)
        made.update(self.earlier)
        return [(slot.cell, sum(1 / made[step] for step in slot.steps)) for slot in known]
