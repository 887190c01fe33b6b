"""Constraints of a simulated run, and the steps into which they are translated."""

from dataclasses import replace

import pytest
from msgspec.structs import replace as replace_call

from harness.core.op import Call, Json, Kind
from harness.run.scripted import ScriptedRun
from harness.run.stepwise import steps_text
from harness.search.constraints import Constraint, constraints_of
from harness.search.message_log import KeyMessage
from harness.search.played_run import PlayedRun, SimulatedCall, expected, outlasted, stays
from harness.search.reproduction import _add_own_options
from harness.search.translation import rule_of, steps_of, translated

MS = 1_000_000


def message(name: str, at: int, *, reads: bool = False) -> KeyMessage:
    node, what, part = name.split()
    paths = frozenset({"/quorum/status"})
    return KeyMessage(
        name, node, what, part, 1, (at - 1) * MS, at * MS, (at, reads, at),
        frozenset() if reads else paths, paths if reads else frozenset(), {"words": [part]},
    )  # fmt: skip


def run_of(*names: str) -> PlayedRun:
    insert = SimulatedCall(0, Call(f="insert", node="ch1", value=1), 0, 9 * MS, Kind.OK)
    messages = [message(name, at, reads="status" in name) for at, name in enumerate(names, 1)]
    return PlayedRun([insert], messages)


def numbered(what: str, number: int, at: int) -> KeyMessage:
    name = f"ch1 {what}" if number == 1 else f"ch1 {what} #{number}"
    return replace(message("ch1 x x", at), name=name, what=what, number=number)


def test_of_messages_known_by_their_number_the_last_one_has_the_first_rule() -> None:
    read = SimulatedCall(1, Call(f="read", node="ch2"), 5 * MS, 6 * MS, Kind.OK)
    insert = SimulatedCall(0, Call(f="insert", node="ch1"), 0, 9 * MS, Kind.OK)
    messages = [numbered("number", 1, 2), numbered("number", 2, 3)]
    steps = steps_text(steps_of(PlayedRun([insert, read], messages), []))
    assert [line.split(",")[0] for line in steps[:2]] == [
        '{ count = "ch1 number #2"',
        '{ count = "ch1 number"',
    ]
    assert "skip = 1" in steps[0]


def test_of_others_the_first_one_has_the_first_rule() -> None:
    looks = [numbered("look", 1, 2), numbered("look", 2, 3)]
    first = message("ch2 active x", 1)
    steps = steps_text(
        steps_of(PlayedRun([], [first, *looks]), [Constraint(first, one, "") for one in looks])
    )
    assert [line.split(",")[0] for line in steps[:2]] == [
        '{ hold = "ch1 look"',
        '{ hold = "ch1 look #2"',
    ]


def test_a_message_that_may_be_sent_again_is_counted_after_the_one_before_it() -> None:
    read = SimulatedCall(1, Call(f="read", node="ch2"), 5 * MS, 6 * MS, Kind.OK)
    messages = [numbered("assign", 1, 2), numbered("assign", 2, 4)]
    steps = steps_text(steps_of(PlayedRun([read], messages), []))
    assert [line.split(",")[0] for line in steps[:5]] == [
        '{ count = "ch1 assign"',
        '{ await = "ch1 assign"',
        '{ release = "ch1 assign"',
        '{ count = "ch1 assign #2"',
        '{ await = "ch1 assign #2"',
    ]


def test_a_replica_that_becomes_active_during_a_call_takes_queries_by_then() -> None:
    lose, look = message("ch1 lose ch2", 2), message("ch1 look ch2", 6)
    active = replace(message("ch2 active x", 4), name="ch2 active", part="")
    queue = replace(message("ch2 queue x", 8), name="ch2 queue", part="")
    optimize = SimulatedCall(0, Call(f="optimize", node="ch1"), 0, 9 * MS, Kind.OK)
    run = PlayedRun([optimize], [lose, active, look, queue])
    steps = steps_text(steps_of(run, [Constraint(lose, active, ""), Constraint(look, queue, "")]))
    assert [" ".join(line.split(",")[0].split()[1:]) for line in steps[3:]] == [
        'by = 0',
        'await = "ch1 lose ch2"',
        'listens = "ch2" }',
        'await = "ch2 active"',
        'count = "ch1 look ch2"',
        'release = "ch2 active"',
        'await = "ch1 look ch2"',
        'await = "ch2 queue"',
        'release = "ch2 queue"',
        'join = 0 }',
    ]  # fmt: skip


@pytest.mark.parametrize(("part", "awaited"), [("0_3_3_1", True), ("0_3_4_1", False)])
def test_a_merged_part_is_awaited_if_its_name_does_not_depend_on_the_others(
    part: str, awaited: bool
) -> None:
    read = SimulatedCall(0, Call(f="read", node="ch1"), 5 * MS, 6 * MS, Kind.OK)
    steps = steps_of(PlayedRun([read], [message(f"ch1 part {part}", 2)]), [])
    assert [rule_of(step) for step in steps[:1]] == [f"ch1 part {part}" if awaited else None]


