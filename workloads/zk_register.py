"""Registers in ZooKeeper itself: the control experiment, on a system that says what it promises.

A key is a node of ZooKeeper. A worker's session is with the ZooKeeper server through which its
replica reads. With a `sync` before each read ZooKeeper promises linearizable registers, without
it sequentially consistent ones ("Consistency Guarantees" of its programmer's guide). That could
break: a leader that was cut off and has not noticed answers a `sync` by itself, for as long as
tickTime x syncLimit (partition-one, when it draws the leader).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kazoo.exceptions import BadVersionError, KazooException, NodeExistsError, NoNodeError

from checkers.ladder import Level
from checkers.suite import register_checkers
from harness.clients.connect import zookeeper
from harness.clients.zookeeper import ZooKeeper, ZooKeeperError
from harness.core.errors import ClusterError, UsageError
from harness.core.op import Call, Done, Json, Kind, Op
from harness.core.protocols import Checker, Cluster, Generator, Session
from harness.core.ranges import settle_numbers
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.generators.calls import numbered
from harness.generators.choose import per_key
from harness.generators.order import until_ok
from harness.generators.timing import rate
from harness.generators.workers import each_node

FINAL_TRIES = 20
CAS_REACH = 4
"""A cas expects one of so many latest values: some hit, some miss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZkRegisterOptions:
    """What may be chosen of it."""

    register: str = "cas"
    """"cas": writes, reads and compare-and-set; "plain": writes and reads."""
    read: str = "sync"
    """"sync" before each read, or "plain": whatever the session's server has."""
    ops_per_s: float = 200.0
    """Of all workers together."""
    keys: int = 3
    """Registers in use at a time."""
    ops_per_key: int = 60
    """Then fresh registers are taken: what was left open would make every later call harder to
    judge."""
    timeout_s: float = 3.0
    """A call without an answer ends as info after this."""

    def settle(self, topology: Topology) -> None:  # noqa: ARG002
        """Raises UsageError for what cannot be asked."""
        settle_numbers(self)
        choices = (
            ("register", self.register, ("cas", "plain")),
            ("read", self.read, ("sync", "plain")),
        )
        for name, value, allowed in choices:
            if value not in allowed:
                raise UsageError(f"{name} {value!r}: expected one of {' '.join(allowed)}")

    @property
    def promise(self) -> Level:
        """What ZooKeeper promises of such reads."""
        return Level.LINEARIZABLE if self.read == "sync" else Level.SEQUENTIAL


@dataclass(frozen=True, slots=True)
class ZkRegister:
    """The workload."""

    options: ZkRegisterOptions
    seed: Seed
    promise: Level = Level.LINEARIZABLE
    faults_expected: bool = False
    name: str = field(default="zk-register", init=False)
    live_anomalies: bool = field(default=False, init=False)

    def session(self, cluster: Cluster, token: str) -> Session:
        """Creates the parent of the registers; they are made by their first write."""
        path = f"/harness/{token}"
        connection = zookeeper(cluster, cluster.topology.keepers)
        try:
            connection.ask("create", path, b"", None, False, False, True)
        except ZooKeeperError as error:
            raise ClusterError(f"ZooKeeper: {path} was not made: {error}") from error
        return _Session(cluster, path, connection, self.options)

    def generator(self) -> Generator:
        """Reads, writes of values that no other call writes, and compare-and-sets."""
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
        """Each key, through each server."""
        calls = tuple(Call(f="final-read", key=key) for key in keys)
        return each_node(until_ok(calls, tries=FINAL_TRIES), nodes)

    def checkers(self) -> Sequence[Checker]:
        """Both levels, whatever the promise."""
        return register_checkers(faults_expected=self.faults_expected)


class _Session:
    def __init__(
        self, cluster: Cluster, path: str, connection: ZooKeeper, options: ZkRegisterOptions
    ) -> None:
        self._cluster = cluster
        self._path = path
        self._connection = connection
        self._options = options

    def client(self, node: str) -> "_Client":
        keepers = self._cluster.topology.node(node).keepers
        connection = zookeeper(self._cluster, keepers, timeout_s=self._options.timeout_s)
        return _Client(connection, self._path, synced=self._options.read == "sync")

    def pending(self) -> Sequence[str]:
        return ()

    def observe(self) -> Mapping[str, Json]:
        return {}

    def drop(self) -> None:
        connection = zookeeper(self._cluster, self._cluster.topology.keepers)
        try:
            for name in connection.ask("get_children", self._path):
                connection.ask("delete", f"{self._path}/{name}")
            connection.ask("delete", self._path)
        except (ZooKeeperError, KazooException):
            pass  # It is left to the end of the cluster.
        finally:
            connection.close()

    def close(self) -> None:
        self._connection.close()


class _Client:
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
                    continue  # Another was first; neither request did anything.
            return Done(Kind.OK, op.value)

    def _cas(self, path: str, op: Op) -> Done:
        """The version makes it atomic; a mismatch that a stale read saw says nothing, so it is a
        call that did not happen."""
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
                # Not waited for: a session keeps its requests in order.
                _, (data, _) = self._connection.ask_all((("sync", (path,)), ("get", (path,))))
            else:
                data, _ = self._connection.ask("get", path)
        except NoNodeError:
            return Done(Kind.OK, None)
        return Done(Kind.OK, int(data))

    def close(self) -> None:
        self._connection.close()
