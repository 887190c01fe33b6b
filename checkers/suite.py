"""The checkers of workloads on sets and on registers."""

from collections.abc import Mapping, Sequence
from math import inf

from msgspec import structs

from checkers.consistency.linearizable import Linearizable
from checkers.consistency.objects import (
    ACQUIRE,
    NEXT,
    RELEASE,
    MutexObject,
    RegisterObject,
    SerialObject,
)
from checkers.consistency.session import SESSION_GUARANTEES
from checkers.ladder import Level
from checkers.sets.convergence import Convergence
from checkers.sets.set_full import SetFull
from checkers.stats import MIN_OK, Stats
from harness.core.history import History
from harness.core.protocols import Checker, check_within
from harness.core.ranges import Quorum
from harness.core.verdict import Status, Verdict


def set_checkers(
    promise: Level,
    *,
    faults_expected: bool,
    min_ok: Mapping[str, int] = MIN_OK,
    fresh: bool = False,
    copies: Quorum = 1,
    documented: str = "",
    more: Sequence[Checker] = (),
) -> tuple[Checker, ...]:
    """Return the checkers of every level of the ladder, whatever the promise. The quick ones come
    first, so that a deadline cuts short only the slow ones.

    `fresh`: a read must have every value that was acknowledged before it began, even if the promise
    is weaker. `copies`: number of replicas that have an acknowledged value. `documented`: reason
    that the documentation gives why the levels above eventual do not hold. `more`: the workload's
    own checkers.
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
        SetFull(linearizable=fresh or promise is Level.LINEARIZABLE, copies=copies),
        Convergence(),
        *more,
        *orders,
    )


def register_checkers(
    *, faults_expected: bool, model: type[RegisterObject] = RegisterObject
) -> tuple[Checker, ...]:
    """Return the checkers of both levels that apply to registers."""
    least = {"write": 10, "read": 10}
    return (
        Stats(min_ok=least, faults_expected=faults_expected, final_read="final-read"),
        Linearizable("linearizable", model()),
        Linearizable("sequential", model()),
    )


def serial_checkers(*, faults_expected: bool) -> tuple[Checker, ...]:
    """Return the checkers of series of numbers."""
    taken, final = NEXT
    return (
        Stats(min_ok={taken: 10}, faults_expected=faults_expected, final_read=final),
        Linearizable("linearizable", SerialObject()),
    )


def mutex_checkers(*, faults_expected: bool) -> tuple[Checker, ...]:
    """Return the checkers of mutexes."""
    return (
        # Most calls end as fail, because another client holds the mutex.
        Stats(min_ok={ACQUIRE: 5, RELEASE: 5}, min_ok_total=10, faults_expected=faults_expected),
        Linearizable("linearizable", MutexObject()),
    )


class Documented:
    """Judges as another checker does, and adds to an INVALID that the documentation does not
    promise it.

    The status stays INVALID: the level does not hold, and `--promise` decides whether that counts.
    """

    def __init__(self, checker: Checker, reason: str) -> None:
        """Create a checker; `reason` is a text such as "ClickHouse documents that A does not work
        with B"."""
        self.name = checker.name
        """Name of the other checker, which decides the level of the ladder."""
        self._checker = checker
        self._reason = reason

    def check(self, history: History) -> Verdict:
        """Return the verdict of the other checker, with the reason in the summary of INVALID."""
        return self.check_within(history, inf)

    def check_within(self, history: History, budget_s: float) -> Verdict:
        """Return the same verdict, with a time budget for the other checker if it takes one."""
        verdict = check_within(self._checker, history, budget_s)
        if verdict.status is not Status.INVALID:
            return verdict
        return structs.replace(verdict, summary=f"{verdict.summary} ({self._reason})")
