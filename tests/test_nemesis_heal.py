"""The heal: in which order, at any moment, from any thread, any number of times."""

import threading
from collections.abc import Iterable

import pytest
from nemesis_record import (
    ALL,
    ALONE,
    CUT,
    KILL,
    LAG,
    PAUSE,
    Record,
    explode,
    nemesis,
    op,
)

from harness.core.errors import ClusterError, FaultError
from harness.core.op import Done, Kind, Op
from nemesis.composed import Composed


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
        """Cluster whose call is interrupted after it has taken effect."""

        def _called(self, what: str, nodes: Iterable[str] = ()) -> set[str]:
            called = super()._called(what, nodes)
            if what == deed:
                self.dropped |= set(ALONE) if deed == "cut" else set()
                self.dead |= called if deed == "kill" else set()
                self.frozen |= called if deed == "pause" else set()
                self.lagging |= called if deed == "stop" else set()
                raise KeyboardInterrupt
            return called

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


def test_a_call_that_was_about_to_act_when_the_heal_came_touches_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nemesis.composed.YIELD_S", 0.05)
    cluster, every = Record(), nemesis("kill,pause")
    call = InFlight(cluster, every, op("kill", target="leader"), "leader")
    every.heal(cluster)
    assert call.finish().kind is Kind.INFO
    assert cluster.did == []


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
