"""Registers in ZooKeeper itself: the control experiment, on a system whose promises are documented.

A key is a node of ZooKeeper. A worker's session is with the ZooKeeper server through which its
replica reads. With a `sync` before each read ZooKeeper promises linearizable registers, without it
sequentially consistent ones ("Consistency Guarantees" of its programmer's guide). A leader that was
cut off and has not noticed may break this: it answers a `sync` by itself for tickTime x syncLimit
(partition-one, when it draws the leader).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kazoo.exceptions import BadVersionError, KazooException, NodeExistsError, NoNodeError

from checkers.ladder import Level
from checkers.suite import register_checkers
from harness.core.connections import ZooKeeper, ZooKeeperError
from harness.core.errors import ClusterError, UsageError
from harness.core.op import Call, Done, Json, Kind, Op
from harness.core.protocols import Checker, Cluster, Generator, Session
from harness.core.ranges import quoted, validate_numbers
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.generators.calls import numbered
from harness.generators.choose import per_key
from harness.generators.order import final_reads_on
from harness.generators.timing import rate
from workloads.options import PacedOptions

CAS_REACH = 4
"""Number of the latest values of which a cas expects one, so that some match and some do not."""


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
    def promise(self) -> Level:
        """Level that ZooKeeper promises for these reads."""
        return Level.LINEARIZABLE if self.read == "sync" else Level.SEQUENTIAL


@dataclass(frozen=True, slots=True)
class ZkRegister:
    """Reads, writes and compare-and-sets of registers, which are nodes of ZooKeeper."""

    options: ZkRegisterOptions
    seed: Seed
    promise: Level = Level.LINEARIZABLE
    faults_expected: bool = False
    name: str = field(default="zk-register", init=False)
    live_anomalies: bool = field(default=False, init=False)

    def session(self, cluster: Cluster, token: str) -> Session:
        """Create the parent node of the registers; their first write creates them."""
        path = f"/harness/{token}"
        connection = cluster.zookeeper(cluster.topology.keepers)
        try:
            connection.ask("create", path, b"", None, False, False, True)
        except ZooKeeperError as error:
            raise ClusterError(f"ZooKeeper: {path} was not made: {error}") from error
        return _ZkRegisterSession(cluster, path, connection, self.options)

    def generator(self) -> Generator:
        """Return reads, writes of values that no other call writes, and compare-and-sets."""
        calls = per_key(
            self.seed.child("keys"),
            self._on_key,
            keys=self.options.keys,
            ops_per_key=self.options.ops_per_key,
        )
        return rate(calls, self.options.ops_per_s, self.seed.child("rate"))

    def _on_key(self, key: int) -> Generator:
        own, kinds = self.seed.child("call", key), 3 if self.options.register == "cas" else 2

        def call(number: int) -> Call:
            kind = own.below(number, kinds)
            if kind == 0:
                return Call(f="read", key=key)
            if kind == 1 or number == 0:
                return Call(f="write", value=number, key=key)
            return Call(
                f="cas",
                value=(max(0, number - 1 - own.below(-1 - number, CAS_REACH)), number),
                key=key,
            )

        return numbered(call)

    def final(self, keys: Sequence[int], nodes: Sequence[str]) -> Generator:
        """Return a read of each register through each server."""
        return final_reads_on((Call(f="final-read", key=key) for key in keys), nodes)

    def checkers(self) -> Sequence[Checker]:
        """Return the checkers of both levels, whatever the promise."""
        return register_checkers(faults_expected=self.faults_expected)


class _ZkRegisterSession:
    def __init__(
        self, cluster: Cluster, path: str, connection: ZooKeeper, options: ZkRegisterOptions
    ) -> None:
        self._cluster = cluster
        self._path = path
        self._connection = connection
        self._options = options

    def client(self, node: str) -> "_ZkRegisterClient":
        keepers = self._cluster.topology.node(node).keepers
        connection = self._cluster.zookeeper(keepers, self._options.timeout_s)
        return _ZkRegisterClient(connection, self._path, synced=self._options.read == "sync")

    def pending(self) -> Sequence[str]:
        return ()

    def observe(self) -> Mapping[str, Json]:
        return {}

    def drop(self) -> Sequence[str]:
        connection = self._cluster.zookeeper(self._cluster.topology.keepers)
        try:
            for name in connection.ask("get_children", self._path):
                connection.ask("delete", f"{self._path}/{name}")
            connection.ask("delete", self._path)
        except (ZooKeeperError, KazooException) as error:
            return [f"{self._path} in ZooKeeper was not removed: {error}"]
        finally:
            connection.close()
        return ()

    def close(self) -> None:
        self._connection.close()


class _ZkRegisterClient:
    def __init__(self, connection: ZooKeeper, path: str, *, synced: bool) -> None:
        self._connection = connection
        self._path = path
        self._synced = synced

    def invoke(self, op: Op) -> Done:
        path = f"{self._path}/{op.key}"
        try:
            if op.f == "write":
                return self._write(path, op)
            return self._cas(path, op) if op.f == "cas" else self._read(path, op)
        except ZooKeeperError as error:
            return error.done

    def _write(self, path: str, op: Op) -> Done:
        data = str(op.value).encode()
        while True:
            try:
                self._connection.ask("set", path, data)
            except NoNodeError:
                try:
                    self._connection.ask("create", path, data)
                except NodeExistsError:
                    continue  # Another client was first; neither request did anything.
            return Done(Kind.OK, op.value)

    def _cas(self, path: str, op: Op) -> Done:
        """Set the new value if the node has the expected one; its version makes the two steps
        atomic. A mismatch may come from a stale read, so that it is a call that did not happen."""
        assert isinstance(op.value, tuple), "a cas has what it expects and what it sets"
        expected, new = op.value
        try:
            data, stat = self._connection.ask("get", path)
            if int(data) != expected:
                return Done(Kind.FAIL, error=f"MISMATCH: {int(data)}")
            self._connection.ask("set", path, str(new).encode(), stat.version)
        except (NoNodeError, BadVersionError) as error:
            return Done(Kind.FAIL, error=type(error).__name__)
        return Done(Kind.OK, op.value)

    def _read(self, path: str, op: Op) -> Done:
        try:
            if self._synced or op.f == "final-read":
                # No need to wait for the sync: a session keeps its requests in order.
                _, (data, _) = self._connection.ask_all((("sync", (path,)), ("get", (path,))))
            else:
                data, _ = self._connection.ask("get", path)
        except NoNodeError:
            return Done(Kind.OK, None)
        return Done(Kind.OK, int(data))

    def close(self) -> None:
        self._connection.close()
