"""Calls that are one statement. A client executes them on a real server, and the simulator executes
them itself (`crates/interpreter/src/statements.rs`)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from harness.clients.clickhouse import ClickHouse, DatabaseError, QuerySettings
from harness.clients.table_client import Call
from harness.core.op import Op, Value
from harness.core.outcomes import UNFLUSHED


@dataclass(frozen=True, slots=True)
class Statement:
    """An INSERT of the row (key, value), or a SELECT of the values of a key."""

    table: str
    is_write: bool
    settings: tuple[QuerySettings, ...]
    """Settings that values take in turn."""

    @property
    def sql(self) -> str:
        """Return the text, of a SELECT without the key, which comes last."""
        if self.is_write:
            return f"INSERT INTO {self.table} VALUES"
        return f"SELECT value FROM {self.table} WHERE key = "

    def __call__(self, connection: ClickHouse, op: Op, query_id: str = "") -> Value:
        """Return the inserted value, or the values that were read. Raises DatabaseError, also for
        an acknowledgement that promises nothing."""
        if not self.is_write:
            return connection.numbers(f"{self.sql}{op.key:d}", self.settings[0])
        assert isinstance(op.value, int), "values are numbers"
        settings = self.settings[op.value % len(self.settings)]
        connection.insert(self.table, [(op.key, op.value)], settings, query_id)
        if settings.get("wait_for_async_insert") == 0:
            raise DatabaseError(UNFLUSHED, "acknowledged before it was written")
        return op.value


TimedStatement: TypeAlias = tuple[Statement, float]
"""A statement, and the seconds for which a client waits for its answer."""


@runtime_checkable
class HasStatements(Protocol):
    """A session of a workload some of whose calls are one statement."""

    def statements(self) -> Mapping[str, TimedStatement]:
        """Return those calls by name."""
        ...


def statements(calls: Mapping[str, Call], timeout_s: float) -> dict[str, TimedStatement]:
    """Return those of a client's calls, by name, that are one statement."""
    return {f: (call, timeout_s) for f, call in calls.items() if isinstance(call, Statement)}
