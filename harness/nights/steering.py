"""Which run of a night comes next, if what earlier runs reached decides it.

A blind night makes the runs of a `Rota` with the options of their cells. A steered one does that
for a quarter of its runs; another quarter has other intervals, durations, rates and time limits, or
some of the cell's nemeses alone. The other half follow a run of the night: its cell and options
with another seed, or with options near to its own. Which run is followed is drawn by

- what nothing explains: one in four follows an INVALID run that no known defect explains in full;
- what is rare: an element of the protocol's model (`harness.conform.coverage`) that fewer than one
  run in 16 has covered, in this night and those before, each with the same chance; then the run of
  this night that covered it in the least time.

Everything is drawn from the night's seed, the number of the run, and what is known when it begins,
so that a night that was killed goes on as it would have.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from harness.core.seed import Seed
from harness.nights.night import Slot
from harness.nights.rota import Rota, reached
from harness.spec.variation import FRESH, RARE, Draws, varied

UNEXPLAINED: Final = 0.25
"""Share of the runs that follow others which follow an unexplained one, if there is any."""


@dataclass(frozen=True, slots=True)
class NextRun:
    """A run of a night before it begins."""

    cell: int
    """Position of its cell."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options in which it differs from its cell, by their long names."""
    how: str = ""
    """How it was drawn; "" in a blind night."""
    parent: int | None = None
    """Number of the run that it follows; None if it was drawn afresh."""


@dataclass(frozen=True, slots=True)
class Steering:
    """Chooses the runs of a night."""

    rota: Rota
    seed: Seed
    options: Sequence[Mapping[str, object]]
    """The options of each cell, by their long names."""
    steered: bool = True
    """False: the rota alone decides, and each run has the options of its cell."""

    def next(self, slots: Sequence[Slot]) -> NextRun:
        """Return what comes after these runs."""
        if not self.steered:
            return NextRun(self.rota.next(slots))
        draws = Draws(self.seed.child("steer", len(slots)))
        if draws.unit() >= FRESH and (parent := self._followed(slots, draws)):
            cell = self.rota.names.index(parent.cell)
            if draws.below(2):
                return NextRun(cell, parent.options, "seed", parent.number)
            near = varied(draws, self.options[cell], parent.options, far=False)
            return NextRun(cell, {**parent.options, **near}, "options", parent.number)
        cell = self.rota.next(slots)
        if draws.below(2):
            return NextRun(cell, {}, "fresh")
        return NextRun(cell, varied(draws, self.options[cell], {}, far=True), "fresh options")

    def _followed(self, slots: Sequence[Slot], draws: Draws) -> Slot | None:
        """Return the run that the next one follows; None if there is none to follow."""
        own = [slot for slot in slots if slot.cell in self.rota.names]
        odd = [slot for slot in own if slot.is_unexplained]
        if odd and draws.unit() < UNEXPLAINED:
            return odd[draws.below(len(odd))]
        made = Counter(element for slot in own for element in reached(slot))
        often = 1 + RARE * len(own)
        rare = [e for e in sorted(made) if made[e] + self.rota.earlier.get(e, 0) <= often]
        if not rare:
            return None
        element = rare[draws.below(len(rare))]
        return min((s for s in own if element in reached(s)), key=lambda slot: slot.seconds)
