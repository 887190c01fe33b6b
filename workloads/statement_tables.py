"""Tables of the workload `statements`: the two replicated ones, and what may be beside them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from checkers.statements.calls import Effect
from checkers.statements.refreshed import VIEWS
from harness.clients.clickhouse import ClickHouse, DatabaseError
from harness.clients.replicated_table import (
    ReplicatedTable,
    TableSchema,
    create_replicated_database,
    drop_database,
)
from harness.core.dialect import Mechanism
from harness.core.errors import ClusterError
from harness.core.protocols import Cluster
from workloads.plain_tables import RefreshedTable, StagingTable
from workloads.statement_kinds import StatementKind

SCHEMA: Final = TableSchema("p Int64, id Int64, v Array(UInt32)", order_by="id", partition_by="p")
COPIES: Final = "id, v, count()"
"""What is read of each row of a table: how many copies have the same updates."""
TABLES: Final = ("t", "u")
"""Names of the first two replicated tables."""


@dataclass(frozen=True, slots=True)
class TableEngine:
    """Engine of the tables."""

    name: str
    """Its name, after "Replicated"."""
    more: str = ""
    """Arguments of the engine beside the path and the replica."""
    column: str = ""
    """Column beside those of the schema, with its type."""
    order_by: str = SCHEMA.order_by
    replaces: bool = True
    """Whether merges leave one of the rows with equal keys."""

    @property
    def columns(self) -> str:
        """Return the names of the columns."""
        return ", ".join(["p", "id", "v", *self.column.split()[:1]])

    @property
    def copies(self) -> str:
        """Return the expression that counts the copies of a row."""
        return "count()" if self.replaces or not self.column else f"sum({self.column.split()[0]})"

    def of(self, schema: TableSchema) -> TableSchema:
        """Return a schema with this engine."""
        return replace(
            schema,
            columns=", ".join(filter(None, [schema.columns, self.column])),
            order_by=self.order_by,
            engine=f"Replicated{self.name}('{{path}}', '{{replica}}'{self.more})",
        )


ENGINES: Final[Mapping[str, TableEngine]] = {
    "merge": TableEngine("MergeTree", replaces=False),
    "replacing": TableEngine("ReplacingMergeTree"),
    "collapsing": TableEngine("CollapsingMergeTree", ", n", "n Int8 DEFAULT 1"),
    "aggregating": TableEngine(
        "AggregatingMergeTree", "", "n SimpleAggregateFunction(sum, UInt64) DEFAULT 1", "(id, v)",
        replaces=False,
    ),
    "summing": TableEngine(
        "SummingMergeTree", "", "n UInt64 DEFAULT 1", "(id, v)", replaces=False
    ),
}  # fmt: skip
"""Engines of the tables by name. Rows that a merge has summed count as many copies."""
EXPIRED: Final = 8
"""With a TTL, a row whose number this divides has expired when it is inserted, and one whose number
divided by it leaves half of it expires later."""
EXPIRES_S: Final = (1, 3, 9, 27, 600)
"""Numbers of seconds after which such a row expires."""
NEVER_S: Final = 4_000_000_000
"""Time at which rows expire that do not, in seconds since 1970."""
LONG_AGO_S: Final = 1
"""Time at which rows have expired that had when they were inserted, likewise."""
_EXPIRY_COLUMN: Final = "e"
"""Column with the time at which a row expires."""
_EXPIRES_SOON: Final = {"merge_with_ttl_timeout": 1}
"""Settings by which a merge removes expired rows every second."""
VIEW: Final = "v"
"""Table into which the materialized view of the first table writes."""
LATE_VIEW: Final = "mv"
"""That view, where a statement creates it."""
STAGING: Final = "s"
"""Plain MergeTree on every replica, whose rows are those of its replica alone."""


@dataclass(frozen=True, slots=True)
class TableShape:
    """What there is beside the two replicated tables."""

    view: bool = False
    """Whether the first table has a materialized view."""
    late_view: bool = False
    """Whether a statement creates the view, in a Replicated database."""
    staging: bool = False
    """Whether there is a staging table."""
    ttl: bool = False
    """Whether rows expire."""
    projection: bool = False
    """Whether the tables have a projection that shows their rows."""
    engine: str = "merge"
    """Engine of the tables, a name of `ENGINES`."""
    tables: int = len(TABLES)
    """Number of replicated tables."""
    replicated: bool = False
    """Whether these are in one Replicated database, whose log has the statements that change what a
    table is."""
    exchanged: bool = False
    """Whether statements give the tables each other's names."""
    refreshed: frozenset[Effect] = frozenset()
    """The effects of statements for which each of the replicated tables has a refreshable view on
    each replica."""
    settings: Mapping[str, int] = field(default_factory=dict)
    """Settings of the tables beside those that their statements need."""

    @property
    def columns(self) -> str:
        """Return the names of the columns."""
        return ENGINES[self.engine].columns + (f", {_EXPIRY_COLUMN}" if self.ttl else "")

    def schema(self, settings: Sequence[Mapping[str, int]]) -> TableSchema:
        """Return the schema of the tables, whose statements need some settings."""
        merged = {**SCHEMA.settings}
        for some in (*settings, _EXPIRES_SOON if self.ttl else {}, self.settings):
            merged |= some
        schema = replace(SCHEMA, settings=merged)
        if self.ttl:
            columns = f"{SCHEMA.columns}, {_EXPIRY_COLUMN} DateTime"
            schema = replace(schema, columns=columns, ttl=_EXPIRY_COLUMN)
        if self.projection:
            schema = replace(
                schema,
                settings={**merged, "lightweight_mutation_projection_mode": "rebuild"},
                projection=f"SELECT p, {COPIES} GROUP BY p, id, v",
            )
        return ENGINES[self.engine].of(schema)


