"""Scripts of what zero-copy replication leaves behind on an object store, or stores twice."""

from checkers.ladder import Level
from checkers.replication.objects import DROP, LOOK, REATTACH, REBUILD
from harness.core.dialect import Mechanism
from harness.core.op import Call, Json, Kind
from harness.core.seed import Seed
from harness.generators.script import Do, Joined, Rest, ScriptStep, Until
from workloads.scenarios.scenario import Finding, Held, Scenario
from workloads.scenarios.steps import (
    KILL,
    ScriptedFault,
    fault,
    insert,
    killed,
    lurking,
    read,
    shows,
)
from workloads.scenarios.waits import fetches, parts_gone, under_way
from workloads.zero_copy import RESTORE, ZeroCopyOptions, zero_copy

WRITES = ["PUT"]
READS = ["GET"]
DELETES = ["POST", "DELETE"]
SHARED = zero_copy(ZeroCopyOptions(timeout_s=40.0), Seed(1), Level.EVENTUAL, faults_expected=True)
MOVED = zero_copy(
    ZeroCopyOptions(move=True, timeout_s=40.0), Seed(1), Level.EVENTUAL, faults_expected=True
)
DETACHED = zero_copy(
    ZeroCopyOptions(detach=True, timeout_s=60.0), Seed(1), Level.EVENTUAL, faults_expected=False
)
FORGOTTEN = zero_copy(
    ZeroCopyOptions(drop_replica=True, timeout_s=40.0),
    Seed(1),
    Level.EVENTUAL,
    faults_expected=False,
)
ON_BOTH: tuple[ScriptStep, ...] = (
    Do(insert(0, "ch1")),
    Until(read("ch2"), shows(0), pause_s=0.05),
)


def _of_store(name: str, **rule: Json) -> ScriptedFault:
    """Return a fault of the store that has begun when the store has its rule."""
    return fault(name, name, 1, nodes=["store"], lurks=True, **rule)


def _move(node: str) -> Call:
    """Return the call by which a replica moves the first partition to the store."""
    return Call(f="move", key=0, node=node, value={"to": "remote"})


SLOW = _of_store("store-slow", methods=WRITES, delay_s=5)
SLOW_WRITES = _of_store("store-slow", methods=WRITES, delay_s=2)
SLOW_READS = _of_store("store-slow", methods=READS, delay_s=2)
UNTOLD = _of_store("store-errors", methods=["HEAD"], share=1)
REFUSED = _of_store("store-errors", methods=DELETES, share=1)
HELD = _of_store("store-timeouts", methods=READS, share=1)
UNREGISTERED_BY = "zk-cut-register"
UNREGISTERED = lurking(UNREGISTERED_BY, "ch1", "ch2")
RELEASED_BY = "zk-cut-unlock"
RELEASED = lurking(RELEASED_BY, "ch1", "ch2")
PAUSE = "pause-clickhouse-one"
FROZEN = fault("pause", PAUSE, nodes=["ch1"])
DEAD = killed("ch1")
DEAD_FETCHER = killed("ch2")

ORPHANED_INSERT = Scenario(
    name="orphaned-insert",
    text="a replica that is killed during an insert leaves objects on the store to which nothing "
    "refers, and which nothing removes",
    workload=SHARED,
    needs=(Mechanism.ZERO_COPY,),
    nemesis=f"{KILL},store-slow",
    steps=(
        *ON_BOTH,
        *SLOW.begins,
        Do(insert(1, "ch1"), ends=(Kind.OK, Kind.INFO), wait=False),
        # The store has the objects by then, and the insert waits for the answers.
        under_way("ch1", "INSERT", 2.0),
        *DEAD.begins,
        SLOW.ends,
        DEAD.ends,
        Joined(),
    ),
    finding=Finding("objects", "orphan"),
    replicas=2,
    store=True,
)

