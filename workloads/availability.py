"""Who answers while something is down: plain inserts, plain reads and sequential reads everywhere.

A plain select is said to need nobody but its replica; an insert and a sequentially consistent
select need ZooKeeper's majority; and no ClickHouse server is special, so that any may die.
Faults that say something: kill-clickhouse-one, kill-zookeeper-majority, kill-zookeeper-one with
--keeper-route all, each long enough (--duration 25).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from checkers.availability import Availability
from checkers.convergence import Convergence
from checkers.ladder import Level
from checkers.set_full import SetFull
from checkers.stats import Stats
from harness.clients.clickhouse import ClickHouse, DatabaseError, failed_read, failed_write
from harness.clients.connect import connect
from harness.clients.replicated_table import ReplicatedTable, TableSchema
from harness.clients.set_calls import COLUMNS
from harness.clients.table_session import OneTable
from harness.core.op import Call, Done, Json, Kind, Op
from harness.core.protocols import Checker, Client, Cluster, Generator, Session
from harness.core.ranges import settle_numbers
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.generators.calls import numbered, repeat
from harness.generators.choose import mix
from harness.generators.order import phases, until_ok
from harness.generators.timing import rate
from harness.generators.workers import each_node

SCHEMA = TableSchema(
    columns=COLUMNS,
    partition_by="key",
    order_by="value",
    settings={"old_parts_lifetime": 10},
)
WEIGHTS = {"insert": 2.0, "read": 2.0, "read-sequential": 1.0}
FINAL_TRIES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class AvailabilityOptions:
    """What may be chosen of it."""

    calls_per_s: float = 60.0
    """Over all workers: refusals cost nothing, and would crowd out all else."""
    timeout_s: float = 10.0
    """A call without an answer ends as info after this."""

    def settle(self, topology: Topology) -> None:  # noqa: ARG002
        """Raises UsageError for what cannot be asked."""
        settle_numbers(self)


@dataclass(frozen=True, slots=True)
class AvailabilityWorkload:
    """The workload."""

    options: AvailabilityOptions
    seed: Seed
    promise: Level = Level.EVENTUAL
    faults_expected: bool = False
    name: str = field(default="availability", init=False)

    @property
    def live_anomalies(self) -> bool:
        """Plain reads may be stale."""
        return False

    def session(self, cluster: Cluster, token: str) -> Session:
        """Creates the table on every replica of the first shard."""
        table = ReplicatedTable(cluster, token, SCHEMA)
        table.create()
        return _Session(cluster, table, self.options)

    def generator(self) -> Generator:
        """Each kind of call as often as its weight, on whichever worker is free."""
        calls = mix(
            self.seed.child("mix"),
            [
                (WEIGHTS["insert"], numbered(lambda n: Call(f="insert", value=n, key=0))),
                (WEIGHTS["read"], repeat(Call(f="read", key=0))),
                (WEIGHTS["read-sequential"], repeat(Call(f="read-sequential", key=0))),
            ],
        )
        return rate(calls, self.options.calls_per_s, self.seed.child("rate"))

    def final(self, keys: Sequence[int], nodes: Sequence[str]) -> Generator:
        """Each key on each replica, twice."""
        reads = tuple(Call(f="final-read", key=key) for key in keys)
        everywhere = each_node(until_ok(reads, tries=FINAL_TRIES), nodes)
        return phases(everywhere, everywhere)

    def checkers(self) -> Sequence[Checker]:
        """Who answered, and that nothing acknowledged was lost."""
        return (
            Stats(faults_expected=self.faults_expected),
            Availability(),
            SetFull(linearizable=False),
            Convergence(),
        )


class _Session(OneTable):
    def __init__(
        self, cluster: Cluster, table: ReplicatedTable, options: AvailabilityOptions
    ) -> None:
        super().__init__(cluster, table)
        self._options = options

    def client(self, node: str) -> Client:
        connection = connect(self._cluster, node, timeout_s=self._options.timeout_s)
        return _Client(connection, self._table.name)

    def observe(self) -> Mapping[str, Json]:
        """With the ZooKeeper servers that each replica knows."""
        topology = self._cluster.topology
        return {
            node: {
                **(state if isinstance(state, dict) else {}),
                "keepers": list(topology.node(node).keepers),
                "ensemble": len(topology.keepers),
            }
            for node, state in self._table.observe().items()
        }


class _Client:
    def __init__(self, connection: ClickHouse, table: str) -> None:
        self._connection = connection
        self._table = table

    def invoke(self, op: Op) -> Done:
        return self._insert(op) if op.f == "insert" else self._read(op)

    def _insert(self, op: Op) -> Done:
        try:
            self._connection.insert(self._table, [(op.key, op.value)])
        except DatabaseError as error:
            return failed_write(error)
        return Done(Kind.OK, op.value)

    def _read(self, op: Op) -> Done:
        settings = {"select_sequential_consistency": 1} if op.f == "read-sequential" else {}
        try:
            columns = self._connection.columns(f"SELECT value FROM {self._table}", settings)
        except DatabaseError as error:
            return failed_read(error)
        values = tuple(columns[0]) if columns else ()
        # Of a sequential read only the answer counts: its rows would double the history.
        return Done(Kind.OK, len(values) if op.f == "read-sequential" else values)

    def close(self) -> None:
        self._connection.close()