def names_of(count: int) -> Sequence[str]:
    """Return the names of this many replicated tables."""
    return [*TABLES[:count], *(f"t{number}" for number in range(len(TABLES) + 1, count + 1))]


def tables_of(
    cluster: Cluster, token: str, schema: TableSchema, shape: TableShape
) -> Mapping[str, ReplicatedTable]:
    """Return the tables by name, in the order in which they are created."""
    tables: dict[str, ReplicatedTable] = {}
    for name in names_of(shape.tables):
        if shape.replicated:
            tables[name] = TableOfDatabase(cluster, token, name, schema)
        elif shape.exchanged:
            tables[name] = TableOfPath(cluster, f"{token}_{name}", schema)
        else:
            tables[name] = ReplicatedTable(cluster, f"{token}_{name}", schema)
    if shape.view or shape.late_view:
        source = tables[TABLES[0]].name
        tables[VIEW] = ViewTarget(
            cluster, f"{token}_{VIEW}", schema, source, shape.columns, late=shape.late_view
        )
    for name in names_of(shape.tables):
        for effect in sorted(shape.refreshed):
            tables[f"{name}{VIEWS[effect]}"] = RefreshedTable(
                cluster, f"{token}_{name}", schema, tables[name].name,
                appends=effect is Effect.EXTEND,
            )  # fmt: skip
    if shape.staging:
        tables[STAGING] = StagingTable(
            cluster, f"{token}_{STAGING}", replace(schema, engine="MergeTree", ttl="")
        )
    return tables


class TableOfPath(ReplicatedTable):
    """Table that may have another name on each replica: it is what its path in ZooKeeper says."""

    def condition_on(self, node: str) -> str:
        """Return the condition that selects the table by its name on a replica now. Raises
        DatabaseError."""
        database, table = self._place_by(self._on(node))
        return f"database = '{database}' AND table = '{table}'"

    def name_by(self, connection: ClickHouse) -> str:
        """Return the name that the table has on the replica of a connection now. Raises
        DatabaseError."""
        return ".".join(self._place_by(connection))

    def _place_by(self, connection: ClickHouse) -> tuple[str, str]:
        rows = connection.rows(
            f"SELECT database, table FROM system.replicas WHERE zookeeper_path = '{self.path}'",
            (str, str),
        )
        if not rows:
            raise DatabaseError(60, f"there is no table of {self.path}")
        database, table = rows[0]
        return database, table


