"""Small inserts and OPTIMIZE on any replica: the leader assigns the merges, every replica executes
them.

Rows are kept as a multiset, all replicas end with the same parts, and an OPTIMIZE that must wait
returns after its merge is done. A leader that is killed during a merge (kill-clickhouse,
pause-clickhouse) or cut off (partition) may break this.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from checkers.ddl.optimize import OPTIMIZE, Optimize, OptimizedPartition
from checkers.ladder import Level
from checkers.look import encode
from checkers.replication.agreed import TRANSACTIONS
from checkers.replication.assigners import Assigners
from checkers.replication.leaders import LEADS, Claim, Leaders
from checkers.replication.merged_rows import FILL, FilledPartition, MergedRows
from checkers.replication.parts import Parts
from checkers.sets.convergence import Convergence
from checkers.sets.set_full import SetFull
from checkers.stats import MIN_OK, Stats
from harness.clients.clickhouse import ClickHouse, DatabaseError, connect
from harness.clients.replicated_table import ReplicatedTable, TableSchema, leads
from harness.clients.set_calls import reads
from harness.clients.table_session import TableSession
from harness.core.errors import UsageError
from harness.core.op import Call, Op, Value
from harness.core.protocols import Checker, Cluster, Generator, Session, Workload
from harness.core.ranges import validate_numbers
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.generators.calls import numbered, repeat
from harness.generators.choose import mix
from workloads.options import PacedOptions
from workloads.table import SHORT_LOG, TableWorkload
from workloads.transactions import look_at_transactions, transactions

SCHEMA = TableSchema(
    "key Int64, value Int64, payload String",
    settings={"old_parts_lifetime": 10},
)
ASKED_FOR = {"max_bytes_to_merge_at_max_space_in_pool": 1}
"""Setting of a table whose servers merge nothing by themselves."""
OWN_PARTITION = 1_000_000
"""Partition of the first OPTIMIZE that is judged; each of those has a partition of its own."""
OWN_PARTS = 3
LEAST = 3
"""Number of OPTIMIZE that must be acknowledged; a run with fewer goes on for longer."""
BACKGROUND_PARTS = 8
"""Number of equal parts that servers merge by themselves at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergesOptions(PacedOptions):
    """Options of `merges`: how big the merges are, and what OPTIMIZE waits for."""

    sync: int = -1
    """`replication_alter_partitions_sync` of every OPTIMIZE; -1: each draws among 0, 1 and 2."""
    own_rows: int = 20_000
    """Number of rows of each part that an OPTIMIZE merges."""
    background: bool = False
    """True if servers merge by themselves, and nobody requests it."""
    short_log: bool = False
    """True if the replication log keeps ten entries, so that a replica that misses more is lost."""
    values_per_key: int = 40
    """Number of values that are inserted into one key, which is a partition."""
    ops_per_s: float = 60.0

    def validate(self, topology: Topology) -> None:  # noqa: ARG002
        """Raise UsageError for options that are out of range."""
        validate_numbers(self)
        if not 1 <= self.values_per_key <= 100:
            raise UsageError(f"values-per-key {self.values_per_key}: expected 1 to 100")