ORPHANED_FETCH = Scenario(
    name="orphaned-fetch",
    text="the objects of a part stay for good if its last replica drops it while another, which "
    "was fetching it, is dead: the lock of the dead one is still there, and it never had the part",
    workload=SHARED,
    needs=(Mechanism.ZERO_COPY,),
    nemesis=f"{KILL},store-timeouts",
    steps=(
        *ON_BOTH,
        *HELD.begins,
        Do(insert(1, "ch1", key=1)),
        # The other replica takes its lock, then reads the part's files.
        fetches("ch2", 3.0),
        *DEAD_FETCHER.begins,
        HELD.ends,
        # The session of the dead replica, and with it its lock, lasts for five seconds more.
        Do(Call(f=DROP, key=1, node="ch1")),
        *parts_gone(6.0, 1, "ch1"),
        DEAD_FETCHER.ends,
    ),
    finding=Finding("objects", "orphan"),
    replicas=2,
    store=True,
)

COPIED_PART = Scenario(
    name="copied-part",
    text="a replica that the store refuses to tell whether it has a part's objects stores the part "
    "a second time",
    workload=SHARED,
    needs=(Mechanism.ZERO_COPY,),
    nemesis="store-errors",
    steps=(
        *ON_BOTH,
        *UNTOLD.begins,
        Do(insert(1, "ch1", key=1)),
        Until(read("ch2", key=1), shows(1), pause_s=0.2),
        UNTOLD.ends,
    ),
    finding=Finding("objects", "copied"),
    replicas=2,
    store=True,
)

ATTACH_OWN_COPY = Scenario(
    name="attach-own-copy",
    text="a partition that is detached and attached is stored once for each replica: a replica "
    "makes the attached part of its own detached copy, and does not share that of the other",
    workload=DETACHED,
    needs=(Mechanism.ZERO_COPY,),
    steps=(
        *ON_BOTH,
        Do(Call(f=REATTACH, key=0, node="ch1")),
        Until(read("ch2"), shows(0), pause_s=0.05),
    ),
    finding=Finding("objects", "copied"),
    replicas=2,
    store=True,
)

ORPHANED_COMMIT = Scenario(
    name="orphaned-commit",
    text="a replica whose session ends before it has registered a part that it has mutated undoes "
    "the mutation, and keeps the objects, for which no lock was made yet",
    workload=SHARED,
    needs=(Mechanism.ZERO_COPY,),
    nemesis=UNREGISTERED_BY,
    clients=2,
    steps=(
        *ON_BOTH,
        # Whoever mutates first; the other one waits for its session to expire.
        *UNREGISTERED.begins,
        Do(Call(f="mutate", key=0, node="ch1"), ends=(Kind.OK, Kind.INFO), by=1, wait=False),
        Rest(3.0),
        UNREGISTERED.ends,
        Joined(),
    ),
    finding=Finding("objects", "orphan"),
    replicas=2,
    store=True,
)

ORPHANED_UNLOCK = Scenario(
    name="orphaned-unlock",
    text="the objects of a dropped partition stay for good if a replica's session ends after it "
    "has released their last lock and before it removes them",
    workload=SHARED,
    needs=(Mechanism.ZERO_COPY,),
    nemesis=RELEASED_BY,
    steps=(
        *ON_BOTH,
        Do(insert(1, "ch1", key=1)),
        Until(read("ch2", key=1), shows(1), pause_s=0.05),
        *RELEASED.begins,
        Do(Call(f=DROP, key=1, node="ch1"), ends=(Kind.OK, Kind.INFO)),
        Rest(3.0),
        RELEASED.ends,
    ),
    finding=Finding("objects", "orphan"),
    replicas=2,
    store=True,
)

ORPHANED_DROP = Scenario(
    name="orphaned-drop",
    text="the objects of a dropped partition stay for good if the store refuses for a moment to "
    "delete them",
    workload=SHARED,
    needs=(Mechanism.ZERO_COPY,),
    nemesis="store-errors",
    steps=(
        *ON_BOTH,
        Do(insert(1, "ch1", key=1)),
        *REFUSED.begins,
        Do(Call(f=DROP, key=1, node="ch1")),
        *parts_gone(10.0, 1, "ch1", "ch2"),
        REFUSED.ends,
    ),
    finding=Finding("objects", "orphan"),
    replicas=2,
    store=True,
)

