"""Disks of simulated servers: each fault is seen and heals, a power cut takes what is not durable,
and only faults of disks find the bugs that are planted for them. Some 20 s."""

import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from sim_by_hand import planted, replica_of, rows, table_on, wait
from sim_play import play

from compose.settings import Fsync
from harness.clients.clickhouse import DatabaseError, connect
from harness.clients.replicated_table import ReplicatedTable, TableSchema
from harness.clusters.sim_cluster import SimCluster
from harness.core.capabilities import (
    CanCutPower,
    CanKill,
    CanRestart,
    CanStopFetches,
    HasFaultyDisks,
    ReportsLeader,
)
from harness.core.op import NEMESIS, Json, Kind, Op
from harness.core.seed import Seed
from harness.core.topology import Topology
from nemesis.catalogue import parse_nemesis
from nemesis.composed import Composed, check_capabilities
from nemesis.disk import FAULTS, SLOW_MS
from nemesis.options import FaultOptions

THREE = Topology.of()


def nemesis_of(text: str) -> Composed:
    return parse_nemesis(text, THREE, Seed(5), FaultOptions())


def call(cluster: SimCluster, nemesis: Composed, edge: str, **plan: Json) -> dict[str, Json]:
    (family,) = nemesis.families
    value: dict[str, Json] = {"fault": 1, "edge": edge, **family.plan(Seed(1), 0), **plan}
    op = Op(index=0, process=NEMESIS, kind=Kind.INVOKE, f=family.f, time_ns=0, value=value)
    done = nemesis.invoke(cluster, op)
    assert done.kind is Kind.OK, done.error
    assert isinstance(done.value, dict)
    return done.value


@pytest.mark.parametrize(
    "name",
    [
        f"{entry.name}-{role}-one" if role else entry.name
        for entry in FAULTS
        if entry.name != "disk-eio"
        for role in (("clickhouse", "zookeeper") if entry.aim.roles else ("",))
    ],
)
def test_a_fault_is_seen_and_healed(name: str) -> None:
    cluster = planted("")
    table = table_on(cluster)
    connect(cluster, "ch1").insert(table.name, [(0, 1)])
    wait(cluster, 1)
    nemesis = nemesis_of(name)
    check_capabilities(nemesis, cluster)
    begun = call(cluster, nemesis, "begin")
    assert begun["text"]
    assert isinstance(begun["nodes"], list)
    (node,) = begun["nodes"]
    wait(cluster, 1)
    call(cluster, nemesis, "end")
    nemesis.heal(cluster)
    for met in cluster.part(HasFaultyDisks).probe_disk(str(node)).values():
        assert met == {"error": "", "ms": 0}
    assert cluster.part(HasFaultyDisks).disk_state(str(node))["hits"] == {}
    wait(cluster, 15)
    assert not cluster.unready()
    assert rows(cluster, "ch3", table) == [(0, 1)]


def test_a_probe_meets_what_servers_meet() -> None:
    cluster = planted("")
    table_on(cluster)
    cluster.part(HasFaultyDisks).set_disk_fault(["ch1"], "one", {"kind": "full"})
    cluster.part(HasFaultyDisks).set_disk_fault(
        ["ch1"], "two", {"kind": "slow", "delay_ms": SLOW_MS}
    )
    met = cluster.part(HasFaultyDisks).probe_disk("ch1")
    assert met["write"] == {"error": "ENOSPC", "ms": 0}
    assert (met["sync"], met["read"]) == ({"error": "", "ms": 20}, {"error": "", "ms": 20})
    assert cluster.part(HasFaultyDisks).disk_state("ch1")["hits"] == {"one": 0, "two": 0}
    assert cluster.part(HasFaultyDisks).probe_disk("ch2")["write"] == {"error": "", "ms": 0}
    cluster.part(HasFaultyDisks).clear_disk_fault(["ch1"], "one")
    assert cluster.part(HasFaultyDisks).probe_disk("ch1")["write"] == {"error": "", "ms": 20}


