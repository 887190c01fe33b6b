"""Everything that has a name: an explicit list, so that reading it is knowing it."""

from collections.abc import Mapping

CLUSTERS: Mapping[str, str] = {
    "docker": "real ClickHouse and ZooKeeper servers in containers",
}
WORKLOADS: Mapping[str, str] = {
    "quorum-set": "unique values inserted with a quorum; the whole set of a key selected "
    "sequentially consistently, at any replica",
}
CHECKERS: Mapping[str, str] = {
    "stats": "enough was acknowledged, and the faults took effect; else UNKNOWN",
    "set-full": "lost, stale, never read, duplicated and phantom values",
    "convergence": "all replicas equal and all queues empty once the cluster is at rest",
    "monotonic-reads": "a process reads whatever it has read before",
    "read-your-writes": "a process reads whatever it has written",
    "monotonic-writes": "the writes of one process are seen in their order",
    "writes-follow-reads": "a write is seen only with what its process had read before it",
    "sequential": "one order of all calls explains every read, and keeps each process's order",
    "linearizable": "one order of all calls explains every read, and keeps real time",
}
