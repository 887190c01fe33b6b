"""Clusters that modules of tests share: healed, emptied, and not used again when damaged."""

from contextlib import closing
from pathlib import Path

import pytest
from cluster_pool import ClusterPool, Shape
from real_servers import things

from harness.clusters.replica import execute, query
from harness.core.capabilities import CanConfigure, CanKill, CanPartition
from harness.core.topology import Topology

PAIR = Shape(topology=Topology.of(replicas=1, keepers=1))
STATEMENTS = (
    "CREATE DATABASE other",
    "CREATE TABLE other.t (x UInt8) ENGINE = Log",
    "CREATE TABLE t (x UInt8) ENGINE = ReplicatedMergeTree('/tests/t', 'ch1') ORDER BY x",
)


@pytest.mark.containers
def test_a_cluster_is_healed_and_emptied_for_the_next_module_unless_it_is_damaged(
    tmp_path: Path,
) -> None:
    directories = (tmp_path / name for name in ("first", "second"))
    with closing(ClusterPool(lambda: next(directories))) as pool:
        first = pool.take(PAIR)
        databases = query(first.endpoint("ch1"), "SHOW DATABASES", (str,))
        for statement in STATEMENTS:
            execute(first.endpoint("ch1"), statement, timeout_s=20)
        first.part(CanPartition).cut(PAIR.topology.links())
        first.part(CanKill).kill(["zk1"])

        again = pool.take(PAIR)
        assert again.name == first.name
        assert again.unready() == []
        assert query(again.endpoint("ch1"), "SHOW DATABASES", (str,)) == databases
        assert query(again.endpoint("ch1"), "SHOW TABLES", (str,)) == []
        znodes = query(
            again.endpoint("ch1"), "SELECT name FROM system.zookeeper WHERE path = '/'", (str,)
        )
        assert ("tests",) not in znodes

        again.part(CanConfigure).configure("ch1", "left.xml", "<clickhouse/>")
        third = pool.take(PAIR)
        assert third.name != first.name
        assert things(first.name) == []
    assert things(third.name) == []
