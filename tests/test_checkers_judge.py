"""Every checker is heard, whatever becomes of another; and the conclusion in words."""

import json
import os

import pytest
from checkers_cases import fault, final, history, insert, read, rest
from msgspec import structs

import checkers.judge as judging
from checkers.judge import fitting, judge
from checkers.ladder import Level
from checkers.replication.leaders import Leaders
from checkers.sets.convergence import Convergence
from checkers.suite import set_checkers
from checkers.witness import EXPECTED, breaks, explained, gravest, witnesses
from harness.core import time_limit as time_limits
from harness.core.dialect import Version, dialect_of
from harness.core.time_limit import OutOfTime, time_limit
from harness.core.verdict import Anomaly, Status, Verdict

EMPTY = history()


class Says:
    """A checker that says what it was told to; it takes `took_s` of a clock of the test."""

    def __init__(self, name, status=Status.VALID, anomalies=(), *, clock=None, took_s=0):
        self.name, self._status, self._anomalies = name, status, anomalies
        self._clock, self._took_s, self.left_s = clock, took_s, None

    def check(self, history):
        return self.check_within(history, None)

    def check_within(self, history, budget_s):
        self.left_s = budget_s
        if self._clock:
            self._clock.now += round(self._took_s * 1e9)
        return Verdict(
            checker=self.name,
            status=self._status,
            summary=f"{self.name} found this",
            checked=1,
            anomalies=self._anomalies,
        )


class Raises:
    name = "broken"

    def __init__(self, error):
        self._error = error

    def check(self, history):
        raise self._error


class TestClock:
    __test__ = False
    now = 5_000_000_000

    def now_ns(self):
        return self.now

    def sleep_until(self, time_ns):
        raise AssertionError("a judge does not wait")


class Panic(BaseException):
    """Panic of a Rust extension, which does not derive from Exception."""


@pytest.mark.parametrize(
    ("error", "summary"),
    [
        (ValueError("no such bit"), "the checker failed: ValueError: no such bit"),
        (Panic("index out of bounds"), "the checker failed: Panic: index out of bounds"),
        (RecursionError(), "the checker failed: RecursionError"),
        (SystemExit(0), "the checker failed: SystemExit: 0"),
    ],
)
def test_a_checker_that_fails_is_unknown_and_the_others_are_heard(error, summary):
    judged = judge(EMPTY, [Raises(error), Says("stats")], 1.0, "eventual")
    assert judged.status is Status.UNKNOWN
    assert judged.verdicts[0] == Verdict(
        checker="broken", status=Status.UNKNOWN, summary=summary, checked=0
    )
    assert judged.verdicts[1].status is Status.VALID


class Returns:
    name = "own"

    def __init__(self, returned):
        self._returned = returned

    def check(self, history):
        return self._returned


FINE = Verdict(checker="own", status=Status.VALID, summary="fine", checked=1)
BROKEN = {"checker": "own", "status": Status.INVALID, "summary": "bad", "checked": 1}


@pytest.mark.parametrize(
    ("returned", "why"),
    [
        (None, "None, expected a Verdict"),
        ((Status.VALID, "fine"), "(<Status.VALID: 'VALID'>, 'fine'), expected a Verdict"),
        (structs.replace(FINE, checker="stats"), "a verdict of 'stats', expected one of 'own'"),
        (structs.replace(FINE, status="VALID"), "the status 'VALID', expected a Status"),
        (
            structs.replace(FINE, summary=None),
            "a Verdict with a field of another type: Expected `str`, got `null` - at `$.summary`",
        ),
        (
            structs.replace(FINE, figures={"seen": {7}}),
            "a Verdict with a field of another type: Object of type set is not JSON serializable",
        ),
        (
            Verdict(**BROKEN, anomalies=("lost",)),
            "a Verdict with a field of another type: Expected `object`, got `str` - at "
            "`$.anomalies[0]`",
        ),
        (
            Verdict(**BROKEN, anomalies=(Anomaly(kind="lost", text="7 is lost", ops=(0, 9)),)),
            "a witness with op #9, expected one of 4 ops",
        ),
    ],
)
def test_a_checker_that_returns_no_verdict_is_unknown_and_the_rest_stands(returned, why):
    found = (Anomaly(kind="lost", text="8 is lost", ops=(0,)),)
    others = [Says("before", Status.INVALID, found), Says("after")]
    h = history(insert(0, 1, 0, 10), insert(0, 2, 20, 30))
    judged = judge(h, [others[0], Returns(returned), others[1]], 1.0, "eventual")
    assert [one.status.value for one in judged.verdicts] == ["INVALID", "UNKNOWN", "VALID"]
    assert judged.verdicts[1] == Verdict(
        checker="own", status=Status.UNKNOWN, summary=f"the checker returned {why}", checked=0
    )
    assert judged.status is Status.INVALID
    assert json.loads(json.dumps(judged.results()))["status"] == "INVALID"


