"""What the harness itself asks of ClickHouse servers. The workloads' clients are elsewhere."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from clickhouse_driver import Client
from clickhouse_driver.errors import Error, SocketTimeoutError

from harness.core.errors import ClusterError
from harness.core.protocols import Endpoint

_TIMEOUT_S: Final = 3.0

# The driver logs a traceback for each server that does not answer, which is our daily bread.
logging.getLogger("clickhouse_driver").propagate = False
logging.getLogger("clickhouse_driver").addHandler(logging.NullHandler())

Row = tuple[Any, ...]


@contextmanager
def connection(endpoint: Endpoint, timeout_s: float = _TIMEOUT_S) -> Iterator[Client]:
    """A connection for a few queries; connects on the first."""
    client = Client(
        endpoint.host,
        endpoint.port,
        connect_timeout=timeout_s,
        send_receive_timeout=timeout_s,
        sync_request_timeout=timeout_s,
        client_name="harness",
    )
    try:
        yield client
    finally:
        client.disconnect()


def query(
    endpoint: Endpoint,
    text: str,
    *,
    rows: Sequence[Row] | None = None,
    settings: Mapping[str, Any] | None = None,
    timeout_s: float = _TIMEOUT_S,
) -> list[Row]:
    """The rows of a select, or [] of anything else; `rows` are what an insert inserts.

    Raises ClusterError.
    """
    try:
        with connection(endpoint, timeout_s) as client:
            out = client.execute(text, rows, settings=dict(settings or {}))
    except SocketTimeoutError as error:
        raise ClusterError(
            f"{endpoint.host}:{endpoint.port}: {text}: no answer within {timeout_s:g} s"
        ) from error
    except (Error, OSError, EOFError) as error:
        reason = str(error).partition("Stack trace:")[0].strip()
        raise ClusterError(f"{endpoint.host}:{endpoint.port}: {text}: {reason}") from error
    return list(out) if isinstance(out, list) else []


def is_alive(endpoint: Endpoint) -> str | None:
    """Why the server does not answer, sessions or not; None when it does."""
    return _fails(endpoint, "SELECT 1")


def has_session(endpoint: Endpoint) -> str | None:
    """Why the server cannot read its ZooKeeper now; None when it can."""
    return _fails(endpoint, "SELECT name FROM system.zookeeper WHERE path = '/' LIMIT 1")


def inactive_tables(endpoint: Endpoint) -> tuple[str, ...]:
    """Return the replicated tables whose replica here is not active. Raises ClusterError."""
    text = (
        "SELECT database, table FROM system.replicas WHERE is_readonly OR is_session_expired "
        "ORDER BY database, table"
    )
    return tuple(f"{database}.{table}" for database, table in query(endpoint, text))


def tables_led(endpoint: Endpoint) -> int:
    """How many of the run's tables the replica leads; none when it does not answer."""
    ours = "is_leader AND zookeeper_path LIKE '/harness/%'"
    try:
        return int(query(endpoint, f"SELECT count() FROM system.replicas WHERE {ours}")[0][0])
    except ClusterError:
        return 0


def watches_of(endpoint: Endpoint) -> int:
    """On how many changes in ZooKeeper the server waits; none when it does not answer."""
    text = "SELECT value FROM system.metrics WHERE metric = 'ZooKeeperWatch'"
    try:
        return int(query(endpoint, text)[0][0])
    except ClusterError:
        return 0


def _fails(endpoint: Endpoint, text: str) -> str | None:
    try:
        query(endpoint, text)
    except ClusterError as error:
        return " ".join(str(error).split())[:300]
    return None
