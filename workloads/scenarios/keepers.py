"""Scripts on ZooKeeper alone, in which servers lose transactions that were acknowledged."""

from collections.abc import Sequence
from typing import Final

from checkers.ladder import Level
from compose.settings import Settings, Storage
from harness.core.op import Json, Kind, Op
from harness.core.protocols import Workload
from harness.core.seed import Seed
from harness.generators.script import Do, Joined, Rest, ScriptStep, Then, Until
from workloads.scenarios.scenario import FAULTY_DISKS, Finding, Scenario
from workloads.scenarios.steps import (
    Ended,
    ScriptedFault,
    fault,
    insert,
    once,
    read,
    shows,
)
from workloads.zookeeper import ZooKeeperOptions, ZooKeeperWorkload

KILL: Final = "kill-zookeeper-one"
CUT: Final = "partition-zookeeper-one"
LOG: Final = "disk-eio-log"
FIVE: Final = ("zk1", "zk2", "zk3", "zk4", "zk5")


def _children() -> Workload:
    """Return the workload of sets of children, whose reads follow a sync."""
    options = ZooKeeperOptions(shape="children")
    return ZooKeeperWorkload(options, Seed(1), Level.LINEARIZABLE, faults_expected=True)


def _killed(number: int, *nodes: str) -> ScriptedFault:
    """Return the fault in which servers are killed, and started again at its end."""
    return fault("kill", KILL, number, nodes=list(nodes))


def _apart(number: int, *parts: Sequence[str]) -> ScriptedFault:
    """Return the fault in which servers of different parts do not hear each other."""
    nodes = [node for part in parts for node in part]
    grudge: dict[str, Json] = {
        node: [other for other in nodes if other not in part] for part in parts for node in part
    }
    text = f"{{{' | '.join(' '.join(part) for part in parts)}}}"
    return fault("partition", CUT, number, grudge=grudge, text=text)


def _serves(node: str) -> Until:
    """Return the step that ends when the ZooKeeper server of a replica answers."""
    return Until(read(node), Ended(), tries=300, pause_s=0.1)


def _inserts(values: Sequence[int], node: str) -> tuple[ScriptStep, ...]:
    return (_serves(node), *(Do(insert(value, node)) for value in values))


_STALE = _apart(1, FIVE[:1], FIVE[1:])
_JOINING = _killed(2, "zk3")
_OTHERS = _killed(3, "zk4", "zk5")

HANDED_ON_HOLE = Scenario(
    name="handed-on-hole",
    text="a ZooKeeper follower that gets committed transactions while it joins does not hand them "
    "on when it leads: a server that was away longer never has them",
    workload=_children(),
    nemesis=f"{CUT},{KILL}",
    keepers=5,
    steps=(
        *_inserts([0], "ch2"),
        *_STALE.begins,
        *_inserts(range(1, 4), "ch2"),
        *_JOINING.begins,
        *_inserts(range(4, 7), "ch2"),
        # It gets these as committed while it joins.
        _JOINING.ends,
        _serves("ch3"),
        *_inserts([7], "ch2"),
        # zk1 lacks transactions, zk2 and zk3 have them all: zk3, whose number is higher, leads.
        *_OTHERS.begins,
        _STALE.ends,
        *_inserts([8], "ch3"),
        _serves("ch1"),
        Until(read("ch1"), shows(8), pause_s=0.1),
    ),
    finding=Finding("convergence", "diverged"),
    time_limit_s=180,
    quiesce_s=10,
)


_FOLLOWER = _killed(6, "zk1")
_AWAY = _apart(1, ["zk1"], ["zk2", "zk3"])
_FIRST = _killed(2, "zk3")
_FOLLOWS = fault(LOG, f"{LOG}-zookeeper-one", 3, nodes=["zk1"], kind="fail-log")
_BOTH = _killed(4, "zk1", "zk2")
_LEFT_OUT = _apart(5, ["zk2"], ["zk1", "zk3"])
FOLLOWED_S: Final = 30.0
"""Time for elections, until the follower is told of a new epoch: a leader whose follower has failed
gives up after ten seconds."""
STEPPED_DOWN_S: Final = 3.0
"""Time in which a leader whose last follower was killed notices."""

