"""Transactions that a ZooKeeper server lost or made up, with the evidence and without it."""

from typing import Any

import msgspec
import pytest
from checkers_cases import Event, _nemesis, fault, final, history, insert, read

from checkers.consistency.linearizable import Linearizable
from checkers.sets.convergence import Convergence
from checkers.sets.set_full import SetFull
from checkers.trees import NOTHING, TREES, Missing, ServerTree, TreeDifference, TreeReport
from checkers.triage.explanation import KNOWN, NEW
from checkers.triage.triage import triage
from harness.core.clock import WallClock
from harness.core.history import History
from harness.core.verdict import Status

VERSIONS: dict[str, Any] = {"tables": {}, "gaps": [], "versions": ["25.8.2.1"]}
WELL = ServerTree(3, 9)
HOLE = ServerTree(2, 8, missing=[Missing(5, 1)], version="3.9.3")
FIXED = ServerTree(2, 8, missing=[Missing(5, 1)], version="3.9.5")
LACKS = TreeDifference("/harness/a/0/2", {"zk1": NOTHING, "zk2": "version 0"})
DISK = fault(1, 2, "zk1: fail-log", "disk-eio-log-zookeeper-one", nodes=["zk1"])


def recorded(zk1: ServerTree, *differences: TreeDifference, keeper: str = "zk1") -> list[Event]:
    report = TreeReport({"zk1": zk1, "zk2": WELL}, [*differences])
    trace = {
        "table": "/t",
        "versions": ["25.8.2.1"],
        "keepers": {"ch1": [keeper], "ch2": ["zk2"]},
        "facts": [],
        "ended": "",
        "gaps": [],
    }
    return [
        *_nemesis("conformance", 80_000, "ok", VERSIONS),
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


CUT_OFF = ServerTree(4, 9, untruncated=["/harness/a/0/2"], version="3.9.5")
FORGOTTEN = ServerTree(3, 9, forgotten=["/harness/a/0/2"], version="3.8.0")
MENDED = ServerTree(3, 9, forgotten=["/harness/a/0/2"], version="3.9.3")
POWER = fault(30, 40, "zk1: zk1 lost 1 pages", "power-cut-zookeeper-one", nodes=["zk1"])
OWN_POWER = fault(30, 40, "zk2: zk2 lost 1 pages", "power-cut-zookeeper-one", nodes=["zk2"])


def shown(zk2: ServerTree, *faults: list[Event], kind: str = "info", last: bool = True) -> History:
    """Return a run in which ch2 shows a value that its ZooKeeper server alone has or had."""
    report = TreeReport({"zk1": WELL, "zk2": zk2})
    return history(
        insert(0, 1, 0, 1),
        insert(0, 2, 3, 4, kind=kind),
        read(3, (1, 2), 20, 21, node="ch2"),
        *faults,
        final(1, (1,), 50, 51, node="ch1"),
        final(2, (1, 2) if last else (1,), 52, 53, node="ch2"),
        _nemesis("conformance", 80_000, "ok", VERSIONS),
        _nemesis(TREES, 90_000, "ok", msgspec.to_builtins(report)),
    )


UNCOMMITTED = {
    "it was cut off the log": (shown(CUT_OFF), ["untruncated"]),
    "it was acknowledged": (shown(CUT_OFF, kind="ok"), []),
    "another server lost power": (shown(FORGOTTEN, POWER, last=False), ["unlogged-ack"]),
    "the server itself lost power": (shown(FORGOTTEN, OWN_POWER, last=False), []),
    "no server died": (shown(FORGOTTEN, last=False), []),
    "the version is mended": (shown(MENDED, POWER, last=False), []),
}


@pytest.mark.parametrize("case", UNCOMMITTED)
def test_a_value_that_one_zookeeper_server_alone_had(case: str) -> None:
    h, names = UNCOMMITTED[case]
    checkers = (Linearizable("linearizable"), Convergence())
    invalid = [v for v in (c.check(h) for c in checkers) if v.status is Status.INVALID]
    assert "linearizable" in {verdict.checker for verdict in invalid}
    cause = triage(h, checkers, invalid, 60.0, WallClock())
    assert cause.status == (KNOWN if names else NEW), cause.text
    assert [one.name for one in cause.defects] == names
