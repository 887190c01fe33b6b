"""Settings of a cluster's servers. The defaults make rare code paths common."""

from dataclasses import dataclass
from enum import StrEnum


class Storage(StrEnum):
    """Storage of the servers' data."""

    MEMORY = "memory"
    """Docker volumes on tmpfs, which the pod holds open: they survive a kill of the server, and
    vanish with the pod."""
    VOLUME = "volume"
    """Docker volumes on the engine's disk, where fsync takes its real time."""
    FAULTY = "faulty"
    """A disk in the pod's memory that can fail and lose power, see docs/storage.md."""


class Fsync(StrEnum):
    """What servers make durable with fsync before they acknowledge it."""

    DEFAULT = "default"
    """What they do by default: ZooKeeper its log, ClickHouse no part."""
    INSERTS = "inserts"
    """Also the parts that a ClickHouse server inserts, and their directories."""
    ALL = "all"
    """Also the parts that it merges, mutates or fetches."""
    NEVER = "never"
    """Nothing: as by default, and ZooKeeper without forceSync."""


class PartFormat(StrEnum):
    """Format of the parts that ClickHouse servers write."""

    NEW = "new"
    """Format that the server's version writes by default."""
    OLD = "old"
    """Format that the oldest version of the cluster reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of servers, as opposed to those of a table."""

    tick_time_ms: int = 500
    """ZooKeeper's unit of time."""
    init_limit: int = 20
    """Ticks that a follower has to connect to its leader."""
    sync_limit: int = 10
    """Ticks that a follower may be without its leader and still answer reads. They are 5 s;
    ZooKeeper's sample configuration has 10 s."""
    session_timeout_ms: int = 5000
    """Timeout of ClickHouse's ZooKeeper sessions; ZooKeeper grants 2 to 20 ticks."""
    operation_timeout_ms: int = 3000
    """Time after which ClickHouse gives up a ZooKeeper request and its session."""
    mark_cache_bytes: int = 64 << 20
    """Size of the mark cache, small so that many replicas fit on one machine."""
    heap_mb: int = 192
    """Java heap of each ZooKeeper server."""
    log_level: str = "debug"
    """Level of the ClickHouse servers' text logs."""
    reconfig: bool = False
    """True if the members of ZooKeeper's ensemble may be changed while it runs."""
    connections_max: int = 256
    """Number of connections that each ClickHouse server accepts."""
    wrong_clocks: bool = False
    """True if servers load a library that makes their clocks wrong on command."""
    parts: PartFormat = PartFormat.NEW
    shared_transactions: bool = False
    """True if the `transaction_log` of all ClickHouse servers is at one path, as it is by
    default."""
    storage: Storage = Storage.MEMORY
    """Memory is the default for two reasons. Without faults of disks only signals end servers, and
    after a signal written data is as intact on tmpfs as in a disk's page cache. And a disk that
    stalls for seconds, as shared ones do, would end ZooKeeper sessions and look like a fault.
    Quorum inserts on six servers and two cores, medians of 80, three times: 29, 30, 34 ms in
    memory, 49, 39, 39 ms on disk."""
    fsync: Fsync = Fsync.DEFAULT
    """To no effect before a power cut of a faulty disk, except on time."""
