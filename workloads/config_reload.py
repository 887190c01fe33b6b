"""Cluster definition and macros changed in files, and reloaded by servers that run.

Every node has a file of its own, which is written generation after generation, and broken now and
then. Reads ask `system.clusters` and `system.macros`, and how long the server is up. The
server looks at its files every two seconds by itself, and at once on SYSTEM RELOAD CONFIG.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from checkers.ladder import Level
from checkers.reload import BREAK, READ, RELOAD, WRITE, Reload
from checkers.stats import Stats
from harness.clients.clickhouse import ClickHouse, DatabaseError, failed_read, failed_write
from harness.clients.connect import connect
from harness.core.errors import ClusterError
from harness.core.op import Call, Done, Json, Kind, Op
from harness.core.protocols import (
    CanConfigure,
    Checker,
    Client,
    Cluster,
    Generator,
    Session,
)
from harness.core.ranges import settle_numbers
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.generators.calls import once, repeat
from harness.generators.order import cycle, phases, until_ok
from harness.generators.timing import rate, time_limit
from harness.generators.workers import each_node

FILE = "generation.xml"
FINAL_TRIES = 20
LOOK_S, RELOADED_S, LEFT_S = 3.0, 1.0, 8.0
"""How long is read after a broken file, a reload, and a file that was left to the server."""
BROKEN = "<{root}><remote_servers><generation_{n}>"
TEXT = """<{root}>
    <remote_servers>
        <generation_{n}><shard><replica><host>{node}</host><port>9000</port></replica></shard>
        </generation_{n}>
    </remote_servers>
    <macros><generation>{n}</generation></macros>
</{root}>
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigReloadOptions:
    """What may be chosen of it."""

    broken: bool = False
    """Whether files are broken now and then. A server that starts with one does not start, so not
    together with faults of processes."""
    reads_per_s: float = 10.0
    """Of each node."""
    timeout_s: float = 10.0

    def settle(self, topology: Topology) -> None:  # noqa: ARG002
        """Raises UsageError for what cannot be asked."""
        settle_numbers(self)


@dataclass(frozen=True, slots=True)
class ConfigReloadWorkload:
    """The workload."""

    options: ConfigReloadOptions
    seed: Seed
    promise: Level = Level.EVENTUAL
    faults_expected: bool = False
    name: str = field(default="config-reload", init=False)

    @property
    def live_anomalies(self) -> bool:
        """There are no sets."""
        return False

    def session(self, cluster: Cluster, token: str) -> Session:  # noqa: ARG002
        """Begins with no file."""
        if not isinstance(cluster, CanConfigure):
            raise ClusterError(f"cluster {cluster.name}: its configuration cannot be changed")
        session = _Session(cluster, self.options)
        session.drop()
        return session

    def generator(self) -> Generator:
        """Rounds, each node its own: a file is written, and reloaded or left to the server's own
        look; then it is read."""
        return each_node(cycle(self._round))

    def _round(self, number: int) -> Generator:
        own = self.seed.child("round", number)
        parts: list[Generator] = []
        if self.options.broken and own.below(0, 2):
            parts += [once(Call(f=BREAK, value=number)), self._reads(own, LOOK_S)]
        parts.append(once(Call(f=WRITE, value=number)))
        if own.below(1, 2):
            parts += [once(Call(f=RELOAD)), self._reads(own, RELOADED_S)]
        else:
            parts.append(self._reads(own, LEFT_S))
        return phases(*parts)

    def _reads(self, seed: Seed, seconds: float) -> Generator:
        reads = rate(repeat(Call(f=READ)), self.options.reads_per_s, seed.child("reads"))
        return time_limit(reads, seconds)

    def final(self, keys: Sequence[int], nodes: Sequence[str]) -> Generator:  # noqa: ARG002
        """Each node once more."""
        return each_node(until_ok((Call(f="final-read"),), tries=FINAL_TRIES), nodes)

    def checkers(self) -> Sequence[Checker]:
        """What was shown, against what was written."""
        least = {WRITE: 3, READ: 10}
        return (Stats(min_ok=least, faults_expected=self.faults_expected), Reload())


class _Session:
    def __init__(self, cluster: Cluster, options: ConfigReloadOptions) -> None:
        self._cluster = cluster
        self._options = options
        self._root = cluster.engines.dialect.configuration_root

    def client(self, node: str) -> Client:
        connection = connect(self._cluster, node, timeout_s=self._options.timeout_s)
        return _Client(connection, _configurable(self._cluster), node, self._root)

    def pending(self) -> Sequence[str]:
        return ()

    def observe(self) -> Mapping[str, Json]:
        return {}

    def drop(self) -> None:
        """Takes the files away."""
        for node in self._cluster.topology.replicas:
            _configurable(self._cluster).configure(node, FILE, "")

    def close(self) -> None:
        pass


class _Client:
    def __init__(self, connection: ClickHouse, cluster: CanConfigure, node: str, root: str) -> None:
        self._connection = connection
        self._cluster = cluster
        self._node = node
        self._root = root

    def invoke(self, op: Op) -> Done:
        if op.f in (WRITE, BREAK):
            shape = TEXT if op.f == WRITE else BROKEN
            text = shape.format(root=self._root, n=op.value, node=self._node)
            self._cluster.configure(self._node, FILE, text)
            return Done(Kind.OK, op.value)
        if op.f == RELOAD:
            try:
                self._connection.command("SYSTEM RELOAD CONFIG")
            except DatabaseError as error:
                return failed_write(error)
            return Done(Kind.OK)
        return self._read()

    def _read(self) -> Done:
        try:
            clusters = self._connection.rows(
                "SELECT DISTINCT cluster FROM system.clusters WHERE cluster LIKE 'generation_%'"
            )
            macros = self._connection.rows(
                "SELECT substitution FROM system.macros WHERE macro = 'generation'"
            )
            uptime = self._connection.rows("SELECT toUInt64(uptime())")
        except DatabaseError as error:
            return failed_read(error)
        shown = [int(str(row[0]).removeprefix("generation_")) for row in clusters]
        return Done(
            Kind.OK,
            {
                "cluster": max(shown, default=-1),
                "clusters": len(shown),
                "macro": int(macros[0][0]) if macros else -1,
                "uptime_s": int(uptime[0][0]),
            },
        )

    def close(self) -> None:
        self._connection.close()


def _configurable(cluster: Cluster) -> CanConfigure:
    assert isinstance(cluster, CanConfigure), "the session sees to that"
    return cluster
