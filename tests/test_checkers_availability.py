"""Answers during outages, judged on histories written by hand. Times are in s."""

from checkers_cases import Event, _call, _nemesis, history

from checkers.availability.availability import Availability
from checkers.availability.downtime import FOREVER_NS, outages
from harness.core.verdict import Status, Verdict

S = 1000
CLUSTER = {
    node: {"queue": 0, "keepers": [keeper], "ensemble": 3}
    for node, keeper in (("ch1", "zk1"), ("ch2", "zk2"), ("ch3", "zk3"))
}


def call(f, begin, kind="ok", *, node="ch1", process=0):
    error = None if kind == "ok" else "225 NO_ZOOKEEPER: no"
    value = 1 if f == "insert" else None
    answer = () if f == "read" and kind == "ok" else value
    return _call(process, f, begin * S, begin * S + 50, kind, node, 0, value, answer, error)


def kill(nodes, begin, end):
    value = {"fault": 1, "name": "kill-one", "nodes": nodes, "text": " ".join(nodes)}
    out = _nemesis("kill", begin * S, "ok", {**value, "edge": "begin"})
    return out if end is None else out + _nemesis("kill", end * S, "ok", {**value, "edge": "end"})


def verdict(*calls: list[Event]) -> Verdict:
    rest = _nemesis("quiesce", 99 * S, "ok", {"pending": [], "replicas": CLUSTER})
    return Availability().check(history(*calls, rest))


def kinds(found: Verdict) -> list[str]:
    return [anomaly.kind for anomaly in found.anomalies]


MAJORITY = kill(["zk2", "zk3"], 10, 40)


def test_without_zookeepers_majority_plain_reads_are_answered_and_nothing_else() -> None:
    found = verdict(
        MAJORITY,
        call("read", 20),
        call("insert", 21, "fail"),
        call("read-sequential", 22, "fail"),
    )
    assert (found.status, found.checked) == (Status.VALID, 3)
    assert found.summary == (
        "1 plain read answered, 1 of them without ZooKeeper, 2 insert or sequential reads "
        "refused without ZooKeeper"
    )


def test_inserts_beside_the_dead_are_counted() -> None:
    short = verdict(kill(["ch2"], 10, 40), call("insert", 20), call("insert", 45, process=1))
    assert short.summary == "2 inserts accepted, 1 of them while another replica was down"
    minority = verdict(kill(["zk3"], 10, 60), call("insert", 50))
    assert minority.summary.endswith("1 of them while a minority of ZooKeeper was down")


def test_each_claim_can_be_broken() -> None:
    assert kinds(verdict(MAJORITY, call("read", 20, "fail"))) == ["unanswered-read"]
    assert kinds(verdict(MAJORITY, call("insert", 20))) == ["served-without-zookeeper"]
    assert kinds(verdict(MAJORITY, call("read-sequential", 20))) == ["served-without-zookeeper"]
    assert kinds(verdict(kill(["ch2"], 10, 40), call("insert", 20, "info"))) == ["refused-insert"]
    assert kinds(verdict(call("insert", 20, "fail"))) == ["refused-insert"]
    minority = kill(["zk3"], 10, 60)
    assert kinds(verdict(minority, call("insert", 50, "fail"))) == ["refused-insert"]


def test_what_a_fault_is_near_is_not_judged() -> None:
    for calls in (
        (MAJORITY, call("insert", 11, "ok")),  # it has just begun
        (MAJORITY, call("insert", 50, "fail")),  # it is just over
        (kill(["ch1"], 10, 40), call("insert", 20, "info"), call("read", 21, "info", process=1)),
        (kill(["zk1"], 10, 60), call("insert", 50, "fail")),  # the only one that ch1 knows
        (
            _nemesis("partition", 10 * S, "ok", {"fault": 1, "edge": "begin"}),
            call("read", 20, "info"),
        ),
    ):
        found = verdict(*calls)
        assert (found.status, found.checked) == (Status.UNKNOWN, 0)


def test_the_times_of_an_outage() -> None:
    info = _nemesis("kill", 50, "info", {"fault": 2, "edge": "begin", "nodes": ["ch1"]})
    first, second = outages(history(kill(["zk1"], 0.01, 0.02), info))
    assert (first.down_ns, first.lifted_ns, first.over_ns) == (10e6, 20e6, 20e6)
    assert (second.down_ns, second.over_ns) == (FOREVER_NS, FOREVER_NS), "its effect was not seen"
