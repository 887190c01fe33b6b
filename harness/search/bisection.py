"""Search for the server versions between which an anomaly appears or disappears.

Nothing here runs anything: `Bisection` takes the result of every try and names the next version. It
starts from one version that shows the anomaly, tries the newest and the oldest version, and halves
the range between. One reproduction makes a version bad. No number of other tries makes it good for
certain, because the anomaly may be rare; so the rate is measured first, on the version that shows
it:

- Let alpha be 1 - confidence. Half of it is the risk that the measured rate, whose lower bound
  is used, is too high. The versions that may be called good share the other half, so that the
  whole answer is wrong with probability alpha at most.
- A version is good after as many tries without a reproduction as have a probability below its
  share if the anomaly were there with that rate. With too few tries it is undecided.

Two assumptions: a version with the bug shows it at least as often as the version on which the rate
was measured, and on each side of that version the bug begins, or ends, once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import ceil, log2
from typing import Final

from harness.run.rates import lower_bound, misses_needed
from harness.run.trial import TryCounts, TryResult

SEARCH_TRIES: Final = 10
"""Number of tries on each version while none is known to show the anomaly."""
CONFIDENCE: Final = 0.99
TRIES_MAX: Final = 100


class Standing(StrEnum):
    """Classification of a version."""

    BAD = "bad"
    GOOD = "good"
    UNDECIDED = "UNKNOWN"
    OPEN = "open"
    """More tries may decide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """Place where the anomaly begins or ends, as far as it is known."""

    fixed: bool
    """True if the bug ends there, in the order of the versions; False if it begins."""
    bad: str
    """Bad version next to it."""
    good: str | None
    """Good version next to it; None if no version of that side is known to be good."""
    between: tuple[str, ...]
    """Undecided versions, from bad to good, or to the end of the list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Result of all tries together."""

    reference: str | None
    """Version on which the rate was measured; None if the anomaly was not reproduced."""
    boundaries: tuple[Boundary, ...]
    """Boundaries, at most one on each side; a side whose last version is bad has none."""
    confidence: float
    """Confidence that the versions called good are good; 0 if no number of tries was asked for and
    reached."""

    @property
    def decided(self) -> bool:
        """Return whether every boundary lies between two neighbours, or every version is bad."""
        return self.reference is not None and all(
            one.good is not None and not one.between for one in self.boundaries
        )


