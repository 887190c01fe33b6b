"""Quorums of inserts on simulated servers, whose faults come one by one: parallel ones of 25.8, and
what becomes of a quorum when its replicas are lost."""

import pytest
from sim_by_hand import rows, table_on, wait
from sim_play import play

from harness.clients.clickhouse import DatabaseError, QuerySettings, connect
from harness.clients.replicated_table import ReplicatedTable
from harness.clusters.sim_cluster import SimCluster
from harness.core.capabilities import CanKill, CanPartition, CanPause, CanStopFetches
from harness.core.seed import Seed
from harness.core.topology import Link, Topology
from harness.core.verdict import Status
from harness.sim.bugs import bugs

PARALLEL: QuerySettings = {
    "insert_quorum": 2,
    "insert_quorum_timeout": 500,
    "insert_quorum_parallel": 1,
}
SERIAL: QuerySettings = {"insert_quorum": 2, "insert_quorum_timeout": 500}
SEQUENTIAL: QuerySettings = {"select_sequential_consistency": 1}
PENDING = pytest.raises(DatabaseError, match=r"319: .*Timeout while waiting for quorum")


def with_pending(*values: int, without: str = "") -> tuple[SimCluster, ReplicatedTable]:
    """Return a cluster on which only ch1 has these values, and the quorum of each is pending.
    `without` is a defect that the servers do not have."""
    skipped = bugs([without] if without else [])
    cluster = SimCluster(Topology.of(), Seed(1), protocol="25.8", without=skipped)
    table = table_on(cluster)
    cluster.part(CanStopFetches).stop_fetches(["ch2", "ch3"])
    for value in values:
        with PENDING:
            connect(cluster, "ch1").insert(table.name, [(0, value)], PARALLEL)
    assert len(below(cluster, table, "parallel")) == len(values)
    return cluster, table


def below(cluster: SimCluster, table: ReplicatedTable, name: str, node: str = "ch2") -> list[str]:
    """Return the names below one of the nodes of /quorum, as a replica sees them."""
    query = f"SELECT name FROM system.zookeeper WHERE path = '{table.path}/quorum/{name}'"
    return [name for (name,) in connect(cluster, node).rows(query, (str,))]


def last_part(cluster: SimCluster, table: ReplicatedTable) -> str:
    query = f"SELECT value FROM system.zookeeper WHERE path = '{table.path}/quorum' AND name = '%s'"
    (text,) = connect(cluster, "ch2").row(query % "last_part", (str,))
    return str(text)


def everywhere(cluster: SimCluster, table: ReplicatedTable) -> list[list[tuple[int, int]]]:
    return [rows(cluster, node, table) for node in cluster.topology.replicas]


def test_several_quorums_are_pending_at_a_time_and_leave_last_part_alone() -> None:
    cluster, table = with_pending(1, 2)
    before = last_part(cluster, table)
    assert "2 parallel quorum inserts are in flight" in " ".join(table.pending())
    cluster.part(CanStopFetches).start_fetches(["ch2", "ch3"])
    wait(cluster, 5)
    assert not table.pending()
    assert everywhere(cluster, table) == [[(0, 1), (0, 2)]] * 3
    assert last_part(cluster, table) == before


def test_a_sequential_read_shows_what_is_pending_as_on_25_8() -> None:
    cluster, table = with_pending(1)
    query = f"SELECT value FROM {table.name} WHERE key = 0"
    assert connect(cluster, "ch1").numbers(query, SEQUENTIAL) == (1,)
    assert connect(cluster, "ch2").numbers(query, SEQUENTIAL) == ()


def test_a_duplicate_waits_for_the_quorum_of_the_first() -> None:
    cluster, table = with_pending(1)
    with PENDING:
        connect(cluster, "ch2").insert(table.name, [(0, 1)], PARALLEL)
    connect(cluster, "ch2").insert(table.name, [(0, 1)])
    cluster.part(CanStopFetches).start_fetches(["ch2", "ch3"])
    connect(cluster, "ch2").insert(table.name, [(0, 1)], PARALLEL)
    wait(cluster, 5)
    assert everywhere(cluster, table) == [[(0, 1)]] * 3


def test_the_quorum_of_a_part_that_nobody_active_has_fails_beside_others() -> None:
    cluster, table = with_pending(1)
    cluster.part(CanKill).kill(["ch1"])
    cluster.part(CanStopFetches).start_fetches(["ch2", "ch3"])
    connect(cluster, "ch2").insert(table.name, [(0, 2)], PARALLEL)
    wait(cluster, 25)
    assert below(cluster, table, "failed_parts") == ["0_0_0_0"]
    assert below(cluster, table, "parallel") == []
    cluster.part(CanKill).start(["ch1"])
    wait(cluster, 15)
    assert not table.pending()
    assert everywhere(cluster, table) == [[(0, 2)]] * 3


def test_a_replica_that_comes_back_joins_the_quorums_of_its_parts() -> None:
    """It has announced a part and is cut off before it joins the quorum, and killed."""
    assert sum(came_back(late_ns) for late_ns in range(0, 6_000_000, 400_000)) > 0


