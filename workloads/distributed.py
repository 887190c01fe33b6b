"""Inserts through Distributed tables: asynchronous or synchronous, over replicated or plain tables.

An insert writes one row to every shard. At rest each replica's own table is read. With
`internal_replication` the Distributed table writes to one replica of a shard, otherwise to each of
them. The workload is made for --shards 2 --replicas 2.

With `-o routes=true` queries through the Distributed table also tell which replica of each other
shard answered: the one with the fewest errors, which grow while a replica is dead
(kill-clickhouse-one) and halve with time.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from checkers.ladder import Level
from checkers.look import encode
from checkers.quiescence import ReplicaAtRest
from checkers.replication.distributed import Distributed, Placed, PlacedInsert
from checkers.replication.replica_choice import ROUTE, ReplicaChoice, Route
from checkers.stats import Stats
from harness.clients.clickhouse import (
    ClickHouse,
    DatabaseError,
    SettingName,
    connect,
    failed_read,
    failed_write,
)
from harness.clients.replicated_table import (
    ReplicatedTable,
    TableSchema,
    data_directory,
    drop_database,
)
from harness.core.capabilities import CanListFiles
from harness.core.dialect import Mechanism
from harness.core.errors import ClusterError, UsageError
from harness.core.op import Call, Done, Json, Kind, Op
from harness.core.protocols import Checker, Client, Cluster, Generator, Session
from harness.core.ranges import quoted, validate_numbers
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.generators.calls import numbered, repeat
from harness.generators.choose import mix
from harness.generators.order import final_reads_on
from harness.generators.timing import rate
from workloads.options import WorkloadOptions

COLUMNS = "shard UInt8, value Int64"
SCHEMA = TableSchema(columns=COLUMNS, partition_by="tuple()", order_by="value", settings={})
CLUSTERS: Mapping[bool, str] = {True: "harness", False: "harness_each"}
"""Cluster in the servers' configuration, by `internal_replication`."""
LOOK_S = 1.0
"""Time in which a replica must say whether it has what was acknowledged."""
BROKEN = "/broken/"
"""Part of the path of a file that the server will never send."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributedOptions(WorkloadOptions):
    """Options of `distributed`: what kind of tables there are, and when an insert is
    acknowledged."""

    sync: bool = False
    """True if an insert is acknowledged when the shards have the rows; otherwise it is acknowledged
    when the rows are in files of the replica that got it."""
    internal_replication: bool = True
    """True if the Distributed table writes to one replica of a shard; otherwise it writes to
    each."""
    table: str = "replicated"
    """Kind of the local tables: "replicated" or "plain"."""
    calls_per_s: float = 40.0
    """Inserts per second of all workers together."""
    routes: bool = False
    """True if queries tell which replicas answer them; needs errors_count in system.clusters."""
    sync_timeout_s: int = 5
    """Seconds after which a synchronous insert fails that the shards have not acknowledged."""
    judge_sync: bool = False
    """True if inserts are judged as synchronous ones whatever `sync` says, as a control."""

    @property
    def placed(self) -> Placed:
        """Return where an acknowledged insert must be at once."""
        if not (self.sync or self.judge_sync):
            return Placed.LATER
        return Placed.ONE if self.internal_replication else Placed.EACH

    @property
    def needs(self) -> tuple[Mechanism, ...]:
        """Mechanisms that the servers must have."""
        return (Mechanism.REPLICA_ERRORS,) if self.routes else ()

    @property
    def clusters(self) -> tuple[str, ...]:
        """Clusters that its statements name, which the servers' configuration must define."""
        return (CLUSTERS[self.internal_replication],)

    def validate(self, topology: Topology) -> None:
        """Raise UsageError for options that are out of range or do not fit the topology."""
        validate_numbers(self)
        if self.table not in ("replicated", "plain"):
            raise UsageError(f"table {quoted(self.table)}: expected replicated or plain")
        if len(topology.shards) < 2:
            raise UsageError("workload distributed: one shard given, expected --shards 2 or more")


