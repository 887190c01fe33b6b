"""`harness reproduce`: what of a simulated run is translated, and into which steps."""

import runpy
import struct
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.cli.main import app
from harness.core.errors import EXIT_INVALID, EXIT_UNKNOWN, EXIT_VALID, UsageError
from harness.core.history import History
from harness.core.op import Call, Json, Kind, Op
from harness.generators.script import Do, Joined, Rest, Until, broke_off
from harness.run.scripted import ScriptedRun, read_script
from harness.run.stepwise import node_step, rule_step
from harness.run.trial import Trial, TryResult
from harness.search.anomaly_kind import AnomalyKind
from harness.search.candidates import RedRun, red_run
from harness.search.reproduction import Tries, simulate, translate_run
from harness.search.translation import rule_of, without_rules
from harness.store.store import Store
from nemesis.message_rules import _lacking
from workloads.scenarios.steps import Ended, shows

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
    run = simulate(red.script)
    names = [message.name for message in run.messages]
    assert [call.call.value for call in run.calls] == [0, 1, 2]
    late = names.index("ch1 end 0_1_1_0")
    assert names.index("ch3 end 0_1_1_0") < names.index("ch2 commit 0_2_2_0") < late
    assert late < names.index("ch3 part 0_2_2_0")
    by_name = {message.name: message for message in run.messages}
    assert by_name["ch1 last 0_1_1_0"].rule["words"] == ["/quorum/last_part"]
    assert by_name["ch1 end 0_1_1_0"].writes == {"/quorum/status", "/quorum/last_part"}
    assert simulate(red.script) == run


def test_what_is_unusual_about_it_is_a_constraint(red: RedRun) -> None:
    translation, kind = translate_run(red)
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
    assert translate_run(red)[0].run.text == translation.run.text


def test_its_file_is_read_as_it_was_written(red: RedRun, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(translate_run(red)[0].run.text)
    assert read_script(tmp_path / "s.toml").text == translate_run(red)[0].run.text


# --- refusals ---------------------------------------------------------------------------------


def test_a_bug_that_real_servers_do_not_have_is_refused(red: RedRun) -> None:
    options = {**red.script.options, "bug": "ack-early"}
    with pytest.raises(UsageError, match="do not have the planted bug ack-early"):
        translate_run(replace(red, script=replace(red.script, options=options)))


def test_a_run_of_real_servers_is_refused(red: RedRun) -> None:
    options = {**red.script.options, "cluster": "docker"}
    with pytest.raises(UsageError, match="expected a simulated run"):
        translate_run(replace(red, script=replace(red.script, options=options)))


def test_a_kind_that_only_simulated_servers_show_is_refused(red: RedRun) -> None:
    with pytest.raises(UsageError, match="only simulated servers show protocol:session"):
        translate_run(replace(red, kind=AnomalyKind("protocol", "session")))


def test_a_script_that_does_not_show_it_is_refused(red: RedRun) -> None:
    with pytest.raises(UsageError, match="does not show"):
        translate_run(replace(red, script=replace(red.script, calls=red.script.calls[:1])))


# --- scripts of steps -------------------------------------------------------------------------

STEPS = (
    rule_step("hold", "r", "ch2", channel="zookeeper", side="request", op="get", words=["x"]),
    Do(Call(f="insert", node="ch1", key=0, value=1), wait=False, ends=(Kind.OK, Kind.INFO)),
    rule_step("await", "r", "ch2", messages=2),
    rule_step("release", "r", ["ch2", "ch3"]),
    rule_step("cut", "r", "ch2"),
    node_step("expired", "ch2"),
    node_step("answers", "ch2"),
    node_step("listens", "ch2"),
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
    tries = Tries(ScriptedRun({}, ()), AnomalyKind("a", "b"), 2, lambda _: None)
    tries.tries += [Trial(result) for result in results]
    tries.versions.add("18.16.1")
    assert tries.exit_status == status
    assert f"reproduced in {tries.counts.hits} of 2 tries on ClickHouse 18.16.1" in tries.sentence