class TableOfDatabase(TableOfPath):
    """Table in a Replicated database that it shares with others."""

    def __init__(self, cluster: Cluster, token: str, name: str, schema: TableSchema) -> None:
        """Name the table and the database, which is that of all tables with the same token."""
        super().__init__(cluster, f"{token}_{name}", schema)
        self.database = f"harness_{token}"
        self.name = f"{self.database}.{name}"
        self.log = f"/harness/{token}/database"

    def create(self) -> None:
        """Create the database on every replica, and the table through the first one. Raises
        ClusterError."""
        node = self.replicas[0]
        try:
            for node in self.replicas:
                create_replicated_database(self._on(node), self.database, self.log, node)
            node = self.replicas[0]
            self._on(node).command(
                self.definition(self.path.removesuffix("1") + "{shard}", "{replica}"),
                {"database_replicated_allow_replicated_engine_arguments": 1},
            )
        except DatabaseError as error:
            self.close()
            raise ClusterError(f"{node}: the table was not made: {error}") from error

    def pending(self) -> Sequence[str]:
        """Return why the table is not at rest, or a replica has yet to execute statements of the
        database's log, a reason each."""
        return [*self.unexecuted(), *super().pending()]

    def unexecuted(self) -> Sequence[str]:
        """Return a reason for each replica that has yet to execute statements of the database's
        log."""
        reasons: list[str] = []
        for node in self.replicas:
            try:
                last, done = self._on(node).row(
                    "SELECT (SELECT toUInt32(value) FROM system.zookeeper WHERE "
                    f"path = '{self.log}' AND name = 'max_log_ptr'), (SELECT toUInt32(value) "
                    f"FROM system.zookeeper WHERE path = '{self.log}/replicas/1|{node}' "
                    "AND name = 'log_ptr')",
                    (int, int),
                )
            except DatabaseError as error:
                reasons.append(f"{node} does not answer: {error.text}")
                continue
            if done < last:
                reasons.append(
                    f"{node} has yet to execute {last - done} statements of its database"
                )
        return reasons


class ViewTarget(ReplicatedTable):
    """Table into which a materialized view writes."""

    def __init__(
        self, cluster: Cluster, token: str, schema: TableSchema, source: str, columns: str, *,
        late: bool,
    ) -> None:  # fmt: skip
        """Name the table and its view, which a statement creates if it is late."""
        super().__init__(cluster, token, schema)
        self._source, self._columns, self._late = source, columns, late
        self._view_database = f"{self.database}_view" if late else self.database
        self.view = f"{self._view_database}.mv"

    def create_on(self, connection: ClickHouse, node: str) -> None:
        """Create the table, and the view; or the Replicated database of a late view. Raises
        DatabaseError."""
        super().create_on(connection, node)
        if self._late:
            create_replicated_database(connection, self._view_database, f"{self.path}/view", node)
        else:
            connection.command(
                f"CREATE MATERIALIZED VIEW {self.view} TO {self.name} AS "
                f"SELECT {self._columns} FROM {self._source}"
            )

    def drop(self) -> Sequence[str]:
        """Drop the view, then the table. Return where they stay, a sentence each."""
        if not self._late:
            return super().drop()
        connections = {node: self._on(node) for node in self.replicas}
        left = drop_database(self._cluster, self._view_database, connections)
        return [*left, *super().drop()]


def at_replica(node: str) -> str:
    """Return the name of the staging table of a replica: a place of its own, as copies that were
    put aside."""
    return f"{STAGING}@{node}"


