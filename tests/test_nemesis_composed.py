"""The composed nemesis: dispatch, and what an op ends as."""

from collections.abc import Iterable

import pytest
from nemesis_record import (
    ALL,
    ALONE,
    CUT,
    KILL,
    LAG,
    NODES,
    PAUSE,
    THREE,
    Bare,
    Record,
    explode,
    nemesis,
    op,
)

from harness.core.dialect import Version, dialect_of
from harness.core.errors import ClusterError, FaultError, UsageError
from harness.core.op import Done, Kind, Op
from harness.core.protocols import Context, Worker
from harness.core.seed import Seed
from harness.core.topology import Link
from nemesis.cluster_state import quorum
from nemesis.composed import Composed, check_capabilities, check_mechanisms
from nemesis.grudge import complete
from nemesis.options import FaultOptions


def test_a_begin_that_was_seen_is_ok_and_says_what_was_done_to_whom() -> None:
    cluster, both = Record(), nemesis("partition,kill")
    assert both.invoke(cluster, CUT) == Done(Kind.OK, CUT.value)
    assert cluster.dropped == ALONE
    assert both.invoke(cluster, KILL) == Done(
        Kind.OK,
        {"fault": 1, "edge": "begin", "name": "kill", "nodes": ["ch2", "zk1"], "text": "ch2 zk1"},
    )
    assert cluster.dead == {"ch2", "zk1"}


def test_an_end_ends_its_own_family_only() -> None:
    cluster, both = Record(), nemesis("partition,kill")
    both.invoke(cluster, CUT)
    both.invoke(cluster, KILL)
    assert both.invoke(cluster, op("kill", "end")) == Done(
        Kind.OK, {"fault": 1, "edge": "end", "name": "kill", "text": "ch2 zk1"}
    )
    assert not cluster.dead
    assert cluster.dropped
    both.invoke(cluster, op("kill", fault=2, nodes=["ch3"]))
    again = both.invoke(cluster, op("kill", "end", 2)).value
    assert isinstance(again, dict)
    assert again["text"] == "ch3", "what ended before is not ended again"


def test_a_nemesis_composed_of_nemeses_is_a_nemesis() -> None:
    cluster, seed, options = Record(), Seed(3), FaultOptions(seen_within_s=0.2, heal_within_s=0.5)
    both = Composed("both", [nemesis("partition"), nemesis("kill,pause")], seed, options)
    flat = nemesis("partition,kill,pause")
    assert (both.fs, both.needs) == (flat.fs, flat.needs)
    assert both.invoke(cluster, CUT).kind is Kind.OK
    assert both.invoke(cluster, KILL).kind is Kind.OK
    both.heal(cluster)
    assert cluster.whole
    alone = Composed("again", [both], seed.child("nemesis"), FaultOptions())
    context = Context(time_ns=0, free=(Worker(number=-1, process=-1, node=""),), busy=())
    assert alone.generator().op(context)[0] == flat.generator().op(context)[0]


@pytest.mark.parametrize(
    ("name", "role", "leader"),
    [("kill-leader", "zookeeper", "zk2"), ("kill-clickhouse-leader", "clickhouse", "ch3")],
)
def test_the_leader_is_asked_for_when_the_fault_begins(name: str, role: str, leader: str) -> None:
    cluster = Record()
    done = nemesis(name).invoke(cluster, op("kill", role=role, target="leader"))
    assert isinstance(done.value, dict)
    assert (done.value["leader"], done.value["nodes"]) == (leader, [leader])
    assert done.value["text"] == f"{leader} (leader)"
    assert cluster.dead == {leader}


@pytest.mark.parametrize(
    ("order", "follower"), [(["zk2", "zk3", "zk1"], "zk3"), (["zk1", "zk2", "zk3"], "zk1")]
)
def test_the_follower_cut_off_is_the_first_of_the_order_that_does_not_lead(
    order: list[str], follower: str
) -> None:
    cluster = Record()
    done = nemesis("partition-keeper-follower").invoke(cluster, op("partition", order=order))
    assert done.kind is Kind.OK
    assert isinstance(done.value, dict)
    assert (done.value["leader"], done.value["follower"]) == ("zk2", follower)
    others = [name for name in ("zk1", "zk2", "zk3") if name != follower]
    assert done.value["text"] == (
        f"{{{follower} | {' '.join(others)}}}, leader zk2, clients connected"
    )
    assert cluster.dropped == {
        link for other in others for link in (Link(other, follower), Link(follower, other))
    }


