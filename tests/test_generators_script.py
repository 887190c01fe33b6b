"""Scripts, on virtual time: what is called when, and how a stored history is told from one that
broke off."""

from collections.abc import Callable

import pytest
from generators_play import run_virtual

from harness.core.history import History
from harness.core.op import Call, Done, Kind, Op
from harness.core.protocols import ANY_NODE
from harness.generators.script import Do, Joined, Rest, Script, ScriptStep, Then, Until, broke_off
from harness.native.generators import Scheduler
from harness.run.interpreter import workers_on

MS = 1_000_000
INSERT = Call(f="insert", value=1, key=0, node="ch1")
READ = Call(f="read", key=0, node="ch2")
KILL = Call(f="kill", nemesis=True, value={"edge": "begin", "fault": 1, "name": "kill"})


class Scripted:
    """Ends every call as it is told to."""

    def __init__(self, end: Callable[[Op], tuple[Done, int]]) -> None:
        self._end = end

    def start(self, op: Op, now_ns: int) -> tuple[Done, int]:
        done, took_ms = self._end(op)
        return done, now_ns + took_ms * MS


def played(
    steps: list[ScriptStep], end: Callable[[Op], tuple[Done, int]], clients: int = 2
) -> History:
    ops: list[Op] = []
    scheduler = Scheduler(workers_on((ANY_NODE,), clients), ops.append)
    run_virtual(
        scheduler,
        Script(tuple(steps)),
        client=lambda _: Scripted(end),
        nemesis=Scripted(end),
    )
    return History(ops)


def ok(_: Op) -> tuple[Done, int]:
    return Done(Kind.OK), 10


def told(history: History) -> list[tuple[str, str | None, object, int]]:
    return [(op.f, op.node, op.process, op.time_ns // MS) for op in history]


def test_steps_come_one_after_the_other_by_whom_and_where_they_say() -> None:
    history = played([Do(INSERT), Rest(0.5), Do(KILL), Do(READ, by=1)], ok)
    assert told(history) == [
        ("insert", "ch1", 0, 0),
        ("insert", "ch1", 0, 10),
        ("kill", None, "nemesis", 510),
        ("kill", None, "nemesis", 520),
        ("read", "ch2", 1, 520),
        ("read", "ch2", 1, 530),
    ]


def test_a_rest_begins_when_the_call_before_it_has_ended() -> None:
    def slow_read(op: Op) -> tuple[Done, int]:
        return Done(Kind.OK), 100 if op.f == "read" else 10

    history = played([Do(INSERT), Do(READ), Rest(0.05), Do(KILL)], slow_read)
    begun = [(op.f, op.time_ns // MS) for op in history if op.kind is Kind.INVOKE]
    assert begun == [("insert", 0), ("read", 10), ("kill", 160)]


def test_what_is_not_waited_for_goes_on_beside_and_is_joined() -> None:
    def slow_insert(op: Op) -> tuple[Done, int]:
        return Done(Kind.OK), 100 if op.f == "insert" else 10

    steps: list[ScriptStep] = [Do(INSERT, wait=False), Do(READ, by=1), Joined(), Do(READ, by=1)]
    begun = [(op.f, op.time_ns // MS) for op in played(steps, slow_insert) if op.kind == "invoke"]
    assert begun == [("insert", 0), ("read", 0), ("read", 100)]


def test_a_read_is_repeated_until_it_shows_what_is_waited_for() -> None:
    answers = iter([(), (), (1,)])

    def third(op: Op) -> tuple[Done, int]:
        return (Done(Kind.OK, next(answers)), 10) if op.f == "read" else ok(op)

    steps: list[ScriptStep] = [Until(READ, lambda op: op.value == (1,), pause_s=0.1), Do(INSERT)]
    history = played(steps, third)
    begun = [(op.f, op.time_ns // MS) for op in history if op.kind is Kind.INVOKE]
    assert begun == [("read", 0), ("read", 110), ("read", 220), ("insert", 230)]
    assert broke_off(steps, history) is None


def test_what_comes_next_may_follow_from_what_has_ended() -> None:
    def after(ended: tuple[Op, ...]) -> list[ScriptStep]:
        return [Do(Call(f="read", key=ended[-1].value, node="ch3"))]

    steps: list[ScriptStep] = [Do(INSERT), Then(after)]
    history = played(steps, ok)
    assert [(op.f, op.key) for op in history if op.kind is Kind.INVOKE] == [
        ("insert", 0),
        ("read", 1),
    ]
    assert broke_off(steps, history) is None


def fails(op: Op) -> tuple[Done, int]:
    return (Done(Kind.FAIL, error="286 REFUSED") if op.f == "insert" else Done(Kind.OK, ())), 10


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ([Do(INSERT), Do(READ)], "insert on ch1 ended fail, ok expected: 286 REFUSED"),
        ([Do(INSERT, ends=(Kind.FAIL,)), Do(READ)], None),
        (
            [Until(READ, lambda op: op.value == (1,), tries=3), Do(INSERT)],
            "read on ch2 did not show in 3 tries what was waited for; the last ended ok: ()",
        ),
    ],
)
def test_an_end_that_is_not_the_scripts_breaks_it_off(
    steps: list[ScriptStep], why: str | None
) -> None:
    history = played(steps, fails)
    assert broke_off(steps, history) == why
    assert {op.f for op in history} == {"insert", "read"} if why is None else len(history) <= 6


def test_the_first_reason_counts_when_a_call_in_flight_ends_after_it() -> None:
    def late(op: Op) -> tuple[Done, int]:
        return Done(Kind.INFO, error="-3 late"), 500 if op.f == "insert" else 10

    steps = [Do(INSERT, by=0, wait=False), Do(READ, by=1), Joined()]
    history = played(steps, late)
    assert [op.f for op in history if op.kind is Kind.INFO] == ["read", "insert"]
    assert broke_off(steps, history) == "read on ch2 ended info, ok expected: -3 late"


def test_a_history_that_ends_early_did_not_play_the_script() -> None:
    history = played([Do(INSERT)], ok)
    assert broke_off([Do(INSERT), Do(READ)], history) == "the time was over before read"
