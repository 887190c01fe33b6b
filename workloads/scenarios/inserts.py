"""Inserts that reads see in part, or before it is known whether they happen."""

from checkers.sets.atomic import INSERT_MANY, Atomic
from checkers.stats import Stats
from harness.core.op import Call, Kind
from harness.generators.script import Do, Joined, Rest, Until
from workloads.scenarios.scenario import Finding, Scenario
from workloads.scenarios.steps import (
    KILL,
    PENDING,
    Ended,
    HasRows,
    Repeats,
    insert,
    killed,
    lurking,
    read,
    shows,
)
from workloads.scenarios.waits import sessions_gone
from workloads.scripted_set import ScriptedSet

MANY = tuple(range(60))
"""Values of one insert, each in a partition of its own."""
MORE = tuple(range(100))
"""Values of one insert during which a kill hits before the last is committed. Current servers
accept at most 100 partitions in one insert (max_partitions_per_insert_block)."""


def _by_partitions(name: str) -> ScriptedSet:
    return ScriptedSet(
        name=name,
        quorum=None,
        sequential=False,
        partition_by="value",
        judges=(Stats(min_ok={}, min_ok_total=1), Atomic()),
    )


TORN_INSERT = Scenario(
    name="torn-insert",
    text="a read returns a part of one insert, whose rows belong to several partitions",
    workload=_by_partitions("scenario-torn-insert"),
    clients=2,
    steps=(
        Do(Call(f=INSERT_MANY, value=MANY, key=0, node="ch1"), wait=False),
        Until(read("ch1"), HasRows(), by=1, tries=4_000),
        Joined(),
    ),
    finding=Finding("atomic", "torn"),
)

CUT_SHORT = killed("ch1")

HALF_INSERT = Scenario(
    name="half-insert",
    text="a replica is killed in the middle of an insert into several partitions: a part of it "
    "stays, on every replica, and the rest never comes",
    workload=_by_partitions("scenario-half-insert"),
    nemesis=KILL,
    clients=2,
    steps=(
        Do(Call(f=INSERT_MANY, value=MORE, key=0, node="ch1"), wait=False, ends=(Kind.INFO,)),
        Until(read("ch1"), HasRows(), by=1, tries=4_000),
        *CUT_SHORT.begins,
        Joined(),
        CUT_SHORT.ends,
    ),
    finding=Finding("atomic", "half"),
)

DEAD = killed("ch1", number=2)

DIRTY_READ = Scenario(
    name="dirty-read",
    text="a plain read returns rows of a quorum insert that has no quorum yet; the insert fails, "
    "and the same replica does not return them any more",
    workload=ScriptedSet(name="scenario-dirty-read", quorum_timeout_ms=1_000, sequential=False),
    nemesis=f"stop-fetches,{KILL}",
    clients=2,
    steps=(
        Do(insert(0, "ch2")),
        Until(read("ch1"), shows(0), pause_s=0.05),
        *PENDING.begins,
        Do(insert(1, "ch1"), ends=(Kind.INFO,)),
        Do(read("ch1"), by=1),
        *DEAD.begins,
        sessions_gone("ch2"),
        PENDING.ends,
        # Refused until the others have found out that no live replica has the part.
        Until(insert(2, "ch2"), Ended(), tries=60, pause_s=0.5),
        DEAD.ends,
        Until(read("ch1"), shows(2), by=1, pause_s=0.1),
    ),
    finding=Finding("monotonic-reads", "monotonic-reads"),
)

SHUT = "zk-shut-request"
LOST = lurking(SHUT, "ch1")
LOST_COMMIT = (
    Do(insert(0, "ch2")),
    Until(read("ch1"), shows(0), pause_s=0.05),
    *LOST.begins,
    # A server that retries gives up after ten seconds. It keeps the part because it could not ask
    # whether the commit had happened: with ZooKeeper back in between it would find that it had not.
    Do(insert(1, "ch1"), ends=(Kind.INFO,)),
    Joined(),
    LOST.ends,
)

PHANTOM_PART = Scenario(
    name="phantom-part",
    text="an insert whose commit never reached ZooKeeper ends as unknown; its replica returns the "
    "rows, in sequentially consistent reads too, and no other replica will ever have them",
    workload=ScriptedSet(name="scenario-phantom-part"),
    nemesis=SHUT,
    clients=2,
    steps=(
        *LOST_COMMIT,
        # A later quorum insert, which lifts the limit below which reads show all there is.
        Until(insert(2, "ch2"), Ended(), tries=60, pause_s=0.5),
        Until(read("ch1"), shows(1, 2), by=1, tries=200, pause_s=0.1),
        Do(read("ch2"), by=1),
    ),
    finding=Finding("convergence", "diverged"),
    quiesce_s=60,
)


DOUBLED_INSERT = Scenario(
    name="doubled-insert",
    text="a block whose first insert ended as unknown is inserted again, as the error asks for, on "
    "another replica; the first replica then returns its rows twice",
    workload=ScriptedSet(name="scenario-doubled-insert", quorum=None, sequential=False),
    nemesis=SHUT,
    steps=(
        *LOST_COMMIT,
        Do(insert(1, "ch2")),
        Until(read("ch1"), Repeats(1), tries=200, pause_s=0.1),
    ),
    finding=Finding("set-full", "duplicate"),
    quiesce_s=60,
)

NO_ANSWER = "zk-drop-response"
UNHEARD = lurking(NO_ANSWER, "ch1", number=2)

LOST_RETRY = Scenario(
    name="lost-retry",
    text="an insert is committed, but its time runs out before the replica hears so, and the "
    "replica deletes its part, which no other has; the same block, inserted again as the error "
    "asks for, is acknowledged as a duplicate, and no replica has it",
    workload=ScriptedSet(
        name="scenario-lost-retry", quorum=None, sequential=False, insert_limit_s=2
    ),
    nemesis=f"stop-fetches,{NO_ANSWER}",
    clients=2,
    steps=(
        Do(insert(0, "ch2")),
        Until(read("ch1"), shows(0), pause_s=0.05),
        *PENDING.begins,
        *UNHEARD.begins,
        Do(insert(1, "ch1"), ends=(Kind.INFO,)),
        Until(insert(1, "ch2"), Ended(), by=1, tries=60, pause_s=0.1),
        Joined(),
        UNHEARD.ends,
        Rest(5.0),  # ch1 checks its part within seconds
        PENDING.ends,
    ),
    finding=Finding("set-full", "lost"),
    quiesce_s=60,
)
