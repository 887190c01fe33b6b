"""Members of simulated clusters: each fault is seen and over when it has ended, planted bugs are
found under it alone, and what cannot be done is refused by name."""

from typing import Any

import pytest
from nemesis_record import call
from sim_by_hand import planted, replica_of, rows, table_on, wait
from sim_play import play

from harness.clients.clickhouse import connect
from harness.clusters.sim_cluster import SimCluster
from harness.core.capabilities import (
    CanKill,
    CanReconfigure,
    CanReplaceDisks,
    CanReplaceReplicas,
    CanRestart,
    CanStopFetches,
    ReportsLeader,
)
from harness.core.errors import ClusterError, UsageError
from harness.core.seed import Seed
from harness.core.topology import Topology
from nemesis import reconfig
from nemesis.catalogue import parse_nemesis
from nemesis.composed import Composed, check_capabilities
from nemesis.options import FaultOptions

THREE = Topology.of()
NEW = "repaired-25.8"
QUORUM = {"insert_quorum": 2, "insert_quorum_timeout": 10_000}
EVERYONE = dict.fromkeys(THREE.keepers, reconfig.PARTICIPANT)
MEMBERS = "empty-disk,old-disk,replace,reconfig,reconfig-observer"


def nemesis_of(name: str, cluster: SimCluster) -> Composed:
    nemesis = parse_nemesis(name, THREE, Seed(1), FaultOptions(seen_within_s=30))
    check_capabilities(nemesis, cluster)
    return nemesis


@pytest.mark.parametrize(
    ("name", "lacks"),
    [("keeper-rewound", "CanRewindKeepers"), ("keeper-lost", "CanRestoreReplicas")],
)
def test_no_replica_goes_on_when_all_of_zookeeper_forgets(name: str, lacks: str) -> None:
    with pytest.raises(UsageError, match=f"nemesis {name}: cluster sim lacks {lacks};"):
        nemesis_of(name, planted("", NEW))


@pytest.mark.parametrize("name", ["empty-disk", "old-disk", "replace"])
def test_a_replica_has_every_row_again_when_the_fault_has_ended(name: str) -> None:
    cluster = planted("", NEW)
    table = table_on(cluster)
    nemesis = nemesis_of(name if name == "empty-disk" else f"{name}-clickhouse", cluster)
    for value in range(3):
        connect(cluster, "ch1").insert(table.name, [(0, value)], QUORUM)
    call(cluster, nemesis, "begin", "ch1")
    # A file of its own, one of the table, and three parts.
    left = {"empty-disk": 2, "old-disk": 5, "replace": 0}
    assert cluster.part(CanReplaceDisks).disk_files("ch1", parts_only=False) == left[name]
    connect(cluster, "ch2").insert(table.name, [(0, 3)], QUORUM)
    call(cluster, nemesis, "end", "ch1")
    every = [(0, value) for value in range(4)]
    assert rows(cluster, "ch1", table) == every
    assert len(replica_of(cluster, "ch1", table)["parts"]) == len(every)
    nemesis.heal(cluster)
    connect(cluster, "ch1").insert(table.name, [(0, 4)], QUORUM)


def test_a_new_replica_has_the_columns_of_its_table() -> None:
    """With those of the old one it could not join (122), and the fault did not end."""
    cluster = planted("", NEW)
    table = table_on(cluster)
    nemesis = nemesis_of("replace-clickhouse", cluster)
    call(cluster, nemesis, "begin", "ch1")
    connect(cluster, "ch2").command(f"ALTER TABLE {table.name} ADD COLUMN c1 Int64")
    call(cluster, nemesis, "end", "ch1")
    columns = connect(cluster, "ch1").rows(f"DESCRIBE TABLE {table.name}", (str, ...))
    assert [name for (name, *_) in columns] == ["key", "value", "c1"]


def test_an_old_disk_has_what_was_dropped_and_it_is_set_aside() -> None:
    cluster = planted("", NEW)
    table = table_on(cluster)
    connect(cluster, "ch1").insert(table.name, [(0, 1)], QUORUM)
    nemesis = nemesis_of("old-disk-clickhouse", cluster)
    call(cluster, nemesis, "begin", "ch1")
    connect(cluster, "ch2").command(f"ALTER TABLE {table.name} DROP PARTITION 0")
    connect(cluster, "ch2").insert(table.name, [(0, 2)], QUORUM)
    call(cluster, nemesis, "end", "ch1")
    assert rows(cluster, "ch1", table) == [(0, 2)]
    wait(cluster, 20)
    assert rows(cluster, "ch1", table) == [(0, 2)]


