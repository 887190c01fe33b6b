"""The numbers of a cluster that a test may want to turn. Defaults make rare paths common."""

from dataclasses import dataclass
from enum import StrEnum


class Storage(StrEnum):
    """Where the servers keep their data."""

    DISK = "disk"
    """Docker volumes on the engine's disk: fsync costs what it costs."""
    MEMORY = "memory"
    """Docker volumes on tmpfs, which the pod holds open: they outlive a kill of the server, and
    vanish with the pod."""


class Parts(StrEnum):
    """Which parts ClickHouse servers write."""

    NEW = "new"
    """Those that their version writes by default."""
    OLD = "old"
    """Those that the oldest version of the cluster reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Of the servers, not of a table."""

    tick_time_ms: int = 500
    """ZooKeeper's unit of time."""
    init_limit: int = 20
    """Ticks that a follower has to connect to its leader."""
    sync_limit: int = 10
    """Ticks that a follower may go without its leader: so long it still answers reads. 5 s, where
    ZooKeeper's sample configuration has 10 s."""
    session_timeout_ms: int = 5000
    """Of ClickHouse's ZooKeeper sessions; ZooKeeper grants 2 to 20 ticks."""
    operation_timeout_ms: int = 3000
    """After which ClickHouse gives up one ZooKeeper request and its session."""
    mark_cache_bytes: int = 64 << 20
    """Small, so that many replicas fit on one machine."""
    heap_mb: int = 192
    """Of each ZooKeeper server."""
    log_level: str = "debug"
    """Of the ClickHouse servers' text logs."""
    parts: Parts = Parts.NEW
    storage: Storage = Storage.MEMORY
    """In memory, because the only faults here that end a server are signals, after which what it
    had written is as whole on tmpfs as in a disk's page cache; and because a disk that stalls
    for seconds, as shared ones do, would end ZooKeeper sessions and look like a fault. Quorum
    inserts of six servers on two cores, medians of 80, three times: 29, 30, 34 ms in memory, 49,
    39, 39 ms on disk. For what fsync does, choose the disk."""
