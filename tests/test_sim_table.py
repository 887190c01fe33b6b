"""Replicas of a simulated table in situations that runs seldom come to."""

from functools import partial

import pytest
from sim_by_hand import replica_of, rows, table_on, wait

from harness.clients.clickhouse import DatabaseError, QuerySettings, connect, failed_write
from harness.clients.replicated_table import ReplicatedTable
from harness.clusters.sim_cluster import SimCluster
from harness.core.capabilities import (
    CanKill,
    CanPartition,
    CanPause,
    CanRestart,
    CanStopFetches,
    ReportsLeader,
)
from harness.core.op import Kind
from harness.core.seed import Seed
from harness.core.topology import Link, Topology
from harness.sim.bugs import PROTOCOLS
from harness.sim.simulation import TableSettings, simulated_dialect

SHORT = TableSettings(max_replicated_logs_to_keep=8, min_replicated_logs_to_keep=2)


def listed(cluster: SimCluster, node: str, table: ReplicatedTable, below: str) -> list[str]:
    """Return names in ZooKeeper, as a replica's server sees them."""
    query = f"SELECT name FROM system.zookeeper WHERE path = '{table.path}/{below}'"
    return [name for (name,) in connect(cluster, node).rows(query, (str,))]


def leaders(cluster: SimCluster, table: ReplicatedTable) -> dict[str, bool]:
    """Return whether each replica leads."""
    found = {node: replica_of(cluster, node, table) for node in cluster.topology.replicas}
    return {node: replica["leader"] for node, replica in found.items()}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_clone_gives_up_a_part_that_failed_meanwhile(protocol: str) -> None:
    """A lost replica copies what its source has, including a pending part, which it takes for one
    without a quorum: that the part failed tells it only that nobody has it."""
    cluster = SimCluster(Topology.of(), Seed(1), protocol=protocol, settings=SHORT)
    table = table_on(cluster)
    cluster.part(CanKill).kill(["ch2"])
    for value in range(30):
        connect(cluster, "ch1").insert(table.name, [(0, value)])
        wait(cluster, 0.3)
    assert listed(cluster, "ch1", table, "log")[0] > "log-0000000000"
    cluster.part(CanStopFetches).stop_fetches(["ch3"])
    quorum = {"insert_quorum": 2, "insert_quorum_timeout": 500}
    with pytest.raises(DatabaseError, match="319"):
        connect(cluster, "ch1").insert(table.name, [(0, 99)], quorum)
    (pending,) = set(listed(cluster, "ch1", table, "replicas/ch1/parts")) - set(
        listed(cluster, "ch1", table, "replicas/ch3/parts")
    )
    cluster.part(CanPartition).cut([Link("ch1", "ch2"), Link("ch2", "ch1")])
    cluster.part(CanKill).start(["ch2"])
    wait(cluster, 3)
    queue = replica_of(cluster, "ch2", table)["queue"]
    assert 0 in [quorum for _, part, quorum in queue if part == pending], "cloned"
    cluster.part(CanKill).kill(["ch1"])
    cluster.part(CanStopFetches).start_fetches(["ch3"])
    wait(cluster, 25)
    assert listed(cluster, "ch2", table, "quorum/failed_parts") == [pending]
    cluster.part(CanPartition).mend()
    cluster.part(CanKill).start(["ch1"])
    wait(cluster, 30)
    assert not table.pending()
    expected = [(0, value) for value in range(30)]
    assert [rows(cluster, node, table) for node in cluster.topology.replicas] == [expected] * 3


def test_a_part_that_is_logged_when_its_replica_has_started_again_is_nobodys() -> None:
    """ZooKeeper does not list it yet when the replica compares its disk, so the replica sets it
    aside; later it is listed as the replica's, and nobody has it."""
    cluster, table, part = next(found for seed in range(1, 20) if (found := logged_late(seed)))
    assert part in listed(cluster, "ch2", table, "replicas/ch1/parts")
    wait(cluster, 30)
    assert not table.pending()
    assert part not in listed(cluster, "ch2", table, "replicas/ch1/parts")
    assert [rows(cluster, node, table) for node in cluster.topology.replicas] == [[]] * 3


