"""KeeperMap tables: runs that a known defect explains, and the same without its evidence."""

from typing import Any

import pytest
from checkers_cases import Event, _call, fault, final, history, insert

from checkers.consistency.objects import ACQUIRE, RELEASE, RegisterObject, RowObject
from checkers.ladder import Level
from checkers.suite import mutex_checkers, register_checkers, set_checkers
from checkers.triage.explanation import KNOWN, NEW
from checkers.triage.triage import triage
from harness.core.clock import WallClock
from harness.core.history import History
from harness.core.op import NEMESIS, Kind
from harness.core.protocols import Checker
from harness.core.verdict import Status

EXISTS = "REFUSED: Coordination::Exception: Transaction failed (Node exists): Op #0"


def recorded(*calls: list[Event], version: str = "25.8.2.1") -> History:
    """Return the history of a run of servers of this version, without a replicated table."""
    value: dict[str, Any] = {"tables": {}, "gaps": [], "versions": [version]}
    same = {"process": NEMESIS, "f": "conformance"}
    report = [
        Event(90_000_000, {**same, "kind": Kind.INVOKE}),
        Event(91_000_000, {**same, "kind": Kind.OK, "value": value}),
    ]
    return history(*calls, report)


REFUSED = insert(0, 1, 0, 1, "fail", error=EXISTS)
SEEN = final(1, (1,), 50, 51)
RUNS = {
    "its row exists": (recorded(REFUSED, SEEN), KNOWN),
    "it was sent twice, and refused both times": (
        recorded(REFUSED, insert(1, 1, 4, 5, "fail", error=EXISTS), SEEN), KNOWN,
    ),
    "it was refused for another reason": (
        recorded(insert(0, 1, 0, 1, "fail", error="202 TOO_MANY: queries"), SEEN), NEW,
    ),
    "nobody inserted it": (recorded(SEEN), NEW),
    "the servers are not known for it": (recorded(REFUSED, SEEN, version="25.5.2"), NEW),
}  # fmt: skip


@pytest.mark.parametrize("case", RUNS)
def test_an_insert_that_was_refused_because_of_itself(case: str) -> None:
    h, kind = RUNS[case]
    checkers = set_checkers(Level.SEQUENTIAL, faults_expected=False)
    verdicts = [checker.check(h) for checker in checkers]
    invalid = [verdict for verdict in verdicts if verdict.status is Status.INVALID]
    cause = triage(h, checkers, invalid, 60.0, WallClock())
    assert {verdict.checker for verdict in invalid} == {"set-full", "linearizable", "sequential"}
    assert cause.status == kind, cause.text
    assert [one.name for one in cause.defects] == (["refused-itself"] if kind == KNOWN else [])


def write(process: int, value: int, begin: float, end: float) -> list[Event]:
    found: list[Event] = _call(process, "write", begin, end, "ok", "ch1", 0, value, value, None)
    return found


def row(process: int, value: int, begin: float) -> list[Event]:
    """Return a read of a row that takes 1 ms."""
    found: list[Event] = _call(process, "read", begin, begin + 1, "ok", "ch2", 0, None, value, None)
    return found


def change(process: int, f: str, begin: float, end: float) -> list[Event]:
    """Return a call that acquires or releases a mutex."""
    found: list[Event] = _call(process, f, begin, end, "ok", "ch1", 0, process, process, None)
    return found


def causes(h: History, checkers: tuple[Checker, ...]) -> tuple[str, list[str]]:
    invalid = [v for v in (one.check(h) for one in checkers) if v.status is Status.INVALID]
    assert invalid
    cause = triage(h, checkers, invalid, 60.0, WallClock())
    return cause.status, [one.name for one in cause.defects]


CUT = fault(2, 40, "zk1", "coordinated-cut-response-one")
BACK = [write(1, 2, 15, 16), row(2, 1, 41)]
"""Another value overwrites it, and then it is back."""
ROWS = {
    "it was read before it ended": ((write(0, 1, 3, 30), row(2, 1, 10), *BACK, CUT), True),
    "nobody read it before it ended": ((write(0, 1, 3, 4), row(2, 1, 10), *BACK, CUT), False),
    "there was no fault": ((write(0, 1, 3, 30), row(2, 1, 10), *BACK), False),
    "it is back twice": (
        (write(0, 1, 3, 30), row(2, 1, 10), *BACK, write(1, 3, 42, 43), row(2, 1, 44), CUT), False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ROWS)
def test_an_insert_that_was_made_twice(case: str) -> None:
    calls, known = ROWS[case]
    h = recorded(*calls, version="24.8.4.1")
    found = causes(h, register_checkers(faults_expected=True, model=RowObject))
    assert found == ((KNOWN, ["repeated-insert"]) if known else (NEW, []))
    others = causes(h, register_checkers(faults_expected=True, model=RegisterObject))
    assert others == (NEW, []), "nobody repeats calls on a register of ZooKeeper"


FIRST = [change(0, ACQUIRE, 0, 1), change(0, RELEASE, 5, 30)]
MUTEXES = {
    "it was acquired before the release ended": (
        (*FIRST, change(1, ACQUIRE, 10, 11), change(2, ACQUIRE, 12, 13), CUT), True,
    ),
    "its holder releases it later": (
        (
            *(*FIRST, change(1, ACQUIRE, 10, 11), change(2, ACQUIRE, 12, 13), CUT),
            *(change(1, RELEASE, 31, 32), change(2, RELEASE, 33, 34)),
        ), True,
    ),
    "it was acquired after the release had ended": (
        (*FIRST, change(1, ACQUIRE, 31, 32), change(2, ACQUIRE, 33, 34), CUT), False,
    ),
    "it was acquired three times": (
        (
            *(*FIRST, change(1, ACQUIRE, 10, 11), change(2, ACQUIRE, 12, 13), CUT),
            change(3, ACQUIRE, 14, 15),
        ), False,
    ),
    "there was no fault": (
        (*FIRST, change(1, ACQUIRE, 10, 11), change(2, ACQUIRE, 12, 13)), False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MUTEXES)
def test_a_mutex_that_was_released_twice(case: str) -> None:
    calls, known = MUTEXES[case]
    found = causes(recorded(*calls), mutex_checkers(faults_expected=True))
    assert found == ((KNOWN, ["deleted-twice"]) if known else (NEW, []))