def came_back(late_ns: int) -> bool:
    """Cut ch2 off so long after it has a part on its disk. Return whether it had announced the part
    and not joined the quorum."""
    cluster, table = with_pending(1)
    (keeper,) = cluster.topology.node("ch2").keepers
    cluster.part(CanStopFetches).start_fetches(["ch2"])

    def fetched() -> bool:
        replica = cluster.simulation.servers.replica("ch2", table.name)
        return replica is not None and bool(replica["parts"])

    assert cluster.simulation.wait_until(fetched, 20_000_000_000, 20_000)
    cluster.simulation.world.sleep(late_ns)
    cluster.part(CanPartition).cut([Link("ch2", keeper)])
    wait(cluster, 1)
    cluster.part(CanKill).kill(["ch2"])
    path = f"{table.path}/replicas/ch2/parts"
    query = f"SELECT name FROM system.zookeeper WHERE path = '{path}'"
    announced = connect(cluster, "ch1").rows(query, (str,)) != []
    pending = below(cluster, table, "parallel", "ch1") != []
    cluster.part(CanPartition).mend()
    cluster.part(CanKill).start(["ch2"])
    wait(cluster, 30)
    assert below(cluster, table, "parallel") == []
    return announced and pending


@pytest.mark.parametrize("without", ["", "pending-merged"])
def test_a_merge_keeps_the_rows_of_a_part_whose_parallel_quorum_fails(without: str) -> None:
    """A retry of its block, which is forgotten when the quorum fails, then doubles them."""
    cluster, table = with_pending(1, 2, without=without)
    connect(cluster, "ch1").command(f"OPTIMIZE TABLE {table.name} PARTITION 0 FINAL")
    cluster.part(CanKill).kill(["ch1"])
    cluster.part(CanStopFetches).start_fetches(["ch2", "ch3"])
    wait(cluster, 25)
    assert below(cluster, table, "failed_parts") == ["0_0_0_0", "0_1_1_0"]
    connect(cluster, "ch2").insert(table.name, [(0, 1)], PARALLEL)
    cluster.part(CanKill).start(["ch1"])
    wait(cluster, 60)
    assert not table.pending()
    expected = [(0, 1)] if without else [(0, 1), (0, 1), (0, 2)]
    assert everywhere(cluster, table) == [expected] * 3


@pytest.mark.parametrize("without", ["", "failed-duplicate"])
def test_a_duplicate_of_a_part_whose_quorum_fails_is_acknowledged_and_lost(without: str) -> None:
    """It waits on ch2, which has nothing to do with the failure of ch1."""
    cluster, table = with_pending(1, without=without)
    cluster.part(CanKill).kill(["ch1"])
    cluster.part(CanStopFetches).start_fetches(["ch3"])
    again = {**PARALLEL, "insert_quorum_timeout": 20_000}
    if without:
        with pytest.raises(DatabaseError, match=r"319: .*the quorum of the first insert failed"):
            connect(cluster, "ch2", timeout_s=30).insert(table.name, [(0, 1)], again)
    else:
        connect(cluster, "ch2", timeout_s=30).insert(table.name, [(0, 1)], again)
    cluster.part(CanStopFetches).start_fetches(["ch2"])
    cluster.part(CanKill).start(["ch1"])
    wait(cluster, 30)
    assert not table.pending()
    assert everywhere(cluster, table) == [[]] * 3


@pytest.mark.parametrize("protocol", ["18.16", "25.8"])
@pytest.mark.parametrize("without", ["", "clone-uncounted"])
def test_a_part_that_a_lost_replica_fetches_does_not_count_for_its_quorum(
    protocol: str, without: str
) -> None:
    """Both others miss its entry and are lost; then they fetch the part as their source has it."""
    skipped = bugs([without] if without else [])
    cluster = SimCluster(Topology.of(), Seed(1), protocol=protocol, without=skipped)
    table = table_on(cluster)
    wait(cluster, 5)
    cluster.part(CanPause).pause(["ch2", "ch3"])
    with PENDING:
        connect(cluster, "ch1").insert(table.name, [(0, 0)], SERIAL)
    for value in range(1, 60):
        connect(cluster, "ch1").insert(table.name, [(0, value)])
        wait(cluster, 1)
    cluster.part(CanPause).resume(["ch2", "ch3"])
    wait(cluster, 60)
    assert everywhere(cluster, table) == [[(0, value) for value in range(60)]] * 3
    pending = () if without else ("a quorum insert is in flight",)
    assert tuple(table.pending()) == pending


def test_18_16_does_not_know_the_setting() -> None:
    cluster = SimCluster(Topology.of(), Seed(1))
    table = table_on(cluster)
    with pytest.raises(DatabaseError, match="115: Unknown setting insert_quorum_parallel"):
        connect(cluster, "ch1").insert(table.name, [(0, 1)], PARALLEL)


@pytest.mark.parametrize(("insert", "quorum"), [("parallel", 2), ("quorum", "auto")])
def test_runs_with_parallel_quorums_keep_what_they_acknowledge(
    insert: str, quorum: int | str
) -> None:
    options = {"insert": insert, "quorum": quorum, "read": "plain", "promise": "eventual"}
    played = play(3, "kill-clickhouse", protocol="25.8", rate=60.0, **options)
    assert played.status is Status.VALID, played.accusers