def test_the_usual_order_is_no_constraint() -> None:
    usual = run_of("ch1 end a", "ch2 join a")
    assert constraints_of(usual, [usual] * 4) == []


def test_an_order_that_no_other_run_has_is_one() -> None:
    usual, unusual = run_of("ch1 end a", "ch2 join a"), run_of("ch2 join a", "ch1 end a")
    (only,) = constraints_of(unusual, [usual] * 4)
    assert str(only) == "ch2 join a < ch1 end a (unusual order)"
    assert rule_of(steps_of(unusual, [only])[0]) == "ch1 end a"


def test_what_follows_a_message_that_is_held_back_is_one_too() -> None:
    usual = run_of("ch1 end a", "ch2 join a", "ch3 status a")
    unusual = run_of("ch2 join a", "ch1 end a", "ch3 status a")
    names = [str(one) for one in constraints_of(unusual, [usual] * 4)]
    assert names == [
        "ch2 join a < ch1 end a (unusual order)",
        "ch1 end a < ch3 status a (the first is held back)",
    ]


def test_a_replica_orders_its_own_messages_and_reads_do_not_conflict() -> None:
    unusual = run_of("ch1 join a", "ch1 end a")
    assert constraints_of(unusual, [run_of("ch1 end a", "ch1 join a")] * 4) == []
    reads = run_of("ch1 status a", "ch2 status a")
    assert constraints_of(reads, [run_of("ch2 status a", "ch1 status a")] * 4) == []


def select_of(at: int, sent: int) -> KeyMessage:
    paths = frozenset({"/quorum/last_part"})
    return KeyMessage(
        "ch2 select", "ch2", "select", "", 1, sent * MS, at * MS, (at, True, at * MS),
        frozenset(), paths, {"words": ["/quorum/last_part"]},
    )  # fmt: skip


def test_a_part_that_comes_within_a_select_is_held_back_until_the_select_is_sent() -> None:
    read = SimulatedCall(0, Call(f="read", node="ch2"), 0, 9 * MS, Kind.OK)
    within = PlayedRun([read], [message("ch2 part a", 4), select_of(6, sent=2)])
    after = replace(read, begin_ns=5 * MS)
    apart = PlayedRun([after], [message("ch2 part a", 4), select_of(6, sent=5)])
    assert constraints_of(apart, [apart] * 4) == []
    names = [str(one) for one in constraints_of(within, [apart] * 4)]
    assert names == [
        "ch2 part a < ch2 select (within a select)",
        "ch2 select is sent < ch2 part a (within a select)",
    ]
    steps = steps_of(within, constraints_of(within, [apart] * 4))
    assert [line.split(" =")[0] for line in steps_text(steps)] == [
        "{ hold", "{ hold", "{ by", "{ await", "{ await", "{ release", "{ release", "{ join",
    ]  # fmt: skip


def test_a_replica_that_never_has_a_part_does_not_fetch() -> None:
    usual, red = run_of("ch1 commit a", "ch2 part a"), run_of("ch1 commit a")
    (only,) = constraints_of(red, [usual] * 4)
    assert str(only) == "ch2 part a never (unusual)"
    run = translated(ScriptedRun({"cluster": "sim"}, ()), red, [only]).run
    assert [(call.f, call.node) for _, call in run.made] == [
        ("stop-fetches", None),
        ("insert", "ch1"),
    ]
    assert run.options["nemesis"] == "message-hold,stop-fetches-one"
    assert not any(rule_of(step) for step in run.steps)


def test_a_lost_message_is_held_back_and_its_connection_is_cut() -> None:
    lost = replace(message("ch1 commit a", 2), lost="request", lost_ns=5 * MS)
    insert = SimulatedCall(0, Call(f="insert", node="ch1", value=1), 0, 5 * MS, Kind.INFO)
    again = SimulatedCall(0, Call(f="insert", node="ch1", value=1), 6 * MS, 9 * MS, Kind.OK)
    steps = steps_text(steps_of(PlayedRun([insert, again], [lost]), []))
    assert steps == [
        '{ hold = "ch1 commit a", on = "ch1", alone = true, words = ["a"] }',
        '{ by = 0, on = "ch1", f = "insert", value = 1, ends = ["ok", "fail", "info"], '
        "wait = false }",
        '{ await = "ch1 commit a", on = "ch1" }',
        '{ cut = "ch1 commit a", on = "ch1" }',
        "{ join = 0 }",
        '{ answers = "ch1" }',
        '{ by = 0, on = "ch1", f = "insert", value = 1, wait = false }',
        "{ join = 0 }",
    ]


