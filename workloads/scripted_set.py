"""Sets for scripts, which choose how every insert and every read is made.

The calls are those of `quorum-set` and `insert-many` (one insert of several values),
`drop-partition` and `optimize` (of a key), `sync` (the replica executes what the replication log
has), `add-column` (of a number), `update` (of a value's row, which stays as it is), `delete` (of a
value's row) and, at rest, `final-insert`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from checkers.availability.answers import Answers
from checkers.consistency.linearizable import Linearizable
from checkers.consistency.session import SESSION_GUARANTEES
from checkers.ladder import Level
from checkers.sets.convergence import Convergence
from checkers.sets.set_full import SetFull
from checkers.stats import Stats
from harness.clients.clickhouse import (
    NO_SETTINGS,
    ClickHouse,
    DatabaseError,
    QuerySettings,
    SettingName,
    connect,
    failed_read,
    failed_write,
)
from harness.clients.replicated_table import ReplicatedTable, TableSchema
from harness.clients.set_calls import COLUMNS, SEQUENTIAL, quorum
from harness.clients.table_session import OneTable
from harness.core.dialect import Mechanism
from harness.core.op import Call, Done, Kind, Op
from harness.core.protocols import Checker, Client, Cluster, Generator, Session
from harness.generators.calls import sequence
from harness.generators.order import phases, until_ok
from harness.generators.workers import each_node

SCHEMA = TableSchema(f"{COLUMNS}, pad String")

FINAL_TRIES = 8
"""Number of tries of a final call, half a second apart."""
RETRY_BACKOFFS: tuple[SettingName, ...] = (
    "insert_keeper_retry_initial_backoff_ms",
    "insert_keeper_retry_max_backoff_ms",
)
"""Settings of the first and the last backoff of a server that retries an insert."""
ONCE: QuerySettings = {"insert_keeper_max_retries": 0}
"""Settings of a final insert on servers that retry inserts: without them the server answers after
20 tries of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedSet:
    """Workload of a script; its fields decide what the script leaves open."""

    name: str
    quorum: int | None = 2
    """Number of replicas of a quorum; None: inserts are plain."""
    quorum_timeout_ms: int = 5_000
    parallel: bool = False
    """True if quorums may be pending side by side."""
    retry_after_ms: int | None = None
    """First backoff of a server that retries inserts, and the last one, which the configuration of
    servers lowers and a server takes for the first if it is shorter."""
    insert_limit_s: int | None = None
    """The max_execution_time of each insert."""
    sequential: bool = True
    """True if reads are sequentially consistent."""
    plain: frozenset[int] = frozenset()
    """Values whose inserts are plain despite the quorum."""
    analysis_s: Mapping[str, int] = field(default_factory=dict)
    """Seconds (at most 3) that the analysis of a read takes, by replica: the query has a scalar
    subquery that sleeps, which the server runs before it reads the table."""
    partition_by: str = "key"
    table_settings: Mapping[str, int] = field(default_factory=dict)
    promise: Level = Level.LINEARIZABLE
    final_insert: int | None = None
    """Value that is inserted at rest, to see whether an insert succeeds."""
    judges: tuple[Checker, ...] = ()
    """Checkers; (): all that judge sets."""
    timeout_s: float = 15.0

    @property
    def live_anomalies(self) -> bool:
        """Return False: a script ends too soon for a live display."""
        return False

    def session(self, cluster: Cluster, token: str) -> Session:
        """Create the table on every replica of the first shard."""
        schema = replace(
            SCHEMA,
            partition_by=self.partition_by,
            settings={**SCHEMA.settings, **self.table_settings},
        )
        table = ReplicatedTable(cluster, token, schema)
        table.create()
        return _ScriptedSetSession(cluster, table, self)

    def generator(self) -> Generator:
        """Return no calls: the script makes them."""
        return sequence(())

    def final(self, keys: Sequence[int], nodes: Sequence[str]) -> Generator:
        """Return two reads of each key on each replica, then the final insert, if there is one."""
        reads = tuple(Call(f="final-read", key=key) for key in keys)
        everywhere = each_node(until_ok(reads, tries=FINAL_TRIES), nodes)
        if self.final_insert is None:
            return phases(everywhere, everywhere)
        insert = Call(f="final-insert", key=keys[0], value=self.final_insert, node=nodes[0])
        return phases(everywhere, everywhere, until_ok((insert,), tries=FINAL_TRIES))

    def checkers(self) -> Sequence[Checker]:
        """Return the checkers; a script is short, so that one acknowledged call is enough to
        judge."""
        return self.judges or (
            Stats(min_ok={}, min_ok_total=1),
            SetFull(
                linearizable=self.promise is Level.LINEARIZABLE,
                copies=1 if self.plain else self.quorum or 1,
            ),
            Convergence(),
            Answers(),
            *SESSION_GUARANTEES,
            Linearizable("linearizable"),
            Linearizable("sequential"),
        )


