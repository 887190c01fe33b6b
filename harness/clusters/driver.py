"""The driver of ClickHouse's native protocol. Every failure is a code of the table of outcomes."""

import logging
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any, Final

import clickhouse_driver
from clickhouse_driver import connection, errors

from harness.core.connections import QueryError
from harness.core.outcomes import CLIENT_TIMEOUT, NETWORK, UNREADABLE, UNSENT
from harness.core.protocols import Endpoint

CONNECT_TIMEOUT_S = 2.0
"""Limit of time for the connection, and for the ping that precedes each query."""
ANSWER_BYTES_MAX: Final = 1 << 26
"""Size of an answer that is refused, unless a query expects more. The final read of a key has some
100 KB."""

# The driver logs a traceback for each server that does not answer, which is normal under faults.
logging.getLogger("clickhouse_driver").propagate = False
logging.getLogger("clickhouse_driver").addHandler(logging.NullHandler())


class _NotConnectedError(Exception):
    """The connection failed, so the query was never sent."""


class _AnswerSizeError(errors.Error):  # type: ignore[misc] # the driver has no types
    """The answer is larger than any that is expected."""

    def __str__(self) -> str:
        return str(self.message)


class _AnswerSocket:
    """Socket whose answer must be whole within limits of time and size. Those of the driver begin
    anew with each byte, so that a server that sends a byte a second would hold it for ever."""

    def __init__(self, plain: Any, limit_s: float, bytes_max: int) -> None:
        self._plain = plain
        self._bytes_max = bytes_max
        self.expect(limit_s)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)

    def expect(self, limit_s: float) -> None:
        """Begin the time and the size of another answer."""
        self._limit_s = self._timeout_s = limit_s
        self._end = monotonic() + limit_s
        self._bytes_left = self._bytes_max
        self._plain.settimeout(limit_s)

    def settimeout(self, timeout_s: float) -> None:
        """Keep the time-out that follows from the limit, whatever the driver sets."""

    def recv_into(self, buffer: bytearray) -> int:
        """Read what is there. Raises TimeoutError and _AnswerSizeError."""
        self._lower_timeout()
        size: int = self._plain.recv_into(buffer)
        self._bytes_left -= size
        if self._bytes_left < 0:
            raise _AnswerSizeError(f"an answer of more than {self._bytes_max:,} bytes")
        return size

    def sendall(self, data: bytes) -> None:
        """Send all of it. Raises TimeoutError."""
        self._lower_timeout()
        self._plain.sendall(data)

    def _lower_timeout(self) -> None:
        left_s = self._end - monotonic()
        if left_s <= 0:
            raise TimeoutError(f"no whole answer within {self._limit_s:g} s")
        if left_s < 0.9 * self._timeout_s:  # a system call, which a fast answer does without
            self._timeout_s = left_s
            self._plain.settimeout(left_s)


class _AnswerReader(connection.BufferedSocketReader):  # type: ignore[misc] # as above
    """Reader that refuses a number of strings that no answer can have, instead of making a place
    for each of them: a block of no bytes may say that it has 2^30."""

    def read_strings(self, count: int, encoding: str | None = None) -> Any:
        """Read strings of any length. Raises _AnswerSizeError."""
        return super().read_strings(_strings(count), encoding=encoding)

    def read_fixed_strings(self, count: int, length: int, encoding: str | None = None) -> Any:
        """Read strings of one length. Raises _AnswerSizeError."""
        return super().read_fixed_strings(_strings(count), length, encoding=encoding)


def _strings(count: int) -> int:
    if count > ANSWER_BYTES_MAX:
        raise _AnswerSizeError(f"an answer of {count:,} strings")
    return count


class _NativeConnection(connection.Connection):  # type: ignore[misc] # as above
    """Connection each of whose answers has a limit of time and of size."""

    def __init__(self, bytes_max: int, **options: Any) -> None:
        super().__init__(**options)
        self._bytes_max = bytes_max

    def _create_socket(self, host: str, port: int) -> _AnswerSocket:
        plain = super()._create_socket(host, port)
        return _AnswerSocket(plain, self.send_receive_timeout, self._bytes_max)

    def send_hello(self) -> None:
        """Greet the server, whose answers another reader reads."""
        self.fin = _AnswerReader(self.socket, connection.defines.BUFFER_SIZE)
        super().send_hello()

    def ping(self) -> bool:
        """Return whether the server answers a ping."""
        self.socket.expect(self.sync_request_timeout)
        return bool(super().ping())

    def send_query(self, query: str, query_id: str | None = None, params: Any = None) -> None:
        """Send a query, with whose answer another limit begins."""
        self.socket.expect(self.send_receive_timeout)
        super().send_query(query, query_id=query_id, params=params)


class Driver(clickhouse_driver.Client):  # type: ignore[misc] # as above
    """One connection. An error says whether it could not be made or broke under a query."""

    def __init__(
        self, endpoint: Endpoint, timeout_s: float, bytes_max: int = ANSWER_BYTES_MAX
    ) -> None:
        """Connect to nothing yet. `timeout_s` is the limit of time for the server's greeting, and
        again for the whole answer to a query, `bytes_max` that of their size."""
        super().__init__(endpoint.host)
        self.connection = _NativeConnection(
            bytes_max,
            host=endpoint.host,
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
        except Exception as error:  # the driver decodes whatever it is sent
            raise _NotConnectedError(_reason(error)) from error

    def keep_session(self) -> None:
        """From now on, refuse a query before which the connection was lost."""
        self.connection.disable_reconnect = True

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
        except _AnswerSizeError as error:
            raise QueryError(UNREADABLE, str(error)) from error
        except (errors.Error, OSError, EOFError) as error:
            raise QueryError(NETWORK, _reason(error)) from error
        except Exception as error:  # as above, such as RecursionError
            raise QueryError(UNREADABLE, _reason(error)) from error


def _reason(error: Exception) -> str:
    """Return what an error of the driver says."""
    if isinstance(error, errors.ServerException):
        # Those that are nested in it may be too many for `str`.
        return f"{error.code}: {_first_line(error.message)}"
    text = _first_line(str(error))
    if isinstance(error, (errors.Error, OSError, EOFError)):
        return text or type(error).__name__
    return f"the answer cannot be read: {type(error).__name__}: {text}"


def _first_line(message: str) -> str:
    """Return the message without its stack trace, at most 300 characters."""
    text = message.split("Stack trace:")[0].strip().removeprefix("DB::Exception: ")
    return " ".join(text.split())[:300]
