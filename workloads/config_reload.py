"""Cluster definition, macros and ZooKeeper's root changed in files, and reloaded by servers that
run.

Every node has a file of its own, which is written generation after generation; some are invalid.
Reads ask `system.clusters`, `system.macros`, the children of ZooKeeper's root as the server sees
it, and the server's uptime. Since 20.10 the server opens another session when the section
<zookeeper> changes; before, it keeps the configuration with which it started. The server looks at
its files every two seconds, and at once on SYSTEM RELOAD CONFIG.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from kazoo.exceptions import NodeExistsError
from msgspec import UNSET, UnsetType

from checkers.ddl.reload import BREAK, READ, RELOAD, WRITE, Reload, ShownConfiguration
from checkers.ladder import Level
from checkers.look import encode
from checkers.stats import Stats
from harness.clients.clickhouse import ClickHouse, DatabaseError, connect, failed_read, failed_write
from harness.core.capabilities import CanConfigure
from harness.core.dialect import Mechanism
from harness.core.op import Call, Done, Json, Kind, Op
from harness.core.protocols import Checker, Client, Cluster, Generator, Session
from harness.core.seed import Seed
from harness.generators.calls import once, repeat
from harness.generators.order import cycle, final_reads_on, phases
from harness.generators.timing import rate, time_limit
from harness.generators.workers import each_node
from workloads.options import WorkloadOptions

FILE, ROOT_FILE = "generation.xml", "generation_root.xml"
ROOT_TEXT = "<{root}><zookeeper><root>{zookeeper}</root></zookeeper></{root}>\n"
ROOT = "/harness_reload_{n}"
"""Node that is ZooKeeper's root for one generation; its child has the generation's name."""
FINAL = "final-read"
LOOK_S, RELOADED_S, LEFT_S = 3.0, 1.0, 8.0
"""Seconds of reads after an invalid file, after a reload, and after a file that the server must
find by itself."""
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
class ConfigReloadOptions(WorkloadOptions):
    """Options of `config-reload`: what is written into the files, and how often they are read."""

    broken: bool = False
    """True if some files are invalid. A server does not start with one, so this does not fit faults
    that end processes."""
    reads_per_s: float = 10.0
    """Reads per second of each node."""

    @property
    def capabilities(self) -> tuple[type, ...]:
        """Capabilities that the cluster must have."""
        return (CanConfigure,)


@dataclass(frozen=True, slots=True)
class ConfigReloadWorkload:
    """Configuration files that are written and reloaded, and reads of what each server shows."""

    options: ConfigReloadOptions
    seed: Seed
    promise: Level = Level.EVENTUAL
    faults_expected: bool = False
    name: str = field(default="config-reload", init=False)
    live_anomalies: bool = field(default=False, init=False)

    def session(self, cluster: Cluster, token: str) -> Session:  # noqa: ARG002
        """Remove the files of earlier runs."""
        session = _ConfigReloadSession(cluster, self.options)
        session.drop()
        return session

    def generator(self) -> Generator:
        """Return rounds on every node: a file is written; the server is told to reload it, or finds
        it by itself; then what it shows is read."""
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
        """Return a last read on every node."""
        return final_reads_on([Call(f=FINAL)], nodes)

    def checkers(self) -> Sequence[Checker]:
        """Return the checker of what the servers show."""
        least = {WRITE: 3, READ: 10}
        return (Stats(min_ok=least, faults_expected=self.faults_expected), Reload())


class _ConfigReloadSession:
    def __init__(self, cluster: Cluster, options: ConfigReloadOptions) -> None:
        self._cluster = cluster
        self._options = options
        self._rests = False

    def client(self, node: str) -> Client:
        connection = connect(self._cluster, node, timeout_s=self._options.timeout_s)
        return _ConfigReloadClient(connection, self._cluster, node)

    def pending(self) -> Sequence[str]:
        """Give ZooKeeper its own root back, without which no replicated table comes to rest."""
        if not self._rests:
            self._rests = True
            for node in self._cluster.topology.replicas:
                self._cluster.part(CanConfigure).configure(node, ROOT_FILE, "")
        return ()

    def observe(self) -> Mapping[str, Json]:
        return {}

    def drop(self) -> None:
        """Remove the files."""
        for node in self._cluster.topology.replicas:
            for name in (FILE, ROOT_FILE):
                self._cluster.part(CanConfigure).configure(node, name, "")

    def close(self) -> None:
        pass


class _ConfigReloadClient:
    def __init__(self, connection: ClickHouse, cluster: Cluster, node: str) -> None:
        self._connection = connection
        self._cluster = cluster
        self._node = node
        self._root = cluster.engines.dialect.configuration_root
        self._hot = cluster.engines.on(node).has(Mechanism.ZOOKEEPER_RELOAD)

    def invoke(self, op: Op) -> Done:
        if op.f in (WRITE, BREAK):
            configuration = self._cluster.part(CanConfigure)
            if op.f == WRITE:
                self._make_root(op)
                root = ROOT_TEXT.format(root=self._root, zookeeper=ROOT.format(n=op.value))
                configuration.configure(self._node, ROOT_FILE, root)
            shape = TEXT if op.f == WRITE else BROKEN
            text = shape.format(root=self._root, n=op.value, node=self._node)
            configuration.configure(self._node, FILE, text)
            return Done(Kind.OK, op.value)
        if op.f == RELOAD:
            try:
                self._connection.command("SYSTEM RELOAD CONFIG")
            except DatabaseError as error:
                return failed_write(error)
            return Done(Kind.OK)
        return self._read(final=op.f == FINAL)

    def _make_root(self, op: Op) -> None:
        """Create the root that the generation names: a server does not use one that is missing."""
        zookeeper = self._cluster.zookeeper(self._cluster.topology.keepers)
        try:
            root = ROOT.format(n=op.value)
            for path in (root, f"{root}/generation_{op.value}"):
                with suppress(NodeExistsError):
                    zookeeper.ask("create", path, b"")
        finally:
            zookeeper.close()

    def _zookeeper(self) -> int | UnsetType:
        """Return the generation of ZooKeeper's root, -1 for that of the server's start; UNSET while
        the server has no session."""
        try:
            found = self._connection.rows(
                "SELECT name FROM system.zookeeper WHERE path = '/' AND name LIKE 'generation_%'",
                (str,),
            )
        except DatabaseError:
            return UNSET
        return max((int(name.removeprefix("generation_")) for (name,) in found), default=-1)

    def _read(self, *, final: bool) -> Done:
        try:
            clusters = self._connection.rows(
                "SELECT DISTINCT cluster FROM system.clusters WHERE cluster LIKE 'generation_%'",
                (str,),
            )
            macros = self._connection.rows(
                "SELECT substitution FROM system.macros WHERE macro = 'generation'", (str,)
            )
            (uptime,) = self._connection.row("SELECT toUInt64(uptime())", (int,))
        except DatabaseError as error:
            return failed_read(error)
        shown = [int(name.removeprefix("generation_")) for (name,) in clusters]
        root = UNSET if final else self._zookeeper()
        look = ShownConfiguration(
            cluster=max(shown, default=-1),
            clusters=len(shown),
            macro=int(macros[0][0]) if macros else -1,
            zookeeper=root,
            zookeeper_hot=UNSET if root is UNSET else self._hot,
            uptime_s=uptime,
        )
        return Done(Kind.OK, encode(look))

    def close(self) -> None:
        self._connection.close()
