"""Clocks and resources of simulated servers: each fault is seen, does what it does on real servers,
and is over when it has ended. Planted bugs that only these faults find."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from sim_by_hand import planted, replica_of, rows, table_on, wait
from sim_play import play

from harness.clients.clickhouse import DatabaseError, connect
from harness.clusters.sim_cluster import SimCluster
from harness.core import clock_fault
from harness.core.capabilities import (
    CanKill,
    CanPartition,
    CanPause,
    CanRestart,
    CanSetClocks,
    CanStarve,
    CanStopFetches,
)
from harness.core.clock_fault import ClockFault, ClockReading
from harness.core.resources import Resource
from harness.core.seed import Seed
from harness.core.topology import Link
from harness.core.verdict import Status
from nemesis.catalogue import parse_nemesis
from nemesis.composed import check_capabilities
from nemesis.family import Watch
from nemesis.options import FaultOptions

SEEN_S = 60.0
NAMES = (*(name for name in clock_fault.VARIANTS if name != "clock-skew"), *Resource)
UNSENT = -2
OPEN = 76


@pytest.mark.parametrize("protocol", ["18.16", "25.8"])
@pytest.mark.parametrize("name", NAMES)
def test_a_fault_bites_and_heals_on_every_server(name: str, protocol: str) -> None:
    cluster = planted("", protocol)
    table_on(cluster)
    roles = ("",) if name == Resource.CONNECTIONS else ("-clickhouse", "-zookeeper")
    for role in roles:
        options = FaultOptions(targets=("one",))
        nemesis = parse_nemesis(f"{name}{role}", cluster.topology, Seed(3), options)
        check_capabilities(nemesis, cluster)
        (family,) = nemesis.families
        watch = Watch(SEEN_S, clock=cluster.runtime.clock)
        done = family.begin(cluster, family.plan(Seed(3), 0), watch)
        assert done["nodes"]
        family.end(cluster, watch)
        assert not family.broken(cluster)
        assert cluster.simulation.wait_until(lambda: not cluster.unready(), 30_000_000_000)


def test_what_was_interrupted_is_undone() -> None:
    cluster = planted("")
    table_on(cluster)
    text = "clock-jump,cpu-limit,dns-failure"
    nemesis = parse_nemesis(text, cluster.topology, Seed(3), FaultOptions(targets=("all",)))
    watch = Watch(SEEN_S, clock=cluster.runtime.clock)
    for family in reversed(nemesis.families):
        family.begin(cluster, family.plan(Seed(3), 0), watch)
    nemesis.heal(cluster)
    assert [reason for family in nemesis.families for reason in family.broken(cluster)] == []


# --- clocks -------------------------------------------------------------------------------------


def test_a_replica_says_its_own_time_and_a_paused_one_does_not() -> None:
    cluster = planted("", "25.8")
    cluster.up()
    cluster.part(CanSetClocks).set_clocks(["ch1"], ClockFault(offset_s=-60))
    first, second = cluster.part(CanSetClocks).read_clocks(["ch1", "ch2"]).values()
    assert isinstance(first, ClockReading)
    assert isinstance(second, ClockReading)
    assert first.least_ns <= -60e9 <= first.most_ns
    assert second.least_ns <= 0 <= second.most_ns
    cluster.part(CanPause).pause(["ch1"])
    assert cluster.part(CanSetClocks).read_clocks(["ch1"])["ch1"] == (
        "does not say its time: -2: ch1: no answer to a ping"
    )


@pytest.mark.parametrize("bug", ["", "old-parts-by-wall"])
def test_the_age_of_outdated_parts_is_that_of_the_replicas_clock(bug: str) -> None:
    """This needs the repaired protocol, because the servers have the bug."""
    cluster = planted(bug, "repaired")
    table = table_on(cluster)
    for value in range(3):
        connect(cluster, "ch1").insert(table.name, [(0, value)])
    wait(cluster, 1)
    connect(cluster, "ch1").command(f"OPTIMIZE TABLE {table.name} PARTITION 0 FINAL")
    wait(cluster, 1)
    cluster.part(CanSetClocks).set_clocks(["ch1"], ClockFault(offset_s=60))
    wait(cluster, 3)
    parts = {n: replica_of(cluster, n, table)["parts"] for n in cluster.topology.replicas}
    on = {node: len(found) for node, found in parts.items()}
    assert on == {"ch1": 1 if bug else 4, "ch2": 4, "ch3": 4}
    assert rows(cluster, "ch1", table) == rows(cluster, "ch2", table)


@pytest.mark.parametrize(("rate", "least_s", "most_s"), [(1, 0.5, 0.7), (0.5, 1, 1.2), (2, 0, 0.4)])
def test_timers_follow_the_rate_of_the_clock(rate: float, least_s: float, most_s: float) -> None:
    cluster = planted("")
    table = table_on(cluster)
    cluster.part(CanStopFetches).stop_fetches(["ch2", "ch3"])
    cluster.part(CanSetClocks).set_clocks(["ch1"], ClockFault(rate=rate))
    before_ns = cluster.simulation.world.now_ns
    quorum = {"insert_quorum": 2, "insert_quorum_timeout": 500}
    with pytest.raises(DatabaseError, match="319"):
        connect(cluster, "ch1").insert(table.name, [(0, 1)], quorum)
    assert least_s <= (cluster.simulation.world.now_ns - before_ns) / 1e9 <= most_s


# --- resources ----------------------------------------------------------------------------------


def test_a_server_that_lacks_memory_ends_whenever_it_is_started() -> None:
    cluster = planted("")
    cluster.up()
    cluster.part(CanStarve).starve(["ch1", "zk1"], Resource.MEMORY)
    cluster.part(CanKill).start(["ch1", "zk1"], answers=False)
    assert not cluster.part(CanKill).running("ch1")
    assert not cluster.part(CanKill).running("zk1")
    assert set(cluster.part(CanStarve).shortages(["ch1", "zk1"], Resource.MEMORY).values()) == {
        "it was killed for its memory"
    }
    cluster.part(CanStarve).feed(["ch1", "zk1"], Resource.MEMORY)
    cluster.part(CanKill).start(["ch1", "zk1"])
    assert cluster.part(CanKill).running("ch1")
    assert cluster.part(CanStarve).shortages(["ch1", "zk1"], Resource.MEMORY) == {
        "ch1": None,
        "zk1": None,
    }


def test_a_server_with_little_cpu_time_works_in_a_part_of_each_period() -> None:
    cluster = planted("")
    table = table_on(cluster)
    own = connect(cluster, "ch1")
    own.insert(table.name, [(0, 0)])
    before_ns = cluster.simulation.world.now_ns
    cluster.part(CanStarve).starve(["ch1"], Resource.CPU)
    own.insert(table.name, [(0, 1)])
    assert cluster.simulation.world.now_ns - before_ns > 200_000_000
    assert cluster.part(CanStarve).shortages(["ch1", "ch2"], Resource.CPU)["ch2"] is None
    cluster.part(CanPause).pause(["ch1"])
    cluster.part(CanStarve).feed(["ch1"], Resource.CPU)
    assert cluster.part(CanPause).paused("ch1"), "the CPU does not end a pause"
    cluster.part(CanPause).resume(["ch1"])
    assert rows(cluster, "ch1", table) == [(0, 0), (0, 1)]


@pytest.mark.parametrize("resource", [Resource.CONNECTIONS, Resource.FILES])
def test_old_connections_stay_and_new_ones_are_refused(resource: Resource) -> None:
    cluster = planted("")
    cluster.up()
    old = connect(cluster, "ch1")
    old.numbers("SELECT 1")
    cluster.part(CanStarve).starve(["ch1"], resource)
    assert old.numbers("SELECT 1") == (1,)
    with pytest.raises(DatabaseError) as error:
        connect(cluster, "ch1").numbers("SELECT 1")
    assert error.value.code == UNSENT
    cluster.part(CanRestart).restart(["ch1"])
    assert cluster.part(CanStarve).shortages(["ch1"], resource) == {"ch1": None}, (
        "it ended with the process"
    )


def test_a_server_without_descriptors_opens_no_part_and_no_session() -> None:
    cluster = planted("", "repaired")
    table = table_on(cluster)
    own = connect(cluster, "ch1")
    own.insert(table.name, [(0, 1)])
    wait(cluster, 1)
    cluster.part(CanStarve).starve(["ch1"], Resource.FILES)
    for call in (lambda: own.insert(table.name, [(0, 2)]), lambda: rows_of(own, table.name)):
        with pytest.raises(DatabaseError) as error:
            call()
        assert error.value.code == OPEN
    assert rows(cluster, "ch2", table) == [(0, 1)]
    lose_session(cluster, "ch1")
    with pytest.raises(DatabaseError):
        own.insert(table.name, [(0, 3)])
    cluster.part(CanStarve).feed(["ch1"], Resource.FILES)
    wait(cluster, 15)
    own.insert(table.name, [(0, 4)])
    wait(cluster, 1)
    assert rows(cluster, "ch1", table) == rows(cluster, "ch2", table) == [(0, 1), (0, 4)]


def rows_of(connection: Any, table: str) -> object:
    return list(connection.rows(f"SELECT key, value FROM {table}", (int, int)))


def lose_session(cluster: SimCluster, node: str) -> None:
    """Cut a replica off from its ZooKeeper server until its session has gone."""
    (keeper,) = cluster.topology.node(node).keepers
    cluster.part(CanPartition).cut([Link(node, keeper), Link(keeper, node)])
    wait(cluster, 9)
    cluster.part(CanPartition).mend()
    wait(cluster, 3)


def test_a_server_that_cannot_look_up_names_opens_no_session() -> None:
    cluster = planted("")
    table = table_on(cluster)
    cluster.part(CanStarve).starve(["ch1"], Resource.NAMES)
    wait(cluster, 7)
    connect(cluster, "ch1").insert(table.name, [(0, 1)])  # its session is older
    lose_session(cluster, "ch1")
    with pytest.raises(DatabaseError, match=r"242|225"):
        connect(cluster, "ch1").insert(table.name, [(0, 2)])
    cluster.part(CanStarve).feed(["ch1"], Resource.NAMES)
    wait(cluster, 15)
    connect(cluster, "ch1").insert(table.name, [(0, 3)])


# --- planted bugs -------------------------------------------------------------------------------


@pytest.mark.parametrize("bug", ["", "shortage-as-broken"])
def test_a_part_that_cannot_be_opened_for_want_of_descriptors_stays(bug: str) -> None:
    """This needs the repaired protocol, because 18.16.1 has the bug."""
    cluster = planted(bug, "repaired")
    table = table_on(cluster)
    own = connect(cluster, "ch1")
    cluster.part(CanStopFetches).stop_fetches(["ch2", "ch3"])
    own.insert(table.name, [(0, 1)])
    cluster.part(CanStarve).starve(["ch1"], Resource.FILES)
    with pytest.raises(DatabaseError):
        rows_of(own, table.name)
    wait(cluster, 1)
    cluster.part(CanStopFetches).start_fetches(["ch2", "ch3"])
    wait(cluster, 15)
    cluster.part(CanStarve).feed(["ch1"], Resource.FILES)
    wait(cluster, 40)
    assert not table.pending()
    found = [rows(cluster, node, table) for node in cluster.topology.replicas]
    assert found == [[] if bug else [(0, 1)]] * 3


@dataclass(frozen=True)
class Case:
    """Runs of a workload under a nemesis, one of which shows a bug."""

    by: str
    nemesis: str
    name: str
    protocol: str
    seeds: tuple[int, ...] = (1, 2, 3)
    options: dict[str, Any] = field(default_factory=dict)

    def accusers(self, bug: str, nemesis: str, seed: int) -> set[str]:
        options = {"promise": "eventual", "interval_s": 0.5, **self.options}
        run = play(seed, nemesis, bug=bug, name=self.name, protocol=self.protocol, **options)
        return run.accusers


SLOW = {"big_rows": 100, "rate": 4.0, "time_limit_s": 40.0}
CASES = {
    "dedup-own-clock": Case(
        "dedup",
        "clock-jump-clickhouse",
        "dedup",
        "repaired-25.8",
        options={"window_s": 8, "ops_per_s": 30.0, "time_limit_s": 40.0},
    ),
    "shed-quorum": Case(
        "linearizable",
        "cpu-limit-clickhouse",
        "quorum-set",
        "repaired",
        options={"promise": "linearizable", "read": "linearizable", "rate": 100.0},
    ),
    "shortage-as-broken": Case(
        "durability",
        "file-limit-clickhouse,slow-fetches",
        "quorum-durability",
        "repaired-25.8",
        options={"rate": 60.0, "time_limit_s": 20.0, "duration_s": 2.0},
    ),
    "closed-as-lost": Case("set-full", "connection-limit", "replication", "repaired", options=SLOW),
    "start-unfinished": Case(
        "durability",
        "memory-limit-clickhouse",
        "quorum-durability",
        "repaired-25.8",
        options={"rate": 15.0, "time_limit_s": 15.0, "interval_s": 2.0, "duration_s": 3.0},
    ),
    "unresolved-as-dead": Case(
        "set-full", "dns-failure-clickhouse", "replication", "repaired", options=SLOW
    ),
}


@pytest.mark.parametrize("bug", CASES)
def test_a_planted_bug_is_found_under_its_nemesis_alone(bug: str) -> None:
    case = CASES[bug]
    found = next((s for s in case.seeds if case.by in case.accusers(bug, case.nemesis, s)), None)
    assert found is not None
    assert case.accusers("", case.nemesis, found) == set()
    for other in ("none", "kill", "pause", "partition"):
        assert case.accusers(bug, other, found) == set(), other


@pytest.mark.parametrize("protocol", ["repaired", "repaired-25.8"])
def test_a_run_under_every_fault_repeats_itself(protocol: str) -> None:
    options = {"protocol": protocol, "rate": 60.0, "time_limit_s": 6.0, "interval_s": 0.5}
    first, again = (play(5, ",".join(NAMES), duration_s=1, **options) for _ in range(2))
    assert first.journal == again.journal
    assert first.status is not Status.INVALID
