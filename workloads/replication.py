"""Plain inserts of small and big blocks, which reach the other replicas through the log.

An insert is acknowledged by one replica; the others pull the log entry and fetch the part. Once
nothing is left to do all have the same parts with the same content, and nothing acknowledged is
lost; a big part that is being fetched is not seen before it is whole; and a replica's place in
the log never goes back. That could break: cut interserver links, a source or a receiver killed
(partition, kill, pause).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from checkers.convergence import Convergence
from checkers.ladder import Level
from checkers.log_pointers import OBSERVE, LogPointers
from checkers.parts import Parts
from checkers.set_full import SetFull
from checkers.stats import Stats
from checkers.whole_blocks import WholeBlocks
from harness.clients.clickhouse import ClickHouse
from harness.clients.replicated_table import TableSchema
from harness.clients.table_in_zookeeper import places
from harness.clients.table_session import TableSession
from harness.core.op import Call, Op, Value
from harness.core.protocols import Checker, Cluster, Generator, Session
from harness.core.ranges import settle_numbers
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.generators.calls import numbered, repeat
from harness.generators.choose import mix
from harness.generators.finals import everywhere
from harness.generators.observed import observed
from harness.generators.timing import rate

SCHEMA = TableSchema(
    columns="key Int64, value Int64, size Int64, payload String",
    partition_by="key",
    order_by="value",
    settings={"old_parts_lifetime": 10},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationOptions:
    """What may be chosen of it."""

    big_rows: int = 50_000
    """Of a big block; some 3 MB."""
    one_in: int = 8
    """So many blocks have one row, and the next is big."""
    ops_per_s: float = 40.0
    """Of all workers together."""
    timeout_s: float = 10.0
    """A call without an answer ends as info after this."""

    def settle(self, topology: Topology) -> None:  # noqa: ARG002
        """Raises UsageError for what cannot be asked."""
        settle_numbers(self)


@dataclass(frozen=True, slots=True)
class Replication:
    """The workload."""

    options: ReplicationOptions
    seed: Seed
    promise: Level = Level.EVENTUAL
    faults_expected: bool = False
    name: str = field(default="replication", init=False)
    live_anomalies: bool = field(default=False, init=False)

    def session(self, cluster: Cluster, token: str) -> Session:
        """Creates the table."""
        table = TableSession.table(cluster, token, SCHEMA)
        options = self.options

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
                "GROUP BY value ORDER BY value"
            )

        def read(connection: ClickHouse, op: Op) -> Value:
            found = counted(connection, op)
            return tuple(v for v, rows, size in found for _ in range(rows // size))

        def rows(connection: ClickHouse, op: Op) -> Value:
            return {"blocks": [list(one) for one in counted(connection, op)]}

        return TableSession(
            cluster,
            table,
            writes={"insert": insert},
            reads={"read": read, "final-read": read, "rows": rows, "final-rows": rows},
            timeout_s=options.timeout_s,
            looks={OBSERVE: places},
        )

    def generator(self) -> Generator:
        """Inserts, and reads of both kinds; worker 0 looks at the log."""
        calls = mix(
            self.seed.child("calls"),
            [
                (2, numbered(lambda number: Call(f="insert", value=number, key=0))),
                (1, repeat(Call(f="read", key=0))),
                (2, repeat(Call(f="rows", key=0))),
            ],
        )
        limited = rate(calls, self.options.ops_per_s, self.seed.child("rate"))
        return observed(limited, OBSERVE, 5.0, self.seed)

    def final(self, keys: Sequence[int], nodes: Sequence[str]) -> Generator:
        """Each key, both ways, on each replica."""
        calls = [Call(f=f, key=key) for key in keys for f in ("final-read", "final-rows")]
        return everywhere(calls, nodes)

    def checkers(self) -> Sequence[Checker]:
        """What is acknowledged is everywhere, whole, in equal parts."""
        return (
            Stats(min_ok={"insert": 10, "rows": 10}, faults_expected=self.faults_expected),
            SetFull(linearizable=False),
            Convergence(),
            Parts(),
            WholeBlocks(),
            LogPointers(),
        )
