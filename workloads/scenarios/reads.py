"""Reads that return an old state, or that no order of the calls explains."""

from collections.abc import Sequence

from harness.core.op import Call, Kind, Op
from harness.generators.script import Do, Joined, ScriptStep, Then, Until
from workloads.scenarios.scenario import Finding, Scenario
from workloads.scenarios.steps import (
    COMMIT,
    MESSAGES,
    REPLICAS,
    ScriptedFault,
    everywhere,
    fault,
    held,
    insert,
    lurking,
    read,
    shows,
)
from workloads.scenarios.waits import at_rest, rows_on, under_way
from workloads.scripted_set import ScriptedSet

LAG = "stop-fetches-one"
LAGGING = fault("stop-fetches", LAG, nodes=["ch3"])


def cut_off(number: int = 1) -> ScriptedFault:
    """Return the fault that cuts the first following ZooKeeper server off from its peers."""
    return fault("partition", "partition-keeper-follower", number, order=["zk1", "zk2", "zk3"])


def behind_the_follower(ended: tuple[Op, ...]) -> str:
    """Return the replica that reads through the ZooKeeper server that was just cut off, which has
    the same number."""
    fault = ended[-1].value
    assert isinstance(fault, dict), "a fault that began says what it did"
    return f"ch{str(fault['follower']).removeprefix('zk')}"


def _read_behind(ended: tuple[Op, ...]) -> Sequence[ScriptStep]:
    behind = behind_the_follower(ended)
    writer = next(node for node in REPLICAS if node != behind)
    return (Do(insert(1, writer)), Do(read(behind)))


def _sync_and_read_behind(ended: tuple[Op, ...]) -> Sequence[ScriptStep]:
    wrote, reads = _read_behind(ended)
    return (wrote, Do(Call(f="sync", key=0, node=behind_the_follower(ended))), reads)


STALE_READ = Scenario(
    name="stale-read",
    text="a sequentially consistent read misses an insert that a quorum acknowledged before, for "
    "the replica reads through a ZooKeeper follower that was cut from its leader",
    workload=ScriptedSet(name="scenario-stale-read"),
    nemesis="partition-keeper-follower",
    steps=(
        Do(insert(0, "ch1")),
        *everywhere(0),
        # A write of its own for which the follower waits would hold up the replica's read.
        *at_rest(0.0, *REPLICAS),
        *cut_off().begins,
        Then(_read_behind),
    ),
    finding=Finding("set-full", "stale"),
)


UNSYNCED_READ = Scenario(
    name="unsynced-read",
    text="a SYSTEM SYNC REPLICA returns at once and the next read misses an insert that a quorum "
    "had acknowledged, because the replica reads the log through a ZooKeeper follower that was cut "
    "from its leader",
    workload=ScriptedSet(name="scenario-unsynced-read", sequential=False),
    nemesis="partition-keeper-follower",
    steps=(
        Do(insert(0, "ch1")),
        *everywhere(0),
        # A write of its own for which the follower waits would hold up the replica's read.
        *at_rest(0.0, *REPLICAS),
        *cut_off().begins,
        Then(_sync_and_read_behind),
    ),
    finding=Finding("set-full", "stale"),
)


LATE_PART = "fetch-hold-second"
SECOND_HELD = lurking(LATE_PART, "ch1", "ch2", number=2)


def _skipping(writers: tuple[int, int], *between: ScriptStep) -> tuple[ScriptStep, ...]:
    """Return the steps in which ch3 lags by two parts; the first is on its way for as long as the
    second takes to come."""
    first, second = writers
    return (
        Do(insert(0, "ch1")),
        *everywhere(0),
        *LAGGING.begins,
        Do(insert(1, "ch1"), by=first),
        *between,
        *SECOND_HELD.begins,
        LAGGING.ends,
        Do(insert(2, "ch2"), by=second),
        Until(read("ch3"), shows(2), pause_s=0.05),
        SECOND_HELD.ends,
    )


SKIPPED_PART = Scenario(
    name="skipped-part",
    text="a sequentially consistent read returns an insert without the one that was acknowledged "
    "before that one began, for the replica looks for the last quorum part alone",
    workload=ScriptedSet(name="scenario-skipped-part"),
    nemesis=f"stop-fetches,{LATE_PART}",
    steps=_skipping((0, 0)),
    finding=Finding("monotonic-writes", "monotonic-writes"),
)

INCOMPARABLE_READS = Scenario(
    name="incomparable-reads",
    text="two sequentially consistent reads return sets of which neither contains the other, so "
    "that no order of the inserts explains both",
    workload=ScriptedSet(name="scenario-incomparable-reads"),
    nemesis=f"stop-fetches,{LATE_PART}",
    clients=4,
    # Each by another client, so that nothing but the two reads is against an order.
    steps=_skipping((1, 2), Do(read("ch1"), by=3)),
    finding=Finding("sequential", "cycle"),
)

