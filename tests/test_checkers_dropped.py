"""The checker of DROP PARTITION, on histories by hand."""

import pytest
from checkers_cases import Event, _call, final, history, insert, read, rest

from checkers.replication.dropped import DROP, LOG, Dropped
from harness.core.verdict import Status


def drop(begin: float, end: float, kind: str = "ok", key: int = 1) -> list[Event]:
    return _call(5, DROP, begin, end, kind, "ch2", key, None, None, None)


def logged(**types: int) -> list[Event]:
    return _call(6, LOG, 90, 91, "ok", "ch1", None, None, {"types": types}, None)


def finals(key: int, *values: int) -> list[Event]:
    """Return what both replicas have at rest."""
    both = (("ch1", 7), ("ch2", 8))
    return [
        e for node, by in both for e in final(by, values, 92 + key, 93 + key, node=node, key=key)
    ]


AT_REST = rest(80, ch1={}, ch2={})
BEFORE, AFTER = insert(0, 1, 1, 2, key=1), insert(0, 2, 21, 22, key=1)
OTHER = insert(1, 3, 1, 2, key=0)
LOGGED = logged(get=3, drop=1)
ELSEWHERE = finals(0, 3)
GOOD = (BEFORE, OTHER, drop(10, 20), AFTER, AT_REST, LOGGED, ELSEWHERE)
BACK = (
    read(2, [1], 5, 6, key=1, node="ch2"),
    read(2, [], 23, 24, key=1, node="ch2"),
    read(2, [1], 25, 26, key=1, node="ch2"),
)


def test_what_was_there_before_goes_and_what_came_after_stays() -> None:
    verdict = Dropped().check(history(*GOOD, finals(1, 2)))
    assert verdict.status is Status.VALID
    assert (
        verdict.summary == "1 drop, 1 log entry: 1 acknowledged value gone for good, 2 others kept"
    )


@pytest.mark.parametrize(
    ("calls", "status", "kinds"),
    [
        # The drop left value 1 in place.
        ((*GOOD, finals(1, 1, 2)), Status.INVALID, ["kept", "kept"]),
        # It took value 2 with it, which came later, and value 3, of another partition.
        ((*GOOD, finals(1)), Status.INVALID, ["lost", "lost"]),
        ((*GOOD[:-1], finals(0), finals(1, 2)), Status.INVALID, ["lost", "lost"]),
        # ch2 shows it, lacks it, and shows it again.
        ((*GOOD, *BACK, finals(1, 2)), Status.INVALID, ["returned"]),
        ((*GOOD, *BACK[:2], finals(1, 2)), Status.VALID, []),
        # An insert that overlaps the drop may come before or after it.
        ((*GOOD, insert(3, 4, 9, 15, key=1), finals(1, 2)), Status.VALID, []),
        ((*GOOD, insert(3, 4, 9, 15, key=1), finals(1, 2, 4)), Status.VALID, []),
        # A drop of unknown outcome may take effect at any later time; a refused one never.
        ((*GOOD, drop(30, 31, "info"), finals(1)), Status.VALID, []),
        ((*GOOD, drop(30, 31, "fail"), finals(1)), Status.INVALID, ["lost", "lost"]),
        # Nothing to judge: no rest, no look at the log, no final read of one replica.
        ((*GOOD[:-3], LOGGED, ELSEWHERE, finals(1)), Status.UNKNOWN, []),
        ((*GOOD[:-2], logged(get=3), ELSEWHERE, finals(1, 2)), Status.UNKNOWN, []),
        ((*GOOD, finals(1, 2)[:2]), Status.UNKNOWN, []),
        ((OTHER, drop(10, 20), AT_REST, LOGGED, ELSEWHERE), Status.UNKNOWN, []),
    ],
)
def test_drops_against_reads(calls: tuple[list[Event], ...], status: Status, kinds) -> None:
    verdict = Dropped().check(history(*calls))
    assert (verdict.status, [one.kind for one in verdict.anomalies]) == (status, kinds)


def test_a_witness_names_the_insert_the_drop_and_both_reads() -> None:
    (anomaly,) = Dropped().check(history(*GOOD, *BACK, finals(1, 2))).anomalies
    assert anomaly.text == (
        "value 1, ok at 0.002 s on ch1 (op #2), is back on ch2, which did not show it at 0.023 s "
        "(op #13 at 0.026 s; partition 1 dropped from 0.010 s on ch2, op #6 ok)"
    )