@dataclass(frozen=True, slots=True)
class DistributedWorkload:
    """Inserts through Distributed tables and, at the end, the rows of every replica."""

    options: DistributedOptions
    seed: Seed
    promise: Level = Level.EVENTUAL
    faults_expected: bool = False
    name: str = field(default="distributed", init=False)
    live_anomalies: bool = field(default=False, init=False)

    def session(self, cluster: Cluster, token: str) -> Session:
        """Create the local tables and, beside each, the Distributed one."""
        self.options.validate(cluster.topology)
        session = _DistributedSession(cluster, token, self.options)
        session.create()
        return session

    def generator(self) -> Generator:
        """Return inserts, each on any free worker."""
        calls = numbered(lambda n: Call(f="insert", value=n))
        if self.options.routes:
            parts = ((1, calls), (1, repeat(Call(f=ROUTE))))
            calls = mix(self.seed.child("calls"), parts)
        return rate(calls, self.options.calls_per_s, self.seed.child("rate"))

    def final(self, keys: Sequence[int], nodes: Sequence[str]) -> Generator:  # noqa: ARG002
        """Return a read of the local rows of every replica."""
        return final_reads_on([Call(f="final-read")], nodes)

    def checkers(self) -> Sequence[Checker]:
        """Return the checker of where the rows are."""
        replicated = self.options.table == "replicated"
        every = replicated or not self.options.internal_replication
        least = {"insert": 10}
        return (
            Stats(min_ok=least, min_ok_total=10, faults_expected=self.faults_expected),
            Distributed(every_copy=every, replicated=replicated, placed=self.options.placed),
            *((ReplicaChoice(),) if self.options.routes else ()),
        )


class _DistributedSession:
    def __init__(self, cluster: Cluster, token: str, options: DistributedOptions) -> None:
        self._cluster = cluster
        self._options = options
        self._topology = cluster.topology
        shards = range(1, len(self._topology.shards) + 1)
        self._tables = [ReplicatedTable(cluster, token, SCHEMA, shard) for shard in shards]
        self._database = self._tables[0].database
        self._connections = {n: connect(cluster, n) for n in self._topology.replicas}
        self._directories: dict[str, str] = {}
        """Directory of the Distributed table's files, by replica."""

    def create(self) -> None:
        over = CLUSTERS[self._options.internal_replication]
        if self._options.table == "replicated":
            for table in self._tables:
                table.create()
        for node, connection in self._connections.items():
            try:
                connection.command(f"CREATE DATABASE IF NOT EXISTS {self._database}")
                if self._options.table == "plain":
                    connection.command(
                        f"CREATE TABLE {self._database}.t ({COLUMNS}) ENGINE = MergeTree "
                        "PARTITION BY tuple() ORDER BY value"
                    )
                connection.command(
                    f"CREATE TABLE {self._database}.d ({COLUMNS}) "
                    f"ENGINE = Distributed({over}, {self._database}, t, shard)"
                )
                dialect = self._cluster.engines.on(node)
                directory = data_directory(connection, dialect, self._database, "d")
                self._directories[node] = directory
            except DatabaseError as error:
                raise ClusterError(f"{node}: the tables were not made: {error}") from error

    def client(self, node: str) -> Client:
        connection = connect(self._cluster, node, timeout_s=self._options.timeout_s)
        shard = self._topology.node(node).shard - 1
        looked = () if self._options.placed is Placed.LATER else self._topology.replicas
        copies = {n: connect(self._cluster, n, timeout_s=LOOK_S) for n in looked}
        return _DistributedClient(
            connection, self._database, shard, len(self._tables), self._options, copies
        )

    def pending(self) -> Sequence[str]:
        """Return how many files are still to be sent, and what the replicated tables wait for."""
        reasons: list[str] = []
        for node in self._topology.replicas:
            unsent = [path for path in self._files(node) if BROKEN not in path]
            if unsent:
                reasons.append(f"{node} has {len(unsent)} files to send")
        if self._options.table == "replicated":
            reasons += [reason for table in self._tables for reason in table.pending()]
        return tuple(reasons)

    def observe(self) -> Mapping[str, Json]:
        """Return the shard of each replica, from 0, and the number of files that it has given
        up."""
        return {
            node: encode(
                ReplicaAtRest(
                    shard=self._topology.node(node).shard - 1,
                    broken_files=sum(BROKEN in path for path in self._files(node)),
                )
            )
            for node in self._connections
        }

    def _files(self, node: str) -> Sequence[str]:
        return self._cluster.part(CanListFiles).files(node, self._directories[node], "*.bin")

    def drop(self) -> Sequence[str]:
        return drop_database(self._cluster, self._database, self._connections)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        for table in self._tables:
            table.close()


