"""The driver of ClickHouse's native protocol. Every failure is a code of the table of outcomes."""

from collections.abc import Mapping, Sequence
from typing import Any

import clickhouse_driver
from clickhouse_driver import errors

from harness.core.connections import QueryError
from harness.core.outcomes import CLIENT_TIMEOUT, NETWORK, UNSENT
from harness.core.protocols import Endpoint

CONNECT_TIMEOUT_S = 2.0
"""Limit of time for the connection, and for the ping that precedes each query."""


class _NotConnectedError(Exception):
    """The connection failed, so the query was never sent."""


class Driver(clickhouse_driver.Client):  # type: ignore[misc] # the driver has no types
    """One connection. An error says whether it could not be made or broke under a query."""

    def __init__(self, endpoint: Endpoint, timeout_s: float) -> None:
        super().__init__(
            endpoint.host,
            port=endpoint.port,
            user=endpoint.user,
            password=endpoint.password,
            secure=endpoint.secure,
            connect_timeout=CONNECT_TIMEOUT_S,
            sync_request_timeout=CONNECT_TIMEOUT_S,
            send_receive_timeout=timeout_s,
        )

    def establish_connection(self, settings: Any) -> None:
        """Connect as the base class does. Raise _NotConnectedError."""
        try:
            super().establish_connection(settings)
        except errors.SocketTimeoutError as error:
            # The kernel accepts connections to a server that is frozen.
            raise _NotConnectedError("the server did not answer in time") from error
        except (errors.Error, OSError, EOFError) as error:
            raise _NotConnectedError(str(error)) from error

    def ask(
        self,
        sql: str,
        settings: Mapping[str, int | str],
        rows: Sequence[Any] | None,
        query_id: str = "",
    ) -> Any:
        """Return the result by columns; nothing of an insert of rows. Raise QueryError."""
        given = dict(settings)
        columnar = rows is None
        try:
            return self.execute(
                sql, rows, settings=given, columnar=columnar, query_id=query_id or None
            )
        except _NotConnectedError as error:
            raise QueryError(UNSENT, _first_line(str(error))) from error
        except errors.ServerException as error:
            raise QueryError(error.code, _first_line(error.message)) from error
        except (errors.SocketTimeoutError, TimeoutError) as error:
            raise QueryError(CLIENT_TIMEOUT, _first_line(str(error))) from error
        except (errors.Error, OSError, EOFError) as error:
            raise QueryError(NETWORK, _first_line(str(error)) or type(error).__name__) from error


def _first_line(message: str) -> str:
    """Return the message without its stack trace, at most 300 characters."""
    text = message.split("Stack trace:")[0].strip().removeprefix("DB::Exception: ")
    return " ".join(text.split())[:300]