EARLY_EPOCH = Scenario(
    name="early-epoch",
    text="a ZooKeeper follower notes a new epoch before the transactions that it got with it are "
    "in its log, and is killed: it leads by that epoch, and acknowledged transactions are lost",
    workload=_children(),
    nemesis=f"{CUT},{KILL},{LOG}",
    steps=(
        # It follows; a leader that was cut off would be sent a snapshot.
        *_FOLLOWER.begins,
        *_inserts([0], "ch2"),
        _FOLLOWER.ends,
        _serves("ch1"),
        *_AWAY.begins,
        *_inserts(range(1, 4), "ch2"),
        *_FIRST.begins,
        Rest(STEPPED_DOWN_S),
        *_FOLLOWS.begins,
        _AWAY.ends,
        # It is led by zk2, which has the transactions, and notes its epoch.
        Rest(FOLLOWED_S),
        *_BOTH.begins,
        _FOLLOWS.ends,
        *_LEFT_OUT.begins,
        _BOTH.ends,
        *_inserts([4], "ch1"),
        _LEFT_OUT.ends,
        _serves("ch2"),
        Until(read("ch2"), shows(4), pause_s=0.1),
    ),
    finding=Finding("linearizable", "cycle"),
    time_limit_s=180,
    quiesce_s=10,
    settings=FAULTY_DISKS,
)

_FAILS = fault(LOG, f"{LOG}-zookeeper-one", 1, nodes=["zk1"], kind="fail-log")
_REOPENED = _killed(2, "zk1")
_RELOADED = _killed(3, "zk1")

UNWRITTEN = Scenario(
    name="unwritten",
    text="a ZooKeeper follower that cannot write its log for a moment has applied transactions "
    "that are not in it, and follows again without them: after a restart it lacks them for good",
    workload=_children(),
    nemesis=f"{LOG},{KILL}",
    steps=(
        *_inserts([0], "ch2"),
        _serves("ch1"),
        *_FAILS.begins,
        # A server that was started makes a new file for its log.
        *_REOPENED.begins,
        _REOPENED.ends,
        *(step for value in range(1, 9) for step in (Do(insert(value, "ch2")), Rest(0.5))),
        _FAILS.ends,
        _serves("ch1"),
        *_inserts([9], "ch2"),
        Until(read("ch1"), shows(9), pause_s=0.1),
        *_RELOADED.begins,
        _RELOADED.ends,
        _serves("ch1"),
        *_inserts([10], "ch2"),
        Until(read("ch1"), shows(10), pause_s=0.1),
    ),
    finding=Finding("convergence", "diverged"),
    time_limit_s=180,
    quiesce_s=10,
    settings=FAULTY_DISKS,
)

POWER: Final = "power-cut-zookeeper-one"
SLOW: Final = "disk-slow-log"
RESTART: Final = "restart-zookeeper-one"
PATIENT: Final = Settings(storage=Storage.FAULTY, init_limit=120)
"""Disks that fail on command, and a leader that waits a minute for a follower with a slow one."""
DEPOSED_S: Final = 8.0
"""Time in which a leader that nobody hears steps down, and its followers leave it: 5 s."""
LOOKERS: Final = 24
"""Number of clients that read once with a session of their own from before: a new one would need a
transaction."""
LOOK_S: Final = 2.0
"""Time between two of their reads."""
_ALONE = _apart(3, ["zk1"], ["zk2"])
_LATE = fault(SLOW, f"{SLOW}-zookeeper-one", 4, nodes=["zk1"], kind="slow-log", delay_ms=10_000)
_DARK = fault("power-cut", POWER, 5, nodes=["zk1"], seed=0)
_GONE = _killed(2, "zk3")
_LEADER = _killed(6, "zk2")
_OUT = _apart(7, ["zk2"], ["zk1", "zk3"])
_LOOKERS = range(1, LOOKERS + 1)


def _zk2_leads() -> tuple[ScriptStep, ...]:
    """Return the steps after which zk1 follows zk2 and zk3 is dead: of two servers with the same
    transactions the one with the higher number leads."""
    return (*_GONE.begins, Do(once("restart", 1, RESTART, ["zk1"])), *_inserts(range(3), "ch2"))


def _only_on_the_leader(value: int) -> tuple[ScriptStep, ...]:
    """Return the steps after which zk2 alone has the insert, whose outcome is unknown: zk3 is dead,
    and zk1 does not hear it."""
    return (*_ALONE.begins, Do(insert(value, "ch2"), ends=(Kind.INFO,)))


def _looks(value: int, by: int = 1) -> Then:
    """Return the steps in which one client after the other reads, until one sees the value."""

    def go_on(ended: tuple[Op, ...]) -> Sequence[ScriptStep]:
        if by > LOOKERS or shows(value)(ended[-1]):
            return ()
        look = Do(read("ch2"), by=by, ends=(Kind.OK, Kind.INFO))
        return (Rest(LOOK_S if by > 1 else 0.0), look, _looks(value, by + 1))

    return Then(go_on)


