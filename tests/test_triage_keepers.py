"""Transactions that a ZooKeeper server lost: runs that it explains, and without evidence not."""

from typing import Any

import msgspec
import pytest
from checkers_cases import Event, _nemesis, fault, final, history, insert

from checkers.sets.convergence import Convergence
from checkers.sets.set_full import SetFull
from checkers.trees import NOTHING, TREES, Missing, ServerTree, TreeDifference, TreeReport
from checkers.triage.explanation import KNOWN, NEW
from checkers.triage.triage import triage
from harness.core.clock import WallClock
from harness.core.history import History
from harness.core.verdict import Status

WELL = ServerTree(3, 9)
HOLE = ServerTree(2, 8, missing=[Missing(5, 1)], version="3.9.3")
FIXED = ServerTree(2, 8, missing=[Missing(5, 1)], version="3.9.5")
LACKS = TreeDifference("/harness/a/0/2", {"zk1": NOTHING, "zk2": "version 0"})
DISK = fault(1, 2, "zk1: fail-log", "disk-eio-log-zookeeper-one", nodes=["zk1"])


def recorded(zk1: ServerTree, *differences: TreeDifference, keeper: str = "zk1") -> list[Event]:
    report = TreeReport({"zk1": zk1, "zk2": WELL}, [*differences])
    of: dict[str, Any] = {"tables": {}, "gaps": [], "versions": ["25.8.2.1"]}
    trace = {
        "table": "/t",
        "versions": ["25.8.2.1"],
        "keepers": {"ch1": [keeper], "ch2": ["zk2"]},
        "facts": [],
        "ended": "",
        "gaps": [],
    }
    return [
        *_nemesis("conformance", 80_000, "ok", of),
        *_nemesis("trace", 80_001, "ok", trace),
        *_nemesis(TREES, 90_000, "ok", msgspec.to_builtins(report)),
    ]


def run(*more: list[Event]) -> History:
    return history(
        insert(0, 1, 0, 1),
        insert(0, 2, 3, 4),
        final(1, (1,), 50, 51, node="ch1"),
        final(2, (1, 2), 50, 51, node="ch2"),
        *more,
    )


RUNS = {
    "its log has a hole": (run(recorded(HOLE, LACKS)), ["handed-on-hole"]),
    "its log has a hole, and its version hands none on": (run(recorded(FIXED, LACKS)), []),
    "its disk failed": (run(recorded(FIXED, LACKS), DISK), ["unwritten"]),
    "its log has no hole": (run(recorded(WELL, LACKS)), []),
    "another node is missing": (
        run(recorded(HOLE, TreeDifference("/harness/a/0/1", LACKS.shown))), [],
    ),
    "the replica reads elsewhere": (run(recorded(HOLE, LACKS, keeper="zk2")), []),
    "nobody looked at the trees": (run(), []),
}  # fmt: skip


@pytest.mark.parametrize("case", RUNS)
def test_a_value_that_a_zookeeper_server_has_lost(case: str) -> None:
    h, names = RUNS[case]
    checkers = (SetFull(linearizable=True), Convergence())
    invalid = [v for v in (c.check(h) for c in checkers) if v.status is Status.INVALID]
    assert {verdict.checker for verdict in invalid} >= {"set-full"}
    cause = triage(h, checkers, invalid, 60.0, WallClock())
    assert cause.status == (KNOWN if names else NEW), cause.text
    assert [one.name for one in cause.defects] == names
    assert ("a defect of ZooKeeper" in cause.text) is bool(names)
