"""Inserts whose answer is lost, and that are made again on another replica."""

import pytest
from sim_by_hand import replica_of, rows, table_on, wait

from harness.clients.clickhouse import DatabaseError, connect, failed_write
from harness.clusters.sim_cluster import SimCluster
from harness.core.capabilities import CanPartition, CanStopFetches
from harness.core.op import Kind
from harness.core.seed import Seed
from harness.core.topology import Link, Topology
from harness.sim.bugs import bugs


@pytest.mark.parametrize("without", ["", "lost-retry"])
def test_an_insert_that_is_acknowledged_on_its_retry_is_read(without: str) -> None:
    """The answer to the commit is lost, and the time of the query ends before the insert knows. No
    other replica has fetched the part by then."""
    moments_ns = range(3_000_000, 8_400_000, 300_000)
    tried = (retried_elsewhere(without, ns) for ns in moments_ns)
    shown = [found for found in tried if found is not None]
    assert shown
    assert all(found == ([[(0, 1)]] * 3 if without else [[]] * 3) for found in shown)


def retried_elsewhere(without: str, after_ns: int) -> list[list[tuple[int, int]]] | None:
    """Lose the answers of ZooKeeper to ch1 soon after an insert was called, and insert its row
    again on ch2. Return the rows of each replica at rest; None if the first insert was answered or
    was not committed."""
    skipped = bugs([without] if without else [])
    cluster = SimCluster(Topology.of(), Seed(1), protocol="25.8", without=skipped)
    table = table_on(cluster)
    cluster.part(CanStopFetches).stop_fetches(["ch2", "ch3"])
    (keeper,) = cluster.topology.node("ch1").keepers
    cluster.simulation.world.after(
        after_ns, lambda: cluster.part(CanPartition).cut([Link(keeper, "ch1")])
    )
    with pytest.raises(DatabaseError) as error:
        connect(cluster, "ch1").insert(table.name, [(0, 1)], {"max_execution_time": 2})
    cluster.part(CanPartition).mend()
    listed = f"SELECT count() FROM system.zookeeper WHERE path = '{table.path}/log'"
    committed = connect(cluster, "ch2").numbers(listed) != (0,)
    if not committed or error.value.code not in (159, 319):
        return None
    connect(cluster, "ch2").insert(table.name, [(0, 1)])
    wait(cluster, 5)
    cluster.part(CanStopFetches).start_fetches(["ch2", "ch3"])
    wait(cluster, 60)
    return [rows(cluster, node, table) for node in cluster.topology.replicas]


@pytest.mark.parametrize(
    ("begun_s", "error"),
    [(6.5, "242: "), (7.0, "999: .*CONNECTIONLOSS"), (7.4, "999: .*SESSIONEXPIRED")],
)
def test_an_insert_that_was_tried_in_vain_may_have_been_committed(
    begun_s: float, error: str
) -> None:
    """The last try meets a replica that is read-only, loses its connection, or finds the session
    expired, which the replica notices within a second. It is never 225, which says that nothing was
    tried."""
    with pytest.raises(DatabaseError, match=error) as ended:
        try_in_vain(begun_s)
    assert failed_write(ended.value).kind is Kind.INFO


def try_in_vain(begun_s: float) -> None:
    """Insert on ch1 this long after it was cut off from ZooKeeper. It is cut off again as soon as
    it has a new session."""
    cluster = SimCluster(Topology.of(), Seed(1), protocol="25.8")
    table = table_on(cluster)
    (keeper,) = cluster.topology.node("ch1").keepers
    network, world = cluster.part(CanPartition), cluster.simulation.world
    away = [Link("ch1", keeper), Link(keeper, "ch1")]

    def cut_when_started() -> None:
        if replica_of(cluster, "ch1", table)["readonly"]:
            world.after(1_000_000, cut_when_started)
        else:
            network.cut(away)

    network.cut(away)
    world.after(8_000_000_000, network.mend)
    world.after(8_000_000_000, cut_when_started)
    wait(cluster, begun_s)
    connect(cluster, "ch1", timeout_s=60).insert(table.name, [(0, 1)])
