"""`harness reproduce`: what of a simulated run is translated, and into which steps."""

import runpy
import struct
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace as replace_call

from harness.cli.candidates import AnomalyKind, RedRun, red_run
from harness.cli.main import app
from harness.cli.reproduce import Tries, simulated, translation_of
from harness.core.errors import EXIT_INVALID, EXIT_UNKNOWN, EXIT_VALID, UsageError
from harness.core.history import History
from harness.core.op import Call, Json, Kind, Op
from harness.generators.script import Do, Joined, Rest, Until, broke_off
from harness.run.bisection import TryResult
from harness.run.constraints import constraints_of
from harness.run.message_log import KeyMessage
from harness.run.played_run import PlayedRun, SimulatedCall, expected, stays
from harness.run.scripted import ScriptedRun, read_script
from harness.run.stepwise import Ended, node_step, rule_step, steps_text
from harness.run.store import Store
from harness.run.translation import rule_of, steps_of, translated, without_rules
from nemesis.message_rules import _lacking
from workloads.scenarios.steps import shows

MS = 1_000_000
ABA = (
    *(
        "run",
        "--cluster",
        "sim",
        "--bug",
        "quorum-aba",
        "--workload",
        "dedup",
        "--insert",
        "quorum",
    ),
    *("--protocol", "repaired", "--nemesis", "pause-clickhouse-minority", "--interval", "0.02"),
    *("--duration", "0.03", "--rate", "200", "--time-limit", "20", "--seed", "1"),
)
SMALL = """
[options]
bug = "quorum-aba"
cluster = "sim"
insert = "quorum"
protocol = "repaired"
replicas = "3"
seed = "0xa"
time-limit = "0.43759192"
workload = "dedup"

[script]
calls = [
  { at = 0.0, by = 0, on = "ch1", f = "insert", key = 0, value = 0 },
  { at = 0.41283892, by = 0, on = "ch2", f = "insert", key = 0, value = 1 },
  { at = 0.43559192, by = 0, on = "ch2", f = "insert", key = 0, value = 2 },
]
"""
"""What `harness shrink` makes of such a run: the quorum of value 2 ends with one replica."""


@pytest.fixture(scope="module")
def red(tmp_path_factory: pytest.TempPathFactory) -> RedRun:
    """Return an INVALID run whose script is the small one."""
    root = tmp_path_factory.mktemp("store")
    words = (*ABA, "--report", "none", "--store", str(root))
    status = CliRunner().invoke(app, words, standalone_mode=False, catch_exceptions=False)
    assert status.return_value == EXIT_INVALID
    (root / "small.toml").write_text(SMALL)
    own = red_run("latest", Store(root), "protocol:quorum-too-small")
    return replace(own, script=read_script(root / "small.toml"))


# --- what happened ----------------------------------------------------------------------------


def test_a_simulation_logs_the_messages_that_end_a_quorum(red: RedRun) -> None:
    run = simulated(red.script)
    names = [message.name for message in run.messages]
    assert [call.call.value for call in run.calls] == [0, 1, 2]
    late = names.index("ch1 end 0_1_1_0")
    assert names.index("ch3 end 0_1_1_0") < names.index("ch2 commit 0_2_2_0") < late
    assert late < names.index("ch3 part 0_2_2_0")
    by_name = {message.name: message for message in run.messages}
    assert by_name["ch1 last 0_1_1_0"].rule["words"] == ["/quorum/last_part"]
    assert by_name["ch1 end 0_1_1_0"].writes == {"/quorum/status", "/quorum/last_part"}
    assert simulated(red.script) == run


def test_what_is_unusual_about_it_is_a_constraint(red: RedRun) -> None:
    translation, kind = translation_of(red)
    found = {(one.earlier.name, one.later.name) for one in translation.constraints if one.earlier}
    assert ("ch2 commit 0_2_2_0", "ch1 end 0_1_1_0") in found
    assert ("ch1 end 0_1_1_0", "ch3 part 0_2_2_0") in found, "or it is on two replicas in time"
    assert str(kind) == "durability:acknowledged-early", "what real servers can be judged by"
    options = translation.run.options
    assert options["nemesis"] == "message-hold"
    assert options["workload"] == "quorum-durability"
    assert not {"bug", "protocol", "seed"} & options.keys()
    rules = [rule_of(step) for step in translation.run.steps]
    held = rules.index("ch1 end 0_1_1_0")
    inserts = [
        place
        for place, step in enumerate(translation.run.steps)
        if isinstance(step, Do) and step.call.f == "insert"
    ]
    assert held < inserts[0], "a rule is there before any message"
    assert translation_of(red)[0].run.text == translation.run.text


