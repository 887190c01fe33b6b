"""What cells found in earlier nights, which of it is gone, and which runs fail a night."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from checkers.health import HEALTH
from harness.core.errors import HarnessError
from harness.core.verdict import Status
from harness.nights.alarms import recent
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
            self.runs += slot.verdict is not Status.UNKNOWN
            shown = (*slot.shown, *slot.health)
            self.hits.update(shown)
            self.last.update(dict.fromkeys(shown, self.runs))

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


@dataclass(frozen=True, slots=True)
class EarlierNights:
    """The nights of a matrix before one, as far as they can be read."""

    records: dict[str, CellRecord]
    """What each cell found in all of them."""
    recent: list[Night]
    """Those with which a night is compared, the earliest first."""


def complaints(results: Mapping[str, Any]) -> list[str]:
    """Return what servers said of themselves in a run, given its results.json: "health fatal", or
    "health log-disorder, known as ZOOKEEPER-4541" of what is reported upstream."""
    own = [one["figures"] for one in results.get("verdicts", ()) if one["checker"] == HEALTH]
    return [
        f"{HEALTH} {kind}" + (f", known as {reported[kind]}" if kind in reported else "")
        for figures in own
        for reported in [figures.get("reported", {})]
        for kind, count in figures.get("anomalies", {}).items()
        if count
    ]


def nights_before(path: Path) -> EarlierNights:
    """Return the nights of this matrix that began before the one in `path`; a night whose journal
    cannot be read counts as none."""
    records: dict[str, CellRecord] = {}
    nights: list[Night] = []
    for journal in sorted(path.parent.glob(f"*/{JOURNAL}")):
        if journal.parent.name < path.name:
            try:
                night = Night.read(journal.parent, repair=False)
            except HarnessError:
                continue
            add_night(records, night)
            nights = recent(nights, night)
    return EarlierNights(records, nights)


def add_night(records: dict[str, CellRecord], night: Night) -> None:
    """Append the runs of a night to the records of their cells."""
    for cell, slots in night.cells.items():
        records.setdefault(cell, CellRecord()).add(slots)
