"""Linearizable and sequential, key by key: what is handed to pyporcupine, and what comes back."""

import pytest
from checkers_cases import (
    fault,
    final,
    histories,
    history,
    insert,
    read,
    sound_histories,
)
from hypothesis import given
from hypothesis import strategies as st

from checkers.consistency.linearizable import Linearizable
from harness.core.history import History, Pair
from harness.core.op import Kind
from harness.core.verdict import Anomaly, Status, Verdict


def verdict(h: History, consistency="linearizable", budget_s=10.0) -> Verdict:
    return Linearizable(consistency).check_within(h, budget_s)


def test_a_sound_history():
    h = history(
        insert(0, 1, 0, 10), read(1, [1], 5, 9), read(1, [], 0, 3), read(2, [], 0, 9, key=4)
    )
    assert verdict(h) == Verdict(
        checker="linearizable",
        status=Status.VALID,
        summary="2 keys linearizable (3 reads)",
        checked=4,
        figures={
            "keys": 2,
            "reads_ok": 3,
            "writes": 1,
            "by_key": {"0": "VALID", "4": "VALID"},
            "anomalies": {},
        },
    )


def test_a_stale_read_is_a_cycle_told_in_words_with_the_fault():
    h = history(
        insert(0, 1, 0, 10),
        fault(15, None, "{ch2 zk2 | ch1 zk1}"),
        read(1, [], 20, 30, node="ch2"),
        read(2, [1], 40, 50),
    )
    result = verdict(h)
    assert (result.status, result.summary) == (
        Status.INVALID,
        "1 of 1 key not linearizable (2 reads)",
    )
    assert result.anomalies == (
        Anomaly(
            kind="cycle",
            text="key 0: a read missed the value 1, which had been added before (op #0, #4), "
            "during partition {ch2 zk2 | ch1 zk1}",
            ops=(0, 1, 4, 5),
            key=0,
            value=1,
            time_ns=30_000_000,
            steps=(
                "op #1 insert 1 on ch1 was acknowledged at 0.010 s",
                "op #4 read on ch2 began at 0.020 s and returned 0 values at 0.030 s (op #5) "
                "without 1, during partition {ch2 zk2 | ch1 zk1}",
                "no order explains them: #0 before #4 (it had ended before the other began), "
                "#4 before #0 (read misses 1)",
            ),
        ),
    )
    assert verdict(h, "sequential").status is Status.VALID


def test_two_reads_of_which_neither_contains_the_other():
    h = history(
        insert(0, 1, 0, 90), insert(1, 2, 0, 90), read(2, [1], 10, 20), read(3, [2], 10, 20)
    )
    result = verdict(h, "sequential")
    assert result.status is Status.INVALID
    assert result.anomalies[0].ops == (0, 1, 2, 3, 4, 5, 6, 7)
    assert result.anomalies[0].steps == (
        "op #0 insert 1 on ch1 began at 0.000 s",
        "op #1 insert 2 on ch1 began at 0.000 s",
        "op #2 read on ch1 began at 0.010 s and returned 1 value at 0.020 s (op #4) "
        "with 1 and without 2",
        "op #3 read on ch1 began at 0.010 s and returned 1 value at 0.020 s (op #5) "
        "with 2 and without 1",
        "no order explains them: #0 before #2 (read sees 1), #2 before #1 (read misses 2), "
        "#1 before #3 (read sees 2), #3 before #0 (read misses 1)",
    )


# The calls; then whether linearizable, and whether sequential.
CASES = {
    "a read at the nanosecond of the ack is concurrent": (
        [insert(0, 1, 0, 10), read(1, [], 10, 20)],
        ("VALID", "VALID"),
    ),
    "but a process knows its own order": (
        [insert(0, 1, 0, 10), read(0, [], 10, 20)],
        ("INVALID", "INVALID"),
    ),
    "final reads are reads": (
        [insert(0, 1, 0, 10), final(1, [], 20, 30)],
        ("INVALID", "VALID"),
    ),
    "an unknown insert may come late": (
        [insert(0, 1, 0, 10, "info"), read(1, [], 20, 30), read(1, [1], 40, 50)],
        ("VALID", "VALID"),
    ),
    "or never": ([insert(0, 1, 0), read(1, [], 20, 30)], ("VALID", "VALID")),
    "but it does not go again": (
        [insert(0, 1, 0, 10, "info"), read(1, [1], 20, 30), read(1, [], 40, 50)],
        ("INVALID", "INVALID"),
    ),
    "a refused insert does not come": (
        [insert(0, 1, 0, 10, "fail"), read(1, [1], 20, 30)],
        ("INVALID", "INVALID"),
    ),
    "a value from the future": (
        [read(1, [1], 0, 10), insert(0, 1, 20, 30)],
        ("INVALID", "VALID"),
    ),
    "a value twice in a read": (
        [insert(0, 1, 0, 10), read(1, [1, 1], 20, 30)],
        ("INVALID", "INVALID"),
    ),
    "unanswered reads say nothing": (
        [
            insert(0, 1, 0, 10),
            read(1, None, 20, 30, "fail"),
            read(2, None, 20, 30, "info"),
            read(3, None, 20),
            read(4, [1], 20, 30),
        ],
        ("VALID", "VALID"),
    ),
    "keys are separate": (
        [insert(0, 1, 0, 10), read(1, [], 20, 30, key=1), read(1, [1], 40, 50)],
        ("VALID", "VALID"),
    ),
    "one bad key is enough": (
        [
            insert(0, 1, 0, 10, key=1),
            read(1, [1], 20, 30, key=1),
            insert(0, 2, 20, 30),
            read(0, [], 40, 50),
        ],
        ("INVALID", "INVALID"),
    ),
    "inserts alone": ([insert(0, 1, 0, 10)], ("UNKNOWN", "UNKNOWN")),
    "nothing": ([], ("UNKNOWN", "UNKNOWN")),
    "only unknown outcomes": ([insert(0, 1, 0, 9, "info"), read(1, None, 0)], ("UNKNOWN",) * 2),
}


