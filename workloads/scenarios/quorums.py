"""Quorums that fail correctly, parts that outlive a failed quorum, and quorums that end although no
replica has the part."""

from collections.abc import Mapping

from checkers.ladder import Level
from checkers.quorum.quorum_parts import OBSERVE
from harness.core.op import Call, Kind, Op
from harness.core.seed import Seed
from harness.generators.script import Do, Joined, Rest, Until
from workloads.blocks import BlockOptions
from workloads.failed_parts import FailedPartsOptions, failed_parts
from workloads.quorum_durability import quorum_durability
from workloads.scenarios.scenario import Finding, Held, Scenario
from workloads.scenarios.steps import (
    KILL,
    PENDING,
    REPLICAS,
    SESSION_GONE_S,
    Ended,
    insert,
    killed,
    lurking,
    read,
    shows,
)

DEAD = killed("ch1", number=2)


def _failed(op: Op) -> bool:
    return isinstance(op.value, Mapping) and bool(op.value.get("failed"))


def _where(node: str) -> Call:
    return Call(f="where", key=0, node=node)


BEFORE = (Do(insert(0, "ch2")), Until(read("ch1"), shows(0), by=1, pause_s=0.05))
ALONE = (*PENDING.begins, Do(insert(1, "ch1"), ends=(Kind.INFO,)), Do(_where("ch1"), by=1))
"""Value 1 is on ch1 only, and its quorum is pending."""
FAILS = Until(Call(f=OBSERVE, node="ch2"), _failed, by=1, tries=60, pause_s=0.5)
"""The others find that nobody active has the part."""
WHERE = tuple(Do(_where(node), by=1) for node in REPLICAS)


def _shown(*values: int) -> tuple[Until, ...]:
    return tuple(Until(read(n), shows(*values), by=1, tries=60, pause_s=0.5) for n in REPLICAS)


FAILED_PART = Scenario(
    name="failed-part",
    text="a quorum insert whose replica dies before anybody has fetched its part fails: no "
    "sequentially consistent read returns it, its replica drops it, and it can be inserted again",
    workload=failed_parts(FailedPartsOptions(), Seed(1), Level.EVENTUAL, faults_expected=True),
    nemesis=f"stop-fetches,{KILL}",
    clients=2,
    steps=(
        *BEFORE,
        *ALONE,
        *DEAD.begins,
        Rest(SESSION_GONE_S),
        PENDING.ends,
        FAILS,
        *(Until(read(node), Ended(), by=1, tries=60, pause_s=0.5) for node in ("ch2", "ch3")),
        DEAD.ends,
        Until(read("ch1"), Ended(), by=1, tries=60, pause_s=0.5),
        Do(insert(2, "ch3")),
        *_shown(2),
        Until(insert(1, "ch1"), Ended(), tries=60, pause_s=0.5),
        *_shown(1, 2),
        *WHERE,
    ),
    finding=Held("failed-parts", ("known", "inserted_again")),
)

LATE_ACTIVE, LATE_FAILED = "zk-delay-active", "zk-delay-failed"
ACTIVE = lurking(LATE_ACTIVE, "ch1", number=3)
FAILED = lurking(LATE_FAILED, "ch2", "ch3", number=4)
ALL_DEAD = killed(*REPLICAS, number=2)

FAILED_PART_MISSED = Scenario(
    name="failed-part-missed",
    text="a quorum fails while the replica that has its part comes back, which has just asked what "
    "had failed: it keeps the part, which its sequentially consistent reads return, twice when the "
    "insert is made again",
    workload=failed_parts(FailedPartsOptions(), Seed(1), Level.EVENTUAL, faults_expected=True),
    nemesis=f"stop-fetches,{KILL},{LATE_ACTIVE},{LATE_FAILED}",
    clients=2,
    steps=(
        *BEFORE,
        *ACTIVE.begins,
        *FAILED.begins,
        *ALONE,
        *ALL_DEAD.begins,
        Rest(SESSION_GONE_S),
        # All come back at once. ch1 asks what has failed, nothing has, and is active two seconds
        # later; the others find meanwhile that no active replica has its part.
        ALL_DEAD.ends,
        FAILS,
        ACTIVE.ends,
        FAILED.ends,
        PENDING.ends,
        Until(insert(2, "ch3"), Ended(), tries=60, pause_s=0.5),
        *_shown(2),
        # Made again, as its error asks, the insert is there twice.
        Until(insert(1, "ch3"), Ended(), tries=60, pause_s=0.5),
        *_shown(1, 2),
        *WHERE,
        Do(Call(f=OBSERVE, node="ch2"), by=1),
    ),
    finding=Finding("failed-parts", "read-again"),
)

LATE_FETCH, LATE_END, LATE_READ = (
    "fetch-delay-response",
    "zk-delay-quorum-end",
    "zk-delay-last-part",
)
AWAY = killed("ch2")
FETCH, END, READ = (
    lurking(LATE_FETCH, "ch1", number=2),
    lurking(LATE_END, "ch3", number=3),
    lurking(LATE_READ, "ch2", number=4),
)

UNCOUNTED_QUORUM = Scenario(
    name="uncounted-quorum",
    text="a quorum insert is acknowledged while one replica has its part: another replica, late to "
    "end the quorum of the insert before, ends this one's",
    workload=quorum_durability(BlockOptions(), Seed(1), Level.EVENTUAL, faults_expected=True),
    nemesis=f"{KILL},{LATE_FETCH},{LATE_END},{LATE_READ}",
    clients=2,
    steps=(
        # While ch2 is away it is ch3 that ends quorums; and when it is back it does not lead, for
        # who leads asks for the last part too, to choose merges.
        *AWAY.begins,
        *FETCH.begins,
        Do(insert(0, "ch1")),
        Joined(),
        *END.begins,
        Do(insert(1, "ch1")),
        Joined(),
        AWAY.ends,
        Until(insert(2, "ch2"), Ended(), tries=60, pause_s=0.5),
        Until(read("ch2"), shows(0, 1, 2), pause_s=0.1),
        *READ.begins,
        # Its part comes to ch2 and ch3 after a second, and both read that one replica is lacking.
        # ch3 ends the quorum a third of a second later;
        Do(insert(3, "ch1")),
        # the next insert begins, and ch2 takes its status for that of the one before.
        Do(insert(4, "ch1")),
        Do(Call(f=OBSERVE, node="ch1"), by=1),
        Joined(),
        Do(_where("ch1"), by=1),
        FETCH.ends,
        END.ends,
        READ.ends,
    ),
    finding=Finding("durability", "acknowledged-early"),
)
