"""A connection to one ClickHouse server; its every failure is a code of the table of outcomes."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from harness.core.op import Done, Kind
from harness.core.outcomes import (
    PERHAPS_READ_ONLY,
    WRITE_OUTCOMES,
    Outcome,
    read_outcome,
    write_outcome,
)
from harness.core.protocols import Endpoint

NO_SETTINGS: Mapping[str, int | str] = MappingProxyType({})


CAUTIOUS_OUTCOMES = (PERHAPS_READ_ONLY, *WRITE_OUTCOMES)
"""For a connection to a server of unknown version: info where any version may have done it."""


class DatabaseError(Exception):
    """A query failed: `code` is the server's, or one of the client's own negative ones.

    `outcomes` says what it means for a write on the server that gave it."""

    def __init__(
        self, code: int, text: str, outcomes: Sequence[Outcome] = CAUTIOUS_OUTCOMES
    ) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text
        self.outcomes = outcomes


class ClickHouse:
    """Connects on first use, and again after a failure. Not for two threads at once."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        timeout_s: float = 10.0,
        outcomes: Sequence[Outcome] = CAUTIOUS_OUTCOMES,
    ) -> None:
        """`timeout_s` bounds each wait for the server's next packet. `outcomes` is what the
        dialect of the server says of errors."""
        from harness.clients.driver import Driver  # slow to load: simulated servers need none

        self._driver = Driver(endpoint, timeout_s)
        self._outcomes = outcomes

    def insert(
        self,
        table: str,
        rows: Sequence[Sequence[Any]],
        settings: Mapping[str, int | str] = NO_SETTINGS,
        query_id: str = "",
    ) -> None:
        """Inserts the rows as one block, under a query id if one is given. Raises DatabaseError."""
        self._execute(f"INSERT INTO {table} VALUES", settings, rows, query_id)

    def columns(
        self, sql: str, settings: Mapping[str, int | str] = NO_SETTINGS
    ) -> Sequence[Sequence[Any]]:
        """The result by columns; no columns at all where there is no row. Raises DatabaseError."""
        result: Sequence[Sequence[Any]] = self._execute(sql, settings, None)
        return result

    def rows(
        self, sql: str, settings: Mapping[str, int | str] = NO_SETTINGS
    ) -> list[tuple[Any, ...]]:
        """The result by rows. Raises DatabaseError."""
        return list(zip(*self._execute(sql, settings, None), strict=True))

    def command(self, sql: str, settings: Mapping[str, int | str] = NO_SETTINGS) -> None:
        """Runs what returns nothing, such as CREATE or SYSTEM. Raises DatabaseError."""
        self._execute(sql, settings, None)

    def close(self) -> None:
        """Disconnects; may be called twice."""
        self._driver.disconnect()

    def _execute(
        self,
        sql: str,
        settings: Mapping[str, int | str],
        rows: Sequence[Any] | None,
        query_id: str = "",
    ) -> Any:
        try:
            return self._driver.ask(sql, settings, rows, query_id)
        except DatabaseError as error:
            error.outcomes = self._outcomes
            raise


def failed_write(error: DatabaseError) -> Done:
    """How a write ended that failed so."""
    return _done(write_outcome(error.code, error.text, error.outcomes), error)


def failed_read(error: DatabaseError) -> Done:
    """How a read ended that failed so."""
    return _done(read_outcome(error.code), error)


def _done(row: Outcome, error: DatabaseError) -> Done:
    assert row.kind in (Kind.FAIL, Kind.INFO), "an error is never ok"
    return Done(row.kind, error=f"{error.code} {row.name}: {error.text}")