@pytest.mark.parametrize(
    ("protocol", "kind", "code"),
    [
        ("18.16", "full", 243),
        ("18.16", "readonly", 1000),
        ("25.8", "readonly", 1001),
        ("25.8", "fail-writes", 75),
    ],
)
def test_an_insert_that_cannot_be_written_is_refused(protocol: str, kind: str, code: int) -> None:
    cluster = planted("", protocol)
    table = table_on(cluster)
    cluster.part(HasFaultyDisks).set_disk_fault(["ch1"], "disk", {"kind": kind})
    with pytest.raises(DatabaseError) as refused:
        connect(cluster, "ch1").insert(table.name, [(0, 1)])
    assert refused.value.code == code
    # Nor can a fetch be written, which is tried again.
    connect(cluster, "ch2").insert(table.name, [(0, 2)])
    wait(cluster, 2)
    assert (rows(cluster, "ch1", table), rows(cluster, "ch3", table)) == ([], [(0, 2)])
    hits = cluster.part(HasFaultyDisks).disk_state("ch1")["hits"]
    assert isinstance(hits, dict)
    assert hits["disk"] >= 2
    cluster.part(HasFaultyDisks).clear_disk_fault(["ch1"], "disk")
    wait(cluster, 15)
    assert rows(cluster, "ch1", table) == [(0, 2)]


@pytest.mark.parametrize("protocol", ["18.16", "25.8"])
def test_a_part_that_cannot_be_read_is_fetched_again(protocol: str) -> None:
    cluster = planted("", protocol)
    table = table_on(cluster)
    connect(cluster, "ch1").insert(table.name, [(0, 1)])
    wait(cluster, 1)
    cluster.part(HasFaultyDisks).set_disk_fault(["ch2"], "disk", {"kind": "fail-reads"})
    with pytest.raises(DatabaseError) as refused:
        rows(cluster, "ch2", table)
    assert refused.value.code == 74
    cluster.part(HasFaultyDisks).clear_disk_fault(["ch2"], "disk")
    wait(cluster, 15)
    assert not table.pending()
    assert rows(cluster, "ch2", table) == [(0, 1)]


def test_a_part_that_only_a_failing_disk_has_is_lost() -> None:
    """As on real servers: docs/lab/machine.md, read errors of one replica."""
    cluster = planted("")
    table = table_on(cluster)
    cluster.part(HasFaultyDisks).set_disk_fault(["ch1"], "disk", {"kind": "fail-reads"})
    connect(cluster, "ch1").insert(table.name, [(0, 1)])
    wait(cluster, 3)
    cluster.part(HasFaultyDisks).clear_disk_fault(["ch1"], "disk")
    wait(cluster, 20)
    assert not table.pending()
    assert [rows(cluster, node, table) for node in THREE.replicas] == [[], [], []]


@pytest.mark.parametrize("ending", [".bin", "primary.idx"])
def test_a_flipped_bit_is_noticed_by_whoever_reads_the_file(ending: str) -> None:
    cluster = planted("")
    table = table_on(cluster)
    connect(cluster, "ch1").insert(table.name, [(0, 1)])
    wait(cluster, 1)
    files = {"below": ("/data/",), "endings": (ending,), "without": ()}
    flipped = cluster.part(HasFaultyDisks).flip_bit("ch1", files, 7)
    assert isinstance(flipped, dict)
    assert flipped["read"] == flipped["byte"]
    assert cluster.part(HasFaultyDisks).disk_state("ch1")["flips"] == 1
    if ending == ".bin":
        with pytest.raises(DatabaseError, match="40: Checksum doesn't match"):
            rows(cluster, "ch1", table)
    else:
        assert rows(cluster, "ch1", table) == [(0, 1)], "the server has its index in memory"
        cluster.part(CanRestart).restart(["ch1"])
    wait(cluster, 15)
    assert rows(cluster, "ch1", table) == [(0, 1)]
    assert cluster.part(HasFaultyDisks).disk_state("ch1")["flips"] == 0, "the part was fetched anew"
    cluster.part(HasFaultyDisks).restore_bits(["ch1"])


def test_a_bit_is_flipped_back() -> None:
    cluster = planted("")
    table = table_on(cluster)
    connect(cluster, "ch1").insert(table.name, [(0, 1)])
    files = {"below": ("/data/",), "endings": (".bin",), "without": ()}
    assert cluster.part(HasFaultyDisks).flip_bit("ch1", files, 7)
    cluster.part(HasFaultyDisks).restore_bits(["ch1"])
    assert rows(cluster, "ch1", table) == [(0, 1)]
    nothing = {**files, "endings": ("log.*",)}
    assert cluster.part(HasFaultyDisks).flip_bit("ch1", nothing, 7) is None