class _DistributedClient:
    def __init__(
        self,
        connection: ClickHouse,
        database: str,
        shard: int,
        shards: int,
        options: DistributedOptions,
        copies: Mapping[str, ClickHouse],
    ) -> None:
        """Create a client; `copies` are connections to the replicas that are looked at after each
        insert."""
        self._connection = connection
        self._copies = copies
        self._database = database
        self._shard = shard
        self._shards = shards
        self._internal = options.internal_replication
        self._settings: dict[SettingName, int | str] = {
            "insert_distributed_sync": int(options.sync)
        }
        if options.sync:
            self._settings["insert_distributed_timeout"] = options.sync_timeout_s

    def invoke(self, op: Op) -> Done:
        if op.f == ROUTE:
            return self._route()
        return self._read() if op.f == "final-read" else self._insert(op)

    def _route(self) -> Done:
        """Return the hosts that answer a query, and the errors before and after it."""
        try:
            before = self._errors()
            found = self._connection.rows(
                f"SELECT DISTINCT hostName() FROM {self._database}.d", (str,)
            )
            after = self._errors()
        except DatabaseError as error:
            return failed_read(error)
        hosts = [host for (host,) in found]
        return Done(Kind.OK, encode(Route(hosts, before, after)))

    def _errors(self) -> dict[str, dict[str, int]]:
        """Return the errors of the replicas of other shards, by shard and host."""
        out: dict[str, dict[str, int]] = {}
        over = CLUSTERS[self._internal]
        for shard, host, errors in self._connection.rows(
            "SELECT shard_num, host_name, errors_count FROM system.clusters "
            f"WHERE cluster = '{over}' AND toString(shard_num) != '{self._shard + 1:d}'",
            (int, str, int),
        ):
            out.setdefault(str(shard), {})[host] = errors
        return out

    def _insert(self, op: Op) -> Done:
        rows = [(shard, op.value) for shard in range(self._shards)]
        try:
            self._connection.insert(f"{self._database}.d", rows, self._settings)
        except DatabaseError as error:
            done = failed_write(error)
            # One block for each shard: the refusal of one says nothing about the others.
            return Done(Kind.INFO, error=done.error) if error.code > 0 else done
        if not self._copies:
            return Done(Kind.OK, op.value)
        assert isinstance(op.value, int), "an insert has a number"
        return Done(Kind.OK, encode(PlacedInsert(op.value, self._look(op.value))))

    def _look(self, value: int) -> dict[str, int]:
        """Return how many times each replica has the value now; one that does not answer is
        left out."""
        found: dict[str, int] = {}
        for node, connection in self._copies.items():
            sql = f"SELECT count() FROM {self._database}.t WHERE value = {value:d}"
            with suppress(DatabaseError):
                found[node] = connection.row(sql, (int,))[0]
        return found

    def _read(self) -> Done:
        sql = f"SELECT if(shard = {self._shard}, value, -1 - value) FROM {self._database}.t"
        try:
            return Done(Kind.OK, self._connection.numbers(sql))
        except DatabaseError as error:
            return failed_read(error)

    def close(self) -> None:
        for connection in (self._connection, *self._copies.values()):
            connection.close()
