"""The world of simulated servers."""

import gc
import sys
import threading
import weakref

import pytest

from harness.clients.replicated_table import ReplicatedTable, TableSchema
from harness.clusters.sim_cluster import SimCluster
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.native.simulator import Simulation


def test_another_thread_may_collect_what_is_left_of_a_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raised: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", raised.append)
    gc.disable()
    try:
        cluster = SimCluster(Topology.of(), Seed(1))
        cluster.up()
        left = _Cycle(cluster.simulation.servers)
        left.itself, gone = left, weakref.ref(left)
        del cluster, left
        thread = threading.Thread(target=gc.collect)
        thread.start()
        thread.join()
    finally:
        gc.enable()
    assert gone() is None
    assert raised == []


class _Cycle:
    def __init__(self, servers: Simulation) -> None:
        self.servers = servers
        self.itself: _Cycle | None = None


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
