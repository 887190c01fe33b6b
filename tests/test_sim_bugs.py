"""Every planted bug is caught, by the checker that should; the same runs without it are not
accused by that checker. Some 3 s of CPU a bug."""

import json
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from sim_by_hand import planted, rows, table_on, wait
from sim_play import Played, play

from harness.clients.clickhouse import DatabaseError, connect
from harness.clients.replicated_table import ReplicatedTable, leads
from harness.clients.table_in_zookeeper import TableInZooKeeper
from harness.clusters.sim_cluster import SimCluster
from harness.core.capabilities import CanKill, CanPartition, CanPause, CanStopFetches
from harness.core.errors import UsageError
from harness.core.op import Call
from harness.core.protocols import Generator
from harness.core.topology import Link
from harness.core.verdict import Status
from harness.generators.calls import numbered
from harness.generators.timing import rate
from harness.sim.bugs import BUGS, bugs
from harness.sim.world import SECOND
from workloads.quorum_set import QuorumSet
from workloads.zookeeper_looks import quorum_state


class Retried(QuorumSet):
    """Every value is inserted four times, on whichever replica is free."""

    def generator(self) -> Generator:
        return rate(numbered(retried), 50, self.seed)


def retried(number: int) -> Call:
    if number % 5 == 4:
        return Call(f="read", key=0)
    return Call(f="insert", key=0, value=number // 5)


@dataclass(frozen=True)
class Case:
    """A run that shows a bug."""

    by: str
    """The checker that must say INVALID."""
    nemesis: str = "none"
    seeds: tuple[int, ...] = (1, 2, 3)
    """One of them shows it."""
    options: dict[str, Any] = field(default_factory=dict)

    def play(self, bug: str, seed: int) -> Played:
        options = {"read": "linearizable", "rate": 100.0, "time_limit_s": 10.0, **self.options}
        return play(seed, self.nemesis, bug=bug, **options)


PLAIN = {"insert": "plain", "read": "plain", "promise": "eventual"}

CASES = {
    "quorum-aba": Case(
        "protocol",
        "pause-clickhouse-one",
        seeds=(2,),
        options={"rate": 200.0, "time_limit_s": 12.0, "interval_s": 0.05, "duration_s": 0.05},
    ),
    "quorum-uncounted": Case("protocol"),
    "last-part-back": Case("set-full", options={"read": "server"}),
    "early-snapshot": Case("linearizable"),
    "ack-early": Case("linearizable"),
    "dedup-per-replica": Case("set-full", options={"workload": Retried, **PLAIN}),
    "dedup-forgotten": Case(
        "set-full", "restart-clickhouse-one", options={"workload": Retried, **PLAIN}
    ),
    "truncate-max": Case(
        "protocol", "pause-clickhouse,stop-fetches", options={"time_limit_s": 20.0}
    ),
    "clone-lost": Case(
        "protocol",
        "kill-clickhouse-majority",
        options={**PLAIN, "duration_s": 15.0, "time_limit_s": 40.0},
    ),
    "lost-unmarked": Case(
        "set-full", "kill-clickhouse-one", options={"time_limit_s": 30.0, "duration_s": 9.0}
    ),
    "clone-no-parts": Case(
        "set-full", "kill-clickhouse-one", options={"time_limit_s": 30.0, "duration_s": 9.0}
    ),
    "merge-order": Case("protocol"),
    "merge-drops": Case("set-full"),
    "merge-gap": Case("set-full", "pause-clickhouse-one", options={**PLAIN, "time_limit_s": 20.0}),
    "fetch-torn": Case("monotonic-reads", "stop-fetches", options={**PLAIN, "time_limit_s": 20.0}),
    "session-immortal": Case("protocol", "kill-clickhouse-one"),
    "watch-missed": Case("protocol"),
    "keeper-unsynced": Case("set-full", "kill-zookeeper-all"),
    "keeper-early-ack": Case("set-full", "power-cut-zookeeper-all"),
    "keeper-minority": Case(
        "linearizable", "partition-pair", options={"insert": "plain", "time_limit_s": 20.0}
    ),
    "pointer-skips": Case("protocol", "pause-clickhouse", options={"time_limit_s": 20.0}),
}
BY_HAND = {
    "merged-away",
    "lost-retry",
    "last-part-late",
    "phantom-part",
    "failed-part-kept",
    "failed-part-missed",
    "failed-part-fetched",
    "log-uncut",
    "clone-unwaited",
    "clone-unfinished",
    "optimize-unwaited",
    "mutation-late",
    "stale-leader-merges",
    "stale-leader-claim",
    "number-kept",
}
SHARED = {
    *("lock-after-send", "delete-without-lock-check", "unmarked-merge", "downgrade"),
    *("both-move", "clone-keeps-dropped", "attach-own-copy", "copied-part"),
}
"""Bugs of zero-copy replication: tests/test_sim_zero_copy.py."""
ELSEWHERE = {"pending-merged", "failed-duplicate", "clone-uncounted", "undone-alter"}
"""Defects of parallel quorums and ALTERs: tests/test_sim_quorum.py, tests/test_sim_columns.py."""
OF_MACHINES = {
    *("dedup-own-clock", "shed-quorum", "shortage-as-broken", "closed-as-lost"),
    *("unresolved-as-dead", "old-parts-by-wall", "start-unfinished"),
}
"""Bugs that faults of clocks and resources find: tests/test_sim_machines.py."""
OF_DISKS = {
    *("fsync-ignored", "fsync-error-ignored", "torn-unchecked", "flip-unchecked", "eio-as-empty"),
    *("short-write", "keeper-write-ignored", "acknowledged-failure", "broken-part-fetched"),
    "lost-part-unreplaced",
}
"""Bugs that faults of disks find: tests/test_sim_disks.py."""
OF_MEMBERS = {
    *("empty-disk-forgets", "old-disk-adopted", "replica-unfilled"),
    *("removed-stale", "role-loses-watches", "ack-remembered", "snapshot-without-log"),
}
"""Bugs that faults of members show: tests/test_sim_members.py."""
OF_COPIES = {
    *("moved-away", "hidden-by-move", "half-moved", "stale-replace", "unmutated-copy"),
    *("copy-keeps-version", "drop-later", "crossed-copies", "replace-keeps-range"),
    *("replace-deduplicated", "copy-skips-part", "move-drops-later", "inserts-uncancelled"),
    "partition-unversioned",
    *("doubled-view", "view-forgets", "view-skips-duplicate", "ttl-whole-part"),
    *("forgotten-insert", "ttl-keeps", "ttl-early", "drop-unpaused"),
}
"""Bugs of statements on partitions, of views and of rows that expire:
tests/test_sim_statements.py, tests/test_sim_views.py."""


def test_every_bug_is_on_trial() -> None:
    elsewhere = BY_HAND | SHARED | ELSEWHERE | OF_MACHINES | OF_DISKS | OF_MEMBERS | OF_COPIES
    assert CASES.keys() | elsewhere == BUGS.keys()


@pytest.mark.parametrize("bug", CASES)
def test_a_planted_bug_is_caught(bug: str) -> None:
    case = CASES[bug]
    caught = next((s for s in case.seeds if case.by in case.play(bug, s).accusers), None)
    assert caught is not None
    assert case.by not in case.play("", caught).accusers


@pytest.mark.parametrize("bug", ["", "mutation-late"])
def test_a_mutation_spares_rows_that_come_after_it(bug: str) -> None:
    cluster = planted(bug)
    table = table_on(cluster)
    there = connect(cluster, "ch1")
    there.insert(table.name, [(2, 1)])
    there.command(f"ALTER TABLE {table.name} UPDATE value = value + 99 WHERE key = 2")
    there.insert(table.name, [(2, 7)])
    wait(cluster, 5)
    assert not table.pending()
    found = [rows(cluster, node, table) for node in cluster.topology.replicas]
    assert found == [[(2, 100), (2, 106)] if bug else [(2, 7), (2, 100)]] * 3


def left_alone(cluster: SimCluster) -> ReplicatedTable:
    """Return a table with a part that only ch1 has, which is dead."""
    table = table_on(cluster)
    cluster.part(CanStopFetches).stop_fetches(["ch2", "ch3"])
    quorum = {"insert_quorum": 2, "insert_quorum_timeout": 500}
    with pytest.raises(DatabaseError, match="319"):
        connect(cluster, "ch1").insert(table.name, [(0, 1)], quorum)
    cluster.part(CanKill).kill(["ch1"])
    return table


@pytest.mark.parametrize("bug", ["", "failed-part-kept"])
def test_a_part_whose_quorum_failed_is_gone_when_its_replica_is_back(bug: str) -> None:
    """The quorum fails when nobody active has the part: its replica is dead."""
    cluster = planted(bug)
    table = left_alone(cluster)
    cluster.part(CanStopFetches).start_fetches(["ch2", "ch3"])
    wait(cluster, 25)
    connect(cluster, "ch2").insert(table.name, [(0, 2)], {"insert_quorum": 2})
    cluster.part(CanKill).start(["ch1"])
    wait(cluster, 15)
    assert not table.pending()
    assert rows(cluster, "ch2", table) == [(0, 2)]
    assert rows(cluster, "ch1", table) == ([(0, 1), (0, 2)] if bug else [(0, 2)])


@pytest.mark.parametrize("bug", ["", "failed-part-missed"])
def test_a_part_that_fails_while_its_replica_comes_back_is_gone(bug: str) -> None:
    """This needs the repaired protocol, because the server has the bug. ch1 has asked which parts
    failed, and its activation is in progress, when its own part fails."""
    moments_ns = range(300_000, 4_000_000, 300_000)
    runs = map(partial(back, bug), moments_ns)
    found = []
    for cluster, table in runs:
        state = quorum_state(TableInZooKeeper(cluster, table.path, table.replicas))
        own, other = (rows(cluster, node, table) for node in ("ch1", "ch2"))
        assert state["kept"] == ({"ch1": state["failed"]} if own != other else {})
        found.append((own, other))
    assert any(other == [] for _, other in found), "it failed, in some of them"
    assert any(own != other for own, other in found) == bool(bug)


def back(bug: str, after_ns: int) -> tuple[SimCluster, ReplicatedTable]:
    """Restart ch1 after a kill, and cut off its requests soon after it has its session, until the
    part that only it has fails."""
    cluster = planted(bug, "repaired")
    table = left_alone(cluster)
    wait(cluster, 7)
    start_and_cut_off(cluster, table, after_ns)
    cluster.part(CanStopFetches).start_fetches(["ch2", "ch3"])
    wait(cluster, 1)
    cluster.part(CanPartition).mend()
    wait(cluster, 40)
    assert not table.pending()
    return cluster, table


def start_and_cut_off(cluster: SimCluster, table: ReplicatedTable, after_ns: int) -> None:
    """Start ch1, and cut off its requests to ZooKeeper so soon after it has its session."""
    simulation = cluster.simulation
    simulation.servers.start("ch1")
    (keeper,) = cluster.topology.node("ch1").keepers

    def connected() -> bool:
        own = simulation.servers.replica("ch1", table.name)
        return own is not None and own["connected"]

    assert simulation.wait_until(connected, 10 * SECOND, 100_000)
    simulation.world.sleep(after_ns)
    cluster.part(CanPartition).cut([Link("ch1", keeper)])


@pytest.mark.parametrize("bug", ["", "failed-part-fetched"])
def test_a_part_that_fails_while_it_is_fetched_is_gone(bug: str) -> None:
    """This needs the repaired protocol, because the server has the bug. ch2 announces the part that
    it has fetched before ch3 looks for it, while ch3 marks it as failed, or after that."""
    cluster, table, mended_ns = fetched_late(bug)
    wait(cluster, 3)
    facts = json.loads(cluster.protocol_trace(cluster.simulation.world.now_ns))
    announced_ns = next(at for f, at, *who in facts if (f, *who[:1]) == ("part", "ch2"))
    outcomes = set()
    for early_ns in range(-400_000, 8_000_000, 400_000):
        cluster, table, again_ns = fetched_late(bug)
        assert again_ns == mended_ns
        cluster.simulation.world.sleep(announced_ns - mended_ns - early_ns)
        cluster.part(CanStopFetches).start_fetches(["ch3"])
        wait(cluster, 40)
        assert not table.pending()
        state = quorum_state(TableInZooKeeper(cluster, table.path, table.replicas))
        shown = [rows(cluster, node, table) for node in cluster.topology.replicas]
        on = "".join(node for node, found in zip("123", shown, strict=True) if found)
        assert state["kept"] == ({"ch2": state["failed"]} if state["failed"] and on else {})
        outcomes.add((bool(state["failed"]), on))
    assert outcomes == {(False, "123"), (True, "2" if bug else "")}


def fetched_late(bug: str) -> tuple[SimCluster, ReplicatedTable, int]:
    """Hold up a part that only ch1 has on its way to ch2 until ch1's session has expired. Return
    the time, too."""
    cluster = planted(bug, "repaired")
    table = table_on(cluster)
    cluster.part(CanStopFetches).stop_fetches(["ch2", "ch3"])
    quorum = {"insert_quorum": 2, "insert_quorum_timeout": 500}
    with pytest.raises(DatabaseError, match="319"):
        connect(cluster, "ch1").insert(table.name, [(0, 1)], quorum)
    (keeper,) = cluster.topology.node("ch1").keepers
    away, answer = [Link("ch1", keeper), Link(keeper, "ch1")], Link("ch1", "ch2")
    cluster.part(CanPartition).cut([*away, answer])
    wait(cluster, 2)  # ch1 is active for as long as its session lives, some 5 s
    cluster.part(CanStopFetches).start_fetches(["ch2"])
    wait(cluster, 3.5)  # and a fetch waits for 5 s
    cluster.part(CanPartition).mend()
    return cluster, table, cluster.simulation.world.now_ns


@pytest.mark.parametrize("bug", ["", "log-uncut"])
@pytest.mark.parametrize(
    ("nemesis", "seed"),
    [
        ("none", 1),
        # Nobody leads from 0.9 s on, and at 15.1 s, at rest, nobody has looked at the log yet.
        ("restart", 0xF1F52),
    ],
)
def test_a_log_that_is_long_is_cut_once_the_cluster_is_at_rest(
    bug: str, nemesis: str, seed: int
) -> None:
    quick = {"rate": 40.0, "time_limit_s": 6.0, "interval_s": 1.5, "duration_s": 1.0}
    run = play(seed, nemesis, bug=bug, name="truncation", promise="eventual", **quick)
    assert run.accusers == ({"truncation"} if bug else set())
    # No replica is lost by a restart, so that nothing is known of lost ones.
    without = Status.VALID if nemesis == "none" else Status.UNKNOWN
    assert run.status is (Status.INVALID if bug else without)


@pytest.mark.parametrize("bug", ["", "phantom-part"])
@pytest.mark.parametrize("lost", ["multi", "answer"])
def test_a_part_of_unknown_outcome_is_shown_once_it_is_in_the_log(bug: str, lost: str) -> None:
    """This needs the repaired protocol, because the server has the bug."""
    # The first moment at which what is lost is the commit, and not what is asked before it.
    moments_ns = range(3_000_000, 9_000_000, 300_000)
    cluster, table = next(found for ns in moments_ns if (found := cut_at_commit(bug, lost, ns)))
    shown = [(0, 1)] if bug else []
    assert rows(cluster, "ch1", table) == shown
    wait(cluster, 10)
    cluster.part(CanPartition).mend()
    wait(cluster, 30)
    there = [(0, 1)] if lost == "answer" else []
    found = [rows(cluster, node, table) for node in cluster.topology.replicas]
    assert found == [shown or there, there, there]


def cut_at_commit(bug: str, lost: str, after_ns: int) -> tuple[SimCluster, ReplicatedTable] | None:
    """Lose ch1's requests to ZooKeeper, or their answers, soon after an insert was called; return
    None if its outcome is known."""
    cluster = planted(bug, "repaired")
    table = table_on(cluster)
    (keeper,) = cluster.topology.node("ch1").keepers
    link = Link("ch1", keeper) if lost == "multi" else Link(keeper, "ch1")
    cluster.simulation.world.after(after_ns, lambda: cluster.part(CanPartition).cut([link]))
    with pytest.raises(DatabaseError) as error:
        connect(cluster, "ch1").insert(table.name, [(0, 1)])
    return (cluster, table) if error.value.code == 319 else None


@pytest.mark.parametrize("bug", ["", "last-part-late"])
@pytest.mark.parametrize(
    ("nemesis", "seed"), [("loss", 3), ("delay", 1), ("jitter", 2), ("rate", 1)]
)
def test_last_part_stays_when_an_earlier_block_is_committed_later(
    nemesis: str, seed: int, bug: str
) -> None:
    """This needs the repaired protocol, because the server has the bug. Faults of links show
    it in every second run; of forty with partitions one does, with kills or pauses none."""
    own = {"name": "quorum-durability", "promise": "eventual", "rate": 30.0, "time_limit_s": 5.0}
    run = play(seed, nemesis, bug=bug, interval_s=1, duration_s=1.5, **own)
    assert ("durability" in run.accusers) == bool(bug)


@pytest.mark.parametrize("bug", ["", "clone-unwaited"])
def test_optimize_waits_for_a_replica_that_is_being_cloned(bug: str) -> None:
    """This needs the repaired protocol, because the server has the bug."""
    own = {"name": "merges", "promise": "eventual", "rate": 60.0, "time_limit_s": 30.0}
    run = play(2, "kill-clickhouse-one", bug=bug, interval_s=1, duration_s=6, own_rows=100, **own)
    assert ("optimize" in run.accusers) == bool(bug)


@pytest.mark.parametrize("bug", ["", "optimize-unwaited"])
def test_optimize_waits_for_a_replica_that_lags(bug: str) -> None:
    own = {"name": "merges", "promise": "eventual", "rate": 60.0, "time_limit_s": 20.0}
    run = play(1, "stop-fetches", bug=bug, own_rows=100, **own)
    assert ("optimize" in run.accusers) == bool(bug)


@pytest.mark.parametrize("bug", ["", "clone-unfinished"])
def test_a_clone_that_is_interrupted_is_made_again(bug: str) -> None:
    """ch1's requests to ZooKeeper are lost at some moment of its clone."""
    found = [interrupted(bug, ns) for ns in range(500_000, 30_000_000, 2_000_000)]
    assert all(other == [(0, value) for value in range(60)] for _, other in found)
    assert any(own != other for own, other in found) == bool(bug)


def interrupted(bug: str, after_ns: int) -> tuple[object, object]:
    """Cut a lost replica off soon after it has its session, until that has expired. Return its rows
    at rest, and another one's."""
    cluster = planted(bug, "repaired")
    table = table_on(cluster)
    cluster.part(CanKill).kill(["ch1"])
    for value in range(60):
        connect(cluster, "ch2").insert(table.name, [(0, value)])
    wait(cluster, 10)
    start_and_cut_off(cluster, table, after_ns)
    wait(cluster, 8)
    cluster.part(CanPartition).mend()
    wait(cluster, 40)
    return rows(cluster, "ch1", table), rows(cluster, "ch2", table)


def leading(cluster: SimCluster, table: ReplicatedTable) -> list[str]:
    """Return the replicas that say that they lead."""
    nodes = cluster.topology.replicas
    return [node for node in nodes if leads(connect(cluster, node), table.database)]


@pytest.mark.parametrize("bug", ["", "stale-leader-claim"])
def test_a_leader_that_was_paused_past_its_session_does_not_say_that_it_leads(bug: str) -> None:
    """This needs the repaired protocol, because the server has the bug."""
    cluster = planted(bug, "repaired")
    table = table_on(cluster)
    (first,) = leading(cluster, table)
    cluster.part(CanPause).pause([first])
    wait(cluster, 9)
    cluster.part(CanPause).resume([first])
    assert (first in leading(cluster, table)) == bool(bug)
    wait(cluster, 3)
    (second,) = leading(cluster, table)
    assert second != first


@pytest.mark.parametrize("bug", ["", "stale-leader-merges"])
def test_merges_come_from_the_leader(bug: str) -> None:
    cluster = planted(bug)
    table = table_on(cluster)
    nodes = cluster.topology.replicas
    (leader,) = leading(cluster, table)
    (keeper,) = cluster.topology.node(leader).keepers
    cluster.part(CanPartition).cut([Link(leader, keeper), Link(keeper, leader)])
    wait(cluster, 9)
    cluster.part(CanPartition).mend()
    wait(cluster, 15)
    other = next(node for node in nodes if node != leader)
    for value in range(60):
        connect(cluster, other).insert(table.name, [(0, value)])
        wait(cluster, 0.2)
    merges = [fact for fact in json.loads(cluster.protocol_trace(0)) if fact[0] == "merge"]
    assert merges
    assert any(by != first for *_, by, first in merges) == bool(bug)


SERVER = {"read": "server", "rate": 60.0, "time_limit_s": 10.0}
OF_25_8 = {
    "early-snapshot": Case("set-full", seeds=(22,), options=SERVER),
    "merged-away": Case(
        "monotonic-reads",
        seeds=(2,),
        options={**SERVER, "insert": "quorum,plain", "promise": "eventual"},
    ),
    "lost-retry": Case(
        "set-full",
        "partition-one",
        seeds=(4,),
        options={
            "name": "dedup",
            "promise": "eventual",
            "limit_s": 1,
            "rate": 200.0,
            "time_limit_s": 60.0,
            "interval_s": 1.0,
            "duration_s": 8.0,
        },
    ),
}


@pytest.mark.parametrize("defect", OF_25_8)
def test_a_defect_of_25_8_is_found(defect: str) -> None:
    case = OF_25_8[defect]
    (seed,), by = case.seeds, case.by

    def accusers(without: str) -> set[str]:
        return play(seed, case.nemesis, protocol="25.8", without=without, **case.options).accusers

    assert by in accusers("")
    assert by not in accusers(defect)


@pytest.mark.parametrize("bug", ["", "number-kept"])
def test_a_number_goes_with_its_session(bug: str) -> None:
    """The numbers of acknowledged inserts are unique and increase all the same: only the log tells
    that one was taken twice."""
    own = {"name": "block-numbers", "promise": "eventual", "protocol": "25.8"}
    often = {"interval_s": 1, "duration_s": 7, "time_limit_s": 25}
    run = play(7, "pause-clickhouse-one", bug=bug, **own, **often)
    verdicts = {one.checker: one for one in run.outcome.judgement.verdicts}
    found = verdicts["block-numbers"].figures
    assert found["abandoned"] == 1
    broken = {kind: count for kind, count in found["anomalies"].items() if count}
    assert broken == ({"taken-again": 1} if bug else {})
    assert run.accusers == ({"block-numbers"} if bug else set())


def test_a_bug_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="--bug 'nope': expected some of quorum-aba"):
        bugs(["nope"])