# --- power cuts ---------------------------------------------------------------------------------


def cut(fsync: Fsync, *, wait_s: float, alone: bool = True) -> list[list[tuple[int, int]]]:
    """Insert a row on ch1, which `alone` has it, wait, cut ch1's power, and return the rows of each
    replica at rest."""
    cluster = SimCluster(THREE, Seed(1), protocol="repaired-25.8", fsync=fsync)
    table = table_on(cluster)
    cluster.part(HasFaultyDisks).sync_disks()
    if alone:
        cluster.part(CanStopFetches).stop_fetches(["ch2", "ch3"])
    connect(cluster, "ch1").insert(table.name, [(0, 1)])
    wait(cluster, wait_s)
    begun = call(cluster, nemesis_of("power-cut-clickhouse-one"), "begin", nodes=["ch1"])
    lost = begun["lost"]
    assert isinstance(lost, dict)
    assert (lost["ch1"]["synced"], lost["ch1"]["unsynced"]) == (True, False)
    cluster.part(CanKill).start(["ch1"])
    wait(cluster, 1)
    cluster.part(CanStopFetches).start_fetches(["ch2", "ch3"])
    wait(cluster, 25)
    assert not table.pending()
    return [rows(cluster, node, table) for node in THREE.replicas]


def test_a_power_cut_takes_what_was_not_synced_and_is_young() -> None:
    assert cut(Fsync.DEFAULT, wait_s=2) == [[]] * 3
    assert cut(Fsync.DEFAULT, wait_s=31) == [[(0, 1)]] * 3, "the kernel has written it"
    assert cut(Fsync.INSERTS, wait_s=2) == [[(0, 1)]] * 3
    assert cut(Fsync.DEFAULT, wait_s=2, alone=False) == [[(0, 1)]] * 3, "others have it"


@pytest.mark.parametrize(
    ("protocol", "emptied"),
    [("25.8", {"0_0_0_0", "1 0_1_1_0"}), ("repaired-25.8", {"1 0_1_1_0"})],
)
def test_an_empty_part_takes_the_place_of_one_that_no_replica_has_any_more(
    protocol: str, emptied: set[str]
) -> None:
    """A power cut takes a row from both tables, whose other replicas are still to fetch the one
    part and to copy the other. Later statements meet nothing that waits."""
    cluster = SimCluster(THREE, Seed(1), protocol=protocol)
    table = table_on(cluster)
    schema = TableSchema("key Int64, value Int64", "value", "key", {})
    copy = ReplicatedTable(cluster, "copied", schema)
    copy.create()
    cluster.part(HasFaultyDisks).sync_disks()
    cluster.part(CanStopFetches).stop_fetches(["ch2", "ch3"])
    first = connect(cluster, "ch1")
    first.insert(table.name, [(0, 1)])
    first.command(
        f"ALTER TABLE {copy.name} ATTACH PARTITION 0 FROM {table.name}",
        {"replication_alter_partitions_sync": 1},
    )
    wait(cluster, 1)
    cluster.part(CanCutPower).cut_power(["ch1"], {})
    cluster.part(CanKill).start(["ch1"])
    wait(cluster, 1)
    cluster.part(CanStopFetches).start_fetches(["ch2", "ch3"])
    wait(cluster, 40)
    assert [table.pending(), copy.pending()] == [(), ()]
    facts = json.loads(cluster.protocol_trace(0))
    lost = {fact[3].split("/")[-1] for fact in facts if fact[0] == "lost"}
    assert lost == emptied
    second = connect(cluster, "ch2")
    second.insert(table.name, [(0, 2)])
    wait(cluster, 1)
    second.command(f"ALTER TABLE {copy.name} REPLACE PARTITION 0 FROM {table.name}")
    wait(cluster, 5)
    for shown in (table, copy):
        assert [rows(cluster, node, shown) for node in THREE.replicas] == [[(0, 2)]] * 3


