"""Failpoints of ClickHouse servers, by SYSTEM statements."""

from harness.clusters.replica import query
from harness.core.errors import ClusterError
from harness.core.protocols import Endpoint

_UNKNOWN = "Cannot find fail point"


def enable(endpoint: Endpoint, point: str) -> bool:
    """Return whether the server knows the point, which is enabled then. Raises ClusterError."""
    try:
        query(endpoint, f"SYSTEM ENABLE FAILPOINT {point}")
    except ClusterError as error:
        if _UNKNOWN in str(error):
            return False
        raise
    return True


def disable(endpoint: Endpoint, point: str) -> None:
    """Disable a point, and wake who waits at it; nothing happens to one that is not enabled or
    not known. Raises ClusterError."""
    try:
        query(endpoint, f"SYSTEM DISABLE FAILPOINT {point}")
    except ClusterError as error:
        if _UNKNOWN not in str(error):
            raise


def enabled(endpoint: Endpoint, point: str) -> bool | None:
    """Return whether the server lists the point as enabled; None: it has no list. Raises
    ClusterError."""
    tables = "SELECT name FROM system.tables WHERE database = 'system' AND name = 'fail_points'"
    if not query(endpoint, tables):
        return None
    rows = query(endpoint, f"SELECT enabled FROM system.fail_points WHERE name = '{point}'")
    return bool(rows and rows[0][0])