def test_a_checker_with_the_name_of_an_earlier_one_is_unknown():
    judged = judge(EMPTY, [Says("own"), Says("own")], 1.0, "eventual")
    assert [(one.checker, one.status.value) for one in judged.verdicts] == [
        ("own", "VALID"), ("own (2)", "UNKNOWN"),
    ]  # fmt: skip
    assert judged.verdicts[1].summary == (
        "an earlier checker has the name own; expected one of its own"
    )


def test_an_interrupt_is_not_swallowed():
    with pytest.raises(KeyboardInterrupt):
        judge(EMPTY, [Raises(KeyboardInterrupt())], 1.0, "eventual")


def test_each_checker_has_what_the_ones_before_it_left():
    clock = TestClock()
    checkers = [Says(name, clock=clock, took_s=4) for name in ("a", "b", "c", "d")]
    judged = judge(EMPTY, checkers, 10.0, Level.EVENTUAL, clock=clock)
    assert [checker.left_s for checker in checkers] == [10.0, 6.0, 2.0, 0.0]
    assert judged.seconds == {"a": 4.0, "b": 4.0, "c": 4.0, "d": 4.0}


class Endless:
    name = "endless"
    ended_by = None

    def check(self, history):
        try:
            while True:
                len(history)
        except BaseException as error:
            self.ended_by = type(error)
            raise


def test_a_checker_without_a_budget_is_ended_and_the_others_are_heard():
    endless = Endless()
    judged = judge(EMPTY, [Says("stats"), endless, Says("after")], 0.2, "eventual")
    assert endless.ended_by is OutOfTime
    assert [one.status.value for one in judged.verdicts] == ["VALID", "UNKNOWN", "VALID"]
    assert judged.verdicts[1].summary == "not decided within 0.2 s"


def ended_after(limit_s):
    try:
        with time_limit(limit_s):
            while True:
                pass
    except OutOfTime:
        return True


