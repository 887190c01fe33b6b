"""Exact binomial bounds of the rate of an anomaly, given a few tries, and whether two rates differ.

Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case of the
binomial", Biometrika 26 (1934): a bound never claims more than its confidence, however few the
tries are. Wilson's interval is narrower, but its lower end after hits alone is too high, and the
number of tries that a bisection asks for would be too low.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from math import ceil, exp, inf, lgamma, log, log1p
from typing import Final

CONFIDENCE: Final = 0.95
EXCLUDED: Final = 0.01
"""Rate of which a share says how many more tries would exclude it."""
_STEPS: Final = 45
"""Number of halvings of [0, 1]."""
_NEGLIGIBLE: Final = 1e-15
"""Relative size of a term at which a sum stops once its terms fall."""


@cache
def lower_bound(hits: int, tries: int, alpha: float) -> float:
    """Return the rate below which that many hits, or more, have a probability under `alpha`."""
    assert 0 <= hits <= tries, f"{hits} of {tries}"
    if hits == 0:
        return 0.0
    return _root(lambda rate: _at_least(hits, tries, rate) < alpha)


def upper_bound(hits: int, tries: int, alpha: float) -> float:
    """Return the rate above which that few hits, or fewer, have a probability under `alpha`."""
    return 1 - lower_bound(tries - hits, tries, alpha)


def interval(hits: int, tries: int, confidence: float) -> tuple[float, float]:
    """Return the two-sided interval of the rate; it is (0, 1) without a try."""
    alpha = (1 - confidence) / 2
    return lower_bound(hits, tries, alpha), upper_bound(hits, tries, alpha)


def misses_needed(rate: float, alpha: float) -> float:
    """Return how many tries without a hit have a probability of at most `alpha` if every try hits
    with this rate; infinity for a rate of 0."""
    if rate <= 0:
        return inf
    if rate >= 1:
        return 1
    return max(1, ceil(log(alpha) / log1p(-rate)))


def _at_least(hits: int, tries: int, rate: float) -> float:
    """Return the probability of that many hits or more."""
    if rate <= 0 or rate >= 1:
        return float(rate >= 1)
    term = exp(_log_ways(tries, hits) + hits * log(rate) + (tries - hits) * log1p(-rate))
    total, odds = term, rate / (1 - rate)
    for k in range(hits, tries):
        term *= odds * (tries - k) / (k + 1)
        total += term
        if term < total * _NEGLIGIBLE and k > tries * rate:
            break
    return min(total, 1.0)


def _root(below: Callable[[float], bool]) -> float:
    """Return where a predicate that holds from 0 on ends."""
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if below(middle):
            low = middle
        else:
            high = middle
    return low


def fisher(hits: int, tries: int, other_hits: int, other_tries: int) -> float:
    """Return the probability of two counts that differ as much as these, or more, if both have the
    same rate: Fisher's exact test, two-sided. It is 1 without tries on one of the sides.

    Fisher, "On the interpretation of chi-squared from contingency tables", Journal of the Royal
    Statistical Society 85 (1922).
    """
    assert 0 <= hits <= tries, f"{hits} of {tries}"
    assert 0 <= other_hits <= other_tries, f"{other_hits} of {other_tries}"
    both = hits + other_hits

    def probability(n: int) -> float:
        """Return the probability of n hits on the first side, given the sum of both."""
        ways = _log_ways(tries, n) + _log_ways(other_tries, both - n)
        return exp(ways - _log_ways(tries + other_tries, both))

    seen = probability(hits) * (1 + 1e-9)  # the rounding of sums of logarithms
    every = map(probability, range(max(0, both - other_tries), min(tries, both) + 1))
    return min(1.0, sum(one for one in every if one <= seen))


def _log_ways(of: int, chosen: int) -> float:
    return lgamma(of + 1) - lgamma(chosen + 1) - lgamma(of - chosen + 1)


@dataclass(frozen=True, slots=True)
class Share:
    """Number of hits among tries, and the interval of their rate."""

    hits: int
    tries: int

    @staticmethod
    def of(hits: Iterable[bool | None]) -> "Share":
        """Return the share of hits; None is no try."""
        tries = [hit for hit in hits if hit is not None]
        return Share(sum(tries), len(tries))

    @property
    def rate(self) -> float:
        """Return the share of the tries that hit; 0 without a try."""
        return self.hits / self.tries if self.tries else 0.0

    @property
    def bounds(self) -> tuple[float, float]:
        """Return the interval of the rate (Clopper and Pearson, 95 %)."""
        return interval(self.hits, self.tries, CONFIDENCE)

    @property
    def text(self) -> str:
        """Return "12 % (4–31 %)"; "–" without a try."""
        if not self.tries:
            return "–"
        low, high = self.bounds
        return f"{percent(self.rate)} ({percent(low, unit='')}–{percent(high)})"

    @property
    def counted(self) -> str:
        """Return "3 of 25 runs, 12 % (2.5–31 %)"; "no runs" without a try."""
        return f"{self.hits:,} of {self.tries:,} runs, {self.text}" if self.tries else "no runs"

    @property
    def more_needed(self) -> int:
        """Return how many more runs without a hit would exclude a rate of EXCLUDED; 0 once it is
        excluded, or after a hit."""
        if self.hits:
            return 0
        return max(0, ceil(log((1 - CONFIDENCE) / 2) / log1p(-EXCLUDED)) - self.tries)


def percent(rate: float, unit: str = " %") -> str:
    """Return a rate in per cent with two digits: "0.53 %", "12 %"."""
    return f"{float(f'{100 * rate:.2g}'):g}{unit}"


@dataclass(frozen=True, slots=True)
class SequentialTest:
    """Sequential probability ratio test of the rate of an anomaly: it asks for tries until the rate
    counts as high enough or too low. Wald, "Sequential tests of statistical hypotheses", Annals of
    Mathematical Statistics 16 (1945).
    """

    reject_rate: float
    """Rate at which (or below) an anomaly that is too rare is accepted with probability alpha."""
    accept_rate: float
    """Rate at which (or above) one that is frequent enough is rejected with probability beta."""
    alpha: float = 0.05
    beta: float = 0.05

    def decided(self, hits: int, tries: int) -> bool | None:
        """Return whether the rate is high enough, by the results of all tries; None: try again."""
        assert 0 <= hits <= tries, f"{hits} of {tries}"
        low, high = self.reject_rate, self.accept_rate
        ratio = hits * log(high / low) + (tries - hits) * log((1 - high) / (1 - low))
        if ratio >= log((1 - self.beta) / self.alpha):
            return True
        return False if ratio <= log(self.beta / (1 - self.alpha)) else None
