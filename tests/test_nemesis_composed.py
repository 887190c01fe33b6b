"""The composed nemesis: dispatch, what an op ends as, and the heal at any moment.

The cluster here is a record of what was asked of it, not a model of a database. What is tested
is the nemesis' own logic: in which order it heals, what it does when the cluster refuses, and
what a call does that outlives its heal. None of that can be brought about at will on real
servers. That faults bite and heal on those is the subject of test_nemesis_containers.py.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import ClusterError, FaultError, UsageError
from harness.core.op import NEMESIS, Done, Kind, Op
from harness.core.protocols import Endpoint
from harness.core.seed import Seed
from harness.core.topology import Link, LinkClass, Topology
from nemesis.catalogue import parse_nemesis
from nemesis.composed import Composed, check_capabilities
from nemesis.grudge import complete, to_json
from nemesis.options import FaultOptions
from nemesis.quorum import quorum

THREE = Topology.of()
NODES = ("ch1", "ch2", "ch3", "zk1", "zk2", "zk3")


class Bare:
    """A cluster that can do nothing but be one."""

    name = "bare"
    topology = THREE

    def up(self) -> None: ...
    def down(self) -> None: ...
    def close(self) -> None: ...
    def ping(self) -> None: ...
    def endpoint(self, node: str) -> Endpoint:
        raise NotImplementedError

    def versions(self) -> Mapping[str, str]:
        return {}

    def unready(self) -> list[str]:
        return []

    def collect(self, directory: Path) -> None: ...


class Record(Bare):
    """Remembers what it was told, obeys, and fails or hangs where a test says so."""

    name = "record"

    def __init__(self) -> None:
        self.did: list[str] = []
        self.dropped: set[Link] = set()
        self.dead: set[str] = set()
        self.frozen: set[str] = set()
        self.lagging: set[str] = set()
        self.leads: str | None = "zk2"
        self.during: dict[str, Callable[[], None]] = {}
        """By what it is told to do: run before it obeys."""

    def _told(self, what: str, nodes: Iterable[str] = ()) -> set[str]:
        told = set(nodes)
        self.did.append(" ".join((what, *sorted(told))))
        self.during.get(what, lambda: None)()
        return told

    def cut(self, links: Iterable[Link]) -> None:
        self._told("cut")
        self.dropped |= set(links)

    def mend(self) -> None:
        self._told("mend")
        self.dropped.clear()

    def reachable(self, links: Iterable[Link]) -> dict[Link, bool]:
        return {link: link not in self.dropped for link in links}

    def kill(self, nodes: Iterable[str]) -> None:
        self.dead |= self._told("kill", nodes)
        self.frozen -= self.dead

    def start(self, nodes: Iterable[str]) -> None:
        self.dead -= self._told("start", nodes)

    def running(self, node: str) -> bool:
        return node not in self.dead

    def restart(self, nodes: Iterable[str]) -> None:
        self._told("restart", nodes)

    def pause(self, nodes: Iterable[str]) -> None:
        self.frozen |= self._told("pause", nodes)

    def resume(self, nodes: Iterable[str]) -> None:
        self.frozen -= self._told("resume", nodes)

    def paused(self, node: str) -> bool:
        return node in self.frozen

    def leader(self) -> str | None:
        return self.leads

    def serving(self) -> frozenset[str]:
        return frozenset(THREE.keepers) - self.dead - self.frozen

    def stop_fetches(self, nodes: Iterable[str]) -> None:
        self.lagging |= self._told("stop", nodes)

    def start_fetches(self, nodes: Iterable[str]) -> None:
        self.lagging -= self._told("fetch", nodes)

    def fetching(self, node: str) -> bool:
        return node not in self.lagging

    @property
    def whole(self) -> bool:
        return not (self.dropped or self.dead or self.frozen or self.lagging)


def nemesis(text: str) -> Composed:
    options = FaultOptions(seen_within_s=0.2, heal_within_s=0.5)
    return parse_nemesis(text, THREE, Seed(3), options)


def op(f: str, edge: str = "begin", fault: int = 1, **plan: Any) -> Op:
    value = {"fault": fault, "edge": edge, "name": f, **plan}
    return Op(index=0, process=NEMESIS, kind=Kind.INVOKE, f=f, time_ns=0, value=value)


ALONE = complete(THREE, [["ch1"], NODES[1:]], LinkClass)
CUT = op("partition", grudge=to_json(ALONE), text="{ch1 | ch2 ch3 zk1 zk2 zk3}")
KILL = op("kill", nodes=["ch2", "zk1"])
PAUSE = op("pause", nodes=["ch3"])
LAG = op("stop-fetches", nodes=["ch1"])
ALL = "partition,kill,pause,restart,stop-fetches"


def explode(error: BaseException) -> Callable[[], None]:
    def raise_it() -> None:
        raise error

    return raise_it


# --- dispatch: what an op ends as -----------------------------------------------------------


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


def test_the_leader_is_asked_for_when_the_fault_begins() -> None:
    cluster = Record()
    done = nemesis("kill-leader").invoke(cluster, op("kill", target="leader"))
    assert isinstance(done.value, dict)
    assert (done.value["leader"], done.value["nodes"]) == ("zk2", ["zk2"])
    assert done.value["text"] == "zk2 (leader)"
    assert cluster.dead == {"zk2"}


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
    cluster.dropped = set(complete(THREE, [cut, set(NODES) - set(cut)], LinkClass))
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


# --- heal -----------------------------------------------------------------------------------


def test_heal_mends_then_resumes_then_starts_then_fetches() -> None:
    cluster, every = Record(), nemesis(ALL)
    for begin in (LAG, KILL, PAUSE, CUT):
        assert every.invoke(cluster, begin).kind is Kind.OK
    cluster.did.clear()
    every.heal(cluster)
    assert cluster.did == ["mend", "resume ch3", "start zk1", "start ch2", "fetch ch1"]
    assert cluster.whole


def test_heal_before_any_fault_and_twice_after_one() -> None:
    cluster, every = Record(), nemesis(ALL)
    every.heal(cluster)
    assert cluster.did == ["mend"]
    every.invoke(cluster, KILL)
    every.heal(cluster)
    every.heal(cluster)
    assert cluster.whole


def test_the_nemesis_none_has_nothing_to_heal() -> None:
    cluster = Record()
    nemesis("none").heal(cluster)
    assert cluster.did == []


@pytest.mark.parametrize(
    ("begin", "deed"), [(CUT, "cut"), (KILL, "kill"), (PAUSE, "pause"), (LAG, "stop")]
)
def test_heal_repairs_a_begin_that_was_interrupted_half_way(begin: Op, deed: str) -> None:
    class Interrupted(Record):
        """Obeys, and is interrupted before it can say so."""

        def _told(self, what: str, nodes: Iterable[str] = ()) -> set[str]:
            told = super()._told(what, nodes)
            if what == deed:
                self.dropped |= set(ALONE) if deed == "cut" else set()
                self.dead |= told if deed == "kill" else set()
                self.frozen |= told if deed == "pause" else set()
                self.lagging |= told if deed == "stop" else set()
                raise KeyboardInterrupt
            return told

    cluster, every = Interrupted(), nemesis(ALL)
    with pytest.raises(KeyboardInterrupt):
        every.invoke(cluster, begin)
    assert not cluster.whole
    every.heal(cluster)
    assert cluster.whole


def test_heal_heals_the_other_families_when_one_cannot_be_and_says_what_is_broken() -> None:
    cluster, every = Record(), nemesis(ALL)
    for begin in (KILL, PAUSE, CUT):
        every.invoke(cluster, begin)
    cluster.during = {"start": explode(ClusterError("zk1: no such container"))}
    with pytest.raises(FaultError) as caught:
        every.heal(cluster)
    assert str(caught.value) == (
        f"nemesis {ALL}: not healed within 0.5 s: kill: ClusterError: zk1: no such container; "
        "ch2 does not run; zk1 does not run"
    )
    assert not cluster.dropped
    assert not cluster.frozen


def test_heal_tries_again_what_failed_at_first() -> None:
    cluster, every = Record(), nemesis("kill")
    every.invoke(cluster, KILL)
    failures = [ClusterError("busy"), ClusterError("busy")]
    cluster.during = {"start": lambda: explode(failures.pop())() if failures else None}
    every.heal(cluster)
    assert cluster.whole


class InFlight:
    """A call that hangs inside the cluster until it is let go, in a thread of its own."""

    def __init__(self, cluster: Record, of: Composed, begin: Op, deed: str) -> None:
        self.entered, self.let_go = threading.Event(), threading.Event()
        cluster.during = {deed: self._hang}
        self.done: Done | None = None
        self._thread = threading.Thread(target=lambda: self._call(cluster, of, begin))
        self._thread.start()
        assert self.entered.wait(5)

    def _hang(self) -> None:
        self.entered.set()
        assert self.let_go.wait(5)

    def _call(self, cluster: Record, of: Composed, begin: Op) -> None:
        self.done = of.invoke(cluster, begin)

    def finish(self) -> Done:
        self.let_go.set()
        self._thread.join(5)
        assert self.done is not None
        return self.done


@pytest.mark.parametrize(
    ("begin", "deed"), [(CUT, "cut"), (KILL, "kill"), (PAUSE, "pause"), (LAG, "stop")]
)
def test_a_call_that_acts_after_the_heal_undoes_itself(
    begin: Op, deed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nemesis.composed.YIELD_S", 0.05)
    cluster, every = Record(), nemesis(ALL)
    call = InFlight(cluster, every, begin, deed)
    every.heal(cluster)
    done = call.finish()
    assert (done.kind, done.error) == (Kind.INFO, "a heal began while this fault was under way")
    assert cluster.whole


def test_heal_waits_a_moment_for_the_call_in_flight_to_stand_back() -> None:
    cluster, every = Record(), nemesis(ALL)
    call = InFlight(cluster, every, KILL, "kill")
    healed = threading.Thread(target=lambda: every.heal(cluster))
    healed.start()
    healed.join(0.2)
    assert healed.is_alive(), "it has not begun while the call is still acting"
    call.finish()
    healed.join(5)
    assert not healed.is_alive()
    assert cluster.whole


def test_after_a_heal_faults_can_begin_anew() -> None:
    cluster, every = Record(), nemesis(ALL)
    every.heal(cluster)
    assert every.invoke(cluster, KILL).kind is Kind.OK
    assert cluster.dead == {"ch2", "zk1"}


# --- capabilities ---------------------------------------------------------------------------


def test_a_cluster_that_lacks_a_capability_is_refused_by_name() -> None:
    check_capabilities(nemesis(ALL), Record())
    check_capabilities(nemesis("none"), Bare())
    with pytest.raises(UsageError) as caught:
        check_capabilities(nemesis("partition,pause-clickhouse"), Bare())
    assert str(caught.value) == (
        "nemesis partition,pause-clickhouse: cluster bare lacks CanPartition, CanLead, CanPause; "
        "choose another nemesis or another cluster"
    )
