"""Sets of a Replicated database whose rows each replica has for itself, for scripts.

The calls are `insert` and `read`, `miss`, which makes the statements that a replica is to miss, and
`outrun`, which makes more statements than the log of the database keeps, so that a replica that is
away takes the definitions of its tables from ZooKeeper in place of the log.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from checkers.ladder import Level
from checkers.sets.set_full import SetFull
from checkers.stats import Stats
from harness.clients.clickhouse import (
    ClickHouse,
    DatabaseError,
    QuerySettings,
    connect,
    failed_read,
    failed_write,
)
from harness.clients.replicated_table import (
    TableSchema,
    create_replicated_database,
    drop_database,
)
from harness.clients.table_session import OneTable
from harness.core.connections import ZooKeeperError
from harness.core.errors import ClusterError
from harness.core.op import Call, Done, Json, Kind, Op
from harness.core.protocols import Checker, Client, Cluster, Generator, Session
from harness.generators.calls import sequence
from harness.generators.order import final_reads_on
from workloads.statement_tables import TableOfDatabase

KEPT: Final = 3
"""Number of statements that a short log keeps."""
OUTRUN: Final = 3 * KEPT
"""Number of statements after which such a log has forgotten those before."""
_BESIDE: Final = ("broken_tables", "broken_replicated_tables")
"""Ends of the names of databases into which a replica puts tables aside."""
NOBODY: Final[QuerySettings] = {
    "distributed_ddl_output_mode": "none",
    "distributed_ddl_task_timeout": 0,
}
"""Settings of a statement that waits for no replica that is away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSet:
    """Workload of a script on a table of a Replicated database."""

    name: str = "scenario"
    create: Sequence[str]
    """Statements that make the tables, in which {db} is the database."""
    missed: Sequence[str]
    """Statements of the call `miss`."""
    log_kept: int | None = KEPT
    """Number of statements that the log of the database keeps; None for what servers keep."""
    filled: str = "t"
    """Table into which values are inserted."""
    shown: str = "t"
    """Table that is read."""
    timeout_s: float = 15.0

    @property
    def promise(self) -> Level:
        """Return what the rows of a table promise: to be there."""
        return Level.EVENTUAL

    @property
    def live_anomalies(self) -> bool:
        """Return False: a script ends too soon for a live display."""
        return False

    def session(self, cluster: Cluster, token: str) -> Session:
        """Create the database on every replica, and the tables through the first one."""
        table = _TableOfEach(cluster, token, self)
        table.create()
        return _DatabaseSession(cluster, table, self)

    def generator(self) -> Generator:
        """Return no calls: the script makes them."""
        return sequence(())

    def final(self, keys: Sequence[int], nodes: Sequence[str]) -> Generator:
        """Return a read of each key on each replica."""
        return final_reads_on([Call(f="final-read", key=key) for key in keys], nodes)

    def checkers(self) -> Sequence[Checker]:
        """Return the checkers. A value is lost if no replica shows it; that one alone shows it is
        as it should be."""
        return (Stats(min_ok={}, min_ok_total=1), SetFull(linearizable=False))


class _TableOfEach(TableOfDatabase):
    """Table whose rows each replica has for itself."""

    def __init__(self, cluster: Cluster, token: str, workload: DatabaseSet) -> None:
        super().__init__(cluster, token, workload.shown, TableSchema("value Int64"))
        self._workload = workload

    def create(self) -> None:
        node = self.replicas[0]
        try:
            for node in self.replicas:
                create_replicated_database(self._on(node), self.database, self.log, node)
            node = self.replicas[0]
            for sql in self._workload.create:
                self._on(node).command(sql.format(db=self.database))
            if self._workload.log_kept is not None:
                self._keep_log(self._workload.log_kept)
        except (DatabaseError, ZooKeeperError) as error:
            self.close()
            raise ClusterError(f"{node}: the tables were not made: {error}") from error

    def _keep_log(self, count: int) -> None:
        """Have the log of the database keep so many statements. Raises ZooKeeperError."""
        session = self._cluster.zookeeper(self._cluster.topology.keepers)
        try:
            session.ask("set", f"{self.log}/logs_to_keep", str(count).encode())
        finally:
            session.close()

    def pending(self) -> Sequence[str]:
        return self.unexecuted()

    def observe(self, *, parts: bool = False) -> Mapping[str, Json]:  # noqa: ARG002 # it has none
        """Return the number of rows of each table of the database on each replica, and of those
        that were put aside in databases beside it."""
        return {node: self._rows_on(node) for node in self.replicas}

    def drop(self) -> Sequence[str]:
        """Drop the database, and those beside it. Return where they stay, a sentence each."""
        connections = {node: self._on(node) for node in self.replicas}
        return [
            why
            for name in (self.database, *(f"{self.database}_{end}" for end in _BESIDE))
            for why in drop_database(self._cluster, name, connections)
        ]

    def _rows_on(self, node: str) -> Json:
        try:
            rows = self._on(node).rows(
                "SELECT concat(database, '.', table), sum(rows) FROM system.parts "
                f"WHERE active AND startsWith(database, '{self.database}') GROUP BY 1 ORDER BY 1",
                (str, int),
            )
        except DatabaseError as error:
            return {"error": str(error)}
        return {"tables": {str(name): int(count) for name, count in rows}}


class _DatabaseSession(OneTable):
    def __init__(self, cluster: Cluster, table: _TableOfEach, workload: DatabaseSet) -> None:
        super().__init__(cluster, table)
        self._workload = workload

    def client(self, node: str) -> Client:
        connection = connect(self._cluster, node, timeout_s=self._workload.timeout_s)
        return _DatabaseClient(connection, self._table.database, self._workload)


class _DatabaseClient:
    def __init__(self, connection: ClickHouse, database: str, workload: DatabaseSet) -> None:
        self._connection = connection
        self._database = database
        self._workload = workload

    def invoke(self, op: Op) -> Done:
        own = self._workload
        try:
            if op.f == "insert":
                assert isinstance(op.value, int), "an insert has one value"
                table = f"{self._database}.{own.filled} (value)"
                self._connection.insert(table, [(op.value,)], {})
            elif op.f == "miss":
                for sql in own.missed:
                    self._connection.command(sql.format(db=self._database), NOBODY)
            elif op.f == "outrun":
                for number in range(OUTRUN):
                    table = f"{self._database}.x{number}"
                    sql = f"CREATE TABLE {table} (value Int64) ENGINE = Memory"
                    self._connection.command(sql, NOBODY)
            else:
                return self._read()
        except DatabaseError as error:
            return failed_write(error)
        return Done(Kind.OK, op.value)

    def _read(self) -> Done:
        sql = f"SELECT value FROM {self._database}.{self._workload.shown}"
        try:
            return Done(Kind.OK, self._connection.numbers(sql, {}))
        except DatabaseError as error:
            return failed_read(error)

    def close(self) -> None:
        self._connection.close()