def test_a_kill_lasts_until_the_session_is_over_and_its_end_waits_for_nobody() -> None:
    gone = KeyMessage(
        "ch1 gone", "ch1", "gone", "", 1, 4 * MS, 4 * MS, (4, False, 4), frozenset(),
        frozenset(), {},
    )  # fmt: skip
    value: dict[str, Json] = {"fault": 1, "name": "kill-clickhouse-one", "nodes": ["ch1"]}
    kill = Call(f="kill", value={**value, "edge": "begin"}, nemesis=True)
    start = Call(f="kill", value={**value, "edge": "end"}, nemesis=True)
    read = SimulatedCall(0, Call(f="read", node="ch1"), 8 * MS, 9 * MS, Kind.OK)
    calls = [
        SimulatedCall(-1, kill, 0, MS, Kind.OK),
        SimulatedCall(-1, start, 6 * MS, 7 * MS, Kind.OK),
        read,
    ]
    steps = steps_text(steps_of(PlayedRun(calls, [gone]), []))
    assert [step.split(", ")[0] for step in steps] == [
        '{ fault = "kill"', '{ expired = "ch1" }', '{ fault = "kill"', '{ answers = "ch1" }',
        "{ by = 0", "{ join = 0 }",
    ]  # fmt: skip
    assert all("answers = false" in step for step in steps if "fault" in step)


def test_a_pause_that_outlasts_a_session_stays() -> None:
    begin, end = fault("pause", nodes=["ch1"], fault=1), fault("pause", nodes=["ch1"], fault=1)
    end = replace(end, begin_ns=9, call=replace_call(end.call, value={**table(end), "edge": "end"}))
    gone = replace(message("ch1 gone x", 0), effect_ns=5)
    assert not stays(begin.call, PlayedRun([begin, end], []))
    assert stays(begin.call, PlayedRun([begin, end], [gone]))


@pytest.mark.parametrize(("cut_from", "does"), [("zk1", True), ("ch2", False)])
def test_a_partition_stays_if_it_ends_a_session_and_not_if_a_restart_does(
    cut_from: str, does: bool
) -> None:
    cut = fault("partition", fault=1, grudge={"ch1": [cut_from], cut_from: ["ch1"]})
    restart = fault("restart", nodes=["ch1"], fault=2, edge="once")
    gone = replace(message("ch1 gone x", 0), effect_ns=5)
    assert stays(cut.call, PlayedRun([cut, restart], [gone])) is does


@pytest.mark.parametrize(
    ("what", "kind", "outlasts"),
    [
        ("active", Kind.OK, True),
        ("gone", Kind.OK, True),
        ("active", Kind.INFO, False),
        ("part", Kind.OK, False),
    ],
)
def test_a_call_outlasts_the_start_of_a_replica(what: str, kind: Kind, outlasts: bool) -> None:
    run = run_of(f"ch2 {what} x")
    assert bool(outlasted(replace(run, calls=[replace(run.calls[0], kind=kind)]))) is outlasts
    assert not outlasted(replace(run, calls=[replace(run.calls[0], begin_ns=2 * MS)]))


@pytest.mark.parametrize(
    ("workload", "given", "words"),
    [
        ("merges", ("own-rows=10",), ("own-rows=10", "short-log=true", "timeout-s=60")),
        ("merges", ("short-log=true", "timeout-s=5"), ("short-log=true", "timeout-s=5")),
        ("dedup", "timeout-s=5", ("timeout-s=5",)),
    ],
)
def test_options_that_a_workload_lacks_or_that_are_given_are_not_added(
    workload: str, given: str | tuple[str, ...], words: tuple[str, ...]
) -> None:
    wanted = {"short-log": "true", "timeout-s": "60"}
    assert _add_own_options({"workload": workload, "option": given}, wanted) == words


def test_a_race_is_a_constraint_only_beside_a_rare_order() -> None:
    one, other = run_of("ch1 end a", "ch2 join a"), run_of("ch2 join a", "ch1 end a")
    assert constraints_of(one, [one, other]) == []


def table(one: SimulatedCall) -> dict[str, Json]:
    assert isinstance(one.call.value, dict)
    return dict(one.call.value)


def fault(f: str, **value: object) -> SimulatedCall:
    call = Call(f=f, value={"edge": "begin", "name": f"{f}-one", **value}, nemesis=True)  # type: ignore[dict-item]
    return SimulatedCall(-1, call, 0, 1, Kind.OK)


@pytest.mark.parametrize(
    ("one", "stay"),
    [
        (fault("kill", nodes=["ch1"]), True),
        (fault("stop-fetches", nodes=["ch1"]), True),
        (fault("partition", order=["zk1", "zk2", "zk3"]), True),
        (fault("pause", nodes=["zk1"]), True),
        (fault("pause", nodes=["ch1"]), False),
        (fault("partition", nodes=["ch1"]), False),
        (fault("loss", nodes=["zk1"]), False),
    ],
)
def test_a_fault_that_only_delays_messages_of_replicas_goes(one: SimulatedCall, stay: bool) -> None:
    played = PlayedRun([one], [])
    run = translated(ScriptedRun({"cluster": "sim"}, ()), expected(played), []).run
    assert [call.f for _, call in run.made] == ([one.call.f] if stay else [])
    families = ["message-hold", *([f"{one.call.f}-one"] if stay else [])]
    assert run.options["nemesis"] == ",".join(families)