SCRIPTED: Final[Mapping[str, StatementKind]] = {
    "insert-again": StatementKind(
        sql="INSERT INTO {table} (p, id, v) VALUES",
        effect=Effect.AGAIN,
        text="sends the block of an insert once more",
        promise="engines/table-engines/mergetree-family/replication",
    ),
    "attach-everywhere": StatementKind(
        sql="ALTER TABLE {to} ON CLUSTER harness ATTACH PARTITION {p:d} FROM {table}",
        effect=Effect.COPY,
        text="copies a partition from another table, on all hosts",
        promise="sql-reference/distributed-ddl",
    ),
    "replace-everywhere": StatementKind(
        sql="ALTER TABLE {to} ON CLUSTER harness REPLACE PARTITION {p:d} FROM {table}",
        effect=Effect.REPLACE,
        text="replaces a partition by that of another table, on all hosts",
        promise="sql-reference/distributed-ddl",
    ),
    "insert-select-slowly": StatementKind(
        sql="INSERT INTO {to} SELECT p, id, v FROM {table} "
        "WHERE p = {p:d} AND (SELECT sleep(3)) = 0",
        effect=Effect.SELECT,
        text="copies rows by a query whose analysis takes three seconds",
        promise="operations/settings/settings#select_sequential_consistency",
        needs=(Mechanism.PARALLEL_QUORUM,),
    ),
    "create-view": StatementKind(
        sql="CREATE MATERIALIZED VIEW {to} TO {view} AS SELECT p, id, v FROM {table}",
        effect=Effect.NONE,
        text="creates the materialized view of a table",
        promise="sql-reference/statements/create/view",
        needs=(Mechanism.REPLICATED_DATABASES,),
    ),
    "detach-second": StatementKind(
        sql="ALTER TABLE {table} DETACH PART '{p:d}_1_1_0'",
        effect=Effect.DETACH,
        text="puts the part of the second block of a partition aside",
        promise="sql-reference/statements/alter/partition#detach-partitionpart",
        needs=(Mechanism.NAMED_PARTS,),
    ),
    "stop-merges": StatementKind(
        sql="SYSTEM STOP MERGES {table}",
        effect=Effect.NONE,
        text="stops merges and mutations of a table on a replica",
        promise="sql-reference/statements/system#stop-merges",
    ),
    "start-merges": StatementKind(
        sql="SYSTEM START MERGES {table}",
        effect=Effect.NONE,
        text="starts merges and mutations of a table on a replica again",
        promise="sql-reference/statements/system#start-merges",
    ),
    "stop-queues": StatementKind(
        sql="SYSTEM STOP REPLICATION QUEUES {table}",
        effect=Effect.NONE,
        text="stops the execution of a replica's queue",
        promise="sql-reference/statements/system#stop-replication-queues",
    ),
    "start-queues": StatementKind(
        sql="SYSTEM START REPLICATION QUEUES {table}",
        effect=Effect.NONE,
        text="starts the execution of a replica's queue again",
        promise="sql-reference/statements/system#start-replication-queues",
    ),
    "sync-replica": StatementKind(
        sql="SYSTEM SYNC REPLICA {table}",
        effect=Effect.NONE,
        text="waits until a replica has executed what is in its queue",
        promise="sql-reference/statements/system#sync-replica",
    ),
    "rename-column": StatementKind(
        sql="ALTER TABLE {table} RENAME COLUMN v TO w",
        effect=Effect.NONE,
        text="gives the column of the lists another name",
        promise="sql-reference/statements/alter/column#rename-column",
        needs=(Mechanism.ALTER_IN_LOG,),
    ),
    "rename-back": StatementKind(
        sql="ALTER TABLE {table} RENAME COLUMN w TO v",
        effect=Effect.NONE,
        text="gives it its own name again",
        promise="sql-reference/statements/alter/column#rename-column",
        needs=(Mechanism.ALTER_IN_LOG,),
    ),
    "detach-table": StatementKind(
        sql="DETACH TABLE {table}",
        effect=Effect.NONE,
        text="puts a table out of use on a replica",
        promise="sql-reference/statements/detach",
    ),
    "attach-table": StatementKind(
        sql="ATTACH TABLE {table}",
        effect=Effect.NONE,
        text="puts a table into use again",
        promise="sql-reference/statements/attach",
    ),
    "drop-replica": StatementKind(
        sql="SYSTEM DROP REPLICA '{node}' FROM ZKPATH '{path}'",
        effect=Effect.NONE,
        text="removes what ZooKeeper has of a replica that is out of use",
        promise="sql-reference/statements/system#drop-replica",
        needs=(Mechanism.DROP_REPLICA,),
    ),
    "restore-replica": StatementKind(
        sql="SYSTEM RESTORE REPLICA {table}",
        effect=Effect.NONE,
        text="restores what ZooKeeper has lost of a replica from its parts",
        promise="sql-reference/statements/system#restore-replica",
    ),
}
"""Statements that scripts make beside those of the table."""
