"""Trends over nights: how often each cell was INVALID, with the interval of that rate. The table of
settings: how often and how long the reads of each way to insert and read were stale."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Final

from harness.core.verdict import Status
from harness.nights.night import Slot
from harness.run.rates import Share
from harness.web.nights import NightView
from harness.web.summary import Summary

NIGHTS_SHOWN: Final = 30
"""Number of nights in a trend."""


@dataclass(frozen=True)
class CellTrend:
    """One cell on one version, over nights."""

    cell: str
    version: str
    nights: Sequence[NightView]
    slots: Sequence[Sequence[Slot]]
    """Its runs in each night."""
    run: Summary | None = None
    """The last of them that the store has, which leads to all."""

    @cached_property
    def points(self) -> Sequence[Share]:
        """Return how often it was INVALID among the runs of each night that have a verdict."""
        return tuple(share_of(of) for of in self.slots)

    @cached_property
    def total(self) -> Share:
        """Return how often it was INVALID in all nights."""
        return share_of([slot for of in self.slots for slot in of])

    @property
    def counts(self) -> Counter[str]:
        """Return the number of runs of the last night by status."""
        return Counter(slot.verdict.value for slot in self.slots[-1])

    @property
    def unknown(self) -> int:
        """Return the number of runs without a conclusion."""
        return sum(len(of) for of in self.slots) - self.total.tries

    @property
    def kinds(self) -> Counter[str]:
        """Return the number of runs with each kind of anomaly."""
        return Counter(kind for of in self.slots for slot in of for kind in slot.kinds)

    @property
    def new(self) -> tuple[str, ...]:
        """Return the findings of the last of its nights that none before had."""
        *before, last = [of for of in self.slots if of] or [()]
        return tuple(sorted(_findings([last]) - _findings(before))) if before else ()

    @property
    def unseen(self) -> tuple[str, ...]:
        """Return the findings of nights before that the last of its nights does not have."""
        *before, last = [of for of in self.slots if of] or [()]
        return tuple(sorted(_findings(before) - _findings([last])))

    @property
    def first_s(self) -> float | None:
        """Return the median time to the first anomaly."""
        every = [slot.first_ns for of in self.slots for slot in of]
        times = [first_ns / 1e9 for first_ns in every if first_ns is not None]
        return median(times) if times else None


def _findings(nights: Iterable[Iterable[Slot]]) -> set[str]:
    return {finding for of in nights for slot in of for finding in slot.findings}


def share_of(slots: Iterable[Slot]) -> Share:
    """Return how many of the runs with a conclusion are INVALID."""
    statuses = [slot.verdict for slot in slots]
    hits = statuses.count(Status.INVALID)
    return Share(hits, hits + statuses.count(Status.VALID))


def trends(nights: Sequence[NightView], runs: Mapping[str, Summary]) -> list[CellTrend]:
    """Return the trends of all cells of nights of one matrix, the earliest night first; `runs` are
    the runs of the store by name, which know the versions that older journals do not tell."""
    shown = nights[-NIGHTS_SHOWN:]
    found: dict[tuple[str, str], list[list[Slot]]] = {}
    last: dict[tuple[str, str], Summary | None] = {}
    for at, view in enumerate(shown):
        for slot in view.slots:
            run = runs.get(slot.path or "")
            key = slot.cell, slot.servers or (run.version if run is not None else "")
            found.setdefault(key, [[] for _ in shown])[at].append(slot)
            last[key] = run or last.get(key)
    return [CellTrend(*key, shown, slots, last[key]) for key, slots in sorted(found.items())]


@dataclass(frozen=True)
class SettingsRow:
    """All runs of one way to insert and to read, on one version and under the same kind of load."""

    insert: str
    quorum: str
    read: str
    version: str
    runs: Sequence[Summary]

    @cached_property
    def invalid(self) -> Share:
        """Return how many of the runs with a conclusion broke their promise."""
        statuses = [run.status for run in self.runs]
        hits = statuses.count(Status.INVALID.value)
        return Share(hits, hits + statuses.count(Status.VALID.value))

    @cached_property
    def stale_runs(self) -> Share:
        """Return how many runs had a stale read, promised or not."""
        known = [run.staleness for run in self.runs if run.staleness is not None]
        return Share(sum(one.stale > 0 for one in known), len(known))

    @property
    def inserts(self) -> Share:
        """Return how many acknowledged inserts some later read missed at first."""
        known = [run.staleness for run in self.runs if run.staleness is not None]
        return Share(sum(one.stale for one in known), sum(one.inserts for one in known))

    @property
    def lost(self) -> int:
        """Return the number of acknowledged inserts that were lost."""
        return sum(run.staleness.lost for run in self.runs if run.staleness is not None)

    @property
    def median_ms(self) -> float | None:
        """Return the median over the runs of the median time for which an insert was missed."""
        every = [run.staleness.median_ms for run in self.runs if run.staleness is not None]
        known = [ms for ms in every if ms is not None]
        return median(known) if known else None

    @property
    def max_ms(self) -> float | None:
        """Return the longest time for which an insert was missed."""
        every = [run.staleness.max_ms for run in self.runs if run.staleness is not None]
        return max((ms for ms in every if ms is not None), default=None)


def settings_table(runs: Iterable[Summary]) -> list[SettingsRow]:
    """Return the rows of the table of settings, from the runs of quorum-set."""
    found: dict[tuple[str, str, str, str], list[Summary]] = {}
    for run in runs:
        if run.modes is not None and run.group == "run":
            found.setdefault((*run.modes, run.version), []).append(run)
    return [SettingsRow(*key, of) for key, of in sorted(found.items())]
