"""Calls on a table of (key, value): what most workloads insert and select."""

from collections.abc import Mapping
from dataclasses import dataclass

from harness.clients.clickhouse import NO_SETTINGS, ClickHouse, DatabaseError
from harness.clients.statement import Statement
from harness.clients.table_client import Call
from harness.core.op import Op, Value
from harness.core.outcomes import UNFLUSHED

COLUMNS = "key Int64, value Int64"
SEQUENTIAL: Mapping[str, int | str] = {"select_sequential_consistency": 1}


def quorum(replicas: int | str, timeout_ms: int, *, parallel: bool = False) -> dict[str, int | str]:
    """Settings of an insert that so many replicas must have, "auto" being a majority. `parallel`:
    others may be in flight meanwhile."""
    settings = {"insert_quorum": replicas, "insert_quorum_timeout": timeout_ms}
    return {**settings, "insert_quorum_parallel": 1} if parallel else settings


@dataclass(frozen=True, slots=True)
class Insert:
    """Inserts one row. See `inserts`."""

    table: str
    settings: tuple[Mapping[str, int | str], ...]

    def statement(self, timeout_s: float) -> Statement:
        """The same in words."""
        return Statement(True, f"INSERT INTO {self.table} VALUES", self.settings, timeout_s)

    def __call__(self, connection: ClickHouse, op: Op, query_id: str = "") -> Value:
        """The value. Raises DatabaseError, also for an acknowledgement that says nothing."""
        assert isinstance(op.value, int), "values are numbers"
        settings = self.settings[op.value % len(self.settings)]
        connection.insert(self.table, [(op.key, op.value)], settings, query_id)
        if settings.get("wait_for_async_insert") == 0:
            raise DatabaseError(UNFLUSHED, "acknowledged before it was written")
        return op.value


def inserts(table: str, *settings: Mapping[str, int | str]) -> Insert:
    """One row, its settings the next of these."""
    return Insert(table, settings or (NO_SETTINGS,))


@dataclass(frozen=True, slots=True)
class Read:
    """Selects the values of a key. See `reads`."""

    table: str
    settings: Mapping[str, int | str]

    def statement(self, timeout_s: float) -> Statement:
        """The same in words."""
        sql = f"SELECT value FROM {self.table} WHERE key = "
        return Statement(False, sql, (self.settings,), timeout_s)

    def __call__(self, connection: ClickHouse, op: Op) -> Value:
        """The values."""
        sql = f"SELECT value FROM {self.table} WHERE key = {op.key:d}"
        columns = connection.columns(sql, self.settings)
        return tuple(columns[0]) if columns else ()


def reads(table: str, settings: Mapping[str, int | str] = NO_SETTINGS) -> Call:
    """Every value of a key, as it came."""
    return Read(table, settings)


@dataclass(frozen=True, slots=True)
class SyncedRead:
    """Selects the values of a key once the replica has done what the replication log had. See
    `synced_reads`."""

    table: str
    timeout_s: float

    def __call__(self, connection: ClickHouse, op: Op) -> Value:
        """The values. Raises DatabaseError, also where the replica did not catch up in time."""
        limit = {"receive_timeout": max(1, round(self.timeout_s))}
        connection.command(f"SYSTEM SYNC REPLICA {self.table}", limit)
        return Read(self.table, NO_SETTINGS)(connection, op)


def synced_reads(table: str, timeout_s: float) -> Call:
    """Every value of a key, as it came, after a SYSTEM SYNC REPLICA of the table: one call, so that
    all that was acknowledged before it began was in the log when the replica began to sync."""
    return SyncedRead(table, timeout_s)


def where(table: str) -> Call:
    """The part of every value of a key, as this replica has it: {"where": [[value, part]]}."""

    def found(connection: ClickHouse, op: Op) -> Value:
        sql = f"SELECT value, _part FROM {table} WHERE key = {op.key:d} ORDER BY value, _part"
        return {"where": [[int(value), part] for value, part in connection.rows(sql)]}

    return found
