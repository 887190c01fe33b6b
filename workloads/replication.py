"""Plain inserts of small and big blocks, which reach the other replicas through the log.

One replica acknowledges an insert; the others pull the log entry and fetch the part. At rest all
have the same parts with the same content, and nothing acknowledged is lost. No read sees a part of
a big block while it is fetched, and a replica's log pointer never goes back. Cut interserver links
and a killed source or receiver may break this (partition, kill, pause).
"""

from dataclasses import dataclass
from functools import partial
from typing import Final

from checkers.ladder import Level
from checkers.look import encode
from checkers.replication.log_pointers import OBSERVE, LogPointers
from checkers.replication.parts import Parts
from checkers.replication.temporary import (
    FINAL_TEMPORARY,
    TEMPORARY,
    Temporary,
    UnfinishedFetches,
)
from checkers.replication.whole_blocks import BlocksOfReplica, WholeBlocks
from checkers.sets.convergence import Convergence
from checkers.sets.set_full import SetFull
from checkers.stats import Stats
from harness.clients.clickhouse import ClickHouse
from harness.clients.replicated_table import TableSchema, data_directory
from harness.clients.table_session import TableSession
from harness.core.capabilities import CanListFiles
from harness.core.op import Call, Op, Value
from harness.core.protocols import Cluster, Session, Workload
from harness.core.seed import Seed
from harness.generators.calls import numbered, repeat
from harness.generators.choose import mix
from workloads.options import PacedOptions
from workloads.table import TableWorkload
from workloads.zookeeper_looks import places

_LIFETIME_S: Final = 10
"""Time after which a server removes the directory of a fetch that it has given up."""
_LEFT_S: Final = 3 * _LIFETIME_S
"""Time after which a directory that is still there at rest counts as left."""
_POLL_S: Final = 0.5
SCHEMA = TableSchema(
    "key Int64, value Int64, size Int64, payload String",
    settings={
        "old_parts_lifetime": 10,
        "temporary_directories_lifetime": _LIFETIME_S,
        "cleanup_delay_period": 1,
        "cleanup_delay_period_random_add": 0,
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationOptions(PacedOptions):
    """Options of `replication`: how big the big blocks are, and how frequent."""

    big_rows: int = 50_000
    """Number of rows of a big block; 50,000 are some 3 MB."""
    one_in: int = 8
    """One block in this many is big; the others have one row."""


def replication(
    options: ReplicationOptions, seed: Seed, promise: Level, faults_expected: bool
) -> Workload:
    """Return the workload `replication`."""

    calls = (
        (2, numbered(lambda number: Call(f="insert", value=number, key=0))),
        (1, repeat(Call(f="read", key=0))),
        (2, repeat(Call(f="rows", key=0))),
        (1, repeat(Call(f=TEMPORARY))),
    )
    return TableWorkload(
        name="replication",
        seed=seed,
        promise=promise,
        create=partial(_session, options),
        calls=mix(seed.child("calls"), calls),
        per_s=options.ops_per_s,
        observer=(OBSERVE, 5.0),
        final_once=(FINAL_TEMPORARY,),
        final_reads=("final-read", "final-rows"),
        judges=(
            Stats(min_ok={"insert": 10, "rows": 10}, faults_expected=faults_expected),
            SetFull(linearizable=False),
            Convergence(),
            Parts(),
            WholeBlocks(),
            Temporary(),
            LogPointers(),
        ),
    )


def _session(options: ReplicationOptions, cluster: Cluster, token: str) -> Session:
    table = TableSession.table(cluster, token, SCHEMA)

    def insert(connection: ClickHouse, op: Op) -> Value:
        value = op.value
        assert isinstance(value, int), "an insert has a number"
        size = options.big_rows if value % options.one_in == options.one_in - 1 else 1
        connection.command(
            f"INSERT INTO {table.name} SELECT {op.key:d}, {value:d}, {size:d}, "
            f"hex(cityHash64(number, {value:d})) FROM numbers({size:d})"
        )
        return value

    def counted(connection: ClickHouse, op: Op) -> list[tuple[int, int, int]]:
        return connection.rows(
            f"SELECT value, count(), any(size) FROM {table.name} WHERE key = {op.key:d} "
            "GROUP BY value ORDER BY value",
            (int, int, int),
        )

    def read(connection: ClickHouse, op: Op) -> Value:
        found = counted(connection, op)
        return tuple(v for v, rows, size in found for _ in range(rows // size))

    def rows(connection: ClickHouse, op: Op) -> Value:
        return encode(BlocksOfReplica(counted(connection, op)))

    def temporary(connection: ClickHouse, op: Op) -> Value:
        return encode(_unfinished_fetches(cluster, connection, op.node, table.database))

    def left(connection: ClickHouse, op: Op) -> Value:
        clock = cluster.runtime.clock()
        while True:
            look = _unfinished_fetches(cluster, connection, op.node, table.database)
            if not look.directories or clock.now_ns() > _LEFT_S * 1e9:
                return encode(look)
            clock.sleep_until(clock.now_ns() + round(_POLL_S * 1e9))

    return TableSession(
        cluster,
        table,
        writes={"insert": insert},
        reads={
            "read": read,
            "final-read": read,
            "rows": rows,
            "final-rows": rows,
            TEMPORARY: temporary,
            FINAL_TEMPORARY: left,
        },
        timeout_s=options.timeout_s,
        looks={OBSERVE: places},
    )


def _unfinished_fetches(
    cluster: Cluster, connection: ClickHouse, node: str | None, database: str
) -> UnfinishedFetches:
    """Return the directories of fetches under way on a replica, and parts of such a name that are
    active, which none may be."""
    if not cluster.has(CanListFiles) or node is None:
        return UnfinishedFetches(unavailable=f"cluster {cluster.name} has no files")
    place = data_directory(connection, cluster.engines.on(node), database, "t")
    files = cluster.part(CanListFiles).files(node, place, "tmp?fetch_*/")
    directories = [path.rpartition("/")[2] for path in files]
    active = connection.rows(
        "SELECT name FROM system.parts WHERE active AND name LIKE 'tmp%' "
        f"AND database = '{database}'",
        (str,),
    )
    return UnfinishedFetches(directories, [name for (name,) in active])
