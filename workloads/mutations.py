"""ALTER UPDATE and DELETE from any replica, beside inserts.

An update adds one to a digit of its own of every row, so that each row shows how often each update
took effect: once if the row was there before, never if it came later. A delete removes one value.
At rest all replicas are equal. Meanwhile worker 0 looks at ZooKeeper: the name of a mutated part
ends in the number of the mutation, and no mutation_pointer goes back. A leader, which assigns
mutations to parts, that is killed (kill-clickhouse-leader) or cut off (partition) may break this. A
server of 18.16.1 dies when a mutation meets an insert that is not committed yet (scenario
crashing-mutation).
"""

from dataclasses import dataclass

from msgspec import UNSET

from checkers.ddl.mutation_log import OBSERVE, MutationLog
from checkers.ddl.mutations import BITS, MUTATE, ROWS, Mutate, Mutations, RowsOfReplica
from checkers.ladder import Level
from checkers.look import decode, encode
from checkers.replication.parts import Parts
from checkers.stats import Stats
from harness.clients.clickhouse import ClickHouse
from harness.clients.replicated_table import TableSchema, leads
from harness.clients.table_session import TableSession
from harness.core.op import Call, Op, Value
from harness.core.protocols import Cluster, Session, Workload
from harness.core.seed import Seed
from harness.generators.calls import at_most_in_flight, numbered
from workloads.options import PacedOptions
from workloads.table import TableWorkload
from workloads.zookeeper_looks import MutationLook

SCHEMA = TableSchema("key Int64, value Int64, hits UInt64")
UPDATES_MAX = 64 // BITS - 1
"""Number of updates, each of which has a digit of its own."""
PARTITIONS = 2
LOOKS_PER_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationsOptions(PacedOptions):
    """Options of `mutations`: how many updates and deletes run beside the inserts, and how fast."""

    mutations: int = 2
    """Maximum number of mutations in flight."""
    pause_ms: int = 500
    """Minimum pause between two mutations, in milliseconds."""


def _undone(connection: ClickHouse, database: str) -> dict[str, int]:
    """Return how many parts each mutation that is not done has to do."""
    return dict(
        connection.rows(
            "SELECT mutation_id, max(parts_to_do) FROM system.mutations "
            f"WHERE NOT is_done AND database = '{database}' GROUP BY mutation_id "
            "ORDER BY mutation_id",
            (str, int),
        )
    )


def mutations(
    options: MutationsOptions, seed: Seed, promise: Level, faults_expected: bool
) -> Workload:
    """Return the workload `mutations`."""

    def create(cluster: Cluster, token: str) -> Session:
        table = TableSession.table(cluster, token, SCHEMA)

        def insert(connection: ClickHouse, op: Op) -> Value:
            connection.insert(table.name, [(op.key, op.value, 0)])
            return op.value

        def mutate(connection: ClickHouse, op: Op) -> Value:
            call, led = decode(op, Mutate), leads(connection, table.database)
            if call.update is not UNSET:
                one = 1 << (BITS * call.update)
                sql = (
                    f"ALTER TABLE {table.name} "
                    f"UPDATE hits = hits + toUInt64({one}) WHERE value >= 0"
                )
            else:
                sql = f"ALTER TABLE {table.name} DELETE WHERE value = {call.delete}"
            connection.command(sql)
            return encode(Mutate(call.update, call.delete, led))

        def rows(connection: ClickHouse, op: Op) -> Value:
            sql = f"SELECT value, hits FROM {table.name} WHERE key = {op.key:d} ORDER BY value"
            of_key = connection.rows(sql, (int, int))
            return encode(RowsOfReplica(of_key, _undone(connection, table.database)))

        return TableSession(
            cluster,
            table,
            writes={"insert": insert, MUTATE: mutate},
            reads={ROWS: rows},
            timeout_s=options.timeout_s,
            looks={OBSERVE: MutationLook()},
            more_pending=table.unfinished_mutations,
        )

    def mutation(number: int) -> Call:
        """Return an update, as long as there are digits, or a delete of an early value."""
        if number % 2 == 0 and number // 2 < UPDATES_MAX:
            return Call(f=MUTATE, value=encode(Mutate(update=number // 2)))
        return Call(f=MUTATE, value=encode(Mutate(delete=number)))

    pause_ns = options.pause_ms * 1_000_000
    return TableWorkload(
        name="mutations",
        seed=seed,
        promise=promise,
        create=create,
        calls=numbered(lambda n: Call(f="insert", value=n, key=n % PARTITIONS)),
        per_s=options.ops_per_s,
        beside=at_most_in_flight(mutation, options.mutations, pause_ns, seed.child("mutations")),
        observer=(OBSERVE, LOOKS_PER_S),
        final_reads=(ROWS,),
        judges=(
            Stats(min_ok={"insert": 10, MUTATE: 3}, faults_expected=faults_expected),
            Mutations(),
            MutationLog(),
            Parts(),
        ),
    )