def logged_late(seed: int) -> tuple[SimCluster, ReplicatedTable, str] | None:
    """Kill ch1 while its ZooKeeper server cannot pass its commit on, and restart it before the
    server can. Return None if it restarted too late, after its session had ended."""
    cluster = SimCluster(Topology.of(route="all"), Seed(seed))
    table = table_on(cluster)
    leader = cluster.part(ReportsLeader).leader()
    assert leader is not None
    while (follower := replica_of(cluster, "ch1", table)["keeper"]) == leader:
        cluster.part(CanRestart).restart(["ch1"])
    assert follower is not None
    wait(cluster, 12)
    parts: list[str] = []

    def strike() -> None:
        parts.extend(replica_of(cluster, "ch1", table)["parts"])
        if parts:
            cluster.part(CanPartition).cut([Link(follower, leader)])
            cluster.simulation.world.after(5_000_000, lambda: cluster.part(CanKill).kill(["ch1"]))
        else:
            cluster.simulation.world.after(20_000, strike)

    strike()
    with pytest.raises(DatabaseError, match="the server ended"):
        connect(cluster, "ch1").insert(table.name, [(0, 1)])
    (part,) = parts
    cluster.part(CanKill).start(["ch1"])
    assert listed(cluster, "ch1", table, "log") == []
    cluster.part(CanPartition).mend()
    wait(cluster, 2)
    return (cluster, table, part) if listed(cluster, "ch2", table, "log") else None


@pytest.mark.parametrize("protocol", ["18.16", "25.8"])
def test_a_block_is_forgotten_when_it_is_too_old(protocol: str) -> None:
    """Its age is that before the latest block, so that nothing is forgotten without another one."""
    short = TableSettings(replicated_deduplication_window_seconds=4)
    cluster = SimCluster(Topology.of(), Seed(1), protocol=protocol, settings=short)
    table = table_on(cluster)
    there = connect(cluster, "ch1")

    def insert(value: int) -> None:
        there.insert(table.name, [(0, value)])
        wait(cluster, 3)

    insert(1)
    insert(2)
    insert(1)
    assert rows(cluster, "ch1", table) == [(0, 1), (0, 2)]
    insert(3)
    insert(1)
    assert rows(cluster, "ch1", table) == [(0, 1), (0, 1), (0, 2), (0, 3)]


def test_a_block_is_forgotten_when_there_are_too_many() -> None:
    cluster = SimCluster(
        Topology.of(), Seed(1), settings=TableSettings(replicated_deduplication_window=3)
    )
    table = table_on(cluster)
    there = connect(cluster, "ch1")
    for value in (1, 2, 3, 4, 5):
        there.insert(table.name, [(0, value)])
        wait(cluster, 0.1)
    wait(cluster, 3)
    for value in (1, 5):
        there.insert(table.name, [(0, value)])
    assert rows(cluster, "ch1", table) == [(0, value) for value in (1, 1, 2, 3, 4, 5)]


@pytest.mark.parametrize(
    ("protocol", "blocks"),
    [("18.16", 100), ("25.8", 1000), ("repaired", 100), ("repaired-25.8", 1000)],
)
def test_tables_have_the_window_of_their_version(protocol: str, blocks: int) -> None:
    settings = TableSettings.of(simulated_dialect(protocol))
    assert settings.replicated_deduplication_window == blocks
    assert settings.replicated_deduplication_window_seconds == 604_800


@pytest.mark.parametrize("sync", [0, 1])
@pytest.mark.parametrize("leads", [True, False], ids=["leader", "other"])
def test_optimize_waits_for_every_replica_where_it_is_told_to(leads: bool, sync: int) -> None:
    """Another replica is paused, and has the merged part when it goes on."""
    cluster = SimCluster(Topology.of(), Seed(1))
    table = table_on(cluster)
    led = leaders(cluster, table)
    target = next(node for node, leader in led.items() if leader is leads)
    late = next(node for node, leader in led.items() if not leader and node != target)
    for value in range(3):
        connect(cluster, target).insert(table.name, [(7, value)])
        connect(cluster, target).insert(table.name, [(8, value)])
    wait(cluster, 1)
    cluster.part(CanPause).pause([late])
    cluster.simulation.world.after(2_000_000_000, lambda: cluster.part(CanPause).resume([late]))
    connect(cluster, target).command(
        f"OPTIMIZE TABLE {table.name} PARTITION 7 FINAL",
        {"replication_alter_partitions_sync": sync},
    )
    assert ("7_0_2_1" in listed(cluster, target, table, f"replicas/{late}/parts")) == bool(sync)
    wait(cluster, 5)
    parts = [f"7_{n}_{n}_0" for n in range(3)] + [f"8_{n}_{n}_0" for n in range(3)]
    expected = sorted(["7_0_2_1", *parts])
    for node in cluster.topology.replicas:
        assert listed(cluster, node, table, f"replicas/{node}/parts") == expected


