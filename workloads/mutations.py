"""ALTER UPDATE and DELETE from any replica, beside inserts.

An update adds one to a digit of its own of every row, so that each row shows how often each update
took effect: once, if the row was there before; never, if it came later. A delete takes one value.
In the end every replica has the same. That could break: the replica that leads, which assigns
mutations to parts, killed (kill-clickhouse-leader) or cut off (partition). A server of 18.16.1 dies
when a mutation meets an insert that is not committed yet (scenario crashing-mutation).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from checkers.ladder import Level
from checkers.mutations import BITS, MUTATE, ROWS, Mutations
from checkers.parts import Parts
from checkers.stats import Stats
from harness.clients.clickhouse import ClickHouse
from harness.clients.replicated_table import TableSchema, leads
from harness.clients.table_session import TableSession
from harness.core.op import Call, Op, Value
from harness.core.protocols import Checker, Cluster, Generator, Session
from harness.core.ranges import settle_numbers
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.generators.calls import numbered
from harness.generators.finals import everywhere
from harness.generators.side import Few
from harness.generators.timing import rate
from harness.generators.workers import together

SCHEMA = TableSchema(
    columns="key Int64, value Int64, hits UInt64",
    partition_by="key",
    order_by="value",
    settings={"old_parts_lifetime": 10},
)
UPDATES_MAX = 64 // BITS - 1
PARTITIONS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationsOptions:
    """What may be chosen of it."""

    ops_per_s: float = 40.0
    """Inserts, of all workers together."""
    mutations: int = 2
    """In flight at a time, at most."""
    pause_ms: int = 500
    """Between mutations."""
    timeout_s: float = 10.0
    """A call without an answer ends as info after this."""

    def settle(self, topology: Topology) -> None:  # noqa: ARG002
        """Raises UsageError for what cannot be asked."""
        settle_numbers(self)


@dataclass(frozen=True, slots=True)
class MutationsWorkload:
    """The workload."""

    options: MutationsOptions
    seed: Seed
    promise: Level = Level.EVENTUAL
    faults_expected: bool = False
    name: str = field(default="mutations", init=False)
    live_anomalies: bool = field(default=False, init=False)

    def session(self, cluster: Cluster, token: str) -> Session:
        """Creates the table."""
        table = TableSession.table(cluster, token, SCHEMA)

        def insert(connection: ClickHouse, op: Op) -> Value:
            connection.insert(table.name, [(op.key, op.value, 0)])
            return op.value

        def mutate(connection: ClickHouse, op: Op) -> Value:
            assert isinstance(op.value, dict), "an update or a delete"
            led = leads(connection, table.database)
            if "update" in op.value:
                one = 1 << (BITS * int(op.value["update"]))
                what = f"UPDATE hits = hits + toUInt64({one}) WHERE value >= 0"
            else:
                what = f"DELETE WHERE value = {int(op.value['delete'])}"
            connection.command(f"ALTER TABLE {table.name} {what}")
            return {**op.value, "leads": led}

        def rows(connection: ClickHouse, op: Op) -> Value:
            sql = f"SELECT value, hits FROM {table.name} WHERE key = {op.key:d} ORDER BY value"
            undone = connection.rows(
                "SELECT mutation_id, max(parts_to_do) FROM system.mutations "
                f"WHERE NOT is_done AND database = '{table.database}' GROUP BY mutation_id"
            )
            return {
                "rows": [[int(v), int(hits)] for v, hits in connection.rows(sql)],
                "undone": {str(mutation): int(parts) for mutation, parts in sorted(undone)},
            }

        return TableSession(
            cluster,
            table,
            writes={"insert": insert, MUTATE: mutate},
            reads={ROWS: rows},
            timeout_s=self.options.timeout_s,
            more_pending=table.unfinished_mutations,
        )

    def generator(self) -> Generator:
        """Inserts all the time; now and then an update, as many as there are digits, or a
        delete of an early value."""
        inserts = numbered(lambda n: Call(f="insert", value=n, key=n % PARTITIONS))

        def mutate(number: int) -> Call:
            if number % 2 == 0 and number // 2 < UPDATES_MAX:
                return Call(f=MUTATE, value={"update": number // 2})
            return Call(f=MUTATE, value={"delete": number})

        pause_ns = self.options.pause_ms * 1_000_000
        mutations = Few(mutate, self.options.mutations, pause_ns, self.seed.child("mutations"))
        limited = rate(inserts, self.options.ops_per_s, self.seed.child("rate"))
        return together(mutations, limited)

    def final(self, keys: Sequence[int], nodes: Sequence[str]) -> Generator:
        """Every row, on each replica."""
        return everywhere((Call(f=ROWS, key=key) for key in keys), nodes)

    def checkers(self) -> Sequence[Checker]:
        """Each once, and equal parts."""
        least = {"insert": 10, MUTATE: 3}
        return (
            Stats(min_ok=least, faults_expected=self.faults_expected),
            Mutations(),
            Parts(),
        )
