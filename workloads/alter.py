"""ALTER ADD and DROP COLUMN from any replica, beside inserts.

An ALTER sets the table's columns in ZooKeeper, and every replica follows: until 20.3 without an
entry in the log, later with one that the table's version guards (517: the replica is behind). At
rest all replicas have the columns that the acknowledged ALTERs make.

Right after an ALTER has returned, every replica is asked whether it has followed. Until 20.3 an
ALTER ends well only after each replica has, and ends with 341 if one is inactive; later
`replication_alter_partitions_sync` decides: 0 waits for none, 1 for the replica that was asked, 2
for all.

Faults that may break this: a replica is killed or cut off (kill-clickhouse, partition); or two
ALTERs run at a time (`-o alters=3`), because 18.16.1 sets the whole list of columns without
checking whether it has changed. On that version a replica that misses more than two ALTERs loses
its table (scenario missing-table), so combine kills with rare ALTERs, `-o pause-ms=1500`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from checkers.ddl.alter_waits import AlteredColumn, AlterWaits
from checkers.ddl.alters import ADD, COLUMNS, DROP, TYPES, Alters, ColumnsOfReplica
from checkers.ladder import Level
from checkers.look import encode
from checkers.sets.convergence import Convergence
from checkers.sets.set_full import SetFull
from checkers.stats import Stats
from harness.clients.clickhouse import ClickHouse, DatabaseError, QuerySettings, connect
from harness.clients.replicated_table import ReplicatedTable
from harness.clients.set_calls import SET_SCHEMA, inserts, reads
from harness.clients.table_session import TableSession
from harness.core.clock import Clock
from harness.core.dialect import Dialect, Mechanism
from harness.core.op import Call, Op, Value
from harness.core.protocols import Cluster, Session, Workload
from harness.core.seed import Seed
from harness.generators.calls import at_most_in_flight
from workloads.options import PacedOptions
from workloads.table import TableWorkload, inserts_and_reads, look_once
from workloads.zookeeper_looks import log_types

ALTER_TYPES = ("alter", "mutate")
"""Types of the log entries of ALTERs, on servers that log them; a DROP COLUMN also rewrites
parts."""
FOLLOWS_S = 10.0
"""Maximum time in which a replica at rest applies the columns that ZooKeeper has."""
POLL_NS = 200_000_000
LOOK_S = 2.0
"""Timeout of the look at another replica right after an ALTER."""
DROP_AFTER = 3
"""Number of columns that are added after one before it is dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterOptions(PacedOptions):
    """Options of `alter`: how many ALTERs run beside the inserts and reads, and how fast."""

    alters: int = 1
    """Maximum number of ALTERs in flight."""
    pause_ms: int = 100
    """Minimum pause between two ALTERs, in milliseconds."""
    sync: int = -1
    """`replication_alter_partitions_sync` of every ALTER; -1: each draws among 0, 1 and 2."""


def alter(options: AlterOptions, seed: Seed, promise: Level, faults_expected: bool) -> Workload:
    """Return the workload `alter`."""

    def create(cluster: Cluster, token: str) -> Session:
        table = TableSession.table(cluster, token, SET_SCHEMA)
        in_log = cluster.engines.dialect.has(Mechanism.ALTER_IN_LOG)
        expected = [*ALTER_TYPES] if in_log else []
        change = _Alteration(cluster, table, options.sync, seed.child("sync"))
        return TableSession(
            cluster,
            table,
            writes={"insert": inserts(f"{table.name} (key, value)"), ADD: change, DROP: change},
            reads={
                "read": reads(table.name),
                "final-read": reads(table.name),
                COLUMNS: lambda connection, op: encode(
                    _columns(
                        connection,
                        op,
                        table,
                        cluster.engines.on(str(op.node)),
                        cluster.runtime.clock(),
                    )
                ),
            },
            timeout_s=options.timeout_s,
            looks={TYPES: lambda table: log_types(table, expected)},
        )

    pause_ns = options.pause_ms * 1_000_000
    return TableWorkload(
        name="alter",
        seed=seed,
        promise=promise,
        create=create,
        calls=inserts_and_reads(seed, 2, 1),
        per_s=options.ops_per_s,
        beside=at_most_in_flight(_alter, options.alters, pause_ns, seed.child("alters")),
        look=look_once(TYPES),
        final_once=(COLUMNS,),
        judges=(
            Stats(faults_expected=faults_expected),
            Alters(),
            *(() if options.sync == 0 else (AlterWaits(),)),
            SetFull(linearizable=False),
            Convergence(),
        ),
    )


