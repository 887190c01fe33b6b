"""KeeperMap tables: runs that a known defect explains, and the same without its evidence."""

from typing import Any

import pytest
from checkers_cases import Event, final, history, insert

from checkers.ladder import Level
from checkers.suite import set_checkers
from checkers.triage.explanation import KNOWN, NEW
from checkers.triage.triage import triage
from harness.core.clock import WallClock
from harness.core.history import History
from harness.core.op import NEMESIS, Kind
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
