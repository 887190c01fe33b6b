"""A connection to a cluster's server, real or simulated."""

from collections.abc import Sequence

from harness.clients.clickhouse import ClickHouse
from harness.clients.simulated import SimulatedClickHouse
from harness.clients.simulated_zookeeper import SimulatedZooKeeper
from harness.clients.zookeeper import ZooKeeper
from harness.clusters.sim_cluster import SimCluster
from harness.core.protocols import Cluster


def connect(cluster: Cluster, node: str, *, timeout_s: float = 10.0) -> ClickHouse:
    """Connects on first use. `timeout_s` bounds each wait for the server."""
    if isinstance(cluster, SimCluster):
        return SimulatedClickHouse(cluster.simulation, node, timeout_s=timeout_s)
    outcomes = cluster.engines.dialect.write_outcomes
    return ClickHouse(cluster.endpoint(node), timeout_s=timeout_s, outcomes=outcomes)


def zookeeper(cluster: Cluster, keepers: Sequence[str], *, timeout_s: float = 3.0) -> ZooKeeper:
    """A session with any of these servers, on first use. `timeout_s` bounds each answer."""
    if isinstance(cluster, SimCluster):
        return SimulatedZooKeeper(cluster.simulation, keepers)
    return ZooKeeper([cluster.endpoint(keeper) for keeper in keepers], timeout_s=timeout_s)