def test_a_fetched_part_is_durable_only_if_all_parts_are() -> None:
    lost = {}
    for fsync in (Fsync.INSERTS, Fsync.ALL):
        cluster = SimCluster(THREE, Seed(1), protocol="repaired-25.8", fsync=fsync)
        table = table_on(cluster)
        cluster.part(HasFaultyDisks).sync_disks()
        connect(cluster, "ch1").insert(table.name, [(0, 1)])
        wait(cluster, 1)
        lost[fsync] = cluster.part(CanCutPower).cut_power(["ch2"], {})["ch2"]["pages"]
    assert lost == {Fsync.INSERTS: 6, Fsync.ALL: 0}


def test_a_power_cut_undoes_a_removal_that_no_journal_has() -> None:
    """The part comes back, and the server sets it aside, because ZooKeeper does not list it."""
    cluster = planted("")
    table = table_on(cluster)
    connect(cluster, "ch1").insert(table.name, [(0, 1)])
    cluster.part(HasFaultyDisks).sync_disks()
    connect(cluster, "ch1").command(f"ALTER TABLE {table.name} DROP PARTITION 0")
    gone = ("0_0_0_0" not in replica_of(cluster, "ch1", table)["parts"] for _ in range(100))
    for is_gone in gone:
        if is_gone:
            break
        wait(cluster, 0.3)
    assert "0_0_0_0" not in replica_of(cluster, "ch1", table)["parts"]
    cluster.part(CanCutPower).cut_power(["ch1"], {})
    cluster.part(CanKill).start(["ch1"])
    wait(cluster, 10)
    assert rows(cluster, "ch1", table) == []


def test_torn_writes_leave_parts_that_are_noticed() -> None:
    """Some of sixty files survive, and every row is there at the end."""
    cluster = planted("", "repaired")
    table = table_on(cluster)
    cluster.part(HasFaultyDisks).sync_disks()
    for value in range(10):
        connect(cluster, "ch1").insert(table.name, [(0, value)])
    wait(cluster, 1)
    lost = cluster.part(CanCutPower).cut_power(["ch2"], {"ch2": 3})["ch2"]
    assert isinstance(lost["pages"], int)
    assert isinstance(lost["kept"], int)
    assert 0 < lost["pages"] < 60
    assert lost["kept"] > 0
    cluster.part(CanKill).start(["ch2"])
    wait(cluster, 15)
    whole = [(0, value) for value in range(10)]
    for _ in range(10):
        with suppress(DatabaseError):  # until each damaged part was read once
            rows(cluster, "ch2", table)
        wait(cluster, 5)
    assert rows(cluster, "ch2", table) == whole


# --- ZooKeeper ----------------------------------------------------------------------------------


def test_a_zookeeper_server_that_cannot_write_follows_nobody_until_it_can() -> None:
    cluster = planted("")
    table = table_on(cluster)
    leader = cluster.part(ReportsLeader).leader()
    assert leader is not None
    cluster.part(HasFaultyDisks).set_disk_fault([leader], "disk", {"kind": "full"})
    with suppress(DatabaseError):  # the first write that the leader cannot log
        connect(cluster, "ch1").insert(table.name, [(0, 1)])
    wait(cluster, 8)
    assert cluster.part(CanKill).running(leader)
    assert leader not in cluster.part(ReportsLeader).serving()
    assert cluster.part(ReportsLeader).leader() not in (None, leader), (
        "the others elect another leader"
    )
    cluster.part(HasFaultyDisks).clear_disk_fault([leader], "disk")
    wait(cluster, 8)
    assert leader in cluster.part(ReportsLeader).serving()
    connect(cluster, "ch1").insert(table.name, [(0, 2)])


def test_a_zookeeper_server_does_not_start_with_a_rotten_log() -> None:
    cluster = planted("")
    table_on(cluster)
    files = {"below": ("/version-2/",), "endings": ("log.*",), "without": ()}
    assert cluster.part(HasFaultyDisks).flip_bit("zk1", files, 1)
    cluster.part(CanKill).kill(["zk1"])
    cluster.part(CanKill).start(["zk1"])
    assert not cluster.part(CanKill).running("zk1")
    cluster.part(HasFaultyDisks).restore_bits(["zk1"])
    cluster.part(CanKill).start(["zk1"])
    assert cluster.part(CanKill).running("zk1")


# --- runs ---------------------------------------------------------------------------------------


def test_a_seed_is_a_run_also_under_faults_of_disks() -> None:
    faults = "power-cut-torn,disk-eio,disk-flip,disk-slow-zookeeper"
    options = {"read": "linearizable", "rate": 60.0, "time_limit_s": 8.0}
    first, again = (play(3, faults, **options).journal for _ in range(2))
    assert first == again
    assert play(4, faults, **options).journal != first


