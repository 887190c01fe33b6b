"""One suite for simulated clusters, those of containers, and those that somebody else runs, which
have no faults. Sim takes 2 s, containers about a minute."""

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import pytest
from cluster_pool import Shape
from real_servers import THREE, seen_on

from harness.clients.clickhouse import DatabaseError, connect
from harness.clients.replicated_table import ReplicatedTable, TableSchema
from harness.clusters.docker_cluster import DockerCluster
from harness.clusters.external import ExternalCluster
from harness.clusters.sim_cluster import SimCluster
from harness.core.capabilities import (
    CanDegradeLinks,
    CanKill,
    CanPartition,
    CanPause,
    CanRestart,
    CanStopFetches,
    ReportsLeader,
    ReportsTableLeader,
)
from harness.core.link_quality import DEFAULTS, LinkFault
from harness.core.outcomes import CLIENT_TIMEOUT, NETWORK, UNSENT
from harness.core.seed import Seed
from harness.core.topology import Link

SCHEMA = TableSchema("key Int64, value Int64", "value", "key", {})
SEQUENTIAL = {"select_sequential_consistency": 1}
QUORUM = {"insert_quorum": 2, "insert_quorum_timeout": 10_000}

CAPABILITIES = (
    CanPartition,
    CanDegradeLinks,
    CanKill,
    CanRestart,
    CanPause,
    ReportsLeader,
    ReportsTableLeader,
    CanStopFetches,
)

AnyCluster = DockerCluster | SimCluster
Served = AnyCluster | ExternalCluster

SHAPE = Shape()
ON_SERVERS = pytest.mark.containers
FIXTURE_OF = {"sim": "simulated", "docker": "servers", "external": "servers"}


@pytest.fixture(scope="module")
def simulated() -> Iterator[SimCluster]:
    made = SimCluster(THREE, Seed(1))
    made.up()
    yield made
    made.down()


def healed(request: pytest.FixtureRequest) -> AnyCluster:
    """Return the cluster that a fixture's parameter names, healed from the previous test."""
    running: AnyCluster = request.getfixturevalue(FIXTURE_OF[request.param])
    running.part(CanPartition).mend()
    running.part(CanDegradeLinks).restore_links()
    running.part(CanPause).resume(THREE.names)
    running.part(CanKill).start(THREE.keepers)
    running.part(CanKill).start(THREE.replicas)
    running.part(CanStopFetches).start_fetches(THREE.replicas)
    until(running, lambda: not running.unready(), "every server serves", 60)
    return running


@pytest.fixture(params=["sim", pytest.param("docker", marks=ON_SERVERS)])
def cluster(request: pytest.FixtureRequest) -> AnyCluster:
    """Return a cluster that has faults."""
    return healed(request)


@pytest.fixture(
    params=[
        "sim",
        pytest.param("docker", marks=ON_SERVERS),
        pytest.param("external", marks=ON_SERVERS),
    ]
)
def served(request: pytest.FixtureRequest) -> Served:
    """Return any cluster; the one that somebody else runs is that of containers."""
    found = healed(request)
    if request.param != "external":
        return found
    return ExternalCluster("external", THREE, {name: found.endpoint(name) for name in THREE.names})


def created(cluster: Served, request: pytest.FixtureRequest) -> Iterator[ReplicatedTable]:
    token = "".join(c if c.isalnum() else "_" for c in request.node.name)
    made = ReplicatedTable(cluster, token, SCHEMA)
    made.create()
    yield made
    made.close()


@pytest.fixture
def table(cluster: AnyCluster, request: pytest.FixtureRequest) -> Iterator[ReplicatedTable]:
    yield from created(cluster, request)


@pytest.fixture
def served_table(served: Served, request: pytest.FixtureRequest) -> Iterator[ReplicatedTable]:
    yield from created(served, request)


def until(cluster: Served, seen: Callable[[], bool], what: str, within_s: float = 30) -> None:
    """Wait on the cluster's own time; a server that refuses counts as not seen yet."""
    clock = cluster.runtime.clock()

    def now() -> bool:
        try:
            return seen()
        except DatabaseError:
            return False

    while not now():
        assert clock.now_ns() < within_s * 1e9, f"not within {within_s} s: {what}"
        clock.sleep_until(clock.now_ns() + 100_000_000)


class on:  # noqa: N801 # reads as a word: on(cluster, "ch1").insert(…)
    """One statement, on a connection of its own."""

    def __init__(self, cluster: Served, node: str, timeout_s: float = 3) -> None:
        self._connect = partial(connect, cluster, node, timeout_s=timeout_s)

    def insert(self, table: str, rows: list[tuple[int, int]], *settings: dict[str, int]) -> None:
        with closing(self._connect()) as connection:
            connection.insert(table, rows, *settings)

    def command(self, sql: str) -> None:
        with closing(self._connect()) as connection:
            connection.command(sql)

    def numbers(self, sql: str, settings: dict[str, int]) -> tuple[int, ...]:
        with closing(self._connect()) as connection:
            return connection.numbers(sql, settings)

    def rows(self, sql: str, *shape: type) -> list[tuple[Any, ...]]:
        with closing(self._connect()) as connection:
            return connection.rows(sql, shape)


