"""ALTER ADD and DROP COLUMN from any replica, beside inserts.

An ALTER sets the table's columns in ZooKeeper, and every replica follows: until 20.3 without an
entry in the log, later with one that the table's version guards (517: the replica is behind).
In the end all have the same columns, those that the acknowledged ALTERs make. That could break: a
replica killed or cut off (kill-clickhouse, partition); and two ALTERs at a time (`-o alters=3`),
for 18.16.1 sets the whole list without asking whether it had changed. There, a replica that misses
more than two loses its table (scenario missing-table): with kills let them be rare,
`-o pause-ms=1500`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from checkers.alters import ADD, COLUMNS, DROP, TYPES, Alters
from checkers.convergence import Convergence
from checkers.ladder import Level
from checkers.set_full import SetFull
from checkers.stats import Stats
from harness.clients.clickhouse import ClickHouse
from harness.clients.replicated_table import ReplicatedTable, TableSchema
from harness.clients.set_calls import COLUMNS as SET_COLUMNS
from harness.clients.set_calls import inserts, reads
from harness.clients.table_in_zookeeper import TableInZooKeeper, log_types
from harness.clients.table_session import TableSession
from harness.core.clock import WallClock
from harness.core.dialect import Dialect, Mechanism
from harness.core.op import Call, Json, Op, Value
from harness.core.protocols import Checker, Cluster, Generator, Session
from harness.core.ranges import settle_numbers
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.generators.calls import numbered, repeat
from harness.generators.choose import mix
from harness.generators.finals import everywhere
from harness.generators.order import phases
from harness.generators.side import Few
from harness.generators.timing import rate
from harness.generators.workers import together

SCHEMA = TableSchema(
    columns=SET_COLUMNS,
    partition_by="key",
    order_by="value",
    settings={"old_parts_lifetime": 10},
)
ALTER_TYPES = ("alter", "mutate")
"""Log entries of ALTERs, where they are entries; a DROP COLUMN also rewrites parts."""
FOLLOWS_S = 10.0
"""How long a replica at rest may take to apply the columns that ZooKeeper has."""
POLL_NS = 200_000_000
DROP_AFTER = 3
"""A column is dropped when so many more were added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterOptions:
    """What may be chosen of it."""

    alters: int = 1
    """In flight at a time, at most."""
    pause_ms: int = 100
    """Between ALTERs."""
    ops_per_s: float = 40.0
    """Inserts and reads, of all workers together."""
    timeout_s: float = 10.0
    """A call without an answer ends as info after this."""

    def settle(self, topology: Topology) -> None:  # noqa: ARG002
        """Raises UsageError for what cannot be asked."""
        settle_numbers(self)


@dataclass(frozen=True, slots=True)
class Alter:
    """The workload."""

    options: AlterOptions
    seed: Seed
    promise: Level = Level.EVENTUAL
    faults_expected: bool = False
    name: str = field(default="alter", init=False)
    live_anomalies: bool = field(default=False, init=False)

    def session(self, cluster: Cluster, token: str) -> Session:
        """Creates the table."""
        table = TableSession.table(cluster, token, SCHEMA)
        dialect = cluster.engines.dialect

        def alter(connection: ClickHouse, op: Op) -> Value:
            assert isinstance(op.value, int), "a column is a number"
            what = f"ADD COLUMN c{op.value} Int64" if op.f == ADD else f"DROP COLUMN c{op.value}"
            connection.command(f"ALTER TABLE {table.name} {what}")
            return op.value

        return TableSession(
            cluster,
            table,
            writes={"insert": inserts(f"{table.name} (key, value)"), ADD: alter, DROP: alter},
            reads={
                "read": reads(table.name),
                "final-read": reads(table.name),
                COLUMNS: lambda connection, op: _columns(
                    connection, op, table, cluster.engines.on(str(op.node))
                ),
            },
            timeout_s=self.options.timeout_s,
            looks={TYPES: lambda table: _types(table, dialect)},
        )

    def generator(self) -> Generator:
        """Inserts and reads all the time; columns come, and some of them go."""
        calls = mix(
            self.seed.child("calls"),
            [
                (2, numbered(lambda n: Call(f="insert", value=n, key=0))),
                (1, repeat(Call(f="read", key=0))),
            ],
        )

        def alter(number: int) -> Call:
            """Of three, two add a column and one drops an older one of them."""
            third, kind = divmod(number, 3)
            if kind < 2:
                return Call(f=ADD, value=2 * third + kind)
            if third < DROP_AFTER:
                return Call(f=ADD, value=1_000_000 + third)
            return Call(f=DROP, value=2 * (third - DROP_AFTER))

        alters = Few(
            alter,
            self.options.alters,
            self.options.pause_ms * 1_000_000,
            self.seed.child("alters"),
        )
        return together(alters, rate(calls, self.options.ops_per_s, self.seed.child("rate")))

    def final(self, keys: Sequence[int], nodes: Sequence[str]) -> Generator:
        """The columns and each key, on each replica, and a look at the log."""
        calls = [Call(f=COLUMNS), *(Call(f="final-read", key=key) for key in keys)]
        return phases(everywhere([Call(f=TYPES)], nodes[:1]), everywhere(calls, nodes))

    def checkers(self) -> Sequence[Checker]:
        """Columns, and that what was acknowledged is there."""
        return (
            Stats(faults_expected=self.faults_expected),
            Alters(),
            SetFull(linearizable=False),
            Convergence(),
        )


def _types(table: TableInZooKeeper, dialect: Dialect) -> Mapping[str, Json]:
    """The types of the log's entries, and those of ALTERs where they belong there."""
    expected = ALTER_TYPES if dialect.has(Mechanism.ALTER_IN_LOG) else ()
    return {**log_types(table), "expected": list(expected)}


def _columns(
    connection: ClickHouse, op: Op, table: ReplicatedTable, dialect: Dialect
) -> Mapping[str, list[str] | int]:
    """Once the replica has the version that ZooKeeper has, or has not had it for `FOLLOWS_S`."""
    clock = WallClock()
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
        own = connection.rows(applied)[0][0]
        shared = connection.rows(
            f"SELECT version FROM system.zookeeper WHERE path = '{table.path}' AND name = '{node}'"
        )[0][0]
        if own == shared or clock.now_ns() > FOLLOWS_S * 1e9:
            break
        clock.sleep_until(clock.now_ns() + POLL_NS)
    names = [str(row[0]) for row in connection.rows(f"DESCRIBE TABLE {table.name}")]
    return {"columns": names, "version": int(own), "shared": int(shared)}
