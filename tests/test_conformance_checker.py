"""The checker `conformance`: what it makes of the run's ops, and that it decides nothing."""

from typing import Any

import pytest
from msgspec.structs import replace

from checkers.every_run import applicable, every_run
from checkers.judge import judge
from checkers.ladder import Level
from checkers.replication.conformance import Conformance
from harness.core.history import History
from harness.core.op import NEMESIS, Kind, Op
from harness.core.verdict import Status

DEPARTURE = {
    "table": "/t", "step": ["EndQuorum ch2", "LastPartBack ch2 from 0_2_2_0"], "zxid": "0xc7",
    "time_s": 1.443, "replica": "ch2", "kind": "LastPartBack", "text": "last_part went back",
    "allowed": "last_part names the highest block",
}  # fmt: skip


def table(**changed: Any) -> dict[str, Any]:
    said = {"steps": 40, "departures": {}, "stopped": None, "unmodelled": False, "digest": "ab"}
    return {"tables": {"/t": {**said, **changed}}, "gaps": []}


def history(said: dict[str, Any] | None, *departures: dict[str, Any]) -> History:
    calls = [("departure", one) for one in departures]
    calls += [] if said is None else [("conformance", said)]
    ops: list[Op] = []
    for f, value in calls:
        for kind, told in ((Kind.INVOKE, None), (Kind.OK, value)):
            ops.append(
                Op(index=len(ops), process=NEMESIS, kind=kind, f=f, time_ns=len(ops), value=told)
            )
    return History(ops)


@pytest.mark.parametrize(
    ("said", "departures", "status", "summary"),
    [
        (table(), (), Status.VALID, "the model takes each of 40 steps in ZooKeeper"),
        (
            table(departures={"LastPartBack": 12}),
            (DEPARTURE,),
            Status.INVALID,
            "departures from the model in 40 steps: LastPartBack 12",
        ),
        (
            table(stopped="ch1 is not active"),
            ({**DEPARTURE, "kind": ""},),
            Status.INVALID,
            "departures from the model in 40 steps: unknown-departure 1",
        ),
        (table(steps=0), (), Status.UNKNOWN, "no step of the protocol was seen"),
        (
            table(stopped="an entry of type 'clear_column'", unmodelled=True),
            (),
            Status.UNKNOWN,
            "an entry of type 'clear_column'",
        ),
        (
            {**table(), "gaps": ["2 transactions from 0x1 are in no log"]},
            (DEPARTURE,),
            Status.UNKNOWN,
            "ZooKeeper's log has a gap: 2 transactions from 0x1 are in no log",
        ),
        ({"unavailable": "zk1 does not answer"}, (), Status.UNKNOWN, "zk1 does not answer"),
    ],
)
def test_verdict(
    said: dict[str, Any], departures: tuple[dict[str, Any], ...], status: Status, summary: str
) -> None:
    verdict = Conformance().check(history(said, *departures))
    assert (verdict.status, verdict.summary) == (status, summary)


def test_what_zookeeper_has_lost_is_no_departure() -> None:
    once = {"edge": "once", "name": "keeper-rewound-zookeeper-all", "text": "zk1 zk2 zk3"}
    looked = [*history(table(stopped="no entry"), {**DEPARTURE, "kind": ""})]
    fault = Op(index=0, process=NEMESIS, kind=Kind.OK, f="keeper-rewound", time_ns=0, value=once)
    asked = replace(fault, kind=Kind.INVOKE, value=None)
    ops = [replace(one, index=at) for at, one in enumerate([asked, fault, *looked])]
    verdict = Conformance().check(History(ops))
    assert verdict.status is Status.UNKNOWN
    assert verdict.summary == (
        "ZooKeeper's log has a gap: what it had committed is gone (keeper-rewound-zookeeper-all)"
    )


def test_a_departure_is_a_witness_with_the_step_and_what_is_allowed() -> None:
    verdict = Conformance().check(history(table(departures={"LastPartBack": 1}), DEPARTURE))
    (anomaly,) = verdict.anomalies
    assert (anomaly.kind, anomaly.ops, anomaly.time_ns) == ("LastPartBack", (1,), 1_443_000_000)
    assert anomaly.text == "at 1.443 s ch2: last_part went back"
    assert anomaly.steps[1] == "the model allows: last_part names the highest block"


def test_it_is_there_where_the_run_has_looked_and_decides_nothing() -> None:
    looked = history(table(departures={"LastPartBack": 1}), DEPARTURE)
    checkers = applicable(every_run(), looked)
    assert [checker.name for checker in checkers] == ["conformance"]
    assert applicable(every_run(), history(None)) == []
    judgement = judge(looked, checkers, 10, Level.EVENTUAL)
    assert judgement.deciding == ()
    assert judgement.broken_kinds == ()
    assert judgement.status is Status.UNKNOWN
