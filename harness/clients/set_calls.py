"""Inserts and selects of a table of (key, value), which most workloads use."""

from dataclasses import dataclass

from harness.clients.clickhouse import NO_SETTINGS, ClickHouse, QuerySettings, SettingName
from harness.clients.replicated_table import TableSchema
from harness.clients.statement import Statement
from harness.clients.table_client import Call
from harness.core.op import Op, Value

COLUMNS = "key Int64, value Int64"
SET_SCHEMA = TableSchema(COLUMNS)
SEQUENTIAL: QuerySettings = {"select_sequential_consistency": 1}


def quorum(
    replicas: int | str, timeout_ms: int, *, parallel: bool = False
) -> dict[SettingName, int | str]:
    """Return the settings of an insert that this many replicas must have; "auto" is a majority.
    `parallel` lets several inserts be in flight."""
    settings: dict[SettingName, int | str] = {
        "insert_quorum": replicas,
        "insert_quorum_timeout": timeout_ms,
    }
    return {**settings, "insert_quorum_parallel": 1} if parallel else settings


def inserts(table: str, *settings: QuerySettings) -> Statement:
    """Return an insert of one row. Values take the settings in turn."""
    return Statement(table, True, settings or (NO_SETTINGS,))


def reads(table: str, settings: QuerySettings = NO_SETTINGS) -> Statement:
    """Return a read of every value of a key."""
    return Statement(table, False, (settings,))


@dataclass(frozen=True, slots=True)
class SyncedRead:
    """Selects the values of a key once the replica has done what the replication log had. See
    `synced_reads`."""

    table: str
    timeout_s: float

    def __call__(self, connection: ClickHouse, op: Op) -> Value:
        """Return the values. Raises DatabaseError, also if the replica did not catch up in time."""
        limit: QuerySettings = {"receive_timeout": max(1, round(self.timeout_s))}
        connection.command(f"SYSTEM SYNC REPLICA {self.table}", limit)
        return reads(self.table)(connection, op)


def synced_reads(table: str, timeout_s: float) -> Call:
    """Return a read of every value of a key that first makes a SYSTEM SYNC REPLICA of the table. It
    is one call, so that the log had everything that was acknowledged before the call when the
    replica began to sync."""
    return SyncedRead(table, timeout_s)