def test_a_part_that_nobody_else_has_is_lost_with_its_disk() -> None:
    cluster = planted("", NEW)
    table = table_on(cluster)
    cluster.part(CanStopFetches).stop_fetches(["ch2", "ch3"])
    connect(cluster, "ch1").insert(table.name, [(0, 1)])
    cluster.part(CanKill).kill(["ch1"])
    cluster.part(CanReplaceDisks).empty_disks(["ch1"], parts_only=True)
    cluster.part(CanKill).start(["ch1"])
    cluster.part(CanStopFetches).start_fetches(["ch2", "ch3"])
    wait(cluster, 60)
    assert [rows(cluster, node, table) for node in THREE.replicas] == [[], [], []]
    assert cluster.part(CanReplaceReplicas).behind("ch1") == []


@pytest.mark.parametrize("name", ["old-disk", "replace"])
def test_a_zookeeper_server_follows_again_when_the_fault_has_ended(name: str) -> None:
    cluster = planted("", NEW)
    table = table_on(cluster)
    nemesis = nemesis_of(f"{name}-zookeeper", cluster)
    call(cluster, nemesis, "begin", "zk2")
    assert cluster.part(CanReplaceReplicas).registered("zk2") is (name == "old-disk")
    connect(cluster, "ch1").insert(table.name, [(0, 1)])
    before = cluster.part(CanReplaceDisks).disk_files("zk2", parts_only=False)
    call(cluster, nemesis, "end", "zk2")
    assert cluster.simulation.wait_until(lambda: not cluster.unready(), 20_000_000_000)
    assert cluster.part(CanReplaceReplicas).registered("zk2")
    assert cluster.part(CanReplaceDisks).disk_files("zk2", parts_only=False) >= before
    for node in ("zk1", "zk3"):
        cluster.part(CanKill).kill([node])
        wait(cluster, cluster.simulation.world.now_ns / 1e9 + 10)
        cluster.part(CanKill).start([node])
        assert cluster.simulation.wait_until(lambda: not cluster.unready(), 20_000_000_000)
    assert rows(cluster, "ch1", table) == [(0, 1)], "what was acknowledged outlives a failover"


def test_a_zookeeper_server_leaves_joins_and_observes() -> None:
    cluster = planted("", NEW)
    cluster.up()
    nemesis = nemesis_of("reconfig,reconfig-observer", cluster)
    for node in THREE.keepers:
        call(cluster, nemesis, "begin", node, reconfig.NAME)
        assert cluster.part(CanReconfigure).ensemble() == {
            other: r for other, r in EVERYONE.items() if other != node
        }
        cluster.part(CanRestart).restart([node])
        assert cluster.simulation.wait_until(lambda: not cluster.unready(), 20_000_000_000)
        call(cluster, nemesis, "end", node, reconfig.NAME)
        assert cluster.part(CanReconfigure).ensemble() == EVERYONE
        call(cluster, nemesis, "begin", node, reconfig.OBSERVER)
        assert cluster.part(CanReconfigure).ensemble() == {**EVERYONE, node: "observer"}
        assert cluster.part(ReportsLeader).leader() != node
        nemesis.heal(cluster)
        assert cluster.part(CanReconfigure).ensemble() == EVERYONE


def test_two_of_two_are_a_majority_and_one_with_an_observer_is_none() -> None:
    cluster = planted("", NEW)
    cluster.up()
    leader = cluster.part(ReportsLeader).leader()
    first, second = (node for node in THREE.keepers if node != leader)
    cluster.part(CanReconfigure).reconfigure(first, "observer")
    assert cluster.part(CanReconfigure).ensemble()[first] == "observer"
    cluster.part(CanKill).kill([second])
    assert cluster.simulation.wait_until(
        lambda: cluster.part(ReportsLeader).leader() is None, 20_000_000_000
    )
    with pytest.raises(ClusterError, match="no ZooKeeper server leads"):
        cluster.part(CanReconfigure).ensemble()
    cluster.part(CanKill).start([second])
    assert cluster.simulation.wait_until(lambda: not cluster.unready(), 20_000_000_000)
    assert cluster.part(CanReconfigure).ensemble()[first] == "observer", (
        "the log has the configuration"
    )


def test_a_configuration_without_a_quorum_is_refused() -> None:
    cluster = planted("", NEW)
    cluster.up()
    cluster.part(CanKill).kill(["zk2"])
    wait(cluster, 20)
    for node in ("zk1", "zk3"):
        with pytest.raises(ClusterError, match="NEWCONFIGNOQUORUM"):
            cluster.part(CanReconfigure).reconfigure(node, "")
    assert cluster.part(CanReconfigure).ensemble() == EVERYONE


