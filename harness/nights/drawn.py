"""How the runs of a steered night were drawn, and what came of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from harness.core.op import Json
from harness.core.verdict import Status
from harness.nights.night import Slot
from harness.nights.steering import AIM, FORESEEN, WAYS

FIRST: Final = "first run of a cell"
"""Way of the runs before which nothing of their cell was known."""


@dataclass(frozen=True, slots=True)
class DrawnRuns:
    """Runs that were drawn in one way."""

    way: str
    """The way, in words."""
    runs: int
    added: int
    """Number of the elements that they were the first of the night to cover."""
    sought: int
    """Number of the runs that were made for the sake of an element."""
    reached: int
    """Number of these that covered it."""
    invalid: int

    def results(self) -> dict[str, Json]:
        """Return its part of summary.json."""
        return {
            "way": self.way,
            "runs": self.runs,
            "added": self.added,
            "sought": self.sought,
            "reached": self.reached,
            "INVALID": self.invalid,
        }


@dataclass(frozen=True, slots=True)
class AimedMoment:
    """Element of the model at whose step runs killed a replica."""

    element: str
    foreseen: bool
    """Whether only simulated runs had covered it; else it was rare."""
    aimed: Sequence[Slot]
    """Runs that were aimed at it."""
    others: Sequence[Slot]
    """Other runs of the night that covered it."""

    @property
    def hits(self) -> Sequence[Slot]:
        """Return the aimed runs that covered it."""
        return [slot for slot in self.aimed if self.element in slot.elements]

    @property
    def is_covered(self) -> bool:
        """Return whether a run of the night covered it."""
        return bool(self.hits or self.others)


def drawn_runs(slots: Sequence[Slot]) -> list[DrawnRuns]:
    """Return the runs of a steered night by the ways in which they were drawn; [] of a blind one.
    `slots` are in the order in which they began."""
    ways: dict[str, list[Slot]] = {way: [] for way in (FIRST, *WAYS.values())}
    added = dict.fromkeys(ways, 0)
    cells: set[str] = set()
    known: set[str] = set()
    for slot in slots:
        if not slot.how:
            continue
        way = WAYS.get(slot.how, slot.how) if slot.cell in cells else FIRST
        ways.setdefault(way, []).append(slot)
        added[way] = added.get(way, 0) + len({*slot.elements} - known)
        cells.add(slot.cell)
        known.update(slot.elements)
    return [_drawn(way, of, added[way]) for way, of in ways.items() if of]


def _drawn(way: str, slots: Sequence[Slot], added: int) -> DrawnRuns:
    sought = [slot for slot in slots if slot.element]
    reached = sum(slot.element in slot.elements for slot in sought)
    invalid = sum(slot.verdict is Status.INVALID for slot in slots)
    return DrawnRuns(way, len(slots), added, len(sought), reached, invalid)


def aimed_moments(slots: Sequence[Slot]) -> list[AimedMoment]:
    """Return the elements at which runs of a night were aimed, those first that only simulated runs
    had covered."""
    aimed: dict[tuple[bool, str], list[Slot]] = {}
    for slot in slots:
        if slot.how in (AIM, FORESEEN):
            aimed.setdefault((slot.how != FORESEEN, slot.element), []).append(slot)
    moments = []
    for (rare, element), of in sorted(aimed.items(), key=lambda item: item[0]):
        numbers = {slot.number for slot in of}
        others = [s for s in slots if element in s.elements and s.number not in numbers]
        moments.append(AimedMoment(element, not rare, of, others))
    return moments
