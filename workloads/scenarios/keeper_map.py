"""Statements on KeeperMap tables whose request a server repeats, because the answer to the first
one was lost.

The server does not look whether its first request was executed (StorageKeeperMapSink::finalize and
StorageKeeperMap::mutate of 25.8, `retryLoop`)."""

from dataclasses import dataclass

from checkers.consistency.objects import ACQUIRE, RELEASE
from harness.core.dialect import Mechanism
from harness.core.op import Call, Kind, Op
from harness.core.protocols import Workload
from harness.core.seed import Seed
from harness.generators.script import Do, Joined, Until
from workloads.keeper_map import KeeperMapOptions, keeper_map
from workloads.scenarios.scenario import Finding, Scenario
from workloads.scenarios.steps import Ended, insert, lurking, read, shows

CUT = "coordinated-cut-response"
UNANSWERED = lurking(CUT, "ch1")


def _workload(shape: str) -> Workload:
    options = KeeperMapOptions(shape=shape, timeout_s=30.0)
    return keeper_map(options, Seed(1), options.promise, faults_expected=True)


def _write(value: int, node: str) -> Call:
    return Call(f="write", value=value, key=0, node=node)


def _acquire(token: int, node: str) -> Call:
    return Call(f=ACQUIRE, value=token, key=0, node=node)


@dataclass(frozen=True, slots=True)
class _Returns:
    """The condition that a read of a register returned a value."""

    value: int

    def __call__(self, op: Op) -> bool:
        """Return whether it did."""
        return op.kind is Kind.OK and op.value == self.value


REPEATED_INSERT = Scenario(
    name="repeated-insert",
    text="a row of a KeeperMap table is inserted, and its server does not hear so; another server "
    "overwrites it, is acknowledged, and then the first one inserts it again",
    workload=_workload("register"),
    needs=(Mechanism.KEEPER_MAP,),
    nemesis=CUT,
    clients=2,
    steps=(
        Do(_write(1, "ch1")),
        *UNANSWERED.begins,
        Do(_write(2, "ch1"), wait=False),
        Until(read("ch2"), _Returns(2), by=1, tries=200, pause_s=0.02),
        Do(_write(3, "ch2"), by=1),
        Until(read("ch2"), _Returns(2), by=1, tries=400, pause_s=0.05),
        UNANSWERED.ends,
        Joined(),
    ),
    finding=Finding("sequential", "cycle"),
)

REFUSED_ITSELF = Scenario(
    name="refused-itself",
    text="a strict INSERT into a KeeperMap table adds its row, its server does not hear so, tries "
    "again, and tells the client that the row exists: the client takes itself for the second",
    workload=_workload("set"),
    needs=(Mechanism.KEEPER_MAP,),
    nemesis=CUT,
    clients=2,
    steps=(
        Do(insert(1, "ch1")),
        *UNANSWERED.begins,
        Do(insert(2, "ch1"), wait=False, ends=(Kind.FAIL,)),
        Until(read("ch2"), shows(2), by=1, tries=200, pause_s=0.02),
        UNANSWERED.ends,
        Joined(),
    ),
    finding=Finding("set-full", "phantom"),
)

DELETED_TWICE = Scenario(
    name="deleted-twice",
    text="a strict DELETE releases a mutex in a KeeperMap table, and its server does not hear so; "
    "another client acquires it, the server deletes again, and a third client acquires it too",
    workload=_workload("mutex"),
    needs=(Mechanism.KEEPER_MAP,),
    nemesis=CUT,
    clients=3,
    steps=(
        Do(_acquire(1, "ch1")),
        *UNANSWERED.begins,
        Do(Call(f=RELEASE, value=2, key=0, node="ch1"), wait=False),
        Until(_acquire(3, "ch2"), Ended(), by=1, tries=400, pause_s=0.02),
        Until(_acquire(4, "ch3"), Ended(), by=2, tries=400, pause_s=0.05),
        UNANSWERED.ends,
        Joined(),
    ),
    finding=Finding("linearizable", "cycle"),
)