def test_its_file_is_read_as_it_was_written(red: RedRun, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(translation_of(red)[0].run.text)
    assert read_script(tmp_path / "s.toml").text == translation_of(red)[0].run.text


# --- constraints ------------------------------------------------------------------------------


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


# --- refusals ---------------------------------------------------------------------------------


def test_a_bug_that_real_servers_do_not_have_is_refused(red: RedRun) -> None:
    options = {**red.script.options, "bug": "ack-early"}
    with pytest.raises(UsageError, match="do not have the planted bug ack-early"):
        translation_of(replace(red, script=replace(red.script, options=options)))


def test_a_run_of_real_servers_is_refused(red: RedRun) -> None:
    options = {**red.script.options, "cluster": "docker"}
    with pytest.raises(UsageError, match="expected a simulated run"):
        translation_of(replace(red, script=replace(red.script, options=options)))


def test_a_kind_that_only_simulated_servers_show_is_refused(red: RedRun) -> None:
    with pytest.raises(UsageError, match="only simulated servers show protocol:session"):
        translation_of(replace(red, kind=AnomalyKind("protocol", "session")))


def test_a_script_that_does_not_show_it_is_refused(red: RedRun) -> None:
    with pytest.raises(UsageError, match="does not show"):
        translation_of(replace(red, script=replace(red.script, calls=red.script.calls[:1])))


# --- scripts of steps -------------------------------------------------------------------------

STEPS = (
    rule_step("hold", "r", "ch2", channel="zookeeper", side="request", op="get", words=["x"]),
    Do(Call(f="insert", node="ch1", key=0, value=1), wait=False, ends=(Kind.OK, Kind.INFO)),
    rule_step("await", "r", "ch2", messages=2),
    rule_step("release", "r", ["ch2", "ch3"]),
    rule_step("cut", "r", "ch2"),
    node_step("expired", "ch2"),
    node_step("answers", "ch2"),
    Joined(0),
    Joined(),
    Rest(0.5),
    Do(Call(f="kill", nemesis=True, value={"edge": "begin", "nodes": ["ch1"]}), by=-1),
    Until(Call(f="read", node="ch1", key=0), shows(1), 1, 600, 0.1),
    Until(Call(f="insert", node="ch1", key=0, value=2), Ended(), 0, 600, 0.1),
)


def test_a_file_keeps_every_step(tmp_path: Path) -> None:
    run = ScriptedRun({"cluster": "docker"}, (), STEPS)
    (tmp_path / "s.toml").write_text(run.text)
    assert read_script(tmp_path / "s.toml") == run
    assert run.clients == 2
    assert len(without_rules(run, ["r"]).steps) == len(STEPS) - 4


REFUSED = {
    "3": "step 1: 3: expected a table",
    "{ join = -1 }": "join = -1: expected a client",
    "{ rest = 'x' }": "expected 0 to 3,600 seconds",
    "{ hold = 'r', on = 'ch1', messages = 1 }": "messages is unknown",
    "{ await = 'r' }": "expected the name of a rule, and a replica",
    "{ await = 'r', on = ['ch1', 2] }": "and a replica or a list of them",
    "{ answers = 1 }": "call 1: answers is unknown",
    "{ by = 0, on = 'ch1', f = 'read', until = 1 }": 'expected "ok", or values',
    "{ by = 0, on = 'ch1', f = 'read', ends = ['bad'] }": "expected some of ok fail info",
    "{ by = 0, on = 'ch1', f = 'read', wait = 1 }": "expected true or false",
    "{ by = 0, on = 'ch1', f = 'read', at = 1 }": "at is unknown",
}


@pytest.mark.parametrize(("step", "why"), REFUSED.items())
def test_a_step_that_is_none_is_refused(step: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(f"[options]\n[script]\nsteps = [{step}]")
    with pytest.raises(UsageError) as refused:
        read_script(tmp_path / "s.toml")
    assert why in str(refused.value)


def test_a_join_waits_for_its_client_alone() -> None:
    first = Do(Call(f="read", node="ch1"), by=0, wait=False)
    second = Do(Call(f="read", node="ch2"), by=1, wait=False)
    third = Do(Call(f="insert", node="ch1", value=1), by=1)
    steps = [first, second, Joined(1), third]

    def op(index: int, process: int, kind: Kind, f: str) -> Op:
        return Op(index=index, process=process, kind=kind, f=f, time_ns=index, node="ch1")

    begun = [op(0, 0, Kind.INVOKE, "read"), op(1, 1, Kind.INVOKE, "read")]
    assert broke_off(steps, History(begun)) == "the time was over before insert"
    rest = [
        op(2, 1, Kind.OK, "read"), op(3, 1, Kind.INVOKE, "insert"), op(4, 1, Kind.OK, "insert"),
    ]  # fmt: skip
    assert broke_off(steps, History([*begun, *rest])) is None


# --- rules and results ------------------------------------------------------------------------


class Proxies:
    """Proxies of which each reports the same, but for other hits of the rule r on some."""

    def __init__(
        self,
        hits: dict[str, int],
        left: dict[str, int],
        counts: list[str],
        other: dict[str, int] | None = None,
    ) -> None:
        self.hits, self.left, self.counts, self.other = hits, left, counts, other or {}

    def interpose(self) -> None: ...

    def intercept(self, nodes: Iterable[str], rule: Mapping[str, Json]) -> None: ...

    def release(self, nodes: Iterable[str], name: str, cut: bool = False) -> None: ...

    def clear_rules(self, nodes: Iterable[str]) -> None: ...

    def intercepted(self, node: str) -> Mapping[str, Json]:
        hits = {"r": self.other[node]} if node in self.other else self.hits
        return {"hits": {**hits}, "unanswered": {**self.left}, "counts": [*self.counts]}


@pytest.mark.parametrize(
    ("do", "hits", "left", "lacks"),
    [
        ("hold", {}, {}, True),
        ("hold", {"r": 0}, {}, False),
        ("await", {"r": 0}, {}, True),
        ("await", {"r": 1}, {"r": 1}, False),
        ("await", {"r": 1}, {"r": 0}, True),
        ("release", {}, {"r": 1}, True),
        ("release", {}, {"r": 0}, False),
        ("cut", {}, {"r": 1}, False),
    ],
)
def test_a_call_waits_for_what_the_proxy_reports(
    do: str, hits: dict[str, int], left: dict[str, int], lacks: bool
) -> None:
    assert bool(_lacking(Proxies(hits, left, []), ["ch1"], "r on ch1", "r", do, 1)) is lacks


def test_a_rule_that_counts_waits_for_answers() -> None:
    proxies = Proxies({"r": 1}, {"r": 1}, ["r"])
    assert _lacking(proxies, ["ch1"], "r on ch1", "r", "await", 1)


def test_a_rule_that_skips_applies_to_later_messages() -> None:
    rule = runpy.run_path("compose/images/pod/pod_proxy.py")["Rule"](
        name="r", channel="zookeeper", edge="request", do="hold", words=["is_active"], skip=1
    )
    multi = struct.pack(">iii", 20, 1, 14)
    assert not rule.matches("zookeeper", multi + b"is_lost")
    assert [rule.matches("zookeeper", multi + b"is_active") for _ in range(3)] == [
        False,
        True,
        True,
    ]


def test_a_rule_of_several_replicas_is_met_by_one() -> None:
    proxies = Proxies({"r": 0}, {}, ["r"], {"ch2": 1})
    assert _lacking(proxies, ["ch1", "ch3"], "r", "r", "await", 1)
    assert not _lacking(proxies, ["ch1", "ch2"], "r", "r", "await", 1)


@pytest.mark.parametrize(
    ("results", "status"),
    [
        ((TryResult.BROKE_OFF, TryResult.REPRODUCED), EXIT_VALID),
        ((TryResult.BROKE_OFF, TryResult.NOT_REPRODUCED), EXIT_INVALID),
        ((TryResult.BROKE_OFF, TryResult.UNKNOWN), EXIT_UNKNOWN),
    ],
)
def test_the_exit_status_says_whether_it_ever_reproduced(
    results: tuple[TryResult, ...], status: int
) -> None:
    from harness.cli.reproduce import Try

    tries = Tries(ScriptedRun({}, ()), AnomalyKind("a", "b"), 2, lambda _: None)
    tries.tries += [Try(result, None, "run", {"ch1": "18.16.1"}) for result in results]
    assert tries.exit_status == status
    assert f"reproduced in {tries.hits} of 2 tries on ClickHouse 18.16.1" in tries.sentence
