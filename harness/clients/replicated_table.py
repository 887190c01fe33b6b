"""A replicated table on every replica of a shard."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harness.clients.clickhouse import ClickHouse, DatabaseError, connect
from harness.core.dialect import Dialect, Mechanism
from harness.core.errors import ClusterError
from harness.core.op import Json
from harness.core.protocols import Cluster

PART_CHECK_PATIENCE_NS = 10_000_000_000


@dataclass(frozen=True, slots=True)
class TableSchema:
    """Columns, engine, keys and settings of a table. These are SQL fragments that workloads write,
    never users. By default there is one partition per key, and old parts are removed quickly,
    because partitions are many and small."""

    columns: str
    order_by: str = "value"
    partition_by: str = "key"
    settings: Mapping[str, int | str] = field(default_factory=lambda: {"old_parts_lifetime": 10})
    engine: str = "ReplicatedMergeTree('{path}', '{replica}')"
    """A replicated engine; `{path}` and `{replica}` stand for the table's place in ZooKeeper."""
    ttl: str = ""
    """Time at which a row expires, by its columns; "" if it never does."""
    projection: str = ""
    """Query of its projection `r`; "" if it has none."""


def leads(connection: ClickHouse, database: str) -> bool:
    """Return whether a replica says that it leads its table in this database. Raises
    DatabaseError."""
    sql = f"SELECT is_leader FROM system.replicas WHERE database = '{database}'"
    return any(connection.numbers(sql))


def data_directory(connection: ClickHouse, dialect: Dialect, database: str, table: str) -> str:
    """Return the directory of a table's files, below the server's data directory. Raises
    DatabaseError."""
    if not dialect.has(Mechanism.ATOMIC_DATABASES):
        return dialect.data_directory(database, table, uuid="")
    rows = connection.rows(
        "SELECT toString(uuid) FROM system.tables "
        f"WHERE database = '{database}' AND name = '{table}'",
        (str,),
    )
    if not rows:
        raise DatabaseError(60, f"there is no table {database}.{table}")
    return dialect.data_directory(database, table, uuid=rows[0][0])


def drop_database(
    cluster: Cluster, database: str, connections: Mapping[str, ClickHouse]
) -> Sequence[str]:
    """Drop a database on every node that answers. Return where it stays, a sentence each."""
    left: list[str] = []
    for node, connection in connections.items():
        statement = cluster.engines.on(node).drop_database(database)
        try:
            connection.command(statement)
        except DatabaseError as error:
            left.append(f"{node} was not cleaned up ({error.text}): {statement}")
    return left


def create_replicated_database(
    connection: ClickHouse, database: str, path: str, node: str, shard: str = "1"
) -> None:
    """Create a Replicated database on one node, with its log below this path of ZooKeeper. Raises
    DatabaseError."""
    connection.command(
        f"CREATE DATABASE IF NOT EXISTS {database} "
        f"ENGINE = Replicated('{path}', '{shard}', '{node}')",
        {"allow_experimental_database_replicated": 1},
    )


