"""A connection to one ClickHouse server; its every failure is a code of the table of outcomes."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import clickhouse_driver
from clickhouse_driver import errors

from harness.core.op import Done, Kind
from harness.core.outcomes import (
    CLIENT_TIMEOUT,
    NETWORK,
    UNSENT,
    Outcome,
    read_outcome,
    write_outcome,
)
from harness.core.protocols import Endpoint

CONNECT_TIMEOUT_S = 2.0
"""For the connection, and for the ping that precedes each query."""

NO_SETTINGS: Mapping[str, int | str] = MappingProxyType({})


class DatabaseError(Exception):
    """A query failed: `code` is the server's, or one of the client's own negative ones."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text


class _NotConnectedError(Exception):
    """No connection, so the query was never sent."""


class _Driver(clickhouse_driver.Client):  # type: ignore[misc] # the driver has no types
    """Tells a connection that could not be made from one that broke under a query."""

    def establish_connection(self, settings: Any) -> None:
        try:
            super().establish_connection(settings)
        except (errors.Error, OSError, EOFError) as error:
            raise _NotConnectedError(str(error)) from error


class ClickHouse:
    """Connects on first use, and again after a failure. Not for two threads at once."""

    def __init__(self, endpoint: Endpoint, *, timeout_s: float = 10.0) -> None:
        """`timeout_s` bounds each wait for the server's next packet."""
        self._driver = _Driver(
            endpoint.host,
            port=endpoint.port,
            connect_timeout=CONNECT_TIMEOUT_S,
            sync_request_timeout=CONNECT_TIMEOUT_S,
            send_receive_timeout=timeout_s,
        )

    def insert(
        self,
        table: str,
        rows: Sequence[Sequence[Any]],
        settings: Mapping[str, int | str] = NO_SETTINGS,
    ) -> None:
        """Inserts the rows as one block. Raises DatabaseError."""
        self._execute(f"INSERT INTO {table} VALUES", settings, rows)

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
        return list(zip(*self.columns(sql, settings), strict=True))

    def command(self, sql: str, settings: Mapping[str, int | str] = NO_SETTINGS) -> None:
        """Runs what returns nothing, such as CREATE or SYSTEM. Raises DatabaseError."""
        self._execute(sql, settings, None)

    def close(self) -> None:
        """Disconnects; may be called twice."""
        self._driver.disconnect()

    def _execute(
        self, sql: str, settings: Mapping[str, int | str], rows: Sequence[Any] | None
    ) -> Any:
        try:
            return self._driver.execute(sql, rows, settings=dict(settings), columnar=rows is None)
        except _NotConnectedError as error:
            raise DatabaseError(UNSENT, _first_line(str(error))) from error
        except errors.ServerException as error:
            raise DatabaseError(error.code, _first_line(error.message)) from error
        except (errors.SocketTimeoutError, TimeoutError) as error:
            raise DatabaseError(CLIENT_TIMEOUT, _first_line(str(error))) from error
        except (errors.Error, OSError, EOFError) as error:
            raise DatabaseError(NETWORK, _first_line(str(error)) or type(error).__name__) from error


def failed_write(error: DatabaseError) -> Done:
    """How a write ended that failed so."""
    return _done(write_outcome(error.code, error.text), error)


def failed_read(error: DatabaseError) -> Done:
    """How a read ended that failed so."""
    return _done(read_outcome(error.code), error)


def _done(row: Outcome, error: DatabaseError) -> Done:
    assert row.kind in (Kind.FAIL, Kind.INFO), "an error is never ok"
    return Done(row.kind, error=f"{error.code} {row.name}: {error.text}")


def _first_line(message: str) -> str:
    """The message without its stack trace, at most 300 characters."""
    text = message.split("Stack trace:")[0].strip().removeprefix("DB::Exception: ")
    return " ".join(text.split())[:300]