def merges(options: MergesOptions, seed: Seed, promise: Level, faults_expected: bool) -> Workload:
    """Return the workload `merges`."""

    def create(cluster: Cluster, token: str) -> Session:
        asked = {} if options.background else ASKED_FOR
        log = SHORT_LOG if options.short_log else {}
        settings = {**SCHEMA.settings, **asked, **log}
        table = TableSession.table(cluster, token, replace(SCHEMA, settings=settings))

        def insert(connection: ClickHouse, op: Op) -> Value:
            connection.insert(table.name, [(op.key, op.value, "")])
            return op.value

        def led(connection: ClickHouse, op: Op) -> Value:  # noqa: ARG001
            return encode(Claim(leads(connection, table.database)))

        def merge(connection: ClickHouse, op: Op) -> Value:
            connection.command(
                f"OPTIMIZE TABLE {table.name} PARTITION {op.key:d} FINAL",
                {"replication_alter_partitions_sync": 0},
            )
            return None

        own = _OwnMerge(cluster, table, options.own_rows)

        def fill(connection: ClickHouse, op: Op) -> Value:
            return encode(own.fill(connection, _partition(op), BACKGROUND_PARTS))

        return TableSession(
            cluster,
            table,
            writes={"insert": insert, "merge": merge, OPTIMIZE: own, FILL: fill},
            reads={"read": reads(table.name), "final-read": reads(table.name), LEADS: led},
            timeout_s=options.timeout_s,
            looks={TRANSACTIONS: transactions(cluster)},
        )

    judges: list[Checker] = [] if options.background else [Optimize()]
    least = {FILL: 1} if options.background else {OPTIMIZE: LEAST}
    return TableWorkload(
        name="merges",
        seed=seed,
        promise=promise,
        create=create,
        calls=mix(seed.child("calls"), _calls(options, seed)),
        per_s=options.ops_per_s,
        look=look_at_transactions,
        judges=(
            Stats(min_ok={**MIN_OK, **least}, faults_expected=faults_expected),
            SetFull(linearizable=False),
            Convergence(),
            Parts(),
            MergedRows(),
            *judges,
            Leaders(),
            Assigners(),
        ),
    )


def _calls(options: MergesOptions, seed: Seed) -> Sequence[tuple[float, Generator]]:
    """Return the calls with their shares."""

    def optimize(number: int) -> Call:
        drawn = seed.child("sync").below(number, 3)
        sync = drawn if options.sync < 0 else options.sync
        return Call(f=OPTIMIZE, value={"partition": OWN_PARTITION + number, "sync": sync})

    per_key, own = options.values_per_key, seed.child("merge")
    fills = numbered(lambda n: Call(f=FILL, value={"partition": OWN_PARTITION + n}))
    # About twenty inserts to a merge: the key that was inserted into lately.
    merged = numbered(lambda n: Call(f="merge", key=max(0, n * 20 // per_key - own.below(n, 2))))
    asked = [(1, merged), (1, numbered(optimize))]
    return (
        (20, numbered(lambda n: Call(f="insert", value=n, key=n // per_key))),
        *([(1, fills)] if options.background else asked),
        (4, repeat(Call(f="read", key=0))),
        (12, repeat(Call(f=LEADS))),
    )


class _OwnMerge:
    """Fills a partition of its own, merges it, and lists its parts when OPTIMIZE has returned."""

    def __init__(self, cluster: Cluster, table: ReplicatedTable, rows: int) -> None:
        self._cluster = cluster
        self._table = table
        self._rows = rows

    def fill(self, connection: ClickHouse, partition: int, parts: int) -> FilledPartition:
        """Insert the parts."""
        for at in range(parts):
            connection.command(
                f"INSERT INTO {self._table.name} SELECT {partition}, {at}, "
                f"hex(cityHash64(number, {at})) FROM numbers({self._rows})"
            )
        return FilledPartition(partition, parts * self._rows)

    def __call__(self, connection: ClickHouse, op: Op) -> Value:
        assert isinstance(op.value, dict), "a partition and how long to wait"
        partition, sync = _partition(op), int(op.value["sync"])
        filled = self.fill(connection, partition, OWN_PARTS)
        connection.command(
            f"OPTIMIZE TABLE {self._table.name} PARTITION {partition} FINAL",
            {"replication_alter_partitions_sync": sync, "optimize_throw_if_noop": 1},
        )
        parts = {}
        for node in self._table.replicas:
            other = connect(self._cluster, node, timeout_s=2.0)
            try:
                found = (connection if node == op.node else other).rows(
                    "SELECT name FROM system.parts WHERE active AND partition = "
                    f"'{partition}' AND database = '{self._table.database}' ORDER BY name",
                    (str,),
                )
                parts[node] = [name for (name,) in found]
            except DatabaseError:
                continue  # It is killed or cut off: its parts are unknown.
            finally:
                other.close()
        assert op.node is not None, "a client has a node"
        dialect = self._cluster.engines.on(op.node)
        waits = dialect.optimize_waits(sync, op.node, self._table.replicas)
        look = OptimizedPartition(filled.partition, filled.rows, sync, [*waits], parts)
        return encode(look)


def _partition(op: Op) -> int:
    assert isinstance(op.value, dict), "a call on a partition of its own names it"
    return int(op.value["partition"])
