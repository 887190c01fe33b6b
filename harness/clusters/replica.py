"""Queries of the harness to ClickHouse servers, apart from those of the workloads' clients."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from textwrap import shorten
from typing import Any, Final

from harness.clusters.clock_query import read_clock
from harness.clusters.driver import ANSWER_BYTES_MAX, Driver
from harness.core.connections import QueryError, Shape, check_shape
from harness.core.errors import ClusterError
from harness.core.protocols import Endpoint

_TIMEOUT_S: Final = 3.0

_QUOTED: Final = 120
"""Number of characters that are quoted of a query."""

Row = tuple[Any, ...]
_UNKNOWN_FAILPOINT: Final = "Cannot find fail point"


@contextmanager
def _asking(
    endpoint: Endpoint, text: str, timeout_s: float, bytes_max: int = ANSWER_BYTES_MAX
) -> Iterator[Driver]:
    """Yield a connection for one query, whose failure is a ClusterError that names server and
    query."""
    driver = Driver(endpoint, timeout_s, bytes_max)
    try:
        yield driver
    except QueryError as error:
        asked = shorten(text, _QUOTED, placeholder=" …")
        code = f"{error.code}: " if error.code > 0 else ""
        raise ClusterError(
            f"{endpoint.host}:{endpoint.port}: {asked}: {code}{error.text}"
        ) from error
    finally:
        driver.disconnect()


def query(
    endpoint: Endpoint,
    text: str,
    shape: Shape,
    *,
    count: int | None = None,
    timeout_s: float = _TIMEOUT_S,
    bytes_max: int = ANSWER_BYTES_MAX,
) -> list[Row]:
    """Return the rows of a select, whose columns have these types, and which are so many if a count
    is given. The limits are those of the whole answer. Raises ClusterError."""
    with _asking(endpoint, text, timeout_s, bytes_max) as driver:
        columns = driver.ask(text, {}, None)
        check_shape(columns, shape, count)
    return list(zip(*columns, strict=True))


def query_value(endpoint: Endpoint, text: str, kind: type, timeout_s: float = _TIMEOUT_S) -> Any:
    """Return the only value of a select. Raises ClusterError."""
    return query(endpoint, text, (kind,), count=1, timeout_s=timeout_s)[0][0]


def execute(
    endpoint: Endpoint,
    text: str,
    *,
    rows: Sequence[Row] | None = None,
    settings: Mapping[str, Any] | None = None,
    timeout_s: float = _TIMEOUT_S,
) -> None:
    """Execute a statement, or insert rows. Raises ClusterError."""
    with _asking(endpoint, text, timeout_s) as driver:
        driver.ask(text, settings or {}, rows)


def clock_of(endpoint: Endpoint, timeout_s: float) -> tuple[int, int]:
    """Return the server's time in ns since 1970, rounded down, and its resolution.

    Raises ClusterError.
    """
    return read_clock(lambda text: int(query_value(endpoint, text, int, timeout_s)))


def is_alive(endpoint: Endpoint) -> str | None:
    """Return why the server does not answer, with or without ZooKeeper; None if it does."""
    return _fails(endpoint, "SELECT 1", int)


def has_session(endpoint: Endpoint) -> str | None:
    """Return why the server cannot read from ZooKeeper now; None if it can."""
    return _fails(endpoint, "SELECT name FROM system.zookeeper WHERE path = '/' LIMIT 1", str)


def inactive_tables(endpoint: Endpoint) -> tuple[str, ...]:
    """Return the replicated tables whose replica here is not active. Raises ClusterError."""
    text = (
        "SELECT database, table FROM system.replicas WHERE is_readonly OR is_session_expired "
        "ORDER BY database, table"
    )
    rows = query(endpoint, text, (str, str))
    return tuple(f"{database}.{table}" for database, table in rows)


def defined_clusters(endpoint: Endpoint) -> frozenset[str]:
    """Return the clusters that the server's configuration defines. Raises ClusterError."""
    rows = query(endpoint, "SELECT cluster FROM system.clusters", (str,))
    return frozenset(name for (name,) in rows)


def tables_led(endpoint: Endpoint) -> int:
    """Return how many of the run's tables the replica leads; 0 if it does not answer."""
    text = (
        "SELECT count() FROM system.replicas WHERE is_leader AND zookeeper_path LIKE '/harness/%'"
    )
    try:
        return int(query_value(endpoint, text, int))
    except ClusterError:
        return 0


def watches_of(endpoint: Endpoint) -> int:
    """Return the number of the server's watches in ZooKeeper; 0 if it does not answer."""
    text = "SELECT value FROM system.metrics WHERE metric = 'ZooKeeperWatch'"
    try:
        return int(query_value(endpoint, text, int))
    except ClusterError:
        return 0


def enable_failpoint(endpoint: Endpoint, point: str) -> bool:
    """Enable a failpoint and return whether the server knows it. Raises ClusterError."""
    try:
        execute(endpoint, f"SYSTEM ENABLE FAILPOINT {point}")
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
        execute(endpoint, f"SYSTEM DISABLE FAILPOINT {point}")
    except ClusterError as error:
        if _UNKNOWN_FAILPOINT not in str(error):
            raise


def failpoint_enabled(endpoint: Endpoint, point: str) -> bool | None:
    """Return whether the server lists a failpoint as enabled; None if it has no list.

    Raises ClusterError.
    """
    tables = "SELECT name FROM system.tables WHERE database = 'system' AND name = 'fail_points'"
    if not query(endpoint, tables, (str,)):
        return None
    enabled = f"SELECT enabled FROM system.fail_points WHERE name = '{point}'"
    rows = query(endpoint, enabled, (int,))
    return bool(rows and rows[0][0])


def _fails(endpoint: Endpoint, text: str, kind: type) -> str | None:
    try:
        query_value(endpoint, text, kind)
    except ClusterError as error:
        return " ".join(str(error).split())[:300]
    return None