def test_a_fault_that_could_not_be_tried_certainly_did_not_happen() -> None:
    cluster = Record()
    cluster.leads = None
    done = nemesis("kill-leader").invoke(cluster, op("kill", target="leader"))
    assert (done.kind, done.error) == (Kind.FAIL, "no ZooKeeper server leads now")
    done = nemesis("partition").invoke(cluster, op("partition", order=["zk1", "zk2", "zk3"]))
    assert done.kind is Kind.FAIL
    cluster.dead = {"ch3"}
    done = nemesis("pause").invoke(cluster, PAUSE)
    assert (done.kind, done.error) == (Kind.FAIL, "ch3: other faults hold all of them")
    assert cluster.did == []


def test_a_cut_that_did_not_cut_is_info_with_the_link_and_is_mended() -> None:
    class Leaky(Record):
        def reachable(self, links: Iterable[Link]) -> dict[Link, bool]:
            return {**super().reachable(links), Link("ch2", "ch1"): True}

    cluster = Leaky()
    done = nemesis("partition").invoke(cluster, CUT)
    assert (done.kind, done.error) == (Kind.INFO, "link ch2 → ch1 is alive, dead expected")
    assert cluster.did == ["cut", "mend"]


def test_a_cut_that_cut_too_much_is_info_with_the_link() -> None:
    class Clumsy(Record):
        def cut(self, links: Iterable[Link]) -> None:
            super().cut([*links, Link("zk1", "zk2")])

    done = nemesis("partition").invoke(Clumsy(), CUT)
    assert (done.kind, done.error) == (Kind.INFO, "link zk1 → zk2 is dead, alive expected")


@pytest.mark.parametrize(
    ("begin", "deed", "text"),
    [
        (KILL, "kill", "ch2 still runs after SIGKILL; zk1 still runs after SIGKILL"),
        (PAUSE, "pause", "ch3 is not stopped by SIGSTOP"),
        (LAG, "stop_fetches", "ch1 still fetches parts"),
    ],
)
def test_a_fault_without_effect_is_info(
    begin: Op, deed: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Record, deed, lambda self, nodes: None)
    done = nemesis(ALL).invoke(Record(), begin)
    assert (done.kind, done.error) == (Kind.INFO, text)


def test_an_effect_that_comes_late_is_waited_for() -> None:
    class Slow(Record):
        looks = 0

        def paused(self, node: str) -> bool:
            self.looks += 1
            return self.looks > 2 and super().paused(node)

    assert nemesis("pause").invoke(Slow(), PAUSE).kind is Kind.OK


def test_whatever_the_cluster_raises_the_run_goes_on() -> None:
    cluster = Record()
    cluster.during = {
        "kill": explode(ClusterError("the engine is gone")),
        "start": explode(OSError("still")),
    }
    done = nemesis("kill").invoke(cluster, KILL)
    assert done.kind is Kind.INFO
    assert done.error == (
        "ClusterError: the engine is gone; and it could not be undone: OSError: still"
    )


def test_a_family_that_ends_the_process_keeps_no_other_from_being_healed() -> None:
    cluster, both = Record(), nemesis("kill,pause")
    both.invoke(cluster, KILL)
    both.invoke(cluster, PAUSE)
    cluster.during = {"resume": explode(SystemExit(0))}
    with pytest.raises(FaultError, match="pause: SystemExit: 0"):
        both.heal(cluster)
    assert cluster.dead == set()


def test_what_an_end_left_the_next_end_ends() -> None:
    cluster, kill = Record(), nemesis("kill")
    kill.invoke(cluster, KILL)
    cluster.during = {"start": explode(ClusterError("busy"))}
    assert kill.invoke(cluster, op("kill", "end")).kind is Kind.INFO
    cluster.during = {}
    kill.invoke(cluster, op("kill", fault=2, nodes=["ch3"]))
    assert kill.invoke(cluster, op("kill", "end", 2)).kind is Kind.OK
    assert cluster.whole


# --- faults that meet on one node -----------------------------------------------------------


def test_a_paused_process_can_be_killed_and_a_killed_one_is_not_paused() -> None:
    cluster, both = Record(), nemesis("kill,pause")
    assert both.invoke(cluster, PAUSE).kind is Kind.OK
    assert both.invoke(cluster, op("kill", nodes=["ch3"])).kind is Kind.OK
    assert both.invoke(cluster, op("pause", "end")).kind is Kind.OK
    assert both.invoke(cluster, op("pause", nodes=["ch3"])).kind is Kind.FAIL
    assert both.invoke(cluster, op("kill", "end")).kind is Kind.OK
    assert cluster.whole


