"""Registers, by hand: what ZooKeeper's reads may and may not return."""

import pytest
from checkers_cases import history
from checkers_cases import read as set_read

from checkers.consistency.linearizable import Linearizable
from checkers.consistency.objects import RegisterObject
from checkers.suite import register_checkers
from harness.core.history import History
from harness.core.op import Kind
from harness.core.verdict import Status


def call(process, f, value, begin, end, kind="ok", *, answer=None):
    events = set_read(process, None, begin, end, kind, f=f)
    events[0].op["value"] = value
    events[1].op["value"] = answer if f.endswith("read") else value
    return events


def write(process, value, begin, end, kind="ok"):
    return call(process, "write", value, begin, end, kind)


def read(process, answer, begin, end, kind="ok", f="read"):
    return call(process, f, None, begin, end, kind, answer=answer)


def cas(process, expected, new, begin, end, kind="ok"):
    return call(process, "cas", (expected, new), begin, end, kind)


def judged(h: History) -> tuple[Status, Status]:
    """Return the statuses of linearizable and sequential."""
    model = RegisterObject()
    a, b = (
        Linearizable(level, model).check_within(h, 10.0) for level in ("linearizable", "sequential")
    )
    return a.status, b.status


VALID, INVALID = Status.VALID, Status.INVALID


def test_reads_of_the_latest_write_are_linearizable():
    h = history(
        read(1, None, 0, 1), write(0, 1, 2, 3), read(1, 1, 4, 5), cas(0, 1, 2, 6, 7),
        read(1, 2, 8, 9, f="final-read"),
    )  # fmt: skip
    assert judged(h) == (VALID, VALID)


def test_a_read_of_the_past_is_sequential_alone():
    h = history(write(0, 1, 0, 1), write(0, 2, 2, 3), read(1, 1, 4, 5))
    assert judged(h) == (INVALID, VALID)
    anomaly = Linearizable("linearizable", RegisterObject()).check_within(h, 10.0).anomalies[0]
    assert anomaly.steps[-2:-1] == (
        "op #4 read on ch1 began at 0.004 s and returned 1 at 0.005 s (op #5)",
    ) or any("read on ch1 began at 0.004 s and returned 1" in step for step in anomaly.steps)


def test_one_process_that_reads_backwards_is_not_even_sequential():
    h = history(write(0, 1, 0, 1), write(0, 2, 2, 3), read(1, 2, 4, 5), read(1, 1, 6, 7))
    assert judged(h) == (INVALID, INVALID)


def test_two_that_compare_with_one_value_cannot_both_have_set():
    lost_update = (write(0, 1, 0, 1), cas(0, 1, 2, 2, 9), cas(1, 1, 3, 2, 9))
    assert judged(history(*lost_update, read(2, 3, 10, 11))) == (INVALID, INVALID)


def test_a_cas_that_failed_says_nothing_and_one_without_an_end_may_have_happened():
    h = history(write(0, 1, 0, 1), cas(1, 7, 8, 2, 3, kind="fail"), read(2, 1, 4, 5))
    assert judged(h) == (VALID, VALID)
    for seen in (1, 9):
        h = history(write(0, 1, 0, 1), cas(1, 1, 9, 2, 3, kind="info"), read(2, seen, 4, 5))
        assert judged(h) == (VALID, VALID)


def test_too_little_is_unknown():
    names = [checker.name for checker in register_checkers(faults_expected=False)]
    assert names == ["stats", "linearizable", "sequential"]
    stats = register_checkers(faults_expected=False)[0]
    h = history(write(0, 1, 0, 1), read(1, 1, 2, 3))
    assert stats.check(h).status is Status.UNKNOWN
    assert all(op.kind in Kind for op in h)


FINALS = {
    "each register is read at the end, by one server": ([(0, "ok"), (1, "ok")], VALID, None),
    "the servers of one register are gone": (
        [(0, "ok"), (1, "info")], Status.UNKNOWN, "no final-read of key 1",
    ),
    "the run was stopped before the end": ([], Status.UNKNOWN, "no final-read of key 0, 1"),
}  # fmt: skip


@pytest.mark.parametrize("case", FINALS)
def test_what_nobody_read_at_the_end_may_be_lost(case: str) -> None:
    finals, status, doubt = FINALS[case]
    calls = [
        on(key, call)
        for key in (0, 1)
        for at in range(5 * key, 100, 10)
        for call in (write(0, at, at, at + 1), read(0, at, at + 2, at + 3))
    ]
    ends = [
        on(key, read(1 + key, 90 + 5 * key, 200, 201, end, "final-read")) for key, end in finals
    ]
    verdict = register_checkers(faults_expected=False)[0].check(history(*calls, *ends))
    assert (verdict.status, verdict.summary if doubt else None) == (status, doubt)


def on(key, events):
    for event in events:
        event.op["key"] = key
    return events
