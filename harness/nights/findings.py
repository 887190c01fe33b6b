"""What the runs of a night came to: their verdicts, their findings, and which of these are new,
accepted or gone.

A finding of an INVALID run is the name of a known defect that explains it; or, if known defects do
not explain all of it, "unexplained" and the kind of an anomaly, such as "unexplained stale".
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from checkers.triage.explanation import KNOWN, NOT_EXPLAINED
from harness.core.errors import HarnessError
from harness.core.verdict import Status, worst
from harness.nights.night import JOURNAL, Night, Slot
from harness.run.rates import lower_bound, misses_needed

GONE_CONFIDENCE: Final = 0.95
"""Confidence of the least rate that an accepted defect is taken to have had."""
GONE_ALPHA: Final = 0.01
"""Probability of as many runs without an accepted defect, at that rate, at which it is gone."""


class FailOn(StrEnum):
    """Which INVALID runs fail a night. Accepted findings never do, except with ANY."""

    NEW = "new"
    """Those with a finding that no earlier night of the matrix had in the same cell."""
    UNEXPLAINED = "unexplained"
    """Those with a finding that is not accepted."""
    ANY = "any"


def verdict(slot: Slot) -> Status:
    """Return the status of a run; one that died or broke is at best UNKNOWN."""
    own = [slot.status or Status.UNKNOWN]
    return worst([*own, Status.UNKNOWN] if slot.killed or slot.broken is not None else own)


def causes(slot: Slot) -> tuple[str, ...]:
    """Return the known defects that explain an INVALID run, or that none does; () for others."""
    if verdict(slot) is not Status.INVALID:
        return ()
    if slot.cause is None or slot.cause.status != KNOWN:
        return (NOT_EXPLAINED,)
    return tuple(defect.name for defect in slot.cause.defects)


def findings_of(slot: Slot) -> tuple[str, ...]:
    """Return the findings of a run, see the module; () unless it is INVALID."""
    if NOT_EXPLAINED not in causes(slot):
        return causes(slot)
    return tuple(f"unexplained {kind}" for kind in slot.kinds) or ("unexplained",)


@dataclass(slots=True)
class CellRecord:
    """What the runs of one cell found, one after the other."""

    runs: int = 0
    """Number of runs with a conclusion."""
    hits: Counter[str] = field(default_factory=Counter)
    """Number of runs by finding."""
    last: dict[str, int] = field(default_factory=dict)
    """By finding: the number of runs up to the last one that had it."""

    def add(self, slots: Iterable[Slot]) -> None:
        """Append runs."""
        for slot in slots:
            self.runs += verdict(slot) is not Status.UNKNOWN
            self.hits.update(findings_of(slot))
            self.last.update(dict.fromkeys(findings_of(slot), self.runs))

    def followed_by(self, slots: Iterable[Slot]) -> "CellRecord":
        """Return the record with more runs."""
        record = CellRecord(self.runs, self.hits.copy(), dict(self.last))
        record.add(slots)
        return record

    def is_gone(self, finding: str) -> bool:
        """Return whether so many runs since the last one that had a finding would have shown it
        if it were still as frequent; False for one that no run had."""
        if finding not in self.hits:
            return False
        last = self.last[finding]
        rate = lower_bound(self.hits[finding], last, 1 - GONE_CONFIDENCE)
        return self.runs - last >= misses_needed(rate, GONE_ALPHA)


def records_before(path: Path) -> dict[str, CellRecord]:
    """Return what each cell found in the nights of this matrix that began before the one in `path`;
    a night whose journal cannot be read counts as none."""
    records: dict[str, CellRecord] = {}
    for journal in sorted(path.parent.glob(f"*/{JOURNAL}")):
        if journal.parent.name < path.name:
            try:
                night = Night.read(journal.parent, repair=False)
            except HarnessError:
                continue
            add_night(records, night)
    return records


def add_night(records: dict[str, CellRecord], night: Night) -> None:
    """Append the runs of a night to the records of their cells."""
    for cell, slots in by_cell(night).items():
        records.setdefault(cell, CellRecord()).add(slots)


def by_cell(night: Night) -> Mapping[str, list[Slot]]:
    """Return the runs of a night by their cells, in the order in which they first ran."""
    cells: dict[str, list[Slot]] = {}
    for slot in night.slots.values():
        cells.setdefault(slot.cell, []).append(slot)
    return cells
