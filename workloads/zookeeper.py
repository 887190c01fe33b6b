"""ZooKeeper itself on trial: the control experiment, on a system whose promises are documented.

Each worker's session is with the ZooKeeper server through which its replica reads. With a `sync`
before each read ZooKeeper promises linearizable reads, without it sequentially consistent ones
("Consistency Guarantees" of its programmer's guide). A leader that was cut off and has not noticed
may break this: it answers a `sync` by itself for tickTime x syncLimit (partition-one, when it draws
the leader).

A shape is what is done to the tree: SHAPES has its calls, its client and its checkers.
`zk-register` is the shape `register` under the name that it has always had.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kazoo.exceptions import KazooException, NoNodeError

from checkers.ladder import Level
from checkers.stats import Stats
from checkers.suite import register_checkers, set_checkers
from checkers.zookeeper.ephemeral import CLOSE, EXPIRE, HOLD, TOUCH, EphemeralNodes
from checkers.zookeeper.multi import CAS, MULTI, REFUSED, Multi
from checkers.zookeeper.sequence import CREATE, CREATE_DELETE, SequentialNumbers
from checkers.zookeeper.watches import WATCH, Watches
from harness.core.connections import SESSION_S, ZooKeeper, ZooKeeperError
from harness.core.errors import ClusterError, UsageError
from harness.core.op import Call, Json
from harness.core.protocols import Checker, Client, Cluster, Generator, Session
from harness.core.ranges import quoted, unknown_name, validate_numbers
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.generators.calls import numbered
from harness.generators.order import final_reads_on
from harness.generators.timing import rate
from workloads.keyed_calls import ENDLESS, calls_on_keys, register_call
from workloads.options import PacedOptions
from workloads.zookeeper_clients import (
    FINAL,
    READ,
    ChildrenClient,
    EphemeralClient,
    MultiClient,
    RegisterClient,
    SequenceClient,
    WatchClient,
    ZooKeeperClient,
)

HOLD_ONE_IN: Final = 800
"""Number of calls of which one keeps a session alive by reads alone, which takes nine seconds."""
REGISTER: Final = "register"
TICK_S: Final = 2.0
"""Time by which a server may end a session late: it looks for expired ones once a tick."""


def level_of_reads(*, synced: bool) -> Level:
    """Return the level that ZooKeeper promises for reads with or without a sync before them."""
    return Level.LINEARIZABLE if synced else Level.SEQUENTIAL


@dataclass(frozen=True, slots=True, kw_only=True)
class ZkRegisterOptions(PacedOptions):
    """Options of `zk-register`: which calls there are, and on how many registers."""

    register: str = "cas"
    """"cas": writes, reads and compare-and-set; "plain": writes and reads."""
    read: str = "sync"
    """"sync": a `sync` comes before each read; "plain": a read returns what the session's server
    has."""
    keys: int = 3
    """Number of registers in use at a time."""
    ops_per_key: int = 60
    """Number of calls on a register before a new one takes its place: calls of unknown outcome make
    every later call harder to judge."""
    ops_per_s: float = 200.0
    timeout_s: float = 3.0

    def validate(self, topology: Topology) -> None:  # noqa: ARG002
        """Raise UsageError for options that are out of range."""
        validate_numbers(self)
        choices = (
            ("register", self.register, ("cas", "plain")),
            ("read", self.read, ("sync", "plain")),
        )
        for name, value, allowed in choices:
            if value not in allowed:
                raise UsageError(f"{name} {quoted(value)}: expected one of {' '.join(allowed)}")

    @property
    def synced(self) -> bool:
        """Whether a sync comes before each read."""
        return self.read == "sync"

    @property
    def promise(self) -> Level:
        """Level that ZooKeeper promises for these reads."""
        return level_of_reads(synced=self.synced)

    @property
    def shape_name(self) -> str:
        """Name of the shape."""
        return REGISTER


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperOptions(ZkRegisterOptions):
    """Options of `zookeeper`: what is done to ZooKeeper's tree, and how its reads are made."""

    shape: str = REGISTER
    """"register": one node for each key, read, written and compared; "multi": nodes that are
    written together; "sequence": sequential nodes; "children": a set of children that grows;
    "ephemeral": nodes that end with their sessions; "watch": nodes that are watched."""
    keys: int = 3
    """Number of keys in use at a time: registers, groups of nodes, parents."""
    ops_per_key: int = 60
    """Number of calls on a key before a new one takes its place."""

    @property
    def shape_name(self) -> str:
        """Name of the shape."""
        return self.shape

    @property
    def promise(self) -> Level:
        """Level of the ladder that ZooKeeper promises; checkers of a shape's own judge the rest."""
        on_ladder = self.shape in SHAPES and SHAPES[self.shape].on_ladder
        return level_of_reads(synced=self.synced) if on_ladder else Level.EVENTUAL

    @property
    def unsimulated(self) -> str:
        """Option that simulated servers do not understand; "" if there is none."""
        lacks = self.shape in SHAPES and SHAPES[self.shape].unsimulated
        return f"-o shape={self.shape}" if lacks else ""

    def validate(self, topology: Topology) -> None:
        """Raise UsageError for options that are out of range."""
        ZkRegisterOptions.validate(self, topology)
        if self.shape not in SHAPES:
            raise UsageError(f"shape {unknown_name(self.shape, SHAPES)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What is done to ZooKeeper's tree, and who judges it."""

    promise: str
    """What ZooKeeper documents, and where."""
    call: Callable[[Seed, int, ZkRegisterOptions], Call]
    """Function of a key's seed, the number of a call on it, and the options."""
    client: type[ZooKeeperClient]
    checkers: Callable[[ZkRegisterOptions, Level, bool], Sequence[Checker]]
    """Function of the options, the run's promise, and whether a run without faults is UNKNOWN."""
    on_ladder: bool = False
    """Whether its reads are judged by levels of consistency."""
    unsimulated: bool = False
    """Whether it makes requests that simulated ZooKeeper servers do not answer."""
    one_key: bool = False
    """Whether all of its calls are on key 0."""
    rest_s: float = 0.0
    """Time that sessions which were given up are left to expire, before the final reads."""


def _mixed(*fs: str) -> Callable[[Seed, int, ZkRegisterOptions], Call]:
    """Return a function that draws a call among these, evenly; all but reads get their number as
    their value."""

    def call(own: Seed, number: int, options: ZkRegisterOptions) -> Call:  # noqa: ARG001
        f = fs[own.below(number, len(fs))]
        return Call(f=f) if f == READ else Call(f=f, value=number)

    return call


_OF_SESSIONS = _mixed(*[READ] * 4, *[CREATE] * 4, *[TOUCH] * 5, CLOSE, EXPIRE)


def _ephemeral_call(own: Seed, number: int, options: ZkRegisterOptions) -> Call:
    if own.below(-1 - number, HOLD_ONE_IN) == 0:
        return Call(f=HOLD, value=number)
    return _OF_SESSIONS(own, number, options)


def _register_call(own: Seed, number: int, options: ZkRegisterOptions) -> Call:
    return register_call(own, number, with_cas=options.register == "cas")


def _register_checkers(
    options: ZkRegisterOptions,  # noqa: ARG001
    promise: Level,  # noqa: ARG001
    faults_expected: bool,
) -> Sequence[Checker]:
    return register_checkers(faults_expected=faults_expected)


def _multi_checkers(
    options: ZkRegisterOptions,
    promise: Level,  # noqa: ARG001
    faults_expected: bool,
) -> Sequence[Checker]:
    enough = _enough({MULTI: 10, READ: 10}, faults_expected)
    return (enough, Multi(synced=options.synced))


def _sequence_checkers(
    options: ZkRegisterOptions,
    promise: Level,  # noqa: ARG001
    faults_expected: bool,
) -> Sequence[Checker]:
    enough = _enough({CREATE: 10, CREATE_DELETE: 5, READ: 10}, faults_expected)
    return (enough, SequentialNumbers(synced=options.synced))


def _children_checkers(
    options: ZkRegisterOptions,  # noqa: ARG001
    promise: Level,
    faults_expected: bool,
) -> Sequence[Checker]:
    return set_checkers(promise, faults_expected=faults_expected)


def _ephemeral_checkers(
    options: ZkRegisterOptions,
    promise: Level,  # noqa: ARG001
    faults_expected: bool,
) -> Sequence[Checker]:
    enough = _enough({CREATE: 10, TOUCH: 10, CLOSE: 5, EXPIRE: 5, READ: 10}, faults_expected)
    return (enough, EphemeralNodes(synced=options.synced))


def _watch_checkers(
    options: ZkRegisterOptions,  # noqa: ARG001
    promise: Level,  # noqa: ARG001
    faults_expected: bool,
) -> Sequence[Checker]:
    return (_enough({"write": 10, WATCH: 10}, faults_expected), Watches())


def _enough(min_ok: Mapping[str, int], faults_expected: bool) -> Stats:
    return Stats(min_ok=min_ok, faults_expected=faults_expected, final_read=FINAL)


SHAPES: Final[Mapping[str, Shape]] = {
    REGISTER: Shape(
        promise="writes are linearizable, reads follow a sync or their session's order "
        "(programmer's guide, Consistency Guarantees)",
        call=_register_call,
        client=RegisterClient,
        checkers=_register_checkers,
        on_ladder=True,
    ),
    "multi": Shape(
        promise="all operations of a multi happen or none, at one place in the order of writes "
        "(Java API, ZooKeeper.multi)",
        call=_mixed(READ, READ, MULTI, MULTI, CAS, REFUSED),
        client=MultiClient,
        checkers=_multi_checkers,
    ),
    "sequence": Shape(
        promise="the number at the end of a sequential node's name is unique to the parent and "
        "increases (programmer's guide, Sequence Nodes)",
        call=_mixed(READ, CREATE, CREATE, CREATE_DELETE),
        client=SequenceClient,
        checkers=_sequence_checkers,
    ),
    "ephemeral": Shape(
        promise="an ephemeral node exists as long as the session that created it (programmer's "
        "guide, Ephemeral Nodes and ZooKeeper Sessions)",
        call=_ephemeral_call,
        client=EphemeralClient,
        checkers=_ephemeral_checkers,
        unsimulated=True,
        one_key=True,
        # A new leader gives each session its whole timeout again.
        rest_s=2 * SESSION_S + TICK_S,
    ),
    "watch": Shape(
        promise="a watch fires once, and its client sees the event before the change "
        "(programmer's guide, ZooKeeper Watches)",
        call=_mixed(*["write"] * 4, WATCH),
        client=WatchClient,
        checkers=_watch_checkers,
        unsimulated=True,
    ),
    "children": Shape(
        promise="a node's list of children has each that was made (programmer's guide, Data Model)",
        call=_mixed(READ, "insert"),
        client=ChildrenClient,
        checkers=_children_checkers,
        on_ladder=True,
    ),
}
"""Shapes by name."""


@dataclass(frozen=True, slots=True)
class ZooKeeperWorkload:
    """Calls on nodes of ZooKeeper, of the shape that the options name."""

    options: ZkRegisterOptions
    seed: Seed
    promise: Level = Level.LINEARIZABLE
    faults_expected: bool = False
    live_anomalies: bool = field(default=False, init=False)

    @property
    def name(self) -> str:
        """Name on the command line."""
        return "zookeeper" if isinstance(self.options, ZooKeeperOptions) else "zk-register"

    @property
    def shape(self) -> Shape:
        """Return the shape that the options name."""
        return SHAPES[self.options.shape_name]

    def session(self, cluster: Cluster, token: str) -> Session:
        """Create the node below which all others are; the first call on a key creates its own."""
        path = f"/harness/{token}"
        connection = cluster.zookeeper(cluster.topology.keepers)
        try:
            connection.ask("create", path, b"", None, False, False, True)
        except ZooKeeperError as error:
            raise ClusterError(f"ZooKeeper: {path} was not made: {error}") from error
        return _ZooKeeperSession(cluster, path, connection, self)

    def generator(self) -> Generator:
        """Return the shape's calls on a few keys at a time."""
        one_key = self.shape.one_key
        calls = calls_on_keys(
            self.seed,
            self._on_key,
            keys=1 if one_key else self.options.keys,
            ops_per_key=ENDLESS if one_key else self.options.ops_per_key,
        )
        return rate(calls, self.options.ops_per_s, self.seed.child("rate"))

    def _on_key(self, key: int) -> Generator:
        own = self.seed.child("call", key)
        return numbered(lambda number: self.shape.call(own, number, self.options))

    def final(self, keys: Sequence[int], nodes: Sequence[str]) -> Generator:
        """Return a read of each key through each server."""
        return final_reads_on((Call(f=FINAL, key=key) for key in keys), nodes)

    def checkers(self) -> Sequence[Checker]:
        """Return the shape's checkers: of all levels that apply, whatever the promise."""
        return self.shape.checkers(self.options, self.promise, self.faults_expected)


class _ZooKeeperSession:
    def __init__(
        self, cluster: Cluster, path: str, connection: ZooKeeper, workload: ZooKeeperWorkload
    ) -> None:
        self._cluster = cluster
        self._path = path
        self._connection = connection
        self._workload = workload
        self._clock = cluster.runtime.clock()
        self._rests_ns: int | None = None
        """Time of the first look at what is pending."""

    def client(self, node: str) -> Client:
        options = self._workload.options
        keepers = self._cluster.topology.node(node).keepers
        return self._workload.shape.client(
            lambda: self._cluster.zookeeper(keepers, options.timeout_s),
            self._path,
            self._clock,
            synced=options.synced,
        )

    def pending(self) -> Sequence[str]:
        """Wait until sessions that were given up before the first look have expired."""
        now_ns = self._clock.now_ns()
        self._rests_ns = now_ns if self._rests_ns is None else self._rests_ns
        left_s = self._workload.shape.rest_s - (now_ns - self._rests_ns) / 1e9
        return [f"sessions may expire for another {left_s:.0f} s"] if left_s > 0 else []

    def observe(self) -> Mapping[str, Json]:
        return {}

    def drop(self) -> Sequence[str]:
        connection = self._cluster.zookeeper(self._cluster.topology.keepers)
        try:
            _remove(connection, self._path)
        except (ZooKeeperError, KazooException) as error:
            return [f"{self._path} in ZooKeeper was not removed: {error}"]
        finally:
            connection.close()
        return ()

    def close(self) -> None:
        self._connection.close()


def _remove(connection: ZooKeeper, path: str) -> None:
    """Remove a node with all below it. Ephemeral ones may go by themselves meanwhile."""
    try:
        for name in connection.ask("get_children", path):
            _remove(connection, f"{path}/{name}")
        connection.ask("delete", path)
    except NoNodeError:
        pass
