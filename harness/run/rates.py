"""Exact binomial bounds of the rate of an anomaly, given a few tries.

Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case of the
binomial", Biometrika 26 (1934): a bound never claims more than its confidence, however few the
tries are. Wilson's interval is narrower, but its lower end after hits alone is too high, and the
number of tries that a bisection asks for would be too low.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import ceil, exp, inf, lgamma, log, log1p
from typing import Final

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
    log_ways = lgamma(tries + 1) - lgamma(hits + 1) - lgamma(tries - hits + 1)
    term = exp(log_ways + hits * log(rate) + (tries - hits) * log1p(-rate))
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
