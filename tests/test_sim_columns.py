"""ALTERs of columns on simulated servers, one by one and in runs."""

from contextlib import suppress

import pytest
from sim_by_hand import planted, rows, table_on, wait
from sim_play import play

from harness.clients.clickhouse import DatabaseError, QuerySettings, connect
from harness.clients.replicated_table import ReplicatedTable
from harness.clusters.sim_cluster import SimCluster
from harness.core.capabilities import CanKill, CanPartition, CanPause, CanRestart, ReportsLeader
from harness.core.seed import Seed
from harness.core.topology import Link, Topology
from harness.core.verdict import Status
from harness.sim.bugs import PROTOCOLS
from harness.sim.simulation import TableSettings

SHORT = TableSettings(max_replicated_logs_to_keep=8, min_replicated_logs_to_keep=2)


def columns(cluster: SimCluster, table: ReplicatedTable, node: str) -> list[str]:
    found = connect(cluster, node).rows(f"DESCRIBE TABLE {table.name}", (str, ...))
    return [name for (name, *_) in found]


def alter(
    cluster: SimCluster, table: ReplicatedTable, node: str, change: str, sync: int = 2
) -> None:
    settings: QuerySettings = {"replication_alter_partitions_sync": sync}
    connect(cluster, node).command(f"ALTER TABLE {table.name} {change}", settings)


def everywhere(cluster: SimCluster, table: ReplicatedTable) -> list[list[str]]:
    return [columns(cluster, table, node) for node in cluster.topology.replicas]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_replica_has_the_columns_when_an_alter_has_waited(protocol: str) -> None:
    cluster = planted("", protocol)
    table = table_on(cluster)
    alter(cluster, table, "ch1", "ADD COLUMN c1 Int64")
    assert everywhere(cluster, table) == [["key", "value", "c1"]] * 3
    alter(cluster, table, "ch2", "ADD COLUMN c2 Int64")
    alter(cluster, table, "ch3", "DROP COLUMN c1")
    assert everywhere(cluster, table) == [["key", "value", "c2"]] * 3
    connect(cluster, "ch3").insert(f"{table.name} (key, value)", [(0, 1)])
    cluster.part(CanRestart).restart(["ch1"])
    wait(cluster, 5)
    assert columns(cluster, table, "ch1") == ["key", "value", "c2"]
    assert rows(cluster, "ch1", table) == [(0, 1)]


@pytest.mark.parametrize(("protocol", "twice", "missing"), [("18.16", 44, 44), ("25.8", 15, 10)])
def test_an_alter_that_does_not_fit_the_columns_fails(
    protocol: str, twice: int, missing: int
) -> None:
    cluster = planted("", protocol)
    table = table_on(cluster)
    with pytest.raises(DatabaseError, match=f"{twice}: .*column value: .* already exists"):
        alter(cluster, table, "ch1", "ADD COLUMN value Int64")
    with pytest.raises(DatabaseError, match=f"{missing}: .*column c1: .* does not exist"):
        alter(cluster, table, "ch1", "DROP COLUMN c1")
    with pytest.raises(DatabaseError, match="47: Unknown identifier: c1"):
        connect(cluster, "ch1").numbers(f"SELECT c1 FROM {table.name}")


