"""Whether a replica would find ZooKeeper if it were started now."""

from harness.core.protocols import CanLead, CanPartition, Cluster
from harness.core.topology import Link, Topology


def served(cluster: Cluster, topology: Topology, replica: str) -> bool:
    """Whether the replica reaches a server, of those that it knows, that belongs to a quorum."""
    members = quorum(cluster, topology)
    return any(
        server in members and _joined(cluster, replica, server)
        for server in topology.node(replica).keepers
    )


def quorum(cluster: Cluster, topology: Topology) -> frozenset[str]:
    """The servers that follow the leader, and itself, as far as they and the links tell; none of
    them when they are no majority.

    Neither tells enough. A server that was cut off goes on saying that it leads or follows for
    tickTime x syncLimit; one whose link was mended, or that was started, serves a second later.
    """
    assert isinstance(cluster, CanLead), "capabilities are checked before the run"
    leader = cluster.leader()
    if leader is None:
        return frozenset()
    serving = cluster.serving() & frozenset(topology.keepers)
    members = frozenset(server for server in serving if _joined(cluster, leader, server))
    return members if 2 * len(members) > len(topology.keepers) else frozenset()


def _joined(cluster: Cluster, a: str, b: str) -> bool:
    """Whether packets pass between them both ways."""
    if a == b or not isinstance(cluster, CanPartition):
        return True
    return all(cluster.reachable((Link(a, b), Link(b, a))).values())
