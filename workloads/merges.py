"""Small inserts and OPTIMIZE on any replica: the one that leads assigns the merges, all do them.

Rows are kept as a multiset, in the end the same parts are everywhere, and an OPTIMIZE that was
told to wait returns when its merge is done. That could break: the leader killed in the middle of
a merge (kill-clickhouse, pause-clickhouse), or cut off (partition).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from checkers.convergence import Convergence
from checkers.ladder import Level
from checkers.leaders import LEADS, Leaders
from checkers.optimize import OPTIMIZE, Optimize
from checkers.parts import Parts
from checkers.set_full import SetFull
from checkers.stats import Stats
from harness.clients.clickhouse import ClickHouse, DatabaseError
from harness.clients.connect import connect
from harness.clients.replicated_table import ReplicatedTable, TableSchema, leads
from harness.clients.set_calls import reads
from harness.clients.table_session import TableSession
from harness.core.errors import UsageError
from harness.core.op import Call, Op, Value
from harness.core.protocols import Checker, Cluster, Generator, Session
from harness.core.ranges import settle_numbers
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.generators.calls import numbered, repeat
from harness.generators.choose import mix
from harness.generators.finals import everywhere
from harness.generators.timing import rate

SCHEMA = TableSchema(
    columns="key Int64, value Int64, payload String",
    partition_by="key",
    order_by="value",
    # Nothing merges by itself, so that every merge was asked for.
    settings={"old_parts_lifetime": 10, "max_bytes_to_merge_at_max_space_in_pool": 1},
)
OWN_PARTITION = 1_000_000
"""Of the OPTIMIZE that is judged, and the ones after it: each has a partition of its own."""
OWN_PARTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class MergesOptions:
    """What may be chosen of it."""

    sync: int = -1
    """`replication_alter_partitions_sync` of every OPTIMIZE; -1: each draws among 0, 1 and 2."""
    own_rows: int = 20_000
    """Of each part that an OPTIMIZE merges."""
    values_per_key: int = 40
    """Then a fresh key, which is a partition, is taken."""
    ops_per_s: float = 60.0
    """Of all workers together."""
    timeout_s: float = 10.0
    """A call without an answer ends as info after this."""

    def settle(self, topology: Topology) -> None:  # noqa: ARG002
        """Raises UsageError for what cannot be asked."""
        settle_numbers(self)
        if not 1 <= self.values_per_key <= 100:
            raise UsageError(f"values-per-key {self.values_per_key}: expected 1 to 100")


@dataclass(frozen=True, slots=True)
class Merges:
    """The workload."""

    options: MergesOptions
    seed: Seed
    promise: Level = Level.EVENTUAL
    faults_expected: bool = False
    table_settings: Mapping[str, int] = field(default_factory=dict)
    """Beside those of its schema."""
    name: str = field(default="merges", init=False)
    live_anomalies: bool = field(default=False, init=False)

    def session(self, cluster: Cluster, token: str) -> Session:
        """Creates the table."""
        settings = {**SCHEMA.settings, **self.table_settings}
        table = TableSession.table(cluster, token, replace(SCHEMA, settings=settings))

        def insert(connection: ClickHouse, op: Op) -> Value:
            connection.insert(table.name, [(op.key, op.value, "")])
            return op.value

        def led(connection: ClickHouse, op: Op) -> Value:  # noqa: ARG001
            return {"leads": leads(connection, table.database)}

        def merge(connection: ClickHouse, op: Op) -> Value:
            connection.command(
                f"OPTIMIZE TABLE {table.name} PARTITION {op.key:d} FINAL",
                {"replication_alter_partitions_sync": 0},
            )
            return None

        own = _OwnMerge(cluster, table, self.options.own_rows)
        return TableSession(
            cluster,
            table,
            writes={"insert": insert, "merge": merge, OPTIMIZE: own},
            reads={"read": reads(table.name), "final-read": reads(table.name), LEADS: led},
            timeout_s=self.options.timeout_s,
        )

    def generator(self) -> Generator:
        """Inserts, merges of what was inserted, merges that are judged, and who leads."""
        per_key = self.options.values_per_key

        def insert(number: int) -> Call:
            return Call(f="insert", value=number, key=number // per_key)

        def optimize(number: int) -> Call:
            drawn = self.seed.child("sync").below(number, 3)
            sync = drawn if self.options.sync < 0 else self.options.sync
            return Call(f=OPTIMIZE, value={"partition": OWN_PARTITION + number, "sync": sync})

        own = self.seed.child("merge")
        # About twenty inserts to a merge: the key that was inserted into lately.
        merges = numbered(
            lambda n: Call(f="merge", key=max(0, n * 20 // per_key - own.below(n, 2)))
        )
        calls = mix(
            self.seed.child("calls"),
            [
                (20, numbered(insert)),
                (1, merges),
                (1, numbered(optimize)),
                (4, repeat(Call(f="read", key=0))),
                (12, repeat(Call(f=LEADS))),
            ],
        )
        return rate(calls, self.options.ops_per_s, self.seed.child("rate"))

    def final(self, keys: Sequence[int], nodes: Sequence[str]) -> Generator:
        """Each key, on each replica."""
        return everywhere((Call(f="final-read", key=key) for key in keys), nodes)

    def checkers(self) -> Sequence[Checker]:
        """Rows, parts, promises of OPTIMIZE, and who leads."""
        return (
            Stats(faults_expected=self.faults_expected),
            SetFull(linearizable=False),
            Convergence(),
            Parts(),
            Optimize(),
            Leaders(),
        )


class _OwnMerge:
    """Fills a partition of its own, merges it, and looks what is where when OPTIMIZE returned."""

    def __init__(self, cluster: Cluster, table: ReplicatedTable, rows: int) -> None:
        self._cluster = cluster
        self._table = table
        self._rows = rows

    def __call__(self, connection: ClickHouse, op: Op) -> Value:
        assert isinstance(op.value, dict), "a partition and how long to wait"
        partition, sync = int(op.value["partition"]), int(op.value["sync"])
        for at in range(OWN_PARTS):
            connection.command(
                f"INSERT INTO {self._table.name} SELECT {partition}, {at}, "
                f"hex(cityHash64(number, {at})) FROM numbers({self._rows})"
            )
        connection.command(
            f"OPTIMIZE TABLE {self._table.name} PARTITION {partition} FINAL",
            {"replication_alter_partitions_sync": sync},
        )
        parts = {}
        for node in self._table.replicas:
            other = connect(self._cluster, node, timeout_s=2.0)
            try:
                found = (connection if node == op.node else other).rows(
                    "SELECT name FROM system.parts WHERE active AND partition = "
                    f"'{partition}' AND database = '{self._table.database}' ORDER BY name"
                )
                parts[node] = [name for (name,) in found]
            except DatabaseError:
                continue  # It is killed, or cut off: nothing is known of it.
            finally:
                other.close()
        return {"sync": sync, "parts": {**parts}}
