"""Queries for the state of a cluster, on which faults and starts depend."""

from collections.abc import Iterable

from harness.core.capabilities import CanKill, CanPartition, CanPause, ReportsLeader
from harness.core.protocols import Cluster
from harness.core.topology import Link, Topology


def running(cluster: Cluster, nodes: Iterable[str]) -> tuple[str, ...]:
    """Return the nodes whose server process exists; all of them if the cluster cannot tell."""
    if not cluster.has(CanKill):
        return tuple(nodes)
    servers = cluster.part(CanKill)
    return tuple(node for node in nodes if servers.running(node))


def responsive(cluster: Cluster, nodes: Iterable[str]) -> tuple[str, ...]:
    """Return the nodes that run and are not paused, as far as the cluster can tell.

    Another fault may have killed or paused a chosen node already. To pause a killed server, or to
    ask a paused one to stop gracefully, would undo the other fault or wait in vain.
    """
    alive = running(cluster, nodes)
    if not cluster.has(CanPause):
        return alive
    servers = cluster.part(CanPause)
    return tuple(node for node in alive if not servers.paused(node))


def reaches_quorum(cluster: Cluster, topology: Topology, replica: str) -> bool:
    """Return whether a replica, if started now, could reach a ZooKeeper server with a quorum.

    Only the servers that the replica is configured to read through count.
    """
    members = quorum(cluster, topology)
    return any(
        server in members and _connected(cluster, replica, server)
        for server in topology.node(replica).keepers
    )


def quorum(cluster: Cluster, topology: Topology) -> frozenset[str]:
    """Return the ZooKeeper leader and the servers that follow it; nothing without a majority.

    Neither the servers nor the links suffice alone. A server that was cut off still says that it
    leads or follows for tickTime x syncLimit; a server whose link was mended, or that was started,
    serves only a second later.
    """
    leader = cluster.part(ReportsLeader).leader()
    if leader is None:
        return frozenset()
    serving = cluster.part(ReportsLeader).serving() & frozenset(topology.keepers)
    members = frozenset(server for server in serving if _connected(cluster, leader, server))
    return members if 2 * len(members) > len(topology.keepers) else frozenset()


def _connected(cluster: Cluster, a: str, b: str) -> bool:
    """Return whether packets pass between two nodes in both directions."""
    if a == b or not cluster.has(CanPartition):
        return True
    return all(cluster.part(CanPartition).reachable((Link(a, b), Link(b, a))).values())
