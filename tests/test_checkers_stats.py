"""Figures, and when there is too little to conclude anything."""

import pytest
from checkers_cases import broken_fault, fault, history, insert, read

from checkers.stats import Stats
from harness.core.verdict import Status, Verdict

SMALL = {"min_ok": {"insert": 1, "read": 1}, "min_ok_total": 2}


def test_every_call_is_counted():
    h = history(
        insert(0, 1, 0, 10),
        insert(0, 2, 20, 50),
        insert(1, 3, 0, 5, "fail", error="286 UNSATISFIED_QUORUM: x", node="ch2"),
        insert(1, 4, 6, 9, "fail", error="286 UNSATISFIED_QUORUM: y", node="ch2"),
        insert(1, 5, 10, 40, "info", error="319 UNKNOWN_STATUS: z", node="ch2"),
        insert(2, 6, 0),
        read(3, [1], 60, 100),
    )
    assert Stats(**SMALL).check(h) == Verdict(
        checker="stats",
        status=Status.VALID,
        summary="insert: 2 ok, 2 fail, 2 info; read: 1 ok",
        checked=7,
        figures={
            "ops": 13,
            "calls": 7,
            "duration_s": 0.1,
            "faults": 0,
            "by_f": {
                "insert": {
                    "ok": 2,
                    "fail": 2,
                    "info": 2,
                    "ok_ratio": 2 / 6,
                    "ok_per_s": 20.0,
                    "latency_ms": {"p50": 10.0, "p90": 30.0, "p99": 30.0, "max": 30.0},
                },
                "read": {
                    "ok": 1,
                    "fail": 0,
                    "info": 0,
                    "ok_ratio": 1.0,
                    "ok_per_s": 10.0,
                    "latency_ms": {"p50": 40.0, "p90": 40.0, "p99": 40.0, "max": 40.0},
                },
            },
            "by_node": {
                "ch1": {
                    "insert": {"ok": 2, "fail": 0, "info": 1},
                    "read": {"ok": 1, "fail": 0, "info": 0},
                },
                "ch2": {"insert": {"ok": 0, "fail": 2, "info": 1}},
            },
            "errors": {
                "insert": {"286 UNSATISFIED_QUORUM": 2, "319 UNKNOWN_STATUS": 1},
                "read": {},
            },
            "doubts": [],
        },
    )


def many(count, wrong=0):
    """Return `count` inserts and reads, the last `wrong` inserts of them refused."""
    out = []
    for i in range(count):
        kind = "ok" if i < count - wrong else "fail"
        out += [insert(0, i, 10 * i, 10 * i + 1, kind), read(1, [], 10 * i, 10 * i + 1)]
    return out


DOUBTS = {
    "nothing": (
        {},
        [],
        "0 ok calls of insert, at least 10 expected; 0 ok calls of read, at least 10 expected; "
        "0 ok calls in total, at least 20 expected; no call was made",
    ),
    "enough": ({}, many(10), None),
    "one insert too few": (
        {},
        many(10, wrong=1),
        "9 ok calls of insert, at least 10 expected; 19 ok calls in total, at least 20 expected",
    ),
    "a threshold of one's own": ({"min_ok": {"read": 10}, "min_ok_total": 0}, many(10, 10), None),
    "no fault took effect": ({"faults_expected": True}, many(10), "no fault took effect"),
    "a fault whose effect was not seen": (
        {"faults_expected": True},
        [*many(10), broken_fault(5, "ch1 still answers ch2")],
        "no fault took effect: partition ended info, ch1 still answers ch2",
    ),
    "a fault": ({"faults_expected": True}, [*many(10), fault(5, 25)], None),
    "a fault that was not expected": ({}, [*many(10), fault(5, 25)], None),
    "a fault that nobody felt": (
        {"faults_expected": True},
        [*many(10), fault(500, 600)],
        "no call was made while a fault was in force",
    ),
    "a fault during one open call": (
        {"faults_expected": True},
        [*many(10), insert(9, 99, 100), fault(500, None)],
        None,
    ),
}


@pytest.mark.parametrize(("params", "calls", "doubt"), DOUBTS.values(), ids=DOUBTS)
def test_too_little_is_unknown(params, calls, doubt):
    result = Stats(**params).check(history(*calls))
    assert result.status is (Status.UNKNOWN if doubt else Status.VALID)
    if doubt:
        assert result.summary == doubt
    else:
        assert result.figures["doubts"] == []