@pytest.mark.parametrize(("calls", "expected"), CASES.values(), ids=CASES)
def test_what_is_linearizable_and_what_is_sequential(calls, expected):
    h = history(*calls)
    assert (verdict(h).status, verdict(h, "sequential").status) == expected


def test_the_kinds_of_illegal_reads():
    kinds = {
        "phantom": [read(1, [7], 0, 10)],
        "duplicate": [insert(0, 1, 0, 9), read(1, [1, 1], 0, 10)],
    }
    for kind, calls in kinds.items():
        (anomaly,) = verdict(history(*calls)).anomalies
        assert anomaly.kind == kind


def test_no_time_is_unknown_and_says_which_key():
    h = history(read(0, [], 0, 10), read(0, [], 20, 30, key=5))
    result = verdict(h, budget_s=0.0)
    assert (result.status, result.summary) == (Status.UNKNOWN, "no time left for key 0, 5")


class TestClock:
    """Zero when it is made, and then a second at every look."""

    __test__ = False
    now = -1

    def now_ns(self):
        self.now += 1
        return self.now * 1_000_000_000


def test_a_key_that_the_time_did_not_reach_leaves_the_rest_unknown(monkeypatch):
    monkeypatch.setattr("checkers.consistency.linearizable.WallClock", TestClock)
    h = history(read(0, [], 0, 10), read(0, [], 20, 30, key=5))
    result = verdict(h, budget_s=0.5)
    assert (result.status, result.summary) == (Status.UNKNOWN, "no time left for key 5")
    assert result.figures["by_key"] == {"0": "VALID"}


def test_a_smaller_witness_comes_first():
    fork = [insert(0, 1, 0, 90), insert(1, 2, 0, 90), read(2, [1], 10, 20), read(3, [2], 10, 20)]
    stale = [insert(4, 3, 0, 10, key=9), read(5, [], 20, 30, key=9)]
    result = verdict(history(*fork, *stale))
    assert [anomaly.key for anomaly in result.anomalies] == [9, 0]
    assert result.figures["anomalies"] == {"cycle": 2}


def explained(h: History, precedes) -> bool:
    """Return whether some order explains the calls, by trying every order of effects."""
    calls = [
        p
        for p in h.pairs
        if (p.invoke.f == "insert" and p.kind is not Kind.FAIL)
        or (p.invoke.f != "insert" and p.kind is Kind.OK)
    ]
    must = {i for i, p in enumerate(calls) if p.kind is Kind.OK}
    seen, todo = set(), [frozenset()]
    while todo:
        placed = todo.pop()
        if must <= placed:
            return True
        state = sorted(calls[i].invoke.value for i in placed if calls[i].invoke.f == "insert")
        for i, p in enumerate(calls):
            free = all(j in placed for j, q in enumerate(calls) if j != i and precedes(q, p))
            legal = p.invoke.f == "insert" or sorted(p.end.value) == state
            if i not in placed and free and legal and placed | {i} not in seen:
                seen.add(placed | {i})
                todo.append(placed | {i})
    return False


def in_process(a: Pair, b: Pair) -> bool:
    return a.invoke.process == b.invoke.process and a.invoke.index < b.invoke.index


def in_real_time(a: Pair, b: Pair) -> bool:
    ended = a.kind is Kind.OK and a.end.time_ns < b.invoke.time_ns
    return ended or in_process(a, b)


@given(st.one_of(histories(calls=9), sound_histories(lag=1), sound_histories(lag=3)))
def test_it_agrees_with_every_order_tried(h):
    reads = any(p.invoke.f != "insert" and p.kind is Kind.OK for p in h.pairs)
    for consistency, precedes in (("linearizable", in_real_time), ("sequential", in_process)):
        expected = "UNKNOWN" if not reads else "VALID" if explained(h, precedes) else "INVALID"
        assert verdict(h, consistency).status == expected


@given(sound_histories(lag=2))
def test_a_witness_alone_is_still_illegal(h):
    for consistency in ("linearizable", "sequential"):
        for anomaly in verdict(h, consistency).anomalies:
            ops = set(anomaly.ops)
            calls = [p for p in h.pairs if p.invoke.index in ops]
            values = {p.invoke.value for p in calls if p.invoke.f == "insert"}
            assert calls
            alone = verdict(only(calls, values), consistency)
            assert alone.status is Status.INVALID


def only(calls: list[Pair], values: set[int]) -> History:
    """Return a history of only these calls, with reads cut down to the values."""
    out = []
    for p in calls:
        begin, process, kind = p.invoke.time_ns / 1e6, p.invoke.process, p.kind.value
        end = None if p.end is None else p.end.time_ns / 1e6
        if p.invoke.f == "insert":
            out.append(insert(process, p.invoke.value, begin, end, kind))
        else:
            out.append(read(process, [v for v in p.end.value if v in values], begin, end, kind))
    return history(*out)
