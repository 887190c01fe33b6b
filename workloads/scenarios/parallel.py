"""Quorums that are pending side by side, and what becomes of their inserts when they fail."""

from harness.core.dialect import Mechanism
from harness.core.op import Call, Kind
from harness.generators.script import Do, Joined, Until
from workloads.scenarios.scenario import Finding, Scenario
from workloads.scenarios.steps import (
    KILL,
    PENDING,
    Ended,
    insert,
    killed,
    read,
    shows,
)
from workloads.scenarios.waits import sessions_gone, under_way
from workloads.scripted_set import ScriptedSet

UNKNOWN = (Kind.INFO,)
FIRST = frozenset({0})
DEAD = killed("ch1", number=2)
BEFORE = (Do(insert(0, "ch2")), Until(read("ch1"), shows(0), pause_s=0.05), *PENDING.begins)


PENDING_MERGED = Scenario(
    name="pending-merged",
    text="a replica merges two parts whose parallel quorums are pending, and dies; both quorums "
    "fail, and one block is inserted again, as its error asks; when the replica is back, the "
    "merged part brings the rows of the failed inserts, so that one is read twice",
    workload=ScriptedSet(
        name="scenario-pending-merged",
        quorum_timeout_ms=1_000,
        parallel=True,
        sequential=False,
        plain=FIRST,
    ),
    needs=(Mechanism.PARALLEL_QUORUM,),
    nemesis=f"stop-fetches,{KILL}",
    steps=(
        *BEFORE,
        Do(insert(1, "ch1"), ends=UNKNOWN),
        Do(insert(2, "ch1"), ends=UNKNOWN),
        Do(Call(f="optimize", key=0, node="ch1")),
        *DEAD.begins,
        sessions_gone("ch2"),
        PENDING.ends,
        # A duplicate of a block whose quorum is pending ends as unknown; once the quorum has
        # failed, the block is new.
        Until(insert(1, "ch2"), Ended(), tries=30, pause_s=0.5),
        DEAD.ends,
        Until(read("ch1"), shows(0, 1), tries=200, pause_s=0.1),
    ),
    finding=Finding("set-full", "duplicate"),
    quiesce_s=60,
)

FAILED_DUPLICATE = Scenario(
    name="failed-duplicate",
    text="a block is inserted again on another replica while the quorum of the first insert is "
    "pending; that quorum fails, the second insert is acknowledged, and no replica has the rows",
    workload=ScriptedSet(
        name="scenario-failed-duplicate",
        quorum_timeout_ms=60_000,
        parallel=True,
        sequential=False,
        plain=FIRST,
        timeout_s=60.0,
    ),
    needs=(Mechanism.PARALLEL_QUORUM,),
    nemesis=f"stop-fetches,{KILL}",
    clients=3,
    steps=(
        *BEFORE,
        Do(insert(1, "ch1"), ends=UNKNOWN, wait=False),
        Until(read("ch1"), shows(1), by=1, tries=100, pause_s=0.05),
        Do(insert(1, "ch2"), by=2, ends=(Kind.OK, Kind.INFO), wait=False),
        under_way("ch2", "INSERT", 2.0),
        *DEAD.begins,
        sessions_gone("ch2"),
        PENDING.ends,
        Joined(),
        DEAD.ends,
        Until(read("ch1"), shows(0), by=1, tries=200, pause_s=0.1),
    ),
    finding=Finding("set-full", "lost"),
    quiesce_s=60,
)
