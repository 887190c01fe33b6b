import pytest

from harness.core.errors import HistoryError
from harness.core.history import Fault, History
from harness.core.op import NEMESIS, Kind, Op, Process


def op(index: int, process: Process, kind: Kind, f: str = "read", **more: object) -> Op:
    return Op(index=index, process=process, kind=kind, f=f, time_ns=index * 10, **more)


def fault(index: int, **value: object) -> list[Op]:
    """Return a nemesis op and its success."""
    return [
        op(index, NEMESIS, Kind.INVOKE, "partition", value={}),
        op(index + 1, NEMESIS, Kind.OK, "partition", value=value),
    ]


def test_calls_are_paired_with_their_ends_and_an_open_call_is_info() -> None:
    ops = [
        op(0, 0, Kind.INVOKE, "insert", value=7, key=1, node="ch1"),
        op(1, 1, Kind.INVOKE),
        op(2, 0, Kind.OK, "insert", value=7, key=1, node="ch1"),
    ]
    history = History(ops)
    assert [(p.invoke.index, p.end and p.end.index, p.kind) for p in history.pairs] == [
        (0, 2, Kind.OK),
        (1, None, Kind.INFO),
    ]
    assert history.keys == (1,)


@pytest.mark.parametrize(
    ("ops", "says"),
    [
        ([op(1, 0, Kind.INVOKE)], "index is 1, expected 0"),
        (
            [op(0, 0, Kind.INVOKE), op(1, 0, Kind.INVOKE)],
            "process 0 invokes read while its op #0 is in flight",
        ),
        ([op(0, 0, Kind.OK)], "process 0 ends read that it never invoked"),
        (
            [op(0, 0, Kind.INVOKE), op(1, 0, Kind.INFO), op(2, 0, Kind.INVOKE)],
            "process 0 invokes after an info retired it",
        ),
        (
            [op(0, 0, Kind.INVOKE, key=1), op(1, 0, Kind.OK, key=2)],
            "ends read key 2 on None, but its call #0 is read key 1 on None",
        ),
        (
            [
                Op(index=0, process=0, kind=Kind.INVOKE, f="read", time_ns=5),
                Op(index=1, process=0, kind=Kind.OK, f="read", time_ns=4),
            ],
            "time_ns 4 is before its predecessor's 5",
        ),
    ],
)
def test_what_breaks_the_rules_of_histories_is_refused(ops: list[Op], says: str) -> None:
    with pytest.raises(HistoryError, match=says.replace("(", r"\(")):
        History(ops)


def test_a_nemesis_goes_on_after_an_info() -> None:
    ops = [op(0, NEMESIS, Kind.INVOKE), op(1, NEMESIS, Kind.INFO), op(2, NEMESIS, Kind.INVOKE)]
    assert History(ops).nemesis == tuple(ops)


def test_faults_last_from_their_begin_to_their_end_or_to_the_heal() -> None:
    ops = [
        *fault(0, fault=1, edge="begin", name="partition-ring", text="a|b"),
        *fault(2, fault=2, edge="begin", name="kill", text="ch1"),
        *fault(4, fault=1, edge="end", name="partition-ring", text="a|b"),
        *fault(6, fault=3, edge="once", name="restart", text="ch2"),
        *fault(8, edge="heal"),
        *fault(10, fault=4, edge="begin", name="pause", text="zk1"),
    ]
    history = History(ops)
    assert history.faults == (
        Fault("partition-ring", "a|b", 0, 10, 50, 1),
        Fault("kill", "ch1", 20, 30, 90, 3),
        Fault("restart", "ch2", 60, 60, 70, 7),
        Fault("pause", "zk1", 100, 110, None, 11),
    )
    assert [f.name for f in history.faults_at(40)] == ["partition-ring", "kill"]
    assert [f.name for f in history.faults_at(25)] == ["partition-ring"]
    assert [f.name for f in history.faults_unverified_at(25)] == ["kill"]


def test_a_fault_whose_effect_was_not_seen_is_no_fault() -> None:
    begin = {"fault": 1, "edge": "begin", "name": "kill", "text": "ch1"}
    ops = [op(0, NEMESIS, Kind.INVOKE, "kill"), op(1, NEMESIS, Kind.INFO, "kill", value=begin)]
    assert History(ops).faults == ()
