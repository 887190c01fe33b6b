"""DETACH PARTITION and ATTACH PARTITION on simulated servers."""

from typing import Any

import pytest
from sim_by_hand import planted, rows, table_on, wait
from test_sim_zero_copy import PAIR, found, shared

from harness.clients.clickhouse import DatabaseError, connect
from harness.clients.replicated_table import ReplicatedTable, TableSchema
from harness.clusters.sim_cluster import SimCluster
from harness.core.capabilities import CanStopFetches
from harness.core.seed import Seed
from harness.core.verdict import Status
from harness.sim.bugs import PROTOCOLS

EVERYWHERE = {"replication_alter_partitions_sync": 2}


def log_of(cluster: SimCluster, table: ReplicatedTable) -> list[str]:
    entries = f"SELECT value FROM system.zookeeper WHERE path = '{table.path}/log'"
    return [text.split("\n")[2] for (text,) in connect(cluster, "ch1").rows(entries, (str,))]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_partition_is_gone_while_it_is_detached_and_back_when_attached(protocol: str) -> None:
    cluster = planted("", protocol)
    table = table_on(cluster)
    there = connect(cluster, "ch1")
    for value in range(3):
        there.insert(table.name, [(0, value)])
    there.insert(table.name, [(1, 9)])
    wait(cluster, 1)
    there.command(f"ALTER TABLE {table.name} DETACH PARTITION 0", EVERYWHERE)
    shown = [rows(cluster, node, table) for node in cluster.topology.replicas]
    assert shown == [[(1, 9)]] * 3
    # Where an ATTACH is an entry of its own, the others use what they have detached themselves.
    cluster.part(CanStopFetches).stop_fetches(["ch2", "ch3"])
    there.command(f"ALTER TABLE {table.name} ATTACH PARTITION 0")
    wait(cluster, 1)
    whole = [(0, 0), (0, 1), (0, 2), (1, 9)]
    own = protocol.endswith("25.8")
    assert log_of(cluster, table)[4:] == ["detach", *["attach" if own else "get"] * 3]
    assert rows(cluster, "ch2", table) == (whole if own else [(1, 9)])
    cluster.part(CanStopFetches).start_fetches(["ch2", "ch3"])
    wait(cluster, 15)
    assert not table.pending()
    shown = [rows(cluster, node, table) for node in cluster.topology.replicas]
    assert shown == [whole] * 3
    # What was attached is not detached any more.
    there.command(f"ALTER TABLE {table.name} ATTACH PARTITION 0")
    assert rows(cluster, "ch1", table) == whole


@pytest.mark.parametrize("disabled", [0, 1])
def test_detaching_what_replicas_share_is_refused_unless_the_table_allows_it(disabled: int) -> None:
    cluster = SimCluster(PAIR, Seed(1))
    cluster.up()
    settings: dict[str, Any] = {
        "storage_policy": "s3",
        "allow_remote_fs_zero_copy_replication": 1,
        "disable_detach_partition_for_zero_copy_replication": disabled,
    }
    schema = TableSchema("key Int64, value Int64", "value", "key", settings)
    table = ReplicatedTable(cluster, "by_hand", schema)
    table.create()
    there = connect(cluster, "ch1")
    there.insert(table.name, [(0, 1)])
    detach = f"ALTER TABLE {table.name} DETACH PARTITION 0"
    if disabled:
        with pytest.raises(DatabaseError, match="344"):
            there.command(detach)
    else:
        there.command(detach)
    assert rows(cluster, "ch1", table) == ([(0, 1)] if disabled else [])


@pytest.mark.parametrize("zero_copy", [True, False])
def test_the_objects_of_detached_partitions_stay_and_go_with_their_parts(zero_copy: bool) -> None:
    run = shared(1, "restart-clickhouse-one", detach=True, zero_copy=zero_copy)
    assert run.status is Status.VALID
    assert found(run)["orphaned_bytes"] == 0


@pytest.mark.parametrize("without", ["", "attach-own-copy"])
def test_replicas_of_25_8_attach_copies_of_their_own(without: str) -> None:
    run = shared(1, "none", detach=True, protocol="25.8", without=without)
    assert (run.accusers == {"objects"}) == (not without)
    assert (found(run)["anomalies"].get("copied", 0) > 0) == (not without)
