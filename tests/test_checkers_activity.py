"""When a replica's is_active must be gone, and when back: literal histories."""

import pytest
from checkers_cases import Event, fault, kinds, rest, told

from checkers.replication.activity import Activity
from harness.core.op import NEMESIS, Kind
from harness.core.verdict import Status

VALID, UNKNOWN, INVALID = Status.VALID, Status.UNKNOWN, Status.INVALID
S = 1_000
ACTIVITY = Activity(timeout_s=5, slack_s=2)
KEEPERS = {"ch1": ["zk1"], "ch2": ["zk2"], "ch3": ["zk3"]}


def seen(at, *, f="observe-active", **active):
    return told(f, {"active": active, "keepers": KEEPERS}, at)


def paused(begin, end, *nodes):
    edges = fault(begin, end, text=" ".join(nodes), name="pause-clickhouse-one")
    return _with(edges, f="pause", nodes=list(nodes))


def cut(begin, end, grudge):
    return _with(fault(begin, end, number=3), f="partition", grudge=grudge)


def _with(edges, *, f, **more):
    """Return the edges of a fault as its family records them, with the value in the call, too."""
    value: dict = {}
    out = []
    for event in edges:
        op = {**event.op, "f": f}
        if op["kind"] is not Kind.INVOKE:
            value = op["value"] = {**op["value"], **more}
            out[-1].op["value"] = value
        assert op["process"] == NEMESIS
        out.append(Event(event.time_ns, op))
    return out


def test_a_replica_that_is_away_for_a_session_is_gone_and_comes_back():
    calls = (seen(4 * S, ch1=True), paused(1 * S, 12 * S, "ch1"), seen(9 * S, ch1=False))
    back = (rest(20 * S), seen(21 * S, f="final-active", ch1=True, ch2=True))
    assert kinds(ACTIVITY, *calls, *back) == (VALID, [])
    away = (rest(20 * S), seen(21 * S, f="final-active", ch1=False, ch2=True))
    assert kinds(ACTIVITY, *calls, *away) == (INVALID, ["not-back"])


def test_a_replica_that_stays_active_is_told_unless_it_was_not_away_for_long():
    still = seen(9 * S, ch1=True)
    assert kinds(ACTIVITY, paused(1 * S, 12 * S, "ch1"), still) == (INVALID, ["still-active"])
    assert kinds(ACTIVITY, paused(4 * S, 12 * S, "ch1"), still) == (UNKNOWN, [])
    assert kinds(ACTIVITY, paused(1 * S, 12 * S, "ch2"), seen(9 * S, ch1=True, ch2=False)) == (
        VALID, [],
    )  # fmt: skip


def test_a_cut_from_its_own_zookeeper_server_is_a_way_of_being_away():
    still = seen(9 * S, ch1=True)
    assert kinds(ACTIVITY, cut(1 * S, 12 * S, {"zk1": ["ch1"]}), still)[0] is INVALID
    assert kinds(ACTIVITY, cut(1 * S, 12 * S, {"ch1": ["zk2"]}), still)[0] is UNKNOWN
    deaf = cut(1 * S, 20 * S, {"ch1": ["zk1"]})
    assert kinds(ACTIVITY, deaf, still)[0] is UNKNOWN, "zk1 hears it until it gives up"
    assert kinds(ACTIVITY, deaf, seen(14 * S, ch1=True))[0] is INVALID
    peers = {"zk1": ["ch1", "zk2"], "zk2": ["zk1"]}
    assert kinds(ACTIVITY, cut(1 * S, 20 * S, peers), still)[0] is UNKNOWN
    assert kinds(ACTIVITY, cut(1 * S, 20 * S, peers), seen(14 * S, ch1=True))[0] is INVALID


def strikes(f, begin, end, *nodes):
    return _with(fault(begin, end, text=" ".join(nodes), number=2), f=f, nodes=list(nodes))


def found(f, begin, end, **target):
    """Return a fault whose targets are determined when it begins, so that only that answer names
    them."""
    edges = _with(fault(begin, end, number=2), f=f)
    begun = edges[1].op
    edges[1] = Event(edges[1].time_ns, {**begun, "value": {**begun["value"], **target}})
    return edges


def doubtful(f, begin, **target):
    """Return a fault that may have taken effect; one of the leader does not name its node."""
    asked, begun, *_ = _with(fault(begin, begin + S, number=2), f=f, **target)
    return [asked, Event(begun.time_ns, {**begun.op, "kind": Kind.INFO})]


@pytest.mark.parametrize(
    ("other", "judged"),
    [
        (doubtful("pause", 7 * S), False),
        (doubtful("pause", 7 * S, nodes=["ch2"]), True),
        (strikes("kill", 2 * S, 4 * S, "ch1"), False),  # a new process, which nobody stopped
        (found("kill", 2 * S, 4 * S, nodes=["ch1"]), False),
        (strikes("kill", 2 * S, 4 * S, "ch2"), True),
        (strikes("kill", 2 * S, 14 * S, "zk2"), False),  # a new leader: a whole timeout again
        (cut(2 * S, 14 * S, {"zk1": ["zk2"]}), False),
        (cut(2 * S, 14 * S, {"ch1": ["zk2"]}), True),
        (strikes("clock-skew", 0, 14 * S, "zk2"), False),
        (strikes("loss", 0, 14 * S, "ch2"), True),
    ],
)
def test_a_replica_may_be_active_longer_when_another_fault_lets_it(other, judged):
    calls = (paused(1 * S, 13 * S, "ch1"), other, seen(12 * S, ch1=True))
    assert kinds(ACTIVITY, *calls) == ((INVALID, ["still-active"]) if judged else (UNKNOWN, []))


HALVES = {
    **{name: ["ch3", "zk1"] for name in ("ch1", "ch2", "zk2", "zk3")},
    **{name: ["ch1", "ch2", "zk2", "zk3"] for name in ("ch3", "zk1")},
}


@pytest.mark.parametrize(
    ("end", "struck", "judged"),
    [
        (56_805, "zk3", False),  # it led; there was no quorum until it went on
        (49_900, "zk3", True),
        (56_805, "ch3", True),
    ],
)
def test_a_leader_that_goes_on_after_its_pause_gives_every_session_its_timeout_again(
    end, struck, judged
):
    paused_leader = found("pause", 19_859, end, nodes=[struck])
    calls = (paused_leader, cut(49_492, 71_890, HALVES), seen(61_983, ch1=True, ch2=True))
    assert kinds(ACTIVITY, *calls) == ((INVALID, ["still-active"]) if judged else (UNKNOWN, []))


@pytest.mark.parametrize(
    ("end", "apart", "judged"),
    [
        (59_446, {"zk1": ["zk2", "zk3"], "zk2": ["zk1"], "zk3": ["zk1"]}, False),
        (55_000, {"zk1": ["zk2", "zk3"], "zk2": ["zk1"], "zk3": ["zk1"]}, True),
        (59_446, {"ch1": ["ch2"], "ch2": ["ch1"]}, True),
    ],
)
def test_a_follower_that_comes_back_from_a_cut_may_bring_about_a_new_leader(end, apart, judged):
    calls = (found("partition", 22_360, end, grudge=apart), paused(60_250, 70_143, "ch3"))
    still = seen(67_257, ch1=True, ch2=True, ch3=True)
    said = kinds(ACTIVITY, *calls, still)
    assert said == ((INVALID, ["still-active"]) if judged else (UNKNOWN, []))
