"""Transactions on sets: literal histories, whole verdicts, and the definition by brute force."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
from checkers_cases import Event, history
from test_checkers_isolation import txn

from checkers.consistency.snapshots import Snapshots
from harness.core.verdict import Status

VALID, INVALID, UNKNOWN = Status.VALID, Status.INVALID, Status.UNKNOWN


def last(*steps: Sequence[object], node: str = "ch1") -> list[Event]:
    return txn(9, 90, 91, *steps, node=node, f="final-txn")


def plus(key: int, element: int) -> tuple[str, int, int]:
    return ("insert", key, element)


def sees(key: int, *elements: int) -> tuple[str, int, list[int]]:
    return ("r", key, list(elements))


BOTH = (plus(0, 1), plus(1, 1))
CASES = {
    "one after the other": (
        [txn(0, 0, 1, plus(0, 1)), txn(1, 2, 3, sees(0, 1), plus(0, 2)), last(sees(0, 1, 2))],
        VALID, {},
    ),
    "one that is open sees neither or both, in any order": (
        [
            txn(0, 0, 9, *BOTH), txn(1, 1, 2, sees(0), sees(1)),
            txn(2, 3, 4, sees(1, 1), sees(0, 1)), last(sees(0, 1)),
        ],
        VALID, {},
    ),
    "half of a transaction": (
        [txn(0, 0, 9, *BOTH), txn(1, 1, 2, sees(0, 1), sees(1)), last(sees(0, 1), sees(1, 1))],
        INVALID, {"torn": 1},
    ),
    "a transaction that reads a set twice sees what commits in between": (
        [txn(0, 0, 9, plus(0, 1)), txn(1, 1, 2, sees(0), sees(0, 1)), last(sees(0, 1))],
        INVALID, {"torn": 1},
    ),
    "two snapshots of two commits, each with one of them": (
        [
            txn(0, 0, 9, plus(0, 1)), txn(1, 0, 9, plus(1, 2)),
            txn(2, 1, 5, sees(0, 1), sees(1)), txn(3, 1, 5, sees(0), sees(1, 2)),
            last(sees(0, 1), sees(1, 2)),
        ],
        INVALID, {"unordered": 1},
    ),
    "what was acknowledged is missing": (
        [txn(0, 0, 1, plus(0, 1)), txn(1, 2, 3, sees(0)), last(sees(0, 1))],
        INVALID, {"stale": 1},
    ),
    "what two transactions insert while they miss each other": (
        [
            txn(0, 0, 5, sees(0), plus(0, 1)), txn(1, 0, 5, sees(0), plus(0, 2)),
            last(sees(0, 1, 2)),
        ],
        VALID, {},
    ),
    "two that see each other": (
        [
            txn(0, 0, 5, sees(0, 2), plus(0, 1)), txn(1, 0, 5, sees(0, 1), plus(0, 2)),
            last(sees(0, 1, 2)),
        ],
        INVALID, {"own-writes": 0, "unordered": 1},
    ),
    "its own insert is missing": (
        [txn(0, 0, 1, plus(0, 1), sees(0)), last(sees(0, 1))], INVALID, {"own-writes": 1},
    ),
    "its own insert is there before it": (
        [txn(0, 0, 1, sees(0, 1), plus(0, 1)), last(sees(0, 1))], INVALID, {"own-writes": 1},
    ),
    "what was rolled back": (
        [txn(0, 0, 1, plus(0, 1), kind="fail"), last(sees(0, 1))], INVALID, {"aborted": 1},
    ),
    "what nobody inserted": (
        [txn(0, 0, 1, plus(0, 1)), last(sees(0, 1, 7))], INVALID, {"phantom": 1},
    ),
    "a row twice": ([txn(0, 0, 1, plus(0, 1)), last(sees(0, 1, 1))], INVALID, {"duplicated": 1}),
    "what nobody heard of comes late, and stays": (
        [
            txn(0, 0, 1, plus(0, 1), kind="info"), txn(1, 2, 3, sees(0)), txn(1, 4, 5, sees(0, 1)),
            last(sees(0, 1)),
        ],
        VALID, {},
    ),
    "what nobody heard of comes and goes": (
        [
            txn(0, 0, 1, plus(0, 1), kind="info"), txn(1, 2, 3, sees(0, 1)), last(sees(0)),
        ],
        INVALID, {"time-order": 1},
    ),
    "servers have nothing in common": (
        [
            txn(0, 0, 1, plus(0, 1)), txn(1, 2, 3, plus(0, 1), node="ch2"), last(sees(0, 1)),
            txn(8, 90, 91, sees(0, 1), node="ch2", f="final-txn"),
        ],
        VALID, {},
    ),
    "nobody asked a server at the end": (
        [txn(0, 0, 1, plus(0, 1)), txn(1, 2, 3, sees(0, 1))], UNKNOWN, {},
    ),
    "nobody read what another inserted": (
        [txn(0, 0, 1, plus(0, 1), sees(0, 1)), last(sees(1))], UNKNOWN, {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_snapshots(case: str) -> None:
    calls, status, kinds = CASES[case]
    verdict = Snapshots().check(history(*calls))
    expected = {kind: count for kind, count in kinds.items() if count}
    assert (verdict.status, verdict.figures["anomalies"]) == (status, expected), verdict.summary


def test_the_witness_says_why_no_order_is_left() -> None:
    calls, *_ = CASES["two snapshots of two commits, each with one of them"]
    (anomaly,) = Snapshots().check(history(*calls)).anomalies
    assert anomaly.text.startswith("neither of op #")
    assert sorted(anomaly.steps) == [
        "op #0 is missing from op #3: it committed after that snapshot",
        "op #0 is seen by op #2: it committed before that snapshot",
        "op #1 is missing from op #2: it committed after that snapshot",
        "op #1 is seen by op #3: it committed before that snapshot",
    ]


class Txn:
    """A transaction in the making: when it is called and ends, its steps, and how it ends."""

    def __init__(self, draw: random.Random, number: int, reads_only: bool) -> None:
        self.number = number
        self.call = draw.randrange(12)
        self.ret = self.call + draw.randrange(1, 8)
        self.kind = "ok" if reads_only else draw.choice(("ok", "ok", "ok", "info", "fail"))
        self.steps: list[tuple[str, int, Any]] = []
        for key in draw.sample((0, 1), draw.randrange(1, 3)):
            self.steps.append(("r", key, []) if reads_only else ("insert", key, number))
        if not reads_only and draw.random() < 0.5:
            self.steps.insert(draw.randrange(len(self.steps) + 1), ("r", draw.randrange(2), []))


def answer(one: Txn, committed: frozenset[int], txns: Sequence[Txn]) -> list[tuple[str, int, Any]]:
    """Return the steps of a transaction whose snapshot has these transactions."""
    shown: list[tuple[str, int, Any]] = []
    for f, key, value in one.steps:
        if f == "r":
            there = {t.number for t in txns if t.number in committed and writes(t, key)}
            mine = {v for g, k, v in shown if g == "insert" and k == key}
            shown.append((f, key, sorted(there | mine)))
        else:
            shown.append((f, key, value))
    return shown


def writes(one: Txn, key: int) -> bool:
    return any(f == "insert" and k == key for f, k, _ in one.steps)


def is_explained(txns: Sequence[Txn], placed: frozenset[tuple[int, str]]) -> bool:
    """Return whether the moments that are left have an order: the definition, step by step."""
    moments = {(t.number, which) for t in txns for which in ("snapshot", "commit")}
    by_number = {t.number: t for t in txns}
    left = {(n, w) for n, w in moments - placed if by_number[n].kind == "ok"}
    if not left:
        return True
    committed = frozenset(n for n, which in placed if which == "commit")
    for number, which in moments - placed:
        one = by_number[number]
        if any(by_number[n].ret < one.call for n, _ in left):
            continue
        if which == "commit":
            allowed = (number, "snapshot") in placed
        else:
            allowed = one.kind != "ok" or answer(one, committed, txns) == one.steps
        if allowed and is_explained(txns, placed | {(number, which)}):
            return True
    return False


def some_txns(draw: random.Random) -> list[Txn]:
    """Return transactions that an execution might have made, some with a changed read."""
    txns = [Txn(draw, n, reads_only=draw.random() < 0.5) for n in range(draw.randrange(3, 6))]
    order = [(t.number, w) for t in txns for w in ("snapshot", "commit")]
    at = {(t.number, w): draw.uniform(t.call, t.ret) for t in txns for w in ("snapshot", "commit")}
    for t in txns:
        if at[t.number, "snapshot"] > at[t.number, "commit"]:
            snapshot = at[t.number, "commit"]
            at[t.number, "commit"], at[t.number, "snapshot"] = at[t.number, "snapshot"], snapshot
    committed: set[int] = set()
    for number, which in sorted(order, key=at.__getitem__):
        one = txns[number]
        if which == "snapshot":
            one.steps = answer(one, frozenset(committed), txns)
        elif one.kind != "fail" and (one.kind == "ok" or draw.random() < 0.5):
            committed.add(number)
    if draw.random() < 0.9:
        one = draw.choice(txns)
        other = draw.choice([t for t in txns if t is not one])
        one.steps = [
            (f, key, sorted({*value} ^ {other.number})) if f == "r" and writes(other, key) else
            (f, key, value)
            for f, key, value in one.steps
        ]  # fmt: skip
    return txns


def test_the_verdict_is_that_of_the_definition() -> None:
    draw = random.Random(20261129)
    verdicts = {True: 0, False: 0}
    for _ in range(1000):
        txns = some_txns(draw)
        calls = [txn(t.number, t.call, t.ret, *t.steps, kind=t.kind) for t in txns]
        explained = is_explained([t for t in txns if t.kind != "fail"], frozenset())
        found = Snapshots().check(history(*calls))
        assert (found.status is not INVALID) == explained, (found.anomalies, vars(txns[0]))
        verdicts[explained] += 1
    assert min(verdicts.values()) > 100, verdicts
