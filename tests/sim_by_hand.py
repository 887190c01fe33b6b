"""A table on a simulated cluster, whose faults come one by one."""

from typing import TYPE_CHECKING

from harness.clients.clickhouse import connect
from harness.clients.replicated_table import ReplicatedTable, TableSchema
from harness.clusters.sim_cluster import SimCluster
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.sim.bugs import DEFAULT, bugs

if TYPE_CHECKING:
    from harness.native.simulator import ReplicaState


def table_on(cluster: SimCluster) -> ReplicatedTable:
    cluster.up()
    schema = TableSchema("key Int64, value Int64", "value", "key", {})
    table = ReplicatedTable(cluster, "by_hand", schema)
    table.create()
    return table


def planted(bug: str, protocol: str = DEFAULT) -> SimCluster:
    chosen = bugs([bug] if bug else [])
    return SimCluster(Topology.of(), Seed(1), bugs=chosen, protocol=protocol)


def wait(cluster: SimCluster, seconds: float) -> None:
    clock = cluster.runtime.clock()
    clock.sleep_until(round(seconds * 1e9))


def rows(cluster: SimCluster, node: str, table: ReplicatedTable) -> list[tuple[int, int]]:
    return sorted(connect(cluster, node).rows(f"SELECT key, value FROM {table.name}", (int, int)))


def replica_of(cluster: SimCluster, node: str, table: ReplicatedTable) -> "ReplicaState":
    """Return the node's server with the state of its only table."""
    found = cluster.simulation.servers.replica(node, table.name)
    assert found is not None
    return found
