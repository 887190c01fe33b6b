"""Transactions of MergeTree tables: servers that do not load a table, with the evidence that
explains it and without."""

from typing import Any

import pytest
from checkers_cases import Event, _call, _nemesis, fault, history

from checkers.availability.answers import Answers
from checkers.consistency.isolation import FINAL_TXN, TXN
from checkers.triage.explanation import KNOWN, NEW
from checkers.triage.triage import triage
from harness.core.clock import WallClock
from harness.core.history import History
from harness.core.verdict import Status

TOO_OLD = "Code: 49. DB::Exception: Trying to get CSN for too old TID (32, 33, 8e), tail_ptr is 36"
NO_ENTRY = "722: Load job 'load table db.t' failed: Code: 999. Coordination error: No node, path /a"
WENT_ON = (
    "nemesis kill: not healed: StartError: ch1: does not answer 33 s and 7 starts on: it ended; "
    f"{TOO_OLD}"
)
CUT = fault(20, 22, "ch1: ch1 lost 7 pages", "power-cut-clickhouse-one")
KILL = fault(20, 30, "ch1", "kill-clickhouse-one")


def txn(begin: float, node: str = "ch1", kind: str = "ok") -> list[Event]:
    """Return a transaction that appends its time to a list of a server."""
    value: dict[str, Any] = {TXN: [["append", 0, round(begin)]]}
    found: list[Event] = _call(0, TXN, begin, begin + 1, kind, node, None, value, value, None)
    return found


def unanswered(error: str = f"722 ROLLED BACK: {TOO_OLD}") -> list[Event]:
    """Return a healed cluster, one server of which refuses its final call."""
    refused = _call(1, FINAL_TXN, 50, 51, "fail", "ch1", None, None, None, error)
    return [*_nemesis("heal", 40, "ok", {}), *refused]


def not_started(error: str = WENT_ON) -> list[Event]:
    """Return a cluster that was not healed."""
    found: list[Event] = _nemesis("heal", 40, "info", {}, error)
    return found


def recorded(*calls: list[Event]) -> History:
    of: dict[str, Any] = {"tables": {}, "gaps": [], "versions": ["25.8.2.1"]}
    return history(*calls, _nemesis("conformance", 80, "ok", of))


RUNS = {
    "power was cut after two commits": (
        recorded(txn(1), txn(3), CUT, unanswered()), ["unsynced-commit"],
    ),
    "it does not even start": (
        recorded(txn(1), txn(3), CUT, not_started()), ["unsynced-commit"],
    ),
    "one transaction stays in the log": (recorded(txn(1), CUT, unanswered()), []),
    "nothing was committed": (
        recorded(txn(1), txn(3, kind="fail"), CUT, unanswered()), [],
    ),
    "another server committed while it was down": (
        recorded(txn(1), KILL, txn(25, "ch2"), unanswered()), ["shared-transactions"],
    ),
    "that server removed an entry while it was loaded": (
        recorded(txn(1), KILL, txn(25, "ch2"), unanswered(NO_ENTRY)), ["shared-transactions"],
    ),
    "nobody committed while it was down": (
        recorded(txn(1), KILL, txn(15, "ch2"), txn(35, "ch2"), unanswered()), [],
    ),
    "it answers something else": (
        recorded(txn(1), txn(3), CUT, unanswered("241 ROLLED BACK: memory")), [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", RUNS)
def test_a_table_that_is_never_loaded(case: str) -> None:
    h, names = RUNS[case]
    invalid = [Answers().check(h)]
    assert invalid[0].status is Status.INVALID
    cause = triage(h, (Answers(),), invalid, 60.0, WallClock())
    assert cause.status == (KNOWN if names else NEW), cause.text
    assert [one.name for one in cause.defects] == names


@pytest.mark.parametrize(
    ("calls", "status"),
    [
        ([txn(1), not_started()], Status.INVALID),
        ([not_started()], Status.UNKNOWN),  # none that answers clients
        ([txn(1), not_started("nemesis kill: StartError: ch1: does not answer")], Status.UNKNOWN),
        ([txn(1), fault(2, 3, "ch1: t.bin at 5", "disk-flip"), not_started()], Status.UNKNOWN),
    ],
    ids=["it ended", "another server", "it may be slow", "its disk was changed"],
)
def test_a_server_that_does_not_start(calls: list[list[Event]], status: Status) -> None:
    assert Answers().check(history(*calls)).status is status
