"""Reads that return the past, or that no order of the calls explains."""

from collections.abc import Sequence

from harness.core.op import Op
from harness.generators.script import Do, Joined, Rest, ScriptStep, Then, Until
from workloads.scenarios.scenario import (
    Finding,
    Scenario,
    armed,
    begin,
    disarmed,
    end,
    insert,
    read,
    shows,
)
from workloads.scripted_set import ScriptedSet

REPLICAS = ("ch1", "ch2", "ch3")
BIG_BYTES = 192 << 20
"""A part that takes a second or so to fetch."""
LAG = "stop-fetches-one"


def _everywhere(value: int) -> tuple[ScriptStep, ...]:
    return tuple(Until(read(node), shows(value), pause_s=0.05) for node in REPLICAS)


def _behind_the_follower(ended: tuple[Op, ...]) -> Sequence[ScriptStep]:
    """A replica reads through the ZooKeeper server of its own number."""
    fault = ended[-1].value
    assert isinstance(fault, dict), "a fault that began says what it did"
    behind = f"ch{str(fault['follower']).removeprefix('zk')}"
    writer = next(node for node in REPLICAS if node != behind)
    return (Do(insert(1, writer)), Do(read(behind)))


STALE_READ = Scenario(
    name="stale-read",
    text="a sequentially consistent read misses an insert that a quorum acknowledged before, for "
    "the replica reads through a ZooKeeper follower that was cut from its leader",
    workload=ScriptedSet(name="scenario-stale-read"),
    nemesis="partition-keeper-follower",
    steps=(
        Do(insert(0, "ch1")),
        *_everywhere(0),
        Do(begin("partition", 1, "partition-keeper-follower", order=["zk1", "zk2", "zk3"])),
        Then(_behind_the_follower),
    ),
    finding=Finding("set-full", "stale"),
)


def _skipping(writers: tuple[int, int], *between: ScriptStep) -> tuple[ScriptStep, ...]:
    """ch3 lags by a big part and a small one; the small one comes first."""
    first, second = writers
    return (
        Do(insert(0, "ch1")),
        *_everywhere(0),
        Do(begin("stop-fetches", 1, LAG, nodes=["ch3"])),
        Do(insert(1, "ch1"), by=first),
        *between,
        # By another replica, so that ch3 need not ask for both at the same place.
        Do(insert(2, "ch2"), by=second),
        Do(end("stop-fetches", 1, LAG), wait=False),
        Until(read("ch3"), shows(2), tries=4_000, pause_s=0.005),
        Joined(),
    )


SKIPPED_PART = Scenario(
    name="skipped-part",
    text="a sequentially consistent read returns an insert without the one that was acknowledged "
    "before that one began, for the replica looks for the last quorum part alone",
    workload=ScriptedSet(name="scenario-skipped-part", padded={1: BIG_BYTES}),
    nemesis="stop-fetches",
    steps=_skipping((0, 0)),
    finding=Finding("monotonic-writes", "monotonic-writes"),
)

INCOMPARABLE_READS = Scenario(
    name="incomparable-reads",
    text="two sequentially consistent reads return sets of which neither contains the other, so "
    "that no order of the inserts explains both",
    workload=ScriptedSet(name="scenario-incomparable-reads", padded={1: BIG_BYTES}),
    nemesis="stop-fetches",
    clients=4,
    # Each by another client, so that nothing but the two reads is against an order.
    steps=_skipping((1, 2), Do(read("ch1"), by=3)),
    finding=Finding("sequential", "cycle"),
)

PLAIN_LAG: tuple[ScriptStep, ...] = (
    Do(begin("stop-fetches", 1, LAG, nodes=["ch2"])),
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
    steps=(Do(insert(0, "ch1")), Do(insert(1, "ch1")), Rest(1.0), Do(read("ch1"))),
    finding=Finding("set-full", "lost"),
)

DELAY = "zk-delay-request"

OVERTAKEN_INSERT = Scenario(
    name="overtaken-insert",
    text="a client does not read the quorum insert that was acknowledged to it, nor does anybody "
    "else, for an insert that began before got its quorum later",
    workload=ScriptedSet(name="scenario-overtaken-insert"),
    nemesis=DELAY,
    clients=2,
    steps=(
        Do(insert(0, "ch1")),
        *_everywhere(0),
        *armed(DELAY, "ch1"),
        # It has its block number at once, and is committed a second later.
        Do(insert(1, "ch1"), wait=False),
        Do(read("ch2"), by=1),
        Rest(0.3),
        Do(insert(2, "ch2"), by=1),
        Do(read("ch2"), by=1),
        Joined(),
        # Refused for as long as ch2 has not fetched the part.
        Until(read("ch2"), shows(1), by=1, pause_s=0.05),
        disarmed(DELAY),
    ),
    finding=Finding("read-your-writes", "read-your-writes"),
)
