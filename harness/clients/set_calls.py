"""Calls on a table of (key, value): what most workloads insert and select."""

from collections.abc import Mapping, Sequence

from harness.clients.clickhouse import NO_SETTINGS, ClickHouse
from harness.clients.table_client import Call
from harness.core.op import Op, Value

COLUMNS = "key Int64, value Int64"
SEQUENTIAL: Mapping[str, int | str] = {"select_sequential_consistency": 1}


def quorum(replicas: int, timeout_ms: int) -> dict[str, int | str]:
    """Settings of an insert that so many replicas must have."""
    return {"insert_quorum": replicas, "insert_quorum_timeout": timeout_ms}


def inserts(table: str, settings: Mapping[str, int | str] = NO_SETTINGS) -> Call:
    """One row."""

    def insert(connection: ClickHouse, op: Op) -> Value:
        connection.insert(table, [(op.key, op.value)], settings)
        return op.value

    return insert


def in_turn(calls: Sequence[Call]) -> Call:
    """Each value's call is the next of these."""

    def call(connection: ClickHouse, op: Op) -> Value:
        assert isinstance(op.value, int), "values are numbers"
        return calls[op.value % len(calls)](connection, op)

    return call


def reads(table: str, settings: Mapping[str, int | str] = NO_SETTINGS) -> Call:
    """Every value of a key, as it came."""

    def read(connection: ClickHouse, op: Op) -> Value:
        sql = f"SELECT value FROM {table} WHERE key = {op.key:d}"
        columns = connection.columns(sql, settings)
        return tuple(columns[0]) if columns else ()

    return read


def where(table: str) -> Call:
    """The part of every value of a key, as this replica has it: {"where": [[value, part]]}."""

    def found(connection: ClickHouse, op: Op) -> Value:
        sql = f"SELECT value, _part FROM {table} WHERE key = {op.key:d} ORDER BY value, _part"
        return {"where": [[int(value), part] for value, part in connection.rows(sql)]}

    return found
