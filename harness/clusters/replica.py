"""Queries of the harness to ClickHouse servers, apart from those of the workloads' clients."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from clickhouse_driver import Client
from clickhouse_driver.errors import Error, SocketTimeoutError

from harness.clusters.clock_query import read_clock
from harness.core.errors import ClusterError
from harness.core.protocols import Endpoint

_TIMEOUT_S: Final = 3.0

# The driver logs a traceback for each server that does not answer, which is normal under faults.
logging.getLogger("clickhouse_driver").propagate = False
logging.getLogger("clickhouse_driver").addHandler(logging.NullHandler())

Row = tuple[Any, ...]
_UNKNOWN_FAILPOINT: Final = "Cannot find fail point"


@contextmanager
def connection(endpoint: Endpoint, timeout_s: float = _TIMEOUT_S) -> Iterator[Client]:
    """Yield a connection for a few queries, which connects on the first one."""
    client = Client(
        endpoint.host,
        endpoint.port,
        user=endpoint.user,
        password=endpoint.password,
        secure=endpoint.secure,
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
    """Return the rows of a select, [] for other statements. `rows` are the rows of an insert.

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


def clock_of(endpoint: Endpoint, timeout_s: float) -> tuple[int, int]:
    """Return the server's time in ns since 1970, rounded down, and its resolution.

    Raises ClusterError.
    """
    return read_clock(lambda text: int(query(endpoint, text, timeout_s=timeout_s)[0][0]))


def is_alive(endpoint: Endpoint) -> str | None:
    """Return why the server does not answer, with or without ZooKeeper; None if it does."""
    return _fails(endpoint, "SELECT 1")


def has_session(endpoint: Endpoint) -> str | None:
    """Return why the server cannot read from ZooKeeper now; None if it can."""
    return _fails(endpoint, "SELECT name FROM system.zookeeper WHERE path = '/' LIMIT 1")


def inactive_tables(endpoint: Endpoint) -> tuple[str, ...]:
    """Return the replicated tables whose replica here is not active. Raises ClusterError."""
    text = (
        "SELECT database, table FROM system.replicas WHERE is_readonly OR is_session_expired "
        "ORDER BY database, table"
    )
    return tuple(f"{database}.{table}" for database, table in query(endpoint, text))


def defined_clusters(endpoint: Endpoint) -> frozenset[str]:
    """Return the clusters that the server's configuration defines. Raises ClusterError."""
    return frozenset(name for (name,) in query(endpoint, "SELECT cluster FROM system.clusters"))


def tables_led(endpoint: Endpoint) -> int:
    """Return how many of the run's tables the replica leads; 0 if it does not answer."""
    text = (
        "SELECT count() FROM system.replicas WHERE is_leader AND zookeeper_path LIKE '/harness/%'"
    )
    try:
        return int(query(endpoint, text)[0][0])
    except ClusterError:
        return 0


def watches_of(endpoint: Endpoint) -> int:
    """Return the number of the server's watches in ZooKeeper; 0 if it does not answer."""
    text = "SELECT value FROM system.metrics WHERE metric = 'ZooKeeperWatch'"
    try:
        return int(query(endpoint, text)[0][0])
    except ClusterError:
        return 0


def enable_failpoint(endpoint: Endpoint, point: str) -> bool:
    """Enable a failpoint and return whether the server knows it. Raises ClusterError."""
    try:
        query(endpoint, f"SYSTEM ENABLE FAILPOINT {point}")
    except ClusterError as error:
        if _UNKNOWN_FAILPOINT in str(error):
            return False
        raise
    return True


def disable_failpoint(endpoint: Endpoint, point: str) -> None:
    """Disable a failpoint and wake the threads that wait at it. Raises ClusterError.

    It is a no-op for a failpoint that is not enabled or not known.
    """
    try:
        query(endpoint, f"SYSTEM DISABLE FAILPOINT {point}")
    except ClusterError as error:
        if _UNKNOWN_FAILPOINT not in str(error):
            raise


def failpoint_enabled(endpoint: Endpoint, point: str) -> bool | None:
    """Return whether the server lists a failpoint as enabled; None if it has no list.

    Raises ClusterError.
    """
    tables = "SELECT name FROM system.tables WHERE database = 'system' AND name = 'fail_points'"
    if not query(endpoint, tables):
        return None
    rows = query(endpoint, f"SELECT enabled FROM system.fail_points WHERE name = '{point}'")
    return bool(rows and rows[0][0])


def _fails(endpoint: Endpoint, text: str) -> str | None:
    try:
        query(endpoint, text)
    except ClusterError as error:
        return " ".join(str(error).split())[:300]
    return None