LAGGING_WRITER = Scenario(
    name="lagging-writer",
    text="a replica that lacks the last quorum insert takes the next one, and from then on answers "
    "sequentially consistent reads without the one that it lacks",
    workload=ScriptedSet(name="scenario-lagging-writer"),
    nemesis="stop-fetches",
    steps=(
        Do(insert(0, "ch1")),
        *everywhere(0),
        *LAGGING.begins,
        Do(insert(1, "ch1")),
        Do(insert(2, "ch3")),
        Until(read("ch3"), shows(2), pause_s=0.05),
        LAGGING.ends,
    ),
    finding=Finding("read-your-writes", "read-your-writes"),
)

EARLY_SNAPSHOT = Scenario(
    name="early-snapshot",
    text="a client reads a replica without the insert that a quorum acknowledged to it, for the "
    "server has chosen the parts to read before it looks for the last quorum part among them",
    workload=ScriptedSet(name="scenario-early-snapshot", analysis_s={"ch3": 3}),
    nemesis="stop-fetches",
    steps=(
        Do(insert(0, "ch1")),
        *everywhere(0),
        *LAGGING.begins,
        Do(insert(1, "ch1")),
        # Its parts are chosen at once; the last quorum part is looked for three seconds later. A
        # server that chooses them afterwards answers rightly, or refuses (289).
        Do(read("ch3"), ends=(Kind.OK, Kind.FAIL), wait=False),
        under_way("ch3", "SELECT value", 0.5),
        LAGGING.ends,
        Joined(),
    ),
    finding=Finding("read-your-writes", "read-your-writes"),
)

PLAIN_LAG: tuple[ScriptStep, ...] = (
    *fault("stop-fetches", LAG, nodes=["ch2"]).begins,
    Do(insert(0, "ch1")),
)

BACKWARDS_READ = Scenario(
    name="backwards-read",
    text="a client that goes from one replica to another reads a value and then does not",
    workload=ScriptedSet(name="scenario-backwards-read", quorum=None, sequential=False),
    nemesis="stop-fetches",
    clients=2,
    steps=(*PLAIN_LAG, Do(read("ch1"), by=1), Do(read("ch2"), by=1)),
    finding=Finding("monotonic-reads", "monotonic-reads"),
)

UNSEEN_WRITE = Scenario(
    name="unseen-write",
    text="a client does not read at one replica what it has written at another",
    workload=ScriptedSet(name="scenario-unseen-write", quorum=None, sequential=False),
    nemesis="stop-fetches",
    steps=(*PLAIN_LAG, Do(read("ch2"))),
    finding=Finding("read-your-writes", "read-your-writes"),
)

HIDDEN_INSERT = Scenario(
    name="hidden-insert",
    text="an insert without a quorum is acknowledged, is on every replica, and is in no "
    "sequentially consistent read once its partition has seen a quorum insert",
    workload=ScriptedSet(name="scenario-hidden-insert", plain=frozenset({1})),
    steps=(
        Do(insert(0, "ch1")),
        Do(insert(1, "ch1")),
        *rows_on(1.0, 2, "ch2", "ch3"),
        Do(read("ch1")),
    ),
    finding=Finding("set-full", "lost"),
)

OVERTAKING: tuple[ScriptStep, ...] = (
    Do(insert(0, "ch1")),
    *everywhere(0),
    held("hold", 1, "ch1", "multi", COMMIT),
    # It has its block number and is not committed before it is released.
    Do(insert(1, "ch1"), wait=False),
    held("await", 2, "ch1", "multi", COMMIT),
    Do(insert(2, "ch2"), by=1),
    held("release", 3, "ch1", "multi", COMMIT),
    Joined(),
)
"""Value 2 has its quorum before value 1, whose block number is lower."""

OVERTAKEN_INSERT = Scenario(
    name="overtaken-insert",
    text="a client does not read the quorum insert that was acknowledged to it, nor does anybody "
    "else, for an insert that began before got its quorum later",
    workload=ScriptedSet(name="scenario-overtaken-insert"),
    nemesis=MESSAGES,
    clients=2,
    steps=(
        *OVERTAKING,
        # Refused for as long as ch2 has not fetched the part.
        Until(read("ch2"), shows(1), by=1, pause_s=0.05),
    ),
    finding=Finding("read-your-writes", "read-your-writes"),
)

MERGED_AWAY = Scenario(
    name="merged-away",
    text="every row of a partition vanishes from sequentially consistent reads, for an insert has "
    "overtaken another and a merge has made one part of all, which lies above the last quorum part",
    workload=ScriptedSet(name="scenario-merged-away"),
    nemesis=MESSAGES,
    clients=3,
    steps=(
        *OVERTAKING,
        Until(read("ch2"), shows(0, 1), by=2, pause_s=0.05),
        Do(Call(f="optimize", key=0, node="ch2"), by=1),
        Do(read("ch2"), by=2),
    ),
    finding=Finding("monotonic-reads", "monotonic-reads"),
)
