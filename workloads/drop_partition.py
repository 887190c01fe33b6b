"""Inserts into a few partitions, merges, and DROP PARTITION of all but the first of them, from any
replica.

A drop is an entry of the replication log with a range of blocks: every block number that the
partition had given out. So what was there before it goes from every replica, for good, and what is
inserted after it stays. On 18.16.1 the leader writes the entry; since 20.5 every replica does. A
replica that is killed or cut off between the entry and its own removal of the parts may break this
(kill-clickhouse, partition); one that was lost meanwhile does, see the scenario returned-rows.
"""

from dataclasses import dataclass, replace

from checkers.ladder import Level
from checkers.replication.dropped import DROP, LOG, Dropped
from checkers.replication.parts import Parts
from checkers.sets.convergence import Convergence
from checkers.stats import Stats
from harness.clients.clickhouse import ClickHouse
from harness.clients.set_calls import SET_SCHEMA, inserts, reads
from harness.clients.table_session import TableSession
from harness.core.op import Call, Op, Value
from harness.core.protocols import Cluster, Session, Workload
from harness.core.seed import Seed
from harness.generators.calls import at_most_in_flight, numbered
from harness.generators.choose import mix
from workloads.options import PacedOptions
from workloads.table import TableWorkload, look_once
from workloads.zookeeper_looks import log_types

WHOLE_LOG = replace(
    SET_SCHEMA, settings={**SET_SCHEMA.settings, "min_replicated_logs_to_keep": 10_000}
)
"""Schema of a table whose log entries are kept, so that the last look sees those of the drops."""
PARTITIONS = 4
"""Number of partitions; the first is never dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DropPartitionOptions(PacedOptions):
    """Options of `drop-partition`: how many drops run beside inserts, merges and reads, and how
    fast."""

    drops: int = 2
    """Maximum number of drops in flight."""
    pause_ms: int = 400
    """Minimum pause between two drops, in milliseconds."""


def drop_partition(
    options: DropPartitionOptions, seed: Seed, promise: Level, faults_expected: bool
) -> Workload:
    """Return the workload `drop-partition`."""

    def create(cluster: Cluster, token: str) -> Session:
        table = TableSession.table(cluster, token, WHOLE_LOG)

        def drop(connection: ClickHouse, op: Op) -> Value:
            connection.command(f"ALTER TABLE {table.name} DROP PARTITION {op.key:d}")
            return op.value

        def merge(connection: ClickHouse, op: Op) -> Value:
            connection.command(
                f"OPTIMIZE TABLE {table.name} PARTITION {op.key:d}",
                {"replication_alter_partitions_sync": 0},
            )
            return None

        return TableSession(
            cluster,
            table,
            writes={"insert": inserts(table.name), DROP: drop, "merge": merge},
            reads={"read": reads(table.name), "final-read": reads(table.name)},
            timeout_s=options.timeout_s,
            looks={LOG: log_types},
        )

    calls = (
        (8, numbered(lambda n: Call(f="insert", value=n, key=n % PARTITIONS))),
        (1, numbered(lambda n: Call(f="merge", key=n % PARTITIONS))),
        (8, numbered(lambda n: Call(f="read", key=n % PARTITIONS))),
    )
    pause_ns = options.pause_ms * 1_000_000
    return TableWorkload(
        name="drop-partition",
        seed=seed,
        promise=promise,
        create=create,
        calls=mix(seed.child("calls"), calls),
        per_s=options.ops_per_s,
        beside=at_most_in_flight(
            lambda n: Call(f=DROP, key=1 + n % (PARTITIONS - 1)),
            options.drops,
            pause_ns,
            seed.child("drops"),
        ),
        look=look_once(LOG),
        judges=(
            Stats(min_ok={"insert": 10, DROP: 3}, faults_expected=faults_expected),
            Dropped(),
            Convergence(),
            Parts(),
        ),
    )