@dataclass(frozen=True)
class Case:
    """A run that shows a bug."""

    by: str
    """The checker that must say INVALID."""
    nemesis: str
    seed: int = 1
    options: dict[str, Any] = field(default_factory=dict)

    def accused(self, nemesis: str, bug: str) -> bool:
        options = {"read": "linearizable", "rate": 100.0, "time_limit_s": 12.0}
        return self.by in play(self.seed, nemesis, bug=bug, **(self.options or options)).accusers


PLAIN: dict[str, Any] = {
    "name": "replication",
    "promise": "eventual",
    "rate": 40.0,
    "time_limit_s": 12.0,
    "big_rows": 100,
    "protocol": "repaired-25.8",
    "fsync": "all",
}
QUORUM: dict[str, Any] = {
    "name": "quorum-durability",
    "promise": "eventual",
    "rate": 40.0,
    "time_limit_s": 12.0,
    "protocol": "repaired",
}
OFTEN: dict[str, Any] = {
    "read": "linearizable",
    "rate": 100.0,
    "time_limit_s": 20.0,
    "interval_s": 0.5,
    "duration_s": 1,
}
AWAY: dict[str, Any] = {
    "name": "liveness-nodes",
    "promise": "eventual",
    "protocol": "repaired",
    "rate": 5.0,
    "time_limit_s": 70.0,
    "interval_s": 1,
    "duration_s": 25,
}
"""Power is cut to each replica in turn while others are paused, so that merged parts are lost."""
CASES = {
    "fsync-ignored": Case("set-full", "power-cut-all", options=PLAIN),
    "fsync-error-ignored": Case(
        "set-full",
        "disk-eio-fsync-all,power-cut-all",
        options={**PLAIN, "rate": 5.0, "time_limit_s": 30.0, "interval_s": 2, "duration_s": 2},
    ),
    "torn-unchecked": Case("set-full", "power-cut-torn"),
    "flip-unchecked": Case("set-full", "disk-flip", seed=3, options=OFTEN),
    "eio-as-empty": Case("set-full", "disk-eio-reads"),
    "short-write": Case("set-full", "disk-full"),
    "keeper-write-ignored": Case(
        "set-full",
        "disk-full-zookeeper-all,kill-zookeeper-all",
        options={**OFTEN, "interval_s": 1, "duration_s": 2},
    ),
    "acknowledged-failure": Case("set-full", "disk-eio-reads", seed=7, options=QUORUM),
    "broken-part-fetched": Case(
        "linearizable",
        "disk-eio-reads",
        seed=0x51BBD,
        options={**OFTEN, "rate": 40.0, "time_limit_s": 6.0, "interval_s": 1.5},
    ),
    "lost-part-unreplaced": Case(
        "convergence", "power-cut-torn,pause-clickhouse-one", seed=0x7582EF, options=AWAY
    ),
}


@pytest.mark.parametrize("bug", CASES)
def test_only_faults_of_disks_find_the_bug(bug: str) -> None:
    case = CASES[bug]
    assert case.accused(case.nemesis, bug)
    assert not case.accused(case.nemesis, "")
    assert not case.accused("kill", bug)


@pytest.mark.parametrize(
    ("by", "nemesis", "seed"),
    [
        ("convergence", "power-cut,pause-clickhouse-one", 0x7582FF),
        ("protocol", "power-cut-clickhouse-one,pause-clickhouse-one", 0x87C25D),
        ("protocol", "power-cut,disk-eio,pause-clickhouse-one", 0x87CE18),
    ],
)
def test_replicas_agree_on_what_is_left_of_a_lost_part(by: str, nemesis: str, seed: int) -> None:
    case = Case(by, nemesis, seed, AWAY)
    assert case.accused(nemesis, "lost-part-unreplaced")
    assert play(seed, nemesis, **AWAY).accusers == set()


def test_a_disk_that_is_slow_or_refuses_writes_finds_short_writes() -> None:
    case = CASES["short-write"]
    for nemesis in ("disk-readonly", "disk-eio-writes", "disk-slow"):
        assert case.accused(nemesis, "short-write")
        assert not case.accused(nemesis, "")