def values(cluster: Served, node: str, table: ReplicatedTable, **settings: int) -> list[int]:
    sql = f"SELECT value FROM {table.name} WHERE key = 0"
    return sorted(on(cluster, node).numbers(sql, settings))


def fails(act: Callable[[], object]) -> int:
    """Return the error code of a call that must fail."""
    with pytest.raises(DatabaseError) as error:
        act()
    return error.value.code


def around(name: str) -> set[Link]:
    others = [other for other in THREE.names if other != name]
    return {Link(name, other) for other in others} | {Link(other, name) for other in others}


def test_it_has_every_capability(cluster: AnyCluster) -> None:
    for capability in CAPABILITIES:
        assert isinstance(cluster.part(capability), capability)


def test_one_leads_and_all_serve(served: Served) -> None:
    assert served.part(ReportsLeader).leader() in THREE.keepers
    assert served.part(ReportsLeader).serving() == frozenset(THREE.keepers)
    assert served.versions().keys() == set(THREE.names)


def test_a_cut_has_a_direction_and_ends(cluster: AnyCluster) -> None:
    cluster.part(CanPartition).cut([Link("ch1", "ch2")])
    assert cluster.part(CanPartition).reachable([Link("ch1", "ch2"), Link("ch2", "ch3")]) == {
        Link("ch1", "ch2"): False,
        Link("ch2", "ch3"): True,
    }
    cluster.part(CanPartition).mend()
    cluster.part(CanPartition).mend()
    assert all(cluster.part(CanPartition).reachable(THREE.links()).values())


@pytest.mark.parametrize("fault", LinkFault)
def test_the_links_of_one_server_are_degraded_both_ways_until_that_ends(
    cluster: AnyCluster, fault: LinkFault
) -> None:
    assert cluster.part(CanDegradeLinks).why_unavailable() is None
    cluster.part(CanDegradeLinks).degrade_links(around("zk2"), fault, DEFAULTS[fault], seed=1)
    unseen = around("zk2")

    def every_link() -> bool:
        unseen.difference_update(seen_on(cluster, unseen, fault))
        return not unseen

    until(cluster, every_link, "each of its links shows the fault")
    beside = around("ch1") - around("zk2")
    until(cluster, lambda: not seen_on(cluster, beside, fault), "no other link does")
    cluster.part(CanDegradeLinks).restore_links([fault])
    cluster.part(CanDegradeLinks).restore_links([fault])
    until(cluster, lambda: not seen_on(cluster, around("zk2"), fault), "it is over")


def test_a_killed_replica_refuses_and_keeps_its_disk(
    cluster: AnyCluster, table: ReplicatedTable
) -> None:
    on(cluster, "ch1").insert(table.name, [(0, 1)])
    cluster.part(CanKill).kill(["ch1"])
    assert not cluster.part(CanKill).running("ch1")
    assert fails(lambda: values(cluster, "ch1", table)) == UNSENT
    cluster.part(CanKill).start(["ch1"])
    assert cluster.part(CanKill).running("ch1")
    assert values(cluster, "ch1", table) == [1]


def test_a_paused_replica_answers_nothing_until_it_goes_on(
    cluster: AnyCluster, table: ReplicatedTable
) -> None:
    cluster.part(CanPause).pause(["ch2"])
    assert cluster.part(CanPause).paused("ch2")
    assert cluster.part(CanKill).running("ch2")
    assert fails(lambda: values(cluster, "ch2", table)) in (UNSENT, CLIENT_TIMEOUT, NETWORK)
    cluster.part(CanPause).resume(["ch2"])
    assert not cluster.part(CanPause).paused("ch2")
    assert values(cluster, "ch2", table) == []


def test_a_restart_comes_back_with_its_rows(cluster: AnyCluster, table: ReplicatedTable) -> None:
    on(cluster, "ch3").insert(table.name, [(0, 1)])
    cluster.part(CanRestart).restart(["ch3"])
    assert values(cluster, "ch3", table) == [1]


def test_another_leads_when_the_leader_is_killed(cluster: AnyCluster) -> None:
    leaders, servers = cluster.part(ReportsLeader), cluster.part(CanKill)
    first = leaders.leader()
    assert first is not None
    servers.kill([first])
    until(cluster, lambda: leaders.leader() not in (None, first), "another leader")
    servers.start([first])
    until(cluster, lambda: leaders.serving() == frozenset(THREE.keepers), "all serve")


def test_another_replica_leads_the_table_when_its_leader_is_killed(
    cluster: AnyCluster, table: ReplicatedTable
) -> None:
    leaders, servers = cluster.part(ReportsTableLeader), cluster.part(CanKill)
    until(cluster, lambda: leaders.table_leader() is not None, "a replica leads")
    first = leaders.table_leader()
    assert first in THREE.replicas
    assert first is not None
    servers.kill([first])
    until(cluster, lambda: leaders.table_leader() not in (None, first), "another replica leads")
    servers.start([first])