@pytest.mark.parametrize(
    ("name", "protocol", "refusal"),
    [
        ("replace", "repaired", "replicas that drop another"),
        ("replace-clickhouse", "18.16", "replicas that drop another"),
    ],
)
def test_servers_without_the_statement_are_refused_by_name(
    name: str, protocol: str, refusal: str
) -> None:
    with pytest.raises(UsageError, match=refusal):
        nemesis_of(name, SimCluster(THREE, Seed(1), protocol=protocol))


def test_the_disk_of_a_server_that_runs_is_its_own() -> None:
    cluster = planted("", NEW)
    cluster.up()
    with pytest.raises(ClusterError, match="ch1 runs"):
        cluster.part(CanReplaceDisks).empty_disks(["ch1"], parts_only=True)
    cluster.part(CanKill).kill(["ch1"])
    with pytest.raises(ClusterError, match="no copy of its disk"):
        cluster.part(CanReplaceDisks).restore_disks(["ch1"])


def test_a_replica_that_runs_is_not_dropped() -> None:
    cluster = planted("", NEW)
    table = table_on(cluster)
    client = connect(cluster, "ch1")
    with pytest.raises(Exception, match="305"):
        client.command(f"SYSTEM DROP REPLICA 'ch2' FROM TABLE {table.name}")
    with pytest.raises(Exception, match="305"):
        client.command(f"SYSTEM DROP REPLICA 'ch1' FROM TABLE {table.name}")


def test_a_seed_is_one_run() -> None:
    runs = [play(7, MEMBERS, protocol=NEW, rate=40.0, time_limit_s=20.0) for _ in range(2)]
    assert runs[0].journal == runs[1].journal
    assert not runs[0].accusers
    assert play(8, MEMBERS, protocol=NEW, rate=40.0, time_limit_s=20.0).journal != runs[0].journal


BUGS: dict[str, tuple[str, str, dict[str, Any]]] = {
    # With more inserts the replica is lost, and clones another.
    "empty-disk-forgets": ("empty-disk", "set-full", {"rate": 15.0, "duration_s": 1.0}),
    # The partitions are dropped again and again; the copy is put back after the last time.
    "old-disk-adopted": (
        "old-disk-clickhouse",
        "statement-rows",
        {"name": "drop-partition", "duration_s": 20.0},
    ),
    "replica-unfilled": ("replace-clickhouse", "set-full", {}),
    "removed-stale": ("reconfig", "linearizable", {"name": "zk-register"}),
    "role-loses-watches": ("reconfig-observer", "protocol", {"protocol": "repaired"}),
    "ack-remembered": ("old-disk-zookeeper", "linearizable", {"name": "zk-register"}),
    "snapshot-without-log": ("replace-zookeeper", "linearizable", {"name": "zk-register"}),
}
"""For each bug: the nemesis that shows it, the checker that finds it, the options of the run."""
PLANTED_SEEDS = (1, 2, 3, 4, 5)


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str) -> None:
    nemesis, checker, options = BUGS[bug]

    def accusers(seed: int, planted: str, nemesis: str = nemesis) -> set[str]:
        run = {"protocol": NEW, "rate": 60.0, "time_limit_s": 15.0, "interval_s": 2.0, **options}
        return play(seed, nemesis, bug=planted, **run).accusers

    found = next((seed for seed in PLANTED_SEEDS if checker in accusers(seed, bug)), None)
    assert found is not None
    assert not accusers(found, "")
    role = "-zookeeper" if "zookeeper" in nemesis else ""
    for other in (f"kill{role}", f"pause{role}", "partition"):
        assert not accusers(found, bug, other), other


def test_a_part_that_is_registered_anew_had_its_quorum_in_time() -> None:
    """The checker took the moment of a quorum from what is registered at rest."""
    run: dict[str, Any] = {
        "name": "quorum-durability",
        "promise": "eventual",
        "protocol": "repaired",
    }
    assert not play(12, "empty-disk", rate=40.0, time_limit_s=8.0, interval_s=2.0, **run).accusers


def test_a_replica_does_not_mark_its_own_part_as_failed() -> None:
    """The replica had the part of an insert that did not know its outcome yet."""
    run: dict[str, Any] = {"name": "failed-parts", "promise": "eventual", "protocol": NEW}
    times = {"time_limit_s": 12.0, "interval_s": 2.0, "duration_s": 2.0}
    assert not play(9, "old-disk-zookeeper", rate=40.0, **times, **run).accusers
