"""Series of numbers and mutexes: literal histories, whole verdicts."""

from collections.abc import Sequence
from itertools import permutations

import pytest
from checkers_cases import Event, history, read
from hypothesis import given
from hypothesis import strategies as st

from checkers.consistency.linearizable import Linearizable
from checkers.consistency.objects import MutexObject, ObjectModel, SerialObject
from checkers.suite import mutex_checkers, serial_checkers
from harness.core.errors import HistoryError
from harness.core.history import History
from harness.core.verdict import Status, Verdict

VALID, INVALID, UNKNOWN = Status.VALID, Status.INVALID, Status.UNKNOWN


def call(
    process: int, f: str, begin: int, end: int, kind: str = "ok", *, value=None, answer=None, key=0
) -> list[Event]:
    events = read(process, None, begin, end, kind, f=f, key=key)
    events[0].op["value"] = value
    events[1].op["value"] = answer
    return events


def take(process, number, begin, end, kind="ok", *, f="next", key=0):
    return call(process, f, begin, end, kind, answer=number, key=key)


def acquire(process, token, begin, end, kind="ok", *, key=0):
    return call(process, "acquire", begin, end, kind, value=token, answer=token, key=key)


def release(process, token, begin, end, kind="ok", *, key=0):
    return call(process, "release", begin, end, kind, value=token, answer=token, key=key)


def judged(model: ObjectModel, h: History) -> Verdict:
    return Linearizable("linearizable", model).check_within(h, 10.0)


SERIES = {
    "numbers follow each other": ([take(0, 0, 0, 1), take(1, 1, 2, 3)], VALID),
    "calls at the same time have either order": ([take(0, 1, 0, 9), take(1, 0, 0, 9)], VALID),
    "two calls have one number": ([take(0, 0, 0, 1), take(1, 0, 2, 3)], INVALID),
    "a later call has the lower number": (
        [take(0, 1, 0, 1), take(1, 0, 2, 3)], INVALID,
    ),
    "a number is missing, and no call was lost": (
        [take(0, 0, 0, 1), take(1, 2, 2, 3)], INVALID,
    ),
    "a lost call took the missing number": (
        [take(0, 0, 0, 1), take(2, None, 1, 2, "info"), take(1, 2, 2, 3)], VALID,
    ),
    "the call that was lost began too late to take it": (
        [take(0, 0, 0, 1), take(1, 2, 2, 3), take(2, None, 4, 5, "info")], INVALID,
    ),
    "a refused call took none": (
        [take(0, 0, 0, 1), take(2, None, 1, 2, "fail"), take(1, 2, 2, 3)], INVALID,
    ),
    "a series that begins again": (
        [take(0, 0, 0, 1), take(0, 0, 5, 6, f="final-next")], INVALID,
    ),
    "each series counts by itself": ([take(0, 0, 0, 1), take(1, 0, 2, 3, key=1)], VALID),
    "nobody got a number": ([take(0, None, 0, 1, "info")], UNKNOWN),
}  # fmt: skip


@pytest.mark.parametrize("case", SERIES)
def test_series(case: str) -> None:
    calls, status = SERIES[case]
    assert judged(SerialObject(), history(*calls)).status is status


def test_the_witness_of_a_series_says_which_calls_got_which_number() -> None:
    verdict = judged(SerialObject(), history(take(0, 0, 0, 1), take(1, 0, 2, 3)))
    assert verdict.summary == "1 of 1 key not linearizable (2 numbers)"
    assert verdict.anomalies[0].steps == (
        "op #0 next on ch1 began at 0.000 s and returned 0 at 0.001 s (op #1)",
        "op #2 next on ch1 began at 0.002 s and returned 0 at 0.003 s (op #3)",
    )


def test_an_answer_that_is_no_number_is_refused() -> None:
    with pytest.raises(HistoryError, match="op #1: next returned None, no number"):
        judged(SerialObject(), history(take(0, None, 0, 1)))


MUTEXES = {
    "one after the other": ([acquire(0, 1, 0, 1), release(0, 2, 2, 3), acquire(1, 3, 4, 5)], VALID),
    "two hold it": ([acquire(0, 1, 0, 1), acquire(1, 2, 2, 3)], INVALID),
    "each mutex is another": ([acquire(0, 1, 0, 1), acquire(1, 2, 2, 3, key=1)], VALID),
    "its release is in flight": (
        [acquire(0, 1, 0, 1), release(0, 2, 2, 9, "info"), acquire(1, 3, 4, 5)], VALID,
    ),
    "its release was refused": (
        [acquire(0, 1, 0, 1), release(0, 2, 2, 3, "fail"), acquire(1, 3, 4, 5)], INVALID,
    ),
    "an acquire without an answer may hold it for good": (
        [acquire(0, 1, 0, 1, "info"), acquire(1, 2, 2, 3)], VALID,
    ),
    "a refused acquire does not hold it": (
        [acquire(0, 1, 0, 1, "fail"), acquire(1, 2, 2, 3), release(1, 3, 4, 5)], VALID,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MUTEXES)
def test_mutexes(case: str) -> None:
    calls, status = MUTEXES[case]
    assert judged(MutexObject(), history(*calls)).status is status


def test_too_little_is_unknown() -> None:
    for checkers in (serial_checkers, mutex_checkers):
        names = [checker.name for checker in checkers(faults_expected=False)]
        assert names == ["stats", "linearizable"]
        stats = checkers(faults_expected=False)[0]
        assert stats.check(history(take(0, 0, 0, 1))).status is UNKNOWN


def explained(calls: Sequence[tuple[int, int, int | None]]) -> bool:
    """Return whether some order of these calls (begin, end, number; None: lost, which may be left
    out) keeps real time and gives each its number."""
    lost = [at for at, (_, _, number) in enumerate(calls) if number is None]
    for chosen in range(1 << len(lost)):
        out = {lost[i] for i in range(len(lost)) if not chosen >> i & 1}
        taken = [one for at, one in enumerate(calls) if at not in out]
        if any(_fits(order) for order in permutations(taken)):
            return True
    return False


def _fits(order: Sequence[tuple[int, int, int | None]]) -> bool:
    return all(
        number in (None, at) and all(later[2] is None or later[1] >= begin for later in order[at:])
        for at, (begin, _, number) in enumerate(order)
    )


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(1, 5), st.none() | st.integers(0, 4)), max_size=5
    )
)
def test_the_checker_agrees_with_the_definition(
    drawn: list[tuple[int, int, int | None]],
) -> None:
    calls = [(begin, begin + took, number) for begin, took, number in drawn]
    h = history(
        *(
            take(process, number, begin, end, "info" if number is None else "ok")
            for process, (begin, end, number) in enumerate(calls)
        )
    )
    if any(number is not None for *_, number in calls):
        assert (judged(SerialObject(), h).status is VALID) == explained(calls)