class _Alteration:
    """Adds or drops a column, and asks every replica for it right after the statement has
    returned."""

    def __init__(self, cluster: Cluster, table: ReplicatedTable, sync: int, seed: Seed) -> None:
        self._cluster = cluster
        self._table = table
        self._sync = sync
        self._seed = seed

    def __call__(self, connection: ClickHouse, op: Op) -> Value:
        assert isinstance(op.value, int), "a column is a number"
        assert op.node is not None, "a client has a node"
        sync = self._seed.below(op.value, 3) if self._sync < 0 else self._sync
        dialect = self._cluster.engines.on(op.node)
        others = self._connected(op.node)
        try:
            settings: QuerySettings = {"replication_alter_partitions_sync": sync}
            if op.f == ADD:
                sql = f"ALTER TABLE {self._table.name} ADD COLUMN c{op.value} Int64"
            else:
                sql = f"ALTER TABLE {self._table.name} DROP COLUMN c{op.value}"
            connection.command(sql, settings)
            has = {op.node: self._has(connection, op.value)}
            for node, other in others.items():
                try:
                    has[node] = self._has(other, op.value)
                except DatabaseError:
                    continue  # It was killed or cut off: its columns are unknown.
        finally:
            for other in others.values():
                other.close()
        waits = dialect.alter_waits(sync, op.node, self._table.replicas)
        overlaps = not dialect.has(Mechanism.ALTER_IN_LOG)
        return encode(AlteredColumn(has, [*waits], overlaps))

    def _connected(self, node: str) -> Mapping[str, ClickHouse]:
        """Return connections to the other replicas that answer, open before the ALTER, so that the
        look after it takes milliseconds."""
        found = {}
        for other in self._table.replicas:
            if other == node:
                continue
            found[other] = connect(self._cluster, other, timeout_s=LOOK_S)
            try:
                found[other].row("SELECT 1", (int,))
            except DatabaseError:
                found.pop(other).close()
        return found

    def _has(self, connection: ClickHouse, column: int) -> bool:
        return f"c{column}" in _names(connection, self._table.name)


def _alter(number: int) -> Call:
    """Return an ALTER: of three, two add a column and one drops an older one of them."""
    third, kind = divmod(number, 3)
    if kind < 2:
        return Call(f=ADD, value=2 * third + kind)
    if third < DROP_AFTER:
        return Call(f=ADD, value=1_000_000 + third)
    return Call(f=DROP, value=2 * (third - DROP_AFTER))


def _columns(
    connection: ClickHouse, op: Op, table: ReplicatedTable, dialect: Dialect, clock: Clock
) -> ColumnsOfReplica:
    """Return the columns once the replica has applied the version that ZooKeeper has, or after
    `FOLLOWS_S`."""
    if dialect.has(Mechanism.ALTER_IN_LOG):
        applied = (
            f"SELECT toInt64(value) FROM system.zookeeper WHERE path = '{table.path}/replicas/"
            f"{op.node}' AND name = 'metadata_version'"
        )
        node = "metadata"
    else:
        applied = f"SELECT columns_version FROM system.replicas WHERE database = '{table.database}'"
        node = "columns"
    while True:
        (own,) = connection.row(applied, (int,))
        (shared,) = connection.row(
            f"SELECT version FROM system.zookeeper WHERE path = '{table.path}' AND name = '{node}'",
            (int,),
        )
        if own == shared or clock.now_ns() > FOLLOWS_S * 1e9:
            break
        clock.sleep_until(clock.now_ns() + POLL_NS)
    names = _names(connection, table.name)
    return ColumnsOfReplica(names, own, shared)


def _names(connection: ClickHouse, table: str) -> list[str]:
    """Return the names of a table's columns. Raises DatabaseError."""
    return [row[0] for row in connection.rows(f"DESCRIBE TABLE {table}", (str, ...))]
