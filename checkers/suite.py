"""The checkers that judge workloads on sets and on registers."""

from collections.abc import Mapping, Sequence

from checkers.convergence import Convergence
from checkers.documented import Documented
from checkers.ladder import Level
from checkers.linearizable import Linearizable
from checkers.objects import RegisterObject
from checkers.session import SESSION_GUARANTEES
from checkers.set_full import SetFull
from checkers.stats import MIN_OK, Stats
from harness.core.protocols import Checker


def set_checkers(
    promise: Level,
    *,
    faults_expected: bool,
    min_ok: Mapping[str, int] = MIN_OK,
    fresh: bool = False,
    documented: str = "",
    more: Sequence[Checker] = (),
) -> tuple[Checker, ...]:
    """Every level of the ladder is judged, whatever the promise; the quick ones first, so that
    a deadline costs no more than the slow ones.

    `fresh`: a read has every value that was acknowledged before it began, whatever else is
    promised. `documented`: why the levels above eventual do not hold, if the documents say so.
    `more`: judges of a workload's own.
    """
    orders: tuple[Checker, ...] = (
        *SESSION_GUARANTEES,
        Linearizable("linearizable"),
        Linearizable("sequential"),
    )
    if documented:
        orders = tuple(Documented(checker, documented) for checker in orders)
    return (
        Stats(min_ok=min_ok, faults_expected=faults_expected),
        SetFull(linearizable=fresh or promise is Level.LINEARIZABLE),
        Convergence(),
        *more,
        *orders,
    )


def register_checkers(*, faults_expected: bool) -> tuple[Checker, ...]:
    """Both levels that registers are judged by."""
    least = {"write": 10, "read": 10}
    return (
        Stats(min_ok=least, faults_expected=faults_expected),
        Linearizable("linearizable", RegisterObject()),
        Linearizable("sequential", RegisterObject()),
    )