def test_an_insert_reaches_every_replica(served: Served, served_table: ReplicatedTable) -> None:
    on(served, "ch1").insert(served_table.name, [(0, 1)])
    for node in THREE.replicas:
        until(served, lambda n=node: values(served, n, served_table) == [1], f"{node} has it")
    until(served, lambda: not served_table.pending(), "at rest")
    states = served_table.observe()
    assert [states[node]["rows"] for node in THREE.replicas] == [1, 1, 1]


def test_a_block_that_is_inserted_twice_is_there_once(
    served: Served, served_table: ReplicatedTable
) -> None:
    for node in ("ch1", "ch1", "ch2"):
        on(served, node).insert(served_table.name, [(0, 5)])
    until(served, lambda: not served_table.pending(), "at rest")
    assert [values(served, node, served_table) for node in THREE.replicas] == [[5]] * 3


def test_a_select_may_be_inserted_and_its_rows_counted(
    served: Served, served_table: ReplicatedTable
) -> None:
    on(served, "ch1").command(f"INSERT INTO {served_table.name} SELECT 0, 7 FROM numbers(3)")
    until(served, lambda: values(served, "ch2", served_table) == [7, 7, 7], "ch2 has it")
    sql = "SELECT value, count(), any(key) FROM {} WHERE key = 0 GROUP BY value ORDER BY value"
    assert on(served, "ch2").rows(sql.format(served_table.name), int, int, int) == [(7, 3, 0)]


def test_a_mutation_is_unfinished_until_every_replica_has_done_it(
    served: Served, served_table: ReplicatedTable
) -> None:
    for value in (1, 2):
        on(served, "ch1").insert(served_table.name, [(0, value)])
    until(served, lambda: not served_table.pending(), "at rest")
    on(served, "ch2").command(f"ALTER TABLE {served_table.name} DELETE WHERE value = 1")
    until(served, lambda: not served_table.unfinished_mutations(), "the mutation")
    assert [values(served, node, served_table) for node in THREE.replicas] == [[2]] * 3


def test_a_quorum_that_is_not_reached_ends_unknown_and_refuses_the_next(
    cluster: AnyCluster, table: ReplicatedTable
) -> None:
    cluster.part(CanStopFetches).stop_fetches(["ch2", "ch3"])
    short = {"insert_quorum": 2, "insert_quorum_timeout": 500}
    assert fails(lambda: on(cluster, "ch1").insert(table.name, [(0, 1)], short)) == 319
    assert fails(lambda: on(cluster, "ch2").insert(table.name, [(0, 2)], short)) == 286
    assert values(cluster, "ch1", table) == [1], "a plain select shows it"
    assert values(cluster, "ch1", table, **SEQUENTIAL) == [], "a sequential one does not"
    cluster.part(CanStopFetches).start_fetches(["ch2", "ch3"])
    until(cluster, lambda: values(cluster, "ch1", table, **SEQUENTIAL) == [1], "the quorum")


def test_a_replica_that_lacks_the_last_quorum_part_refuses(
    cluster: AnyCluster, table: ReplicatedTable
) -> None:
    cluster.part(CanStopFetches).stop_fetches(["ch3"])
    on(cluster, "ch1").insert(table.name, [(0, 1)], QUORUM)
    assert values(cluster, "ch1", table, **SEQUENTIAL) == [1]

    def refused() -> bool:
        try:
            values(cluster, "ch3", table, **SEQUENTIAL)
        except DatabaseError as error:
            return error.code == 289
        return False

    until(cluster, refused, "ch3 knows that it lacks a part")
    assert values(cluster, "ch3", table) == []
    cluster.part(CanStopFetches).start_fetches(["ch3"])
    until(cluster, lambda: values(cluster, "ch3", table, **SEQUENTIAL) == [1], "the part")


def test_stopped_fetches_are_seen(cluster: AnyCluster, table: ReplicatedTable) -> None:
    cluster.part(CanStopFetches).stop_fetches(["ch2"])
    assert not cluster.part(CanStopFetches).fetching("ch2")
    on(cluster, "ch1").insert(table.name, [(0, 1)])
    until(cluster, lambda: values(cluster, "ch3", table) == [1], "ch3 has it")
    assert values(cluster, "ch2", table) == []
    cluster.part(CanStopFetches).start_fetches(["ch2"])
    assert cluster.part(CanStopFetches).fetching("ch2")
    until(cluster, lambda: values(cluster, "ch2", table) == [1], "ch2 has it")


def test_without_zookeeper_only_plain_selects_are_answered(
    cluster: AnyCluster, table: ReplicatedTable
) -> None:
    on(cluster, "ch1").insert(table.name, [(0, 1)], QUORUM)
    cluster.part(CanPartition).cut(around("ch1"))
    # A server of today tries again for longer than the client waits.
    fails(lambda: on(cluster, "ch1", 10).insert(table.name, [(0, 2)]))
    assert fails(lambda: values(cluster, "ch1", table, **SEQUENTIAL)) > 0
    assert values(cluster, "ch1", table)[0] == 1
    cluster.part(CanPartition).mend()
    until(cluster, lambda: not table.pending(), "at rest", 60)