class Bisection:
    """Bisection that asks for tries on versions until their results decide; `versions` go from old
    to new.

    With `confidence` None, `tries` decide on each version, and the answer has the confidence that
    this gives. Otherwise `tries` is the maximum for one version.
    """

    def __init__(
        self,
        versions: Sequence[str],
        *,
        confidence: float | None = CONFIDENCE,
        tries: int = TRIES_MAX,
        suspect: str | None = None,
    ) -> None:
        assert len(set(versions)) == len(versions) >= 2, "two versions or more, each once"
        assert suspect is None or suspect in versions, f"{suspect} is not among the versions"
        self.versions = tuple(versions)
        self.confidence = confidence
        self._tries = tries
        self._results: dict[str, list[TryResult]] = {version: [] for version in versions}
        self._refused: dict[str, str] = {}
        first = [suspect] if suspect is not None else []
        ends = [versions[0], versions[-1], *versions]
        self._search_order = tuple(dict.fromkeys([*first, *ends]))

    def take(self, version: str, result: TryResult) -> None:
        """Count a try."""
        self._results[version].append(result)

    def refuse(self, version: str, why: str) -> None:
        """Note that nothing can be tried on a version."""
        self._refused[version] = why

    def tally(self, version: str) -> TryCounts:
        """Return the results on a version."""
        return TryCounts.of(self._results[version])

    def next(self) -> str | None:
        """Return the version to try next; None: all that can be decided is."""
        reference = self.reference
        if reference is None:
            return next((v for v in self._search_order if not self._searched(v)), None)
        if not self._measured(reference):
            return reference
        for side in self._sides(reference):
            probe, _ = self._look(reference, side)
            if probe is not None:
                return probe
        return None

    @property
    def reference(self) -> str | None:
        """Version on which the rate is measured: the first one in the order of the search that
        showed the anomaly."""
        return next((v for v in self._search_order if self.tally(v).hits), None)

    def standing(self, version: str) -> Standing:
        """Return whether the tries so far show that a version is bad or good, leave it undecided,
        or are too few."""
        tally = self.tally(version)
        if tally.hits:
            return Standing.BAD
        needed = self.needed
        if needed is not None and tally.misses >= needed:
            return Standing.GOOD
        if self._closed(version):
            return Standing.UNDECIDED
        return Standing.OPEN

    @property
    def needed(self) -> float | None:
        """Return how many tries without a reproduction make a version good; None before the rate is
        measured."""
        reference = self.reference
        if reference is None:
            return None
        if self.confidence is None:
            return self._tries
        return self._misses_needed(reference, 1 - self.confidence)

    def answer(self) -> Answer:
        """Return what is known up to now."""
        reference = self.reference
        if reference is None:
            return Answer(reference=None, boundaries=(), confidence=0.0)
        found = [self._look(reference, side)[1] for side in self._sides(reference)]
        boundaries = tuple(one for one in found if one is not None)
        return Answer(
            reference=reference, boundaries=boundaries, confidence=self._confidence(reference)
        )

    def _searched(self, version: str) -> bool:
        enough = self._tries if self.confidence is None else min(self._tries, SEARCH_TRIES)
        return self.tally(version).misses >= enough or self._closed(version)

    def _closed(self, version: str) -> bool:
        """Return whether no more tries are made on a version, whatever is known of it."""
        tally = self.tally(version)
        return version in self._refused or tally.stuck or tally.conclusive >= self._tries

    def _measured(self, reference: str) -> bool:
        """Return whether more tries on the reference would not pay, because a good version needs no
        more tries than the measurement took."""
        if self._closed(reference):
            return True
        if self.confidence is None:
            return False
        needed = self._misses_needed(reference, 1 - self.confidence)
        return needed <= self.tally(reference).conclusive

    def _misses_needed(self, reference: str, alpha: float) -> float:
        tally = self.tally(reference)
        rate = lower_bound(tally.hits, tally.conclusive, alpha / 2)
        return misses_needed(rate, alpha / 2 / self._calls_max(reference))

    def _calls_max(self, reference: str) -> int:
        """Return how many versions may have to be called good on the way to the answer: on each
        side its last one and those of the halving."""
        lengths = [len(side) for side in self._sides(reference)]
        return max(1, sum(1 + ceil(log2(length)) for length in lengths if length))

    def _confidence(self, reference: str) -> float:
        if self.confidence is not None:
            return self.confidence
        misses = [self.tally(v).misses for v in self.versions if self.standing(v) is Standing.GOOD]
        if not misses:
            return 0.0
        low, high = 0.0, 1.0  # the greatest confidence for which the tries suffice
        for _ in range(40):
            middle = (low + high) / 2
            if self._misses_needed(reference, 1 - middle) <= min(misses):
                low = middle
            else:
                high = middle
        return low

    def _sides(self, reference: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the newer and the older versions, from the reference on."""
        at = self.versions.index(reference)
        return self.versions[at + 1 :], self.versions[:at][::-1]

    def _look(self, reference: str, side: Sequence[str]) -> tuple[str | None, Boundary | None]:
        """Return the version of a side to try next, and the boundary as far as it is known."""
        if not side:
            return None, None
        line = (reference, *side)
        bad, good, probe = 0, len(line), None
        for i in range(len(line) - 1, 0, -1):  # from the far end: the first that tells
            standing = self.standing(line[i])
            if standing is Standing.UNDECIDED:
                continue
            if standing is Standing.OPEN:
                probe = line[i]
            elif standing is Standing.BAD:
                bad = i
            else:
                good = i
            break
        while good < len(line):
            open_ = [
                i for i in range(bad + 1, good) if self.standing(line[i]) != Standing.UNDECIDED
            ]
            if not open_:
                break
            middle = open_[len(open_) // 2]
            standing = self.standing(line[middle])
            if standing is Standing.OPEN:
                probe = line[middle]
                break
            if standing is Standing.BAD:
                bad = middle
            else:
                good = middle
        if bad == len(line) - 1:
            return None, None
        boundary = Boundary(
            fixed=self.versions.index(side[0]) > self.versions.index(reference),
            bad=line[bad],
            good=line[good] if good < len(line) else None,
            between=line[bad + 1 : good],
        )
        return probe, boundary
