"""One try to reproduce an anomaly, and the counts of several."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import msgspec

from harness.core.verdict import Status
from harness.run.campaign import FinishedRun
from harness.run.rates import interval, upper_bound

INCONCLUSIVE_MAX: Final = 3
"""Number of inconclusive tries that end the tries of a version if they are the majority."""


class TryResult(StrEnum):
    """Result of one try."""

    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not reproduced"
    UNKNOWN = "UNKNOWN"
    """The checkers reached no conclusion, or the try was interrupted."""
    BROKE_OFF = "broke off"
    """A step of its script or the cluster failed."""


class Trial(msgspec.Struct, frozen=True):
    """One try: a run, which is stored like any other, and what it says about the anomaly."""

    result: TryResult
    why: str | None = None
    """Reason why the try is inconclusive; None if it is conclusive."""
    run: str | None = None
    """Directory of the run; None if it did not start."""
    status: Status | None = None
    """Verdict of the run; None if there is none."""
    kinds: tuple[str, ...] = ()
    """Kinds of the anomalies that decide the verdict."""

    @staticmethod
    def of(run: FinishedRun, result: TryResult, why: str | None = None) -> "Trial":
        """Return the try that a finished run was."""
        judgement = run.outcome.judgement
        path = str(run.directory.path)
        return Trial(result, why or None, path, judgement.status, judgement.broken_kinds)


@dataclass(frozen=True, slots=True)
class TryCounts:
    """Number of tries by result."""

    counts: Mapping[TryResult, int]

    @staticmethod
    def of(results: Iterable[TryResult]) -> "TryCounts":
        """Return the counts of these results."""
        listed = list(results)
        return TryCounts({result: listed.count(result) for result in TryResult})

    @property
    def hits(self) -> int:
        """Number of tries that reproduced the anomaly."""
        return self.counts[TryResult.REPRODUCED]

    @property
    def misses(self) -> int:
        """Number of tries that certainly did not reproduce it."""
        return self.counts[TryResult.NOT_REPRODUCED]

    @property
    def conclusive(self) -> int:
        """Number of conclusive tries."""
        return self.hits + self.misses

    @property
    def total(self) -> int:
        """Number of tries."""
        return sum(self.counts.values())

    @property
    def stuck(self) -> bool:
        """Return whether more tries are not worth while."""
        rest = self.total - self.conclusive
        return rest >= INCONCLUSIVE_MAX and rest > self.conclusive

    def rate(self, confidence: float) -> tuple[float, float]:
        """Return the interval of the rate of reproduction."""
        return interval(self.hits, self.conclusive, confidence)

    def excluded_above(self, confidence: float) -> float:
        """Return the rate above which the few hits exclude every rate."""
        return upper_bound(self.hits, self.conclusive, 1 - confidence)