DROPPED_REPLICA = Scenario(
    name="dropped-replica",
    text="a replica that another one has dropped cannot drop its table: DROP TABLE is tried again "
    "for good, and its locks keep the objects of parts that nobody has any more",
    workload=FORGOTTEN,
    needs=(Mechanism.ZERO_COPY,),
    clients=2,
    time_limit_s=30.0,
    steps=(
        *ON_BOTH,
        Do(insert(1, "ch1", key=1)),
        Until(read("ch2", key=1), shows(1), pause_s=0.05),
        # Its last statement but one, DROP TABLE ... SYNC, does not end.
        Do(
            Call(f=REBUILD, node="ch2", value={"by": "another"}),
            ends=(Kind.OK, Kind.INFO),
            by=1,
            wait=False,
        ),
        under_way("ch2", "DROP TABLE", 10.0),
        Do(Call(f=DROP, key=1, node="ch1")),
        *parts_gone(3.0, 1, "ch1"),
    ),
    finding=Finding("objects", "orphan"),
    replicas=2,
    store=True,
)

RESTORED_REPLICA = Scenario(
    name="restored-replica",
    text="a replica that is restored deletes an object of each part that it shares: the other "
    "replica reads on until it restarts, then it has lost the rows",
    workload=SHARED,
    needs=(Mechanism.ZERO_COPY,),
    nemesis=KILL,
    steps=(
        *ON_BOTH,
        Do(Call(f=RESTORE, node="ch2")),
        Until(read("ch2"), shows(0), pause_s=0.05),
        # The other replica's part refers to an object that does not exist.
        Do(Call(f=LOOK, node="ch1")),
        # The restored replica has a copy of that object; without it nobody has the part.
        Do(Call(f=REBUILD, node="ch2")),
        *DEAD.begins,
        DEAD.ends,
    ),
    finding=Finding("objects", "lost"),
    replicas=2,
    store=True,
)

ORPHANED_MOVE = Scenario(
    name="orphaned-move",
    text="the objects of a moved part stay for good if the part is mutated while a second replica, "
    "which is to move it too, fetches what the first one has stored",
    workload=MOVED,
    needs=(Mechanism.ZERO_COPY,),
    nemesis="store-slow",
    clients=2,
    steps=(
        *ON_BOTH,
        Do(_move("ch1")),
        *SLOW_READS.begins,
        Do(_move("ch2"), ends=(Kind.OK, Kind.INFO), by=1, wait=False),
        # The second replica takes its lock, then reads the part's files.
        under_way("ch2", "ALTER", 1.0),
        Do(Call(f="mutate", key=0, node="ch1")),
        Joined(),
        SLOW_READS.ends,
    ),
    finding=Finding("objects", "orphan"),
    replicas=2,
    store=True,
)

MOVED_TWICE = Scenario(
    name="moved-twice",
    text="two replicas move a part to the store, each with objects of its own, if the first is "
    "paused in the middle until its session has expired",
    workload=MOVED,
    needs=(Mechanism.ZERO_COPY,),
    nemesis=f"{PAUSE},store-slow",
    clients=2,
    steps=(
        *ON_BOTH,
        *SLOW.begins,
        Do(_move("ch1"), ends=(Kind.OK, Kind.INFO), wait=False),
        under_way("ch1", "ALTER", 1.0),
        *FROZEN.begins,
        SLOW.ends,
        # It waits for the lock of the first, which lasts as long as the session.
        Do(_move("ch2"), by=1),
        FROZEN.ends,
        Joined(),
    ),
    finding=Finding("objects", "copied"),
    replicas=2,
    store=True,
)

SOLE_MOVER = Scenario(
    name="sole-mover",
    text="of two replicas that are to move a part to the store at the same moment one stores it, "
    "and the other shares the objects",
    workload=MOVED,
    needs=(Mechanism.ZERO_COPY,),
    nemesis="store-slow",
    clients=2,
    steps=(
        *ON_BOTH,
        *SLOW_WRITES.begins,
        Do(_move("ch1"), wait=False),
        Do(_move("ch2"), by=1, wait=False),
        Rest(2.0),
        SLOW_WRITES.ends,
        Joined(),
    ),
    finding=Held("objects", figures=("sole_writer", "objects")),
    replicas=2,
    store=True,
)
