"""Transactions on lists: literal histories, whole verdicts."""

from collections.abc import Sequence

import pytest
from checkers_cases import Event, history, read

from checkers.consistency.isolation import Isolation
from harness.core.errors import HistoryError
from harness.core.seed import Seed
from harness.core.verdict import Status
from workloads.list_append import _steps

VALID, INVALID, UNKNOWN = Status.VALID, Status.INVALID, Status.UNKNOWN


def txn(
    process: int,
    begin: float,
    end: float,
    *steps: Sequence[object],
    kind: str = "ok",
    node: str = "ch1",
    f: str = "txn",
) -> list[Event]:
    """Return a transaction whose answer has these steps; reads are asked for without a list."""
    events = read(process, None, begin, end, kind, node=node, f=f, key=None)
    asked = [[name, key, None if name == "r" else value] for name, key, value in steps]
    events[0].op["value"] = {"txn": asked}
    events[1].op["value"] = {"txn": [list(step) for step in steps]} if kind == "ok" else None
    return events


def last(*steps: Sequence[object], node: str = "ch1") -> list[Event]:
    return txn(9, 90, 91, *steps, node=node, f="final-txn")


A1, A2 = ("append", 0, 1), ("append", 0, 2)
CASES = {
    "one after the other": (
        [txn(0, 0, 1, A1), txn(1, 2, 3, ("r", 0, [1]), A2), last(("r", 0, [1, 2]))],
        VALID, {},
    ),
    "lists of two servers have nothing in common": (
        [
            txn(0, 0, 1, A1), txn(1, 2, 3, A1, node="ch2"),
            last(("r", 0, [1])), txn(8, 90, 91, ("r", 0, [1]), node="ch2", f="final-txn"),
        ],
        VALID, {},
    ),
    "what was refused is read": (
        [txn(0, 0, 1, A1, kind="fail"), last(("r", 0, [1]))], INVALID, {"G1a": 1},
    ),
    "what nobody heard of may be read": (
        [txn(0, 0, 1, A1, kind="info"), last(("r", 0, [1]))], VALID, {},
    ),
    "two that read the same list both append to it": (
        [
            txn(0, 0, 5, ("r", 0, []), A1), txn(1, 0, 5, ("r", 0, []), A2),
            last(("r", 0, [1, 2])),
        ],
        INVALID, {"lost-update": 1, "G-single": 1},
    ),
    "two that read two lists and append to one each are allowed by snapshot isolation": (
        [
            txn(0, 0, 5, ("r", 0, []), ("r", 1, []), A1),
            txn(1, 0, 5, ("r", 0, []), ("r", 1, []), ("append", 1, 2)),
            last(("r", 0, [1]), ("r", 1, [2])),
        ],
        VALID, {},
    ),
    "what was acknowledged is lost": (
        [txn(0, 0, 1, A1), txn(1, 2, 3, ("r", 0, [1])), last(("r", 0, []))],
        INVALID, {"G-single-realtime": 1},
    ),
    "nobody asked a server at the end": (
        [txn(0, 0, 1, A1), txn(1, 2, 3, ("r", 0, [1]), node="ch1")], UNKNOWN, {},
    ),
    "nothing was read": ([txn(0, 0, 1, A1)], UNKNOWN, {}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_isolation(case: str) -> None:
    calls, status, kinds = CASES[case]
    verdict = Isolation().check(history(*calls))
    assert (verdict.status, verdict.figures["anomalies"]) == (status, kinds), verdict.summary


def test_a_weaker_level_allows_an_old_read() -> None:
    h = history(txn(0, 0, 1, A1), txn(1, 2, 3, ("r", 0, [])), last(("r", 0, [1])))
    assert Isolation().check(h).status is INVALID
    assert Isolation("snapshot-isolation").check(h).status is VALID


def test_the_witness_names_the_calls() -> None:
    calls, *_ = CASES["what was refused is read"]
    anomaly = Isolation().check(history(*calls)).anomalies[0]
    assert anomaly.steps == (
        "T0 is op #0 on ch1, begun at 0.000 s, fail at 0.001 s: append 0 1",
        "T1 is op #2 on ch1, begun at 0.090 s, ok at 0.091 s: r 0 [1]",
    )


def test_steps_that_cannot_be_read_are_refused() -> None:
    events = txn(0, 0, 1, A1)
    events[1].op["value"] = {"txn": [["append", 0]]}
    with pytest.raises(HistoryError, match=r"op #0: steps \[\['append', 0\]\], expected a list"):
        Isolation().check(history(events))


def test_a_transaction_appends_to_a_list_once_and_reads_as_often_as_it_appends() -> None:
    drawn = [_steps(Seed(1), number, 4) for number in range(300)]
    for number, steps in enumerate(drawn):
        appends = [key for f, key, value in steps if f == "append" and value == number]
        assert len(appends) == len(set(appends))
        assert 1 <= len(steps) <= 3
    appended = sum(f == "append" for steps in drawn for f, *_ in steps)
    assert 0.3 < appended / sum(map(len, drawn)) < 0.6
