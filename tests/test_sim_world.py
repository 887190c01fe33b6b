"""The world of simulated servers."""

import gc
import weakref

from harness.clients.replicated_table import ReplicatedTable, TableSchema
from harness.clusters.sim_cluster import SimCluster
from harness.core.seed import Seed
from harness.core.topology import Topology


def test_a_cluster_that_is_down_is_freed_with_every_task_that_waited() -> None:
    cluster = SimCluster(Topology.of(), Seed(1))
    cluster.up()
    schema = TableSchema("key Int64, value Int64", "value", "key", {})
    ReplicatedTable(cluster, "waits_for_its_log", schema).create()
    world = weakref.ref(cluster.simulation.world)
    cluster.down()
    del cluster
    gc.collect()
    assert world() is None