@pytest.mark.parametrize("sync", [0, 1, 2])
def test_an_alter_in_the_log_waits_as_it_is_told_to(sync: int) -> None:
    """Another replica is paused, and has the column when it goes on."""
    cluster = planted("", "25.8")
    table = table_on(cluster)
    cluster.part(CanPause).pause(["ch2"])
    cluster.simulation.world.after(2_000_000_000, lambda: cluster.part(CanPause).resume(["ch2"]))
    alter(cluster, table, "ch1", "ADD COLUMN c1 Int64", sync)
    own = "c1" in columns(cluster, table, "ch1")
    other = f"{table.path}/replicas/ch2"
    query = f"SELECT toInt64(value) FROM system.zookeeper WHERE path = '{other}' AND name = '%s'"
    (version,) = connect(cluster, "ch1").numbers(query % "metadata_version")
    assert (own or sync == 0, version) == (True, 1 if sync == 2 else 0)
    wait(cluster, 5)
    assert everywhere(cluster, table) == [["key", "value", "c1"]] * 3


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_alter_from_stale_columns_is_refused_unless_18_16_1_makes_it(protocol: str) -> None:
    """A replica is behind a ZooKeeper server that is cut from its leader, so that it does not know
    of the first ALTER. The second one, which it makes, reaches ZooKeeper before the first reaches
    it."""
    cluster = planted("", protocol)
    table = table_on(cluster)
    leader = cluster.part(ReportsLeader).leader()
    assert leader is not None
    keepers = {node: cluster.topology.node(node).keepers[0] for node in cluster.topology.replicas}
    (first,) = (node for node, keeper in keepers.items() if keeper == leader)
    late = next(node for node in keepers if node != first)
    cluster.part(CanPartition).cut([Link(keepers[late], leader), Link(leader, keepers[late])])
    with suppress(DatabaseError):  # 18.16.1 waits for the other
        there = connect(cluster, first, timeout_s=1)
        there.command(f"ALTER TABLE {table.name} ADD COLUMN c1 Int64")
    cluster.simulation.world.after(5_000_000, cluster.part(CanPartition).mend)
    if protocol == "18.16":
        alter(cluster, table, late, "ADD COLUMN c2 Int64")
    else:
        with pytest.raises(DatabaseError, match="517: Metadata on replica is not up to date"):
            alter(cluster, table, late, "ADD COLUMN c2 Int64")
    wait(cluster, 10)
    added = "c2" if protocol == "18.16" else "c1"
    assert everywhere(cluster, table) == [["key", "value", added]] * 3


@pytest.mark.parametrize("protocol", ["18.16", "25.8"])
def test_a_lost_replica_has_the_columns_once_it_has_cloned(protocol: str) -> None:
    cluster = SimCluster(Topology.of(), Seed(1), protocol=protocol, settings=SHORT)
    table = table_on(cluster)
    cluster.part(CanKill).kill(["ch2"])
    wait(cluster, 8)
    for name in ("c1", "c2", "c3"):
        change = f"ADD COLUMN {name} Int64"
        if protocol == "25.8":
            alter(cluster, table, "ch1", change, 1)
        else:
            with pytest.raises(DatabaseError, match="341: Alter is not finished because of ch2"):
                alter(cluster, table, "ch1", change)
    for value in range(30):
        connect(cluster, "ch1").insert(f"{table.name} (key, value)", [(0, value)])
        wait(cluster, 0.3)
    cluster.part(CanKill).start(["ch2"])
    wait(cluster, 30)
    assert everywhere(cluster, table) == [["key", "value", "c1", "c2", "c3"]] * 3
    assert rows(cluster, "ch2", table) == [(0, value) for value in range(30)]


@pytest.mark.parametrize(
    ("protocol", "without", "lost"),
    [("18.16", "", True), ("18.16", "undone-alter", False), ("25.8", "", False)],
)
def test_alters_at_a_time_lose_columns_on_18_16(protocol: str, without: str, lost: bool) -> None:
    options = {"name": "alter", "promise": "eventual", "alters": 3, "time_limit_s": 8.0}
    played = play(1, "none", protocol=protocol, without=without, **options)
    assert ("alters" in played.accusers) == lost
    assert lost or played.status is Status.VALID, played.accusers


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_acknowledged_alters_are_in_force_after_faults(protocol: str) -> None:
    options = {"name": "alter", "promise": "eventual", "pause_ms": 300, "rate": 20.0}
    played = play(2, "kill-clickhouse-one", protocol=protocol, time_limit_s=15.0, **options)
    assert played.status is Status.VALID, played.accusers