class _ScriptedSetSession(OneTable):
    def __init__(self, cluster: Cluster, table: ReplicatedTable, workload: ScriptedSet) -> None:
        super().__init__(cluster, table)
        self._workload = workload

    def client(self, node: str) -> Client:
        connection = connect(self._cluster, node, timeout_s=self._workload.timeout_s)
        retries = self._cluster.engines.dialect.has(Mechanism.INSERT_RETRIES)
        final = ONCE if retries else NO_SETTINGS
        workload = self._workload
        if not retries:
            workload = replace(workload, retry_after_ms=None)
        return _ScriptedSetClient(connection, self._table.name, workload, final)


class _ScriptedSetClient:
    def __init__(
        self,
        connection: ClickHouse,
        table: str,
        workload: ScriptedSet,
        final: QuerySettings,
    ) -> None:
        """Create a client; `final` has the settings of a final insert."""
        self._connection = connection
        self._table = table
        self._workload = workload
        self._final = final

    def invoke(self, op: Op) -> Done:
        try:
            if op.f in ("insert", "final-insert"):
                assert isinstance(op.value, int), "an insert has one value"
                more = self._final if op.f == "final-insert" else NO_SETTINGS
                self._insert(op.key, (op.value,), more)
            elif op.f == "insert-many":
                assert isinstance(op.value, tuple), "several values are a tuple"
                self._insert(op.key, op.value)
            elif op.f == "drop-partition":
                sql = f"ALTER TABLE {self._table} DROP PARTITION {_number(op.key)}"
                self._connection.command(sql)
            elif op.f == "optimize":
                sql = f"OPTIMIZE TABLE {self._table} PARTITION {_number(op.key)} FINAL"
                self._connection.command(sql)
            elif op.f == "sync":
                self._connection.command(f"SYSTEM SYNC REPLICA {self._table}")
            elif op.f == "add-column":
                sql = f"ALTER TABLE {self._table} ADD COLUMN c{op.value} Int64"
                self._connection.command(sql)
            elif op.f == "delete":
                sql = f"ALTER TABLE {self._table} DELETE WHERE value = {op.value}"
                self._connection.command(sql, {"mutations_sync": 2})
            elif op.f == "update":
                sql = f"ALTER TABLE {self._table} UPDATE pad = pad WHERE value = {op.value}"
                self._connection.command(sql)
            else:
                return self._read(op)
        except DatabaseError as error:
            return failed_write(error)
        return Done(Kind.OK, op.value)

    def _insert(
        self, key: int | None, values: Sequence[int], more: QuerySettings = NO_SETTINGS
    ) -> None:
        own = self._workload
        settings = dict(more)
        if own.quorum is not None and not own.plain.intersection(values):
            settings |= quorum(own.quorum, own.quorum_timeout_ms, parallel=own.parallel)
        if own.retry_after_ms is not None:
            settings |= dict.fromkeys(RETRY_BACKOFFS, own.retry_after_ms)
        if own.insert_limit_s is not None:
            settings["max_execution_time"] = own.insert_limit_s
        rows = [(key, value, "") for value in values]
        # The columns are named, because an ALTER may have added more.
        self._connection.insert(f"{self._table} (key, value, pad)", rows, settings)

    def _read(self, op: Op) -> Done:
        settings = SEQUENTIAL if self._workload.sequential else {}
        sql = f"SELECT value FROM {self._table} WHERE key = {_number(op.key)}"
        pause_s = self._workload.analysis_s.get(op.node or "", 0)
        if pause_s:
            sql += f" AND (SELECT sleep({pause_s})) = 0"
        try:
            return Done(Kind.OK, self._connection.numbers(sql, settings))
        except DatabaseError as error:
            return failed_read(error)

    def close(self) -> None:
        self._connection.close()


def _number(key: int | None) -> int:
    assert isinstance(key, int), "a key is a number, so the query is not built from text"
    return key