class ReplicatedTable:
    """Replicated table in a database and under a ZooKeeper path of its own."""

    def __init__(self, cluster: Cluster, token: str, schema: TableSchema, shard: int = 1) -> None:
        """Name a table that need not exist yet; `token` (letters, digits, underscores) makes it
        unique."""
        assert f"_{token}".isidentifier(), "a token is part of names"
        self._cluster = cluster
        self._schema = schema
        self.replicas: Sequence[str] = cluster.topology.shards[shard - 1]
        self.database = f"harness_{token}"
        self.name = f"{self.database}.t"
        self.path = f"/harness/{token}/{shard}"
        self._connections: dict[str, ClickHouse] = {}
        self._clock = cluster.runtime.clock()
        self._checking: dict[str, int] = {}
        """Time since which a replica has parts to check, by replica."""

    def create(self) -> None:
        """Create the table on every replica and return when each is active. Raises ClusterError."""
        for node in self.replicas:
            try:
                self._on(node).command(f"CREATE DATABASE IF NOT EXISTS {self.database}")
                self.create_on(self._on(node), node)
            except DatabaseError as error:
                self.close()
                raise ClusterError(f"{node}: the table was not made: {error}") from error

    def create_on(self, connection: ClickHouse, node: str) -> None:
        """Create the table on one replica, whose database exists. A subclass that overrides it may
        execute any statements. Raises DatabaseError."""
        connection.command(self.definition(self.path, node))

    def definition(self, path: str, replica: str) -> str:
        """Return the statement that creates the table with these arguments of its engine."""
        known = self._cluster.engines.dialect.table_settings(self._schema.settings)
        settings = ", ".join(f"{k} = {v!r}" for k, v in known.items())
        projection = self._schema.projection
        projection = f", PROJECTION r ({projection})" if projection else ""
        return (
            f"CREATE TABLE {self.name} ({self._schema.columns}{projection}) "
            f"ENGINE = {self._schema.engine.format(path=path, replica=replica)} "
            f"PARTITION BY {self._schema.partition_by} ORDER BY {self._schema.order_by}"
            + (f" TTL {self._schema.ttl}" if self._schema.ttl else "")
            + (f" SETTINGS {settings}" if settings else "")
        )

    def condition_on(self, node: str) -> str:  # noqa: ARG002
        """Return the condition that selects this table of a replica in the tables of `system`. A
        subclass may ask the replica. Raises DatabaseError."""
        return f"database = '{self.database}'"

    def name_by(self, connection: ClickHouse) -> str:  # noqa: ARG002
        """Return the name that the table has on the replica of a connection now. Raises
        DatabaseError."""
        return self.name

    def unfinished_mutations(self) -> Sequence[str]:
        """Return a reason for each replica with an active part that a mutation has yet to change,
        that has yet to learn of a mutation in ZooKeeper, or that does not answer.

        It compares the versions of the parts, because the server's own `parts_to_do` and `is_done`
        may stay wrong: 18.16.1 counts a part twice that is in its queue and on its disk when it
        starts, and never counts down one whose mutated successor came first
        (ReplicatedMergeTreeQueue.cpp, `updateMutations`, `updateStateOnQueueEntryRemoval`).
        """
        reasons: list[str] = []
        known: dict[str, set[str]] = {}
        ordered: set[str] = set()
        for node in self.replicas:
            try:
                ordered |= self._mutations(
                    node, f"SELECT name FROM system.zookeeper WHERE path = '{self.path}/mutations'"
                )
                known[node] = self._mutations(
                    node,
                    f"SELECT mutation_id FROM system.mutations WHERE {self.condition_on(node)}",
                )
                undone = self._mutations_to_do(node)
            except DatabaseError as error:
                reasons.append(f"{node} does not answer: {error.text}")
                continue
            if undone:
                reasons.append(f"{node} has {undone} mutations to do")
        reasons += [
            f"{node} has yet to learn of {len(ordered - names)} mutations"
            for node, names in known.items()
            if ordered - names
        ]
        return reasons

    def endless_mutations(self, node: str) -> Mapping[str, Sequence[str]]:
        """Return the mutations that are not done on a replica, though no part is left to change,
        each with those of its partitions that have no numbers in ZooKeeper. Raises
        DatabaseError."""
        mutations = self._on(node).rows(
            "SELECT DISTINCT mutation_id, block_numbers.partition_id FROM system.mutations "
            f"WHERE NOT is_done AND parts_to_do = 0 AND {self.condition_on(node)}",
            (str, list),
        )
        numbered = self._mutations(
            node, f"SELECT name FROM system.zookeeper WHERE path = '{self.path}/block_numbers'"
        )
        return {name: sorted({*partitions} - numbered) for name, partitions in mutations}

    def drop(self) -> Sequence[str]:
        """Drop the table on every replica that answers. Return where it stays, a sentence each."""
        connections = {node: self._on(node) for node in self.replicas}
        return drop_database(self._cluster, self.database, connections)

    def close(self) -> None:
        """Close the connections; idempotent."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def pending(self) -> Sequence[str]:
        """Return why the table is not at rest, a reason each; empty if it is.

        At rest every replica is writable and active, every log entry is pulled, every queue is
        empty, no quorum insert is in flight, and no part is about to be checked.
        """
        reasons: list[str] = []
        pointers: dict[str, int] = {}
        last = 0
        for node in self.replicas:
            try:
                pointers[node] = self._replica_pending(node, reasons)
                last = max(last, self._log_end(node, reasons))
            except DatabaseError as error:
                reasons.append(f"{node} does not answer: {error.text}")
        reasons += [
            f"{node} has {last - at} log entries to pull"
            for node, at in pointers.items()
            if at < last
        ]
        return tuple(dict.fromkeys(reasons))

    def observe(self, *, parts: bool = False) -> Mapping[str, Json]:
        """Return the state of each replica: its rows, active parts and queue length, and how many
        parts it has yet to check if there are any; or the error that it gave. With `parts`,
        "active" has the number of rows and a hash of each part that has rows."""
        return {node: self._state(node, parts) for node in self.replicas}

    def _mutations(self, node: str, sql: str) -> set[str]:
        return {name for (name,) in self._on(node).rows(sql, (str,))}

    def _mutations_to_do(self, node: str) -> int:
        """Return how many of the mutations that the replica knows it has yet to do."""
        (count,) = self._on(node).row(
            "SELECT uniq(mutation_id) FROM ("
            "SELECT mutation_id, p AS partition_id, n FROM system.mutations ARRAY JOIN "
            "block_numbers.partition_id AS p, block_numbers.number AS n "
            f"WHERE {self.condition_on(node)}) AS ordered ALL INNER JOIN ("
            "SELECT partition_id, data_version FROM system.parts "
            f"WHERE active AND {self.condition_on(node)}) AS held "
            "USING partition_id WHERE data_version < n",
            (int,),
        )
        return int(count)

    def _replica_pending(self, node: str, reasons: list[str]) -> int:
        rows = self._on(node).rows(
            "SELECT is_readonly, is_session_expired, queue_size, parts_to_check, log_pointer, "
            "active_replicas, total_replicas FROM system.replicas "
            f"WHERE {self.condition_on(node)}",
            (int,) * 7,
        )
        if not rows:
            raise DatabaseError(60, "the table is gone")
        readonly, expired, queue, check, pointer, active, total = rows[0]
        if queue:
            reasons.append(f"{node} has {queue} queue entries")
        if self._checks_soon(node, check):
            reasons.append(f"{node} has {check} parts to check")
        if readonly or expired:
            reasons.append(f"{node} is read-only")
        if active < total:
            reasons.append(f"{node} sees {active} of {total} replicas active")
        return int(pointer)

    def _checks_soon(self, node: str, parts: int) -> bool:
        """Return whether parts to check may be checked soon.

        The check of a part whose insert had an unknown outcome is due five minutes later
        (18.16.1: MAX_AGE_OF_LOCAL_PART_THAT_WASNT_ADDED_TO_ZOOKEEPER), and nothing wakes the
        server then; meanwhile it shows the rows, which is what its clients see.
        """
        now_ns = self._clock.now_ns()
        since_ns = self._checking.setdefault(node, now_ns)
        if not parts:
            del self._checking[node]
        return parts > 0 and now_ns - since_ns < PART_CHECK_PATIENCE_NS

    def _log_end(self, node: str, reasons: list[str]) -> int:
        """Return the index after the last log entry, as this replica's ZooKeeper server knows
        it."""
        connection = self._on(node)
        entries = connection.rows(
            f"SELECT max(name) FROM system.zookeeper WHERE path = '{self.path}/log'", (str,)
        )
        quorum = connection.numbers(
            "SELECT countIf(name = 'status') FROM system.zookeeper "
            f"WHERE path = '{self.path}/quorum'"
        )
        if any(quorum):
            reasons.append("a quorum insert is in flight")
        engines = self._cluster.engines
        if any(engines.on(node).has(Mechanism.PARALLEL_QUORUM) for node in self.replicas):
            (parallel,) = connection.row(
                f"SELECT count() FROM system.zookeeper WHERE path = '{self.path}/quorum/parallel'",
                (int,),
            )
            if parallel:
                reasons.append(f"{parallel} parallel quorum inserts are in flight")
        return int(entries[0][0].removeprefix("log-")) + 1 if entries and entries[0][0] else 0

    def _state(self, node: str, with_parts: bool) -> Json:
        try:
            parts, rows = self._on(node).row(
                "SELECT count(), sum(rows) FROM system.parts "
                f"WHERE active AND {self.condition_on(node)}",
                (int, int),
            )
            queue, check = self._on(node).row(
                "SELECT sum(queue_size), sum(parts_to_check) FROM system.replicas "
                f"WHERE {self.condition_on(node)}",
                (int, int),
            )
            active = self._parts(node) if with_parts else None
        except DatabaseError as error:
            return {"error": str(error)}
        state = {"rows": int(rows), "parts": int(parts), "queue": int(queue)}
        if check:
            state["to_check"] = int(check)
        return state if active is None else {**state, "active": active}

    def _parts(self, node: str) -> dict[str, Json]:
        """Return the number of rows and a hash of each part, read from the rows themselves rather
        than from metadata."""
        columns = ", ".join(c.split()[0] for c in self._schema.columns.split(","))
        found = self._on(node).rows(
            f"SELECT _part, count(), sum(cityHash64({columns})) "
            f"FROM {self.name_by(self._on(node))} GROUP BY _part",
            (str, int, int),
        )
        return {part: [int(rows), f"{total:016x}"] for part, rows, total in sorted(found)}

    def _on(self, node: str) -> ClickHouse:
        if node not in self._connections:
            self._connections[node] = connect(self._cluster, node)
        return self._connections[node]