def test_optimize_fails_when_the_leader_that_does_it_ends() -> None:
    cluster = SimCluster(Topology.of(), Seed(1))
    table = table_on(cluster)
    led = leaders(cluster, table)
    leader = next(node for node, leads in led.items() if leads)
    target, late = (node for node, leads in led.items() if not leads)
    for value in range(2):
        connect(cluster, target).insert(table.name, [(7, value)])
    wait(cluster, 1)
    cluster.part(CanPause).pause([late])
    cluster.simulation.world.after(1_000_000_000, lambda: cluster.part(CanKill).kill([leader]))
    with pytest.raises(DatabaseError, match=f"Connection reset by {leader}"):
        connect(cluster, target).command(f"OPTIMIZE TABLE {table.name} PARTITION 7 FINAL")


@pytest.mark.parametrize("protocol", ["repaired", "repaired-25.8"])
@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE %s DROP PARTITION 7",
        "OPTIMIZE TABLE %s FINAL",
        "ALTER TABLE %s ADD COLUMN c Int64",
    ],
)
def test_a_statement_whose_session_ends_while_it_waits_may_have_taken_effect(
    protocol: str, statement: str
) -> None:
    """It is in the log already, and one replica is paused."""
    cluster = SimCluster(Topology.of(), Seed(1), protocol=protocol)
    table = table_on(cluster)
    for value in range(2):
        connect(cluster, "ch1").insert(table.name, [(7, value)])
    wait(cluster, 1)
    leader = next(node for node, leads in leaders(cluster, table).items() if leads)
    cluster.part(CanPause).pause(
        [next(node for node in cluster.topology.replicas if node != leader)]
    )
    (keeper,) = cluster.topology.node(leader).keepers
    away = [Link(leader, keeper), Link(keeper, leader)]
    cluster.simulation.world.after(1_000_000_000, partial(cluster.part(CanPartition).cut, away))
    settings: QuerySettings = {"replication_alter_partitions_sync": 2}
    with pytest.raises(DatabaseError, match=r"999: .*SESSIONEXPIRED") as ended:
        connect(cluster, leader, timeout_s=60).command(statement % table.name, settings)
    assert failed_write(ended.value).kind is Kind.INFO


def test_a_mutation_that_is_overtaken_by_another_takes_effect_all_the_same() -> None:
    """ch3 is cut off while it orders one; meanwhile ch1 orders another, which is done."""
    for moment_ns in range(300_000, 4_000_000, 300_000):
        cluster = SimCluster(Topology.of(), Seed(1))
        table = table_on(cluster)
        first, late = connect(cluster, "ch1"), connect(cluster, "ch3")
        first.insert(table.name, [(2, 1)])
        (keeper,) = cluster.topology.node("ch3").keepers
        links = [Link("ch3", keeper), Link(keeper, "ch3")]
        cluster.simulation.world.after(moment_ns, partial(cluster.part(CanPartition).cut, links))
        change = f"ALTER TABLE {table.name} UPDATE value = value + %d WHERE key = 2"
        cluster.simulation.world.spawn(partial(late.command, change % 10))
        wait(cluster, 0.01)
        first.command(change % 100)
        wait(cluster, 1)
        cluster.part(CanPartition).mend()
        wait(cluster, 5)
        assert not table.pending()
        found = [rows(cluster, node, table) for node in cluster.topology.replicas]
        assert found == [[(2, 111)]] * 3