def test_a_restart_passes_over_the_dead_and_the_frozen() -> None:
    cluster, three = Record(), nemesis("kill,pause,restart")
    three.invoke(cluster, PAUSE)
    three.invoke(cluster, op("kill", nodes=["ch2"]))
    done = three.invoke(cluster, op("restart", "once", nodes=["ch1", "ch2", "ch3"]))
    assert done.kind is Kind.OK
    assert isinstance(done.value, dict)
    assert (done.value["nodes"], done.value["text"]) == (["ch1"], "ch1")
    assert cluster.did[-1] == "restart ch1"


@pytest.mark.parametrize(
    "hold",
    [
        op("partition", grudge={"zk2": ["ch2"]}, text="zk2 does not hear ch2"),
        op("partition", grudge={"ch2": ["zk2"]}, text="ch2 does not hear zk2"),
        op("partition", grudge={"zk3": ["zk2"], "zk2": ["zk3"]}, text="zk2 is no follower of zk3"),
        op("pause", nodes=["zk2"]),
    ],
)
def test_a_replica_is_started_when_no_fault_holds_its_zookeeper(
    hold: Op, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nemesis.process.ELECTION_S", 0.1)
    cluster, every = Record(), nemesis(ALL)
    cluster.leads = "zk3"
    assert every.invoke(cluster, op("kill", nodes=["ch2", "ch3", "zk1"])).kind is Kind.OK
    assert every.invoke(cluster, hold).kind is Kind.OK
    done = every.invoke(cluster, op("kill", "end"))
    assert (done.kind, done.error) == (
        Kind.INFO,
        "ch2: not started, no ZooKeeper server that it knows has a quorum now",
    )
    assert cluster.dead == {"ch2"}, "the others are started"
    restart = every.invoke(cluster, op("restart", "once", nodes=["ch2"]))
    assert restart.kind is Kind.FAIL
    assert every.invoke(cluster, op(hold.f, "end")).kind is Kind.OK
    assert every.invoke(cluster, op("kill", "end")).kind is Kind.OK
    assert cluster.whole


@pytest.mark.parametrize(
    ("leads", "cut", "dead", "members"),
    [
        ("zk2", [], [], {"zk1", "zk2", "zk3"}),
        ("zk2", [], ["zk1"], {"zk2", "zk3"}),
        ("zk2", [], ["zk1", "zk3"], set()),
        ("zk2", ["zk1"], [], {"zk2", "zk3"}),
        ("zk2", ["zk2"], [], set()),
        (None, [], [], set()),
    ],
)
def test_who_belongs_to_a_quorum(
    leads: str | None, cut: list[str], dead: list[str], members: set[str]
) -> None:
    cluster = Record()
    cluster.leads, cluster.dead = leads, set(dead)
    cluster.dropped = set(complete(THREE.links(), [cut, set(NODES) - set(cut)]))
    assert quorum(cluster, THREE) == members


def test_fetches_of_a_dead_replica_need_no_start_and_of_a_paused_one_must_wait() -> None:
    cluster, every = Record(), nemesis(ALL)
    every.invoke(cluster, LAG)
    every.invoke(cluster, op("pause", nodes=["ch1"]))
    done = every.invoke(cluster, op("stop-fetches", "end"))
    assert (done.kind, done.error) == (
        Kind.INFO,
        "ch1 is paused, its fetches are still stopped",
    )
    every.invoke(cluster, op("kill", nodes=["ch1"]))
    assert every.invoke(cluster, op("stop-fetches", "end")).kind is Kind.OK
    every.heal(cluster)
    assert cluster.whole


# --- capabilities ---------------------------------------------------------------------------


def test_a_cluster_that_lacks_a_capability_is_refused_by_name() -> None:
    check_capabilities(nemesis(ALL), Record())
    check_capabilities(nemesis("none"), Bare())
    with pytest.raises(UsageError) as caught:
        check_capabilities(nemesis("partition,pause-clickhouse"), Bare())
    assert str(caught.value) == (
        "nemesis partition,pause-clickhouse: cluster bare lacks CanPartition, ReportsLeader, "
        "CanPause; choose another nemesis or another cluster"
    )


def test_servers_that_lack_a_mechanism_are_refused_by_name() -> None:
    leaders = nemesis("kill-clickhouse-leader,partition")
    check_mechanisms(leaders, dialect_of(Version(18, 16, 1)))
    with pytest.raises(UsageError) as caught:
        check_mechanisms(leaders, dialect_of(Version(25, 8, 2)))
    assert str(caught.value) == (
        "nemesis kill-clickhouse-leader,partition: needs a single leading replica per table, which "
        "ClickHouse 25.8.2 with ZooKeeper does not have; choose another --clickhouse"
    )
