"""Unique values inserted with a quorum, the whole set of a key selected sequentially consistently.

A key is a partition of one replicated table. Each insert adds one value that no other insert adds;
each read returns every value of its key, in the order and as often as the server returned it. The
promise under test is that of `select_sequential_consistency`: a read sees every insert that a
quorum acknowledged before the read began.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from checkers.ladder import Level
from checkers.suite import set_checkers
from harness.clients.clickhouse import ClickHouse, DatabaseError, failed_read, failed_write
from harness.clients.replicated_table import ReplicatedTable, TableSchema
from harness.core.errors import UsageError
from harness.core.op import Call, Done, Json, Kind, Op
from harness.core.protocols import Checker, Cluster, Generator, Session
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.generators.calls import numbered
from harness.generators.order import until_ok
from harness.generators.workers import each_node

SCHEMA = TableSchema(
    columns="key Int64, value Int64",
    partition_by="key",
    order_by="value",
    # Partitions are many and small: one thread of merges is enough, and old parts go quickly.
    settings={"old_parts_lifetime": 10},
)

FINAL_TRIES = 20
"""Half a second apart; a replica that answers none of them is not at rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumSetOptions:
    """What may be chosen of it."""

    insert: str = "quorum"
    """"quorum", or "plain": acknowledged by one replica."""
    read: str = "sequential"
    """"sequential", or "plain": whatever the replica has."""
    quorum: int = 2
    """Replicas that must have a part before its insert is acknowledged."""
    quorum_timeout_ms: int = 3_000
    """After this an insert that has no quorum ends as info."""
    keys: int = 3
    """How many keys are used at a time."""
    ops_per_key: int = 300
    """Then fresh keys are taken."""
    insert_share: float = 0.5
    """Of the calls."""
    timeout_s: float = 10.0
    """A call without an answer ends as info after this."""

    def settle(self, topology: Topology) -> None:
        """Raises UsageError for what cannot be asked of this topology."""
        replicas = len(topology.shards[0])
        choices = (
            ("insert", self.insert, ("quorum", "plain")),
            ("read", self.read, ("sequential", "plain")),
        )
        for name, value, allowed in choices:
            if value not in allowed:
                raise UsageError(f"--{name} {value!r}: expected one of {' '.join(allowed)}")
        if self.insert == "quorum" and not 2 <= self.quorum <= replicas:
            raise UsageError(
                f"--quorum {self.quorum}: expected 2 to {replicas}, the replicas of a shard "
                "(the server takes 0 and 1 as no quorum: say --insert plain)"
            )
        if not 0 < self.insert_share < 1:
            raise UsageError(
                f"--insert-share {self.insert_share}: expected more than 0, less than 1"
            )
        for name, number in (("keys", self.keys), ("ops-per-key", self.ops_per_key)):
            if number < 1:
                raise UsageError(f"--{name} {number}: expected at least 1")


@dataclass(frozen=True, slots=True)
class QuorumSet:
    """The workload."""

    options: QuorumSetOptions
    seed: Seed
    promise: Level = Level.LINEARIZABLE
    faults_expected: bool = False
    """Whether a run without one fault that took effect says nothing."""
    name: str = field(default="quorum-set", init=False)

    def session(self, cluster: Cluster, token: str) -> Session:
        """Creates the table on every replica of the first shard."""
        self.options.settle(cluster.topology)
        table = ReplicatedTable(cluster, token, SCHEMA)
        table.create()
        return _Session(cluster, table, self.options)

    def generator(self) -> Generator:
        """Inserts and reads, mixed; each call follows from its number alone."""
        return numbered(self._call)

    def final(self, keys: Sequence[int], nodes: Sequence[str]) -> Generator:
        """Each key, on each replica, until it answers."""
        calls = tuple(Call(f="final-read", key=key) for key in keys)
        return each_node(until_ok(calls, tries=FINAL_TRIES), nodes)

    def checkers(self) -> Sequence[Checker]:
        """Sets, at every level of consistency, and whether enough was seen to judge."""
        return set_checkers(self.promise, faults_expected=self.faults_expected)

    def _call(self, number: int) -> Call:
        """Keys go by rounds of `keys` x `ops_per_key` calls; within a round each is as likely."""
        options = self.options
        turn = number // (options.keys * options.ops_per_key)
        key = turn * options.keys + self.seed.below(2 * number, options.keys)
        if self.seed.unit(2 * number + 1) < options.insert_share:
            return Call(f="insert", value=number, key=key)
        return Call(f="read", key=key)


class _Session:
    def __init__(self, cluster: Cluster, table: ReplicatedTable, options: QuorumSetOptions) -> None:
        self._cluster = cluster
        self._table = table
        self._options = options

    def client(self, node: str) -> "_Client":
        connection = ClickHouse(self._cluster.endpoint(node), timeout_s=self._options.timeout_s)
        return _Client(connection, self._table.name, self._options)

    def pending(self) -> Sequence[str]:
        return self._table.pending()

    def observe(self) -> Mapping[str, Json]:
        return self._table.observe()

    def close(self) -> None:
        self._table.drop()


class _Client:
    def __init__(self, connection: ClickHouse, table: str, options: QuorumSetOptions) -> None:
        self._connection = connection
        self._table = table
        self._insert_settings = {}
        if options.insert == "quorum":
            self._insert_settings = {
                "insert_quorum": options.quorum,
                "insert_quorum_timeout": options.quorum_timeout_ms,
            }
        self._read_settings = (
            {"select_sequential_consistency": 1} if options.read == "sequential" else {}
        )

    def invoke(self, op: Op) -> Done:
        return self._insert(op) if op.f == "insert" else self._read(op)

    def _insert(self, op: Op) -> Done:
        try:
            self._connection.insert(self._table, [(op.key, op.value)], self._insert_settings)
        except DatabaseError as error:
            return failed_write(error)
        return Done(Kind.OK, op.value)

    def _read(self, op: Op) -> Done:
        assert isinstance(op.key, int), "a key is a number, so the query is not built from text"
        try:
            columns = self._connection.columns(
                f"SELECT value FROM {self._table} WHERE key = {op.key}", self._read_settings
            )
        except DatabaseError as error:
            return failed_read(error)
        return Done(Kind.OK, tuple(columns[0]) if columns else ())

    def close(self) -> None:
        self._connection.close()
