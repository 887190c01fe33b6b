"""Which run of a night comes next, if what earlier runs reached decides it.

A blind night makes the runs of a `Rota` with the options of their cells. A steered one does that
until every cell has had a run, and then for half of its runs. Half of these have other intervals,
durations, rates and time limits, or some of the cell's nemeses alone. The other runs follow a run
of the night: its cell and options with another seed, or with options near to its own, or with a
kill at the moment of a step, where there is one. Which run is followed is drawn by

- what nothing explains: one in four follows an INVALID run that no known defect explains in full;
- what is rare: an element of the protocol's model (`harness.conform.coverage`) that fewer than one
  run in 16 has covered, in this night and those before, and the run of this night that covered it
  in the least time. The kill is that of the element's step. The chance of an element is divided by
  the number of runs of that run's cell, so that a cell counts by what is rare in one of its runs:
  what each run of it adds would otherwise bring it ever more runs.

Before either, one in four is aimed at an element that simulated runs of a cell have covered
(`harness.nights.foreseen`), and no run on real servers: the cell's options with its nemeses and the
kill of the element's step. The state of the element's table must be one that real runs have had,
for a kill does not bring it about. After AIMS_MAX such runs the element is given up.

Everything is drawn from the night's seed, the number of the run, and what is known when it begins,
so that a night that was killed goes on as it would have.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from harness.core.seed import Seed
from harness.nights.foreseen import Foreseen
from harness.nights.night import Slot
from harness.nights.rota import Rota, reached
from harness.spec.variation import FRESH, RARE, Draws, varied
from nemesis.catalogue import NONE

UNEXPLAINED: Final = 0.25
"""Share of the runs that follow others which follow an unexplained one, if there is any."""
UNREACHED: Final = 0.25
"""Share of the same runs that is aimed at what simulated ones alone covered, if there is any."""
AIMS_MAX: Final = 3
"""Number of runs that are aimed at an element which only simulated runs covered."""
AIM: Final = "aim"
"""How a run was drawn that kills at the step of a rare element."""
FORESEEN: Final = "foreseen"
"""How a run was drawn that is aimed at what only simulated runs covered."""
WAYS: Final[Mapping[str, str]] = {
    "fresh": "the cell's own options",
    "fresh options": "other options",
    "seed": "an earlier run's options, the next seed",
    "options": "options near an earlier run's",
    AIM: "aimed at a rare element",
    FORESEEN: "aimed at what only simulated runs had covered",
}
"""How a run may be drawn, and that in words."""
CONTAINERS: Final = ("docker", "auto")
"""Values of --cluster that may stand for containers."""
AIMED: Final[Mapping[str, str]] = {
    "Insert": "commit-kill",
    "QuorumInsert": "commit-kill",
    "PullLog": "pull-kill",
    "GetPart": "register-kill",
    "FinishEntry": "finish-kill",
    "EndQuorum": "quorum-end-kill",
}
"""By step of the model: the fault that kills a replica in it (`nemesis.moment`)."""


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
    element: str = ""
    """Element for whose sake it was drawn; "" for none."""


@dataclass(frozen=True, slots=True)
class Steering:
    """Chooses the runs of a steered night."""

    rota: Rota
    seed: Seed
    options: Sequence[Mapping[str, object]]
    """The options of each cell, by their long names."""
    foreseen: Foreseen = field(default_factory=dict)

    def next(self, slots: Sequence[Slot]) -> NextRun:
        """Return what comes after these runs."""
        draws = Draws(self.seed.child("steer", len(slots)))
        # Nothing adds as much as the first run of a cell.
        if draws.unit() >= FRESH and {*self.rota.names} <= {slot.cell for slot in slots}:
            if (unreached := self._unreached(slots)) and draws.unit() < UNREACHED:
                return unreached[draws.below(len(unreached))]
            if found := self._followed(slots, draws):
                return self._following(*found, draws)
        # What was followed in between leaves the rota where it is.
        own = [slot for slot in slots if slot.parent is None and slot.how != FORESEEN]
        cell = self.rota.next(own)
        if draws.below(2):
            return NextRun(cell, {}, "fresh")
        return NextRun(cell, varied(draws, self.options[cell], {}, far=True), "fresh options")

    def _unreached(self, slots: Sequence[Slot]) -> list[NextRun]:
        """Return the runs that are aimed at what simulated runs alone have covered."""
        known = {*self.rota.earlier, *(element for slot in slots for element in reached(slot))}
        states = {_state(element) for element in known}
        tried = Counter(slot.element for slot in slots if slot.how == FORESEEN)
        found = []
        for element in sorted(self.foreseen.keys() - known):
            if _state(element) not in states:
                continue
            names = [name for name in self.foreseen[element] if name in self.rota.names]
            for cell in map(self.rota.names.index, names if tried[element] < AIMS_MAX else ()):
                own = self._nemeses(cell)
                found += [
                    NextRun(cell, {"nemesis": ",".join((*own, aim))}, FORESEEN, None, element)
                    for aim in self._aims(cell, own, element)
                ]
        return found

    def _following(self, parent: Slot, element: str, draws: Draws) -> NextRun:
        """Return a run that follows another one, for the sake of an element."""
        cell = self.rota.names.index(parent.cell)
        own = self._nemeses(cell, parent)
        aims = self._aims(cell, own, element)
        way = draws.below(3 if aims else 2)
        if way == 0:
            return NextRun(cell, parent.options, "seed", parent.number, element)
        if way == 1:
            near = varied(draws, self.options[cell], parent.options, far=False)
            options = {**parent.options, **near}
            return NextRun(cell, options, "options", parent.number, element)
        options = {**parent.options, "nemesis": ",".join((*own, aims[draws.below(len(aims))]))}
        return NextRun(cell, options, AIM, parent.number, element)

    def _aims(self, cell: int, own: Sequence[str], element: str) -> list[str]:
        """Return the kills at the moments of an element's steps that are not among own nemeses;
        none where no proxy can hold a message: elsewhere than on containers."""
        options = self.options[cell]
        if not options or options.get("cluster", CONTAINERS[0]) not in CONTAINERS:
            return []
        steps = element.rpartition(": ")[2].split(" + ")
        aims = dict.fromkeys(AIMED[step] for step in steps if step in AIMED)
        return [aim for aim in aims if aim not in own]

    def _nemeses(self, cell: int, parent: Slot | None = None) -> list[str]:
        """Return the names of the nemeses of a cell, or of a run of it."""
        given = parent.options.get("nemesis") if parent else None
        given = given or str(self.options[cell].get("nemesis", NONE))
        return [name for name in given.split(",") if name != NONE]

    def _followed(self, slots: Sequence[Slot], draws: Draws) -> tuple[Slot, str] | None:
        """Return the run that the next one follows, and the element for whose sake it does, ""
        for an unexplained one; None if there is none to follow."""
        own = [slot for slot in slots if slot.cell in self.rota.names]
        odd = [slot for slot in own if slot.is_unexplained]
        if odd and draws.unit() < UNEXPLAINED:
            return odd[draws.below(len(odd))], ""
        made = Counter(element for slot in own for element in reached(slot))
        earlier = max(self.rota.earlier.values(), default=0)  # each replayed run adds a replica
        often = 1 + RARE * (len(own) + earlier)
        rare = [e for e in sorted(made) if made[e] + self.rota.earlier.get(e, 0) <= often]
        if not rare:
            return None
        shortest: dict[str, Slot] = {}
        for slot in sorted(own, key=lambda slot: slot.seconds):
            shortest.update({e: slot for e in reached(slot) if e not in shortest})
        runs = Counter(slot.cell for slot in own)
        element = rare[draws.weighted([1 / runs[shortest[e].cell] for e in rare])]
        return shortest[element], element


def _state(element: str) -> str:
    """Return the state of the table or the part in which an element's step was taken."""
    return element.rpartition(": ")[0]
