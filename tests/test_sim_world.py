"""The world of simulated servers."""

import gc
import weakref

from harness.clusters.sim_cluster import SimCluster
from harness.core.seed import Seed
from harness.core.topology import Topology


def test_a_cluster_that_is_down_is_freed_with_every_task_of_it() -> None:
    cluster = SimCluster(Topology.of(), Seed(1))
    cluster.up()
    world = weakref.ref(cluster.simulation.world)
    cluster.down()
    del cluster
    gc.collect()
    assert world() is None