UNLOGGED_ACK = Scenario(
    name="unlogged-ack",
    text="a ZooKeeper follower acknowledges its leader before its log has what it got with it: the "
    "leader commits and shows that, and after a power cut of the follower it is lost",
    workload=_children(),
    nemesis=f"{CUT},{KILL},{POWER},{SLOW},{RESTART}",
    clients=LOOKERS + 1,
    steps=(
        *_zk2_leads(),
        *(Do(read("ch2"), by=number) for number in _LOOKERS),
        *_only_on_the_leader(3),
        *_LATE.begins,
        _ALONE.ends,
        _looks(3),
        *_DARK.begins,
        *_LEADER.begins,
        _LATE.ends,
        *_OUT.begins,
        _LEADER.ends,
        _DARK.ends,
        *_inserts([4], "ch1"),
        _OUT.ends,
        _serves("ch2"),
        Until(read("ch2"), shows(4), pause_s=0.1),
    ),
    finding=Finding("linearizable", "cycle"),
    time_limit_s=240,
    quiesce_s=10,
    settings=PATIENT,
)

QUIET: Final = "pause-clickhouse-all"
WRITES: Final = "disk-eio-writes-zookeeper-one"
EXPIRED_S: Final = 8.0
"""Time in which sessions end whose clients are silent: six seconds at most, and a tick."""
LED_S: Final = 4.0
"""Time in which two servers follow each other, and the sessions of silent clients do not end."""
CANDIDATE_S: Final = 20.0
"""Time in which a server is elected that nobody can follow, and takes a snapshot."""
_SILENT = fault("pause", QUIET, 8, nodes=["ch1", "ch2", "ch3"])
_UNABLE = fault("disk-eio-writes", WRITES, 9, nodes=["zk1"], kind="fail-writes")
_PAIR = _killed(10, "zk1", "zk2")
_THIRD = _killed(11, "zk3")

UNTRUNCATED = Scenario(
    name="untruncated",
    text="a ZooKeeper server that is told to truncate its log keeps what a later snapshot has: "
    "it shows for good what no other server has",
    workload=_children(),
    nemesis=f"{CUT},{KILL},{RESTART},{WRITES},{QUIET}",
    steps=(
        # The end of a session is a transaction, after which zk2 would be sent a snapshot.
        *_SILENT.begins,
        *_zk2_leads(),
        Rest(EXPIRED_S),
        *_only_on_the_leader(3),
        Rest(DEPOSED_S),
        # zk1 elects zk2, which takes a snapshot, and cannot note the epoch in which to follow.
        *_UNABLE.begins,
        _ALONE.ends,
        Rest(CANDIDATE_S),
        *_PAIR.begins,
        _UNABLE.ends,
        *_OUT.begins,
        _PAIR.ends,
        # zk1 leads zk3 and notes an epoch, by which it leads zk2 before it has transactions.
        Rest(LED_S),
        *_THIRD.begins,
        # zk1 no longer leads when it is asked.
        Rest(STEPPED_DOWN_S),
        _OUT.ends,
        *_inserts([4], "ch1"),
        _THIRD.ends,
        _serves("ch2"),
        Until(read("ch2"), shows(4), pause_s=0.1),
        _SILENT.ends,
    ),
    finding=Finding("convergence", "diverged"),
    time_limit_s=240,
    quiesce_s=10,
    settings=PATIENT,
)

_PACED = fault(
    SLOW, f"{SLOW}-zookeeper-majority", 12, nodes=["zk1", "zk2"], kind="slow-log", delay_ms=150
)
_SLUGGISH = fault(
    "disk-slow", "disk-slow-zookeeper-one", 13, nodes=["zk3"], kind="slow", delay_ms=200
)
JOINS: Final = 4
"""Number of times that a server is killed and joins."""
WRITTEN: Final = 30
"""Number of inserts in which it is started and joins."""


def _join(number: int) -> tuple[ScriptStep, ...]:
    """Return the steps in which zk3 is killed, and joins while others write."""
    away = _killed(14 + number, "zk3")
    first = 1 + number * WRITTEN
    return (
        *away.begins,
        *_inserts([first], "ch2"),
        Do(away.ends.call, wait=False),
        *(Do(insert(value, "ch2")) for value in range(first + 1, first + WRITTEN)),
        Joined(),
    )


FAILED_JOIN = Scenario(
    name="failed-join",
    text="a ZooKeeper follower that joins while others write fails when a transaction is committed "
    "before it may serve (NullPointerException), and joins again",
    workload=_children(),
    nemesis=f"{KILL},{SLOW},disk-slow-zookeeper-one",
    steps=(
        *_inserts([0], "ch2"),
        # An insert is always on its way, and for less time than zk3 takes to note the epoch.
        *_PACED.begins,
        *_SLUGGISH.begins,
        *(step for number in range(JOINS) for step in _join(number)),
        _PACED.ends,
        _SLUGGISH.ends,
        _serves("ch3"),
        Until(read("ch3"), shows(JOINS * WRITTEN), pause_s=0.1),
    ),
    finding=Finding("health", "failed-join"),
    time_limit_s=180,
    quiesce_s=10,
    settings=FAULTY_DISKS,
)
