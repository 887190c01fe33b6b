"""The four session guarantees, each by a good and a bad history, and by its definition."""

import pytest
from checkers_cases import histories, history, insert, read, sound_histories
from hypothesis import given
from hypothesis import strategies as st

from checkers.consistency.session import SESSION_GUARANTEES
from harness.core.history import History
from harness.core.op import Kind
from harness.core.verdict import Anomaly, Status, Verdict

GUARANTEES = {guarantee.name: guarantee for guarantee in SESSION_GUARANTEES}
MR, RYW, MW, WFR = GUARANTEES


def verdict(name: str, h: History) -> Verdict:
    return GUARANTEES[name].check(h)


# What each guarantee says: VALID, INVALID, or UNKNOWN where it had nothing to bind.
CASES = {
    "a process reads less than before": (
        [insert(0, 1, 0, 10), read(1, [1], 20, 30), read(1, [], 40, 50)],
        {MR: "INVALID"},
    ),
    "another process may": (
        [insert(0, 1, 0, 10), read(1, [1], 20, 30), read(2, [], 40, 50)],
        {},
    ),
    "a process reads more than before": (
        [insert(0, 1, 0, 10), read(1, [1], 20, 30), read(1, [1, 2], 40, 50)],
        {MR: "VALID"},
    ),
    "of another key it may read anything": (
        [insert(0, 1, 0, 10), read(1, [1], 20, 30), read(1, [], 40, 50, key=1)],
        {},
    ),
    "what was read is not forgotten over a read in between": (
        [read(1, [1, 2], 20, 30), read(1, [1], 40, 50), read(1, [1], 60, 70)],
        {MR: "INVALID"},
    ),
    "an unanswered read binds nothing": (
        [read(1, [1], 20, 30), read(1, None, 40, 50, "fail"), read(1, [1], 60, 70)],
        {MR: "VALID"},
    ),
    "a process misses its own write": (
        [insert(0, 1, 0, 10), read(0, [], 20, 30)],
        {RYW: "INVALID"},
    ),
    "even at the nanosecond of the acknowledgement": (
        [insert(0, 1, 0, 10), read(0, [], 10, 30)],
        {RYW: "INVALID"},
    ),
    "a process sees its own write": ([insert(0, 1, 0, 10), read(0, [1], 20, 30)], {RYW: "VALID"}),
    "a refused write is none": ([insert(0, 1, 0, 10, "fail"), read(0, [], 20, 30)], {}),
    "writes seen out of order": (
        [insert(0, 1, 0, 10), insert(0, 2, 20, 30), read(1, [2], 40, 50)],
        {MW: "INVALID"},
    ),
    "writes seen in order": (
        [insert(0, 1, 0, 10), insert(0, 2, 20, 30), read(1, [1], 40, 50), read(2, [1, 2], 40, 50)],
        {MW: "VALID"},
    ),
    "the second write of unknown outcome, seen without the first": (
        [insert(0, 1, 0, 10), insert(0, 2, 20, 30, "info"), read(1, [2], 40, 50)],
        {MW: "INVALID"},
    ),
    "the second write never ended, seen without the first": (
        [insert(0, 1, 0, 10), insert(0, 2, 20), read(1, [2], 40, 50)],
        {MW: "INVALID"},
    ),
    "the first write was refused": (
        [insert(0, 1, 0, 10, "fail"), insert(0, 2, 20, 30), read(1, [2], 40, 50)],
        {},
    ),
    "writes of two processes": (
        [insert(0, 1, 0, 10), insert(1, 2, 20, 30), read(2, [2], 40, 50)],
        {},
    ),
    "a write seen without what its process had read": (
        [insert(0, 1, 0, 10), read(1, [1], 20, 30), insert(1, 2, 40, 50), read(2, [2], 60, 70)],
        {WFR: "INVALID"},
    ),
    "a write seen with what its process had read": (
        [insert(0, 1, 0, 10), read(1, [1], 20, 30), insert(1, 2, 40, 50), read(2, [1, 2], 60, 70)],
        {WFR: "VALID"},
    ),
    "a replica whose answers shrink": (
        [
            insert(0, 1, 0, 10),
            insert(0, 2, 20, 30),
            read(1, [1, 2], 40, 50),
            read(2, [], 60, 70),
            read(3, [2], 80, 90),
        ],
        {MW: "INVALID"},
    ),
    "nothing": ([], {}),
    "only unknown outcomes": ([insert(0, 1, 0, 10, "info"), read(1, None, 0, 9, "info")], {}),
    "open calls": ([insert(0, 1, 0), read(1, None, 0)], {}),
}


@pytest.mark.parametrize(("calls", "expected"), CASES.values(), ids=CASES)
def test_what_is_kept(calls, expected):
    h = history(*calls)
    result = {name: verdict(name, h).status.value for name in GUARANTEES}
    assert result == dict.fromkeys(GUARANTEES, "UNKNOWN") | expected