def test_a_limit_ends_its_own_block_alone():
    """The one that is over first begins last, when the others are waited for."""
    with time_limit(600):
        pass
    with time_limit(600):
        assert ended_after(0.1)
        assert ended_after(0.1)
    assert not time_limits._limits.ends


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_process_has_limits_of_its_own():
    assert ended_after(0.01)
    child = os.fork()
    if child == 0:
        os._exit(7 if ended_after(0.1) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_long_history_has_more_time(monkeypatch):
    monkeypatch.setattr(judging, "OPS_A_DEADLINE", 4)
    checker = Says("a", clock=TestClock())
    judge(history(fault(1, 2), rest(3)), [checker], 10.0, Level.EVENTUAL, clock=TestClock())
    assert checker.left_s == 15.0


def test_nothing_to_judge_by_is_unknown():
    assert judge(EMPTY, [], 1.0, "linearizable").status is Status.UNKNOWN


def test_an_empty_history_is_unknown_for_every_promise_and_checker():
    for promise in Level:
        judged = judge(EMPTY, set_checkers(promise, faults_expected=False), 1.0, promise)
        assert {verdict.status for verdict in judged.verdicts} == {Status.UNKNOWN}
        assert judged.status is Status.UNKNOWN


def sets(h, promise=Level.LINEARIZABLE):
    checkers = set_checkers(promise, faults_expected=True, min_ok={})
    return judge(h, checkers, 10.0, promise)


def test_a_lost_value_in_words():
    h = history(
        insert(0, 417, 0, 8114, node="ch2"),
        fault(8000, 9000, "{ch1 zk1 | ch2 ch3 zk2 zk3}"),
        rest(41_000),
        final(1, [], 42_000, 42_100, node="ch1"),
        final(2, [], 42_000, 42_100, node="ch2"),
    )
    again = "harness run --workload quorum-set --nemesis partition --seed 0x5eed"
    lines = explained(sets(h), h, workload="quorum-set", repro_command=again).text().splitlines()
    assert lines == [
        "quorum-set: 1 acknowledged value is missing from the final read (of 1 acknowledged)",
        "  first lost: value 417 of key 0, op #3 ok at 8.114 s on ch2, "
        "during partition {ch1 zk1 | ch2 ch3 zk2 zk3}",
        "  witness:    op #3 insert 417 on ch2 was acknowledged at 8.114 s, "
        "during partition {ch1 zk1 | ch2 ch3 zk2 zk3}",
        "              op #8 final-read on ch1 began at 42.000 s and returned 0 values at "
        "42.100 s (op #10) without 417",
        "              op #9 final-read on ch2 began at 42.000 s and returned 0 values at "
        "42.100 s (op #11) without 417",
        "  expected:   every acknowledged insert visible once the replicas converged (at 41.000 s)",
        f"  again:      {again}",
    ]


def test_the_reasons_of_an_unknown_in_words():
    h = history(insert(0, 1, 0, 10, "info"))
    lines = (
        explained(sets(h, Level.EVENTUAL), h, workload="quorum-set", repro_command="x")
        .text()
        .splitlines()
    )
    assert lines == [
        "quorum-set: nothing can be concluded",
        "  stats:       0 ok calls in total, at least 20 expected; no fault took effect",
        "  set-full:    no insert was acknowledged; no read was answered",
        "  convergence: the run did not record that the cluster came to rest; "
        "no final read of key 0 on ch1",
        "  again:       x",
    ]


def test_a_valid_run_in_words():
    judged = judge(EMPTY, [Says("linearizable"), Says("stats")], 1.0, "linearizable")
    text = explained(judged, EMPTY, workload="quorum-set", repro_command="harness run").text()
    assert text == "quorum-set: valid, linearizable held\n  again: harness run"


def anomaly(kind, *ops, time_ns=0):
    return Anomaly(kind=kind, text=f"{kind} {ops}", ops=ops, time_ns=time_ns)


def test_the_gravest_kind_then_the_fewest_ops_then_the_first():
    first = anomaly("lost", 1, 2, time_ns=5)
    found = (anomaly("cycle", 1), anomaly("lost", 1, 2, 3), anomaly("lost", 3, 4, time_ns=9), first)
    h = history(*(insert(0, value, 10 * value, 10 * value + 5) for value in range(3)))
    judged = judge(h, [Says("x", Status.INVALID, found)], 1.0, "eventual")
    assert gravest(judged)[1] == first


STALE = anomaly("stale", 1, 2)
NOT_LINEARIZABLE = anomaly("cycle", 1, 2, 3)
NOT_SEQUENTIAL = anomaly("cycle", 1, 2, 3, 4)
BACKWARDS = anomaly("monotonic-reads", 5, 6, 7)
LOST = anomaly("lost", 1, 2, 3)


@pytest.mark.parametrize(
    ("named", "found", "expected"),
    [
        # The first alone is broken.
        (None, {"set-full": STALE, "linearizable": NOT_LINEARIZABLE}, [STALE]),
        # A guarantee of sessions is one of the sequential order too, and has fewer ops.
        (
            None,
            {"set-full": STALE, "sequential": NOT_SEQUENTIAL, "monotonic-reads": BACKWARDS},
            [STALE, BACKWARDS],
        ),
        (
            Level.SEQUENTIAL,
            {"set-full": STALE, "sequential": NOT_SEQUENTIAL, "monotonic-reads": BACKWARDS},
            [BACKWARDS, STALE],
        ),
        (
            Level.SEQUENTIAL,
            {"linearizable": NOT_LINEARIZABLE, "sequential": NOT_SEQUENTIAL},
            [NOT_SEQUENTIAL, NOT_LINEARIZABLE],
        ),
        # A lost value is graver than any order.
        (
            Level.SEQUENTIAL,
            {"set-full": LOST, "sequential": NOT_SEQUENTIAL},
            [LOST, NOT_SEQUENTIAL],
        ),
    ],
)
def test_each_violated_level_has_its_smallest_witness(named, found, expected):
    names = ("convergence", "set-full", "linearizable", "sequential", "monotonic-reads")
    checkers = [
        Says(name, Status.INVALID, (found[name],)) if name in found else Says(name, Status.UNKNOWN)
        for name in names
    ]
    ops = history(*(insert(0, value, 10 * value, 10 * value + 5) for value in range(4)))
    judged = judge(ops, checkers, 1.0, "linearizable")
    assert [one for _, one in witnesses(judged, named)] == expected


def test_what_no_order_in_real_time_explains_may_have_another_order():
    linearizable, sequential = (Says(name).check(EMPTY) for name in ("linearizable", "sequential"))
    assert breaks(linearizable, NOT_LINEARIZABLE) == {Level.LINEARIZABLE}
    assert breaks(sequential, NOT_SEQUENTIAL) == {Level.LINEARIZABLE, Level.SEQUENTIAL}
    assert breaks(sequential, anomaly("duplicate", 1)) == set(Level)


def test_what_does_not_decide_is_no_witness():
    judged = judge(
        EMPTY,
        [Says("linearizable", Status.INVALID, (anomaly("cycle", 1),)), Says("own")],
        1.0,
        "eventual",
    )
    assert gravest(judged) is None
    assert judged.status is Status.VALID


def test_every_kind_of_anomaly_of_the_suite_has_words_for_what_was_expected():
    h = history(
        insert(0, 1, 0, 10),
        insert(0, 2, 20, 30),
        read(1, [2, 2, 9], 40, 50),
        read(1, [], 60, 70),
        insert(1, 3, 71, 72),
        read(0, [3], 80, 90),
        rest(100),
        final(8, [2], 110, 120),
        final(9, [], 110, 120, node="ch2"),
    )
    kinds = {a.kind for verdict in sets(h).verdicts for a in verdict.anomalies}
    assert kinds == EXPECTED.keys() - {"cycle"}


@pytest.mark.parametrize(
    ("version", "names"),
    [(Version(18, 16, 1), ["convergence", "leaders"]), (Version(25, 8, 2), ["convergence"])],
)
def test_what_servers_do_not_have_is_not_judged(version, names):
    checkers = (Convergence(), Leaders())
    assert [checker.name for checker in fitting(checkers, dialect_of(version))] == names