WITNESSES = {
    MR: (
        [insert(0, 1, 0, 10), read(1, [1], 20, 30), read(1, [], 40, 50, node="ch2")],
        Anomaly(
            kind=MR,
            text="value 1 of key 0 is missing from op #4 read on ch2 of process 1, which had "
            "read it (op #3)",
            ops=(2, 3, 4, 5),
            key=0,
            value=1,
            time_ns=50_000_000,
            steps=(
                "op #2 read on ch1 began at 0.020 s and returned 1 value at 0.030 s (op #3) with 1",
                "op #4 read on ch2 began at 0.040 s and returned 0 values at 0.050 s (op #5) "
                "without 1",
            ),
        ),
    ),
    RYW: (
        [insert(0, 1, 0, 10), read(0, [], 20, 30)],
        Anomaly(
            kind=RYW,
            text="value 1 of key 0 is missing from op #2 read on ch1 of process 0, which wrote "
            "it (op #1)",
            ops=(1, 2, 3),
            key=0,
            value=1,
            time_ns=30_000_000,
            steps=(
                "op #1 insert 1 on ch1 was acknowledged at 0.010 s",
                "op #2 read on ch1 began at 0.020 s and returned 0 values at 0.030 s (op #3) "
                "without 1",
            ),
        ),
    ),
    MW: (
        [insert(0, 1, 0, 10), insert(0, 2, 20, 30), read(1, [2], 40, 50)],
        Anomaly(
            kind=MW,
            text="value 1 of key 0 is missing from op #4 read on ch1 of process 1, which has 2: "
            "process 0 wrote 1 before it wrote 2 (op #2)",
            ops=(1, 2, 4, 5),
            key=0,
            value=1,
            time_ns=50_000_000,
            steps=(
                "op #1 insert 1 on ch1 was acknowledged at 0.010 s",
                "op #2 insert 2 on ch1 began at 0.020 s",
                "op #4 read on ch1 began at 0.040 s and returned 1 value at 0.050 s (op #5) "
                "without 1",
            ),
        ),
    ),
    WFR: (
        [insert(0, 1, 0, 90), read(1, [1], 20, 30), insert(1, 2, 40, 50), read(2, [2], 60, 70)],
        Anomaly(
            kind=WFR,
            text="value 1 of key 0 is missing from op #5 read on ch1 of process 2, which has 2: "
            "process 1 read 1 before it wrote 2 (op #3)",
            ops=(1, 2, 3, 5, 6),
            key=0,
            value=1,
            time_ns=70_000_000,
            steps=(
                "op #1 read on ch1 began at 0.020 s and returned 1 value at 0.030 s (op #2) with 1",
                "op #3 insert 2 on ch1 began at 0.040 s",
                "op #5 read on ch1 began at 0.060 s and returned 1 value at 0.070 s (op #6) "
                "without 1",
            ),
        ),
    ),
}


@pytest.mark.parametrize("name", GUARANTEES)
def test_the_witness_in_words(name):
    calls, expected = WITNESSES[name]
    result = verdict(name, history(*calls))
    assert result.anomalies == (expected,)
    assert result.summary == f"{name} broken by 1 read (of 1 that it binds)"


def test_a_value_tried_twice_leaves_it_undecided():
    h = history(insert(0, 1, 0, 10, "info"), insert(1, 1, 20, 30), read(1, [], 40, 50))
    result = verdict(RYW, h)
    assert (result.status, result.summary) == (
        Status.UNKNOWN,
        "value 1 was tried 2 times, so it does not say which write a read saw; unique values "
        "expected",
    )


def by_definition(name: str, h: History) -> set[int]:
    """Return the ends of the reads that break a guarantee, by the formulas of the file, call by
    call."""
    calls = [p for p in h.pairs if p.invoke.f == "insert" or p.kind is Kind.OK]
    reads = [p for p in calls if p.invoke.f != "insert"]
    writes = [p for p in calls if p.invoke.f == "insert" and p.kind is not Kind.FAIL]
    acked = [w for w in writes if w.kind is Kind.OK]

    def before(a, b):
        return (a.invoke.process, a.invoke.key) == (b.invoke.process, b.invoke.key) and (
            a.invoke.index < b.invoke.index
        )

    bad = set()
    for r in reads:
        got = set(r.end.value)
        seen = [w for w in writes if w.invoke.key == r.invoke.key and w.invoke.value in got]
        required = {
            MR: [v for r1 in reads if before(r1, r) for v in r1.end.value],
            RYW: [w.invoke.value for w in acked if before(w, r)],
            MW: [w1.invoke.value for w2 in seen for w1 in acked if before(w1, w2)],
            WFR: [v for w2 in seen for r1 in reads if before(r1, w2) for v in r1.end.value],
        }[name]
        if set(required) - got:
            bad.add(r.end.index)
    return bad


@pytest.mark.parametrize("name", GUARANTEES)
@given(h=st.one_of(histories(keys=2, calls=14), sound_histories(lag=2)))
def test_it_agrees_with_its_definition(name, h):
    result, bad = verdict(name, h), by_definition(name, h)
    assert result.figures["anomalies"] == {name: len(bad)}
    assert [a.ops for a in result.anomalies if not bad & set(a.ops)] == []
    assert (result.status is Status.INVALID) == bool(bad)


@pytest.mark.parametrize("name", GUARANTEES)
@given(h=sound_histories())
def test_a_set_behind_a_lock_keeps_all(name, h):
    assert verdict(name, h).status is not Status.INVALID
