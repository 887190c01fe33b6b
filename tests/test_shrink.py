"""`harness shrink` and `harness run --script`: the same anomaly, fewer calls, always the same."""

import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace as replace_struct

from checkers.triage.explanation import KNOWN, NEW, Cause, Explained
from harness.cli.main import app
from harness.core.errors import EXIT_INVALID, EXIT_UNKNOWN, EXIT_VALID, UsageError
from harness.core.history import History
from harness.core.op import Call, Kind, Op
from harness.core.protocols import Context, Pending, Ready, Worker
from harness.generators.script import TimedCall, timetable
from harness.generators.steps import NEMESIS_NUMBER
from harness.run.rates import SequentialTest
from harness.run.scripted import ScriptedRun, commented, read_script, script_of
from harness.run.stop import Stop
from harness.search.candidates import (
    OnRealServers,
    OnSimulatedServers,
    RedRun,
    red_run,
    time_limit_s,
)
from harness.search.played_run import calls_of
from harness.search.script_edits import without, without_server
from harness.search.shrinking import CandidateResult, Reproduction, ShrinkBudget, Shrinker
from harness.search.shrunk_run import shrink_run
from harness.store.store import Store

STALE = (
    *("run", "--cluster", "sim", "--read", "server", "--rate", "100", "--report", "none"),
    *("--time-limit", "8", "--nemesis", "partition-keeper-follower"),
)
MS = 1_000_000


def harness(*words: str) -> tuple[int, str]:
    found = CliRunner().invoke(app, words, standalone_mode=False, catch_exceptions=False)
    return found.return_value, found.stdout


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Return a store with INVALID runs, the first of them at `latest`."""
    root = tmp_path_factory.mktemp("store")
    for seed in range(1, 40):
        status, _ = harness(*STALE, "--seed", str(seed), "--store", str(root))
        if status == EXIT_INVALID:
            return Store(root)
    raise AssertionError("no seed breaks the promise")


@pytest.fixture(scope="module")
def red(store: Store) -> RedRun:
    return red_run("latest", store)


def ops_of(history: History) -> list[Op]:
    """Return what happens before the heal; a script has other processes."""
    heal = next(op.index for op in history if op.f == "heal")
    return [replace_struct(op, process=0) for op in history[:heal]]


# --- a scripted run ---------------------------------------------------------------------------


def test_the_script_of_a_run_is_that_run(red: RedRun, store: Store, tmp_path: Path) -> None:
    file = tmp_path / "whole.toml"
    file.write_text(commented(red.script, ["all of it"]))
    assert read_script(file) == red.script
    words = ("run", "--script", str(file), "--report", "none", "--store", str(tmp_path / "store"))
    status, _ = harness(*words)
    again = Store(tmp_path / "store").find("latest")
    assert status == EXIT_INVALID
    assert ops_of(again.history()) == ops_of(red.directory.history())
    spec = again.info().spec
    assert spec.command == f"harness run --script {file} --seed {spec.seed}"


def test_a_late_call_delays_its_own_client_alone() -> None:
    read = Call(f="read", key=0, node="ch1")
    made = timetable([TimedCall(0, 0, read), TimedCall(5, 0, read), TimedCall(7, 1, read)])
    one, two = Worker(0, 0, "*"), Worker(1, 1, "*")
    step, after = made.op(Context(100, (one, two), ()))
    assert step == Ready(read, one)
    step, after = after.op(Context(106, (two,), (one,)))
    assert step == Pending(107)
    step, after = after.op(Context(107, (two,), (one,)))
    assert step == Ready(read, two)
    step, after = after.op(Context(108, (one,), (two,)))
    assert step == Ready(read, one)
    assert after.op(Context(109, (one, two), ()))[0] == Pending()


VALUES = (
    None,
    7,
    (1, 2),
    {"a b": 'x"\n\x7f', "n": [1.5, True, {"k": []}], "m": {}},
    {"nothing": None},
)


@pytest.mark.parametrize("value", VALUES)
def test_a_file_keeps_every_value(value: object, tmp_path: Path) -> None:
    call = Call(f="write", key=2, node="ch1", value=value)  # type: ignore[arg-type]
    fault = Call(f="kill", value={"edge": "begin", "fault": 1}, nemesis=True)
    run = ScriptedRun(
        {"cluster": "sim", "option": ("keys=2",)},
        (TimedCall(1, 0, call), TimedCall(12_500_000_001, NEMESIS_NUMBER, fault)),
    )
    (tmp_path / "s.toml").write_text(run.text)
    assert read_script(tmp_path / "s.toml") == run


REFUSED = {
    "x": "is no TOML",
    "[options]\n": "expected [options] and [script]",
    "[options]\n[script]\ncalls = 3": "expected calls, faults or steps, a list",
    "[options]\nseed = []\n[script]\ncalls = [1]": "call 1: 1: expected a table",
    "[options]\n[script]\ncalls = [{ at = -1 }]": "call 1: at = -1: expected seconds",
    "[options]\n[script]\ncalls = [{ at = 1, by = -1, on = 'ch1', f = 'read' }]": "by = -1",
    "[options]\n[script]\ncalls = [{ at = 1, by = 0, f = 'read' }]": "on = None: expected the name",
    "[options]\n[script]\ncalls = [{ at = 1, fault = 'kill' }]": "expected the table of a fault",
    "[options]\n[script]\ncalls = [{ at = 1, by = 0, on = 'ch1', f = 'r', z = 1 }]": "z is unknown",
    "[options]\n[script]\ncalls = [{ at = 2, by = 0, on = 'ch1', f = 'r' }, "
    "{ at = 1, by = 0, on = 'ch1', f = 'r' }]": "call 2: at = 1 is before",
    "[options]\nreplica = 3\n[script]\ncalls = []": "did you mean replicas?",
    "[options]\nstore = 'x'\n[script]\ncalls = []": "'store' is unknown",
    "[options]\ncluster = 'sim'\n[script]\ncalls = [{ at = 1, by = 0, on = 'ch9', f = 'r' }]": (
        "a call on 'ch9': expected one of ch1 ch2 ch3"
    ),
    "[options]\ncluster = 'sim'\n[script]\ncalls = [{ at = 1, fault = 'kill', value = "
    "{ edge = 'begin' } }]": "the fault 'kill' is none of --nemesis none",
}


@pytest.mark.parametrize(("text", "message"), REFUSED.items())
def test_a_file_that_is_no_script_is_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(text)
    with pytest.raises(Exception, match="script") as refused:
        harness("run", "--script", str(tmp_path / "s.toml"), "--store", str(tmp_path))
    why = refused.value
    assert message in (why.format_message() if hasattr(why, "format_message") else str(why))


# --- shrinking --------------------------------------------------------------------------------


def test_the_same_run_shrinks_to_the_same_bytes_and_nothing_can_be_left_out(red: RedRun) -> None:
    first, second = (shrink_run(red, ShrinkBudget(), Stop()) for _ in range(2))
    assert first.small.text == second.small.text
    assert first.comments == second.comments
    assert first.minimal
    assert 0 < first.after.calls <= 10 < first.before.calls
    judged = OnSimulatedServers(red.kind, ShrinkBudget())
    assert judged(first.small).shown
    faults = {
        frozenset(at for at, one in enumerate(first.small.calls) if one in (fault, end))
        for fault, end in product(first.small.faults, repeat=2)
    }
    singles = {frozenset([at]) for at in range(len(first.small.calls))}
    for dropped in faults | singles:
        assert not judged(without(first.small, set(dropped))).shown, dropped


def test_a_candidate_with_another_cause_is_another_finding(red: RedRun) -> None:
    own = red.kind.cause
    assert own is not None
    assert own.status == KNOWN
    assert red.kind.keeps(own)
    elsewhere = Cause(KNOWN, (Explained("merged-away", "24.8.0", 1, "evidence"),), ())
    other = replace(red.kind, cause=elsewhere)
    assert not other.keeps(own)
    judged = OnSimulatedServers(other, ShrinkBudget())
    assert judged(red.script).shown is None
    assert judged.others == {",".join(one.name for one in own.defects): red.script}
    unknown = Cause(NEW, (), ("set-full stale",))
    assert not replace(red.kind, cause=unknown).keeps(own)
    assert not red.kind.keeps(unknown)
    assert not red.kind.keeps(None)


def test_the_command_leaves_a_script_a_page_and_a_run(red: RedRun, store: Store) -> None:
    run = str(red.directory.path)
    status, printed = harness("shrink", run, "--json", "--store", str(store.root))
    result = json.loads(printed)
    assert status == EXIT_VALID
    assert result["minimal"]
    assert result["kind"] == str(red.kind) == "set-full:stale"
    assert result["after"]["operations"] < result["before"]["operations"]
    script = Path(result["script"])
    assert script.read_text().startswith(f"# Shrunk from run {red.name}")
    page = Path(result["page"]).read_text()
    assert all(f">{title}</h2>" in page for title in ("Sizes", "Before", "After"))
    assert script.read_text().splitlines()[-2].strip() in page.replace("&#34;", '"')
    played = store.find("latest")
    assert played.info().spec.command == result["command"]
    assert red_run("latest", store).kind == red.kind
    status, _ = harness(*result["command"].split()[1:], "--store", str(store.root))
    assert status == EXIT_INVALID


def test_the_budget_is_kept(red: RedRun, store: Store) -> None:
    words = ("shrink", str(red.directory.path), "--candidates", "20", "--json")
    status, printed = harness(*words, "--store", str(store.root))
    result = json.loads(printed)
    assert status == EXIT_UNKNOWN
    assert result["candidates"] == 20
    assert "budget is spent" in result["why"]
    some = shrink_run(red, ShrinkBudget(events_max=200_000), Stop())
    assert not some.minimal
    assert some.budget.candidates < 200


def test_an_interrupted_shrink_keeps_the_best_so_far(red: RedRun) -> None:
    stop = Stop()

    def progress(shrinker: Shrinker, _: str) -> None:
        if shrinker.budget.accepted == 3:
            stop.request("SIGINT received")

    some = shrink_run(red, ShrinkBudget(), stop, progress)
    assert some.why == "Interrupted: SIGINT received; this is the smallest run until then."
    assert some.after.calls < some.before.calls
    assert OnSimulatedServers(red.kind, ShrinkBudget())(some.small).shown


def test_only_what_is_needed_remains() -> None:
    """By brute force: the anomaly needs these three calls, 40 ms apart, and two servers."""
    calls = [
        TimedCall(
            at * 50 * MS, at % 4, Call(f="read", key=at % 3, value=at, node=f"ch{at % 3 + 1}")
        )
        for at in range(20)
    ]

    def needs(run: ScriptedRun) -> CandidateResult:
        at = {one.call.value: one.at_ns for one in run.calls}
        shown = {3, 7, 12} <= at.keys() and at[7] - at[3] >= 40 * MS
        shown = shown and int(str(run.options.get("replicas", 3))) >= 2
        return CandidateResult(Reproduction(0) if shown else None)

    options = {"cluster": "sim", "seed": "0x1", "time-limit": "5", "rate": "3", "replicas": "3"}
    budget = ShrinkBudget()
    shrinker = Shrinker(ScriptedRun(options, tuple(calls)), needs, budget, lambda *_: None)
    assert shrinker.first()
    small = shrinker.shrink()
    assert shrinker.minimal
    assert [one.call.value for one in small.calls] == [3, 7, 12]
    assert [one.at_ns for one in small.calls] == [0, 50 * MS, 50 * MS]
    assert {one.by for one in small.calls} == {0}
    assert "rate" not in small.options


def test_a_server_goes_with_its_calls_and_faults() -> None:
    grudge = {"ch1": ["ch2"], "ch2": ["ch1", "ch3"], "ch3": ["ch2"]}
    cut = Call(f="partition", value={"edge": "begin", "grudge": grudge}, nemesis=True)
    kill = Call(f="kill", value={"edge": "begin", "nodes": ["ch1"]}, nemesis=True)
    run = ScriptedRun(
        {"replicas": "3"},
        (
            TimedCall(0, NEMESIS_NUMBER, cut),
            TimedCall(1, NEMESIS_NUMBER, kill),
            TimedCall(2, 0, Call(f="read", key=0, node="ch1")),
            TimedCall(3, 0, Call(f="read", key=0, node="ch3")),
        ),
    )
    left = without_server(run, "replicas", "ch", 3, 1)
    assert left.options == {"replicas": "2"}
    assert [one.call.node for one in left.calls] == [None, "ch2"]
    assert left.calls[0].call.value == {
        "edge": "begin",
        "grudge": {"ch1": ["ch2"], "ch2": ["ch1"]},
    }


# --- refusals ---------------------------------------------------------------------------------


def test_a_run_that_is_not_invalid_is_refused(tmp_path: Path) -> None:
    words = ("run", "--cluster", "sim", "--time-limit", "2", "--report", "none", "--seed", "1")
    harness(*words, "--read", "linearizable", "--rate", "100", "--store", str(tmp_path))
    with pytest.raises(UsageError, match="expected a run that is INVALID"):
        red_run("latest", Store(tmp_path))


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("harness explore quorum", "was made by harness explore"),
        ("", "was made by an unknown command"),
    ],
)
def test_a_run_that_no_command_line_makes_is_refused(
    command: str, message: str, red: RedRun
) -> None:
    file = red.directory.info_file
    before = file.read_text()
    info = json.loads(before)
    info["again"] = command
    file.write_text(json.dumps(info))
    try:
        with pytest.raises(UsageError, match=message):
            red_run(str(red.directory.path), Store(Path("store")))
    finally:
        file.write_text(before)


def test_an_imported_history_is_refused(tmp_path: Path) -> None:
    (tmp_path / "history.edn").write_text("{}")
    with pytest.raises(UsageError, match="expected a run's directory"):
        red_run(str(tmp_path / "history.edn"), Store(tmp_path))


def test_another_kind_than_the_runs_is_refused(red: RedRun, store: Store) -> None:
    with pytest.raises(UsageError, match="set-full:stale"):
        red_run(str(red.directory.path), store, "set-full:lost")


def test_a_script_that_does_not_reproduce_is_not_shrunk(red: RedRun) -> None:
    with pytest.raises(UsageError, match="nothing to shrink"):
        shrink_run(replace(red, script=replace(red.script, calls=())), ShrinkBudget(), Stop())


# --- real servers -----------------------------------------------------------------------------


def probability_of_acceptance(test: SequentialTest, rate: float) -> float:
    """Return the probability that the test accepts, over all sequences of up to 200 tries."""
    open_, accepted = {(0, 0): 1.0}, 0.0
    for _ in range(200):
        after: dict[tuple[int, int], float] = {}
        for (hits, tries), weight in open_.items():
            for hit, share in ((1, rate), (0, 1 - rate)):
                state = hits + hit, tries + 1
                decided = test.decided(*state)
                if decided is None:
                    after[state] = after.get(state, 0.0) + weight * share
                elif decided:
                    accepted += weight * share
        open_ = after
    return accepted


def test_the_sequential_test_keeps_to_its_errors() -> None:
    test = SequentialTest(reject_rate=0.3, accept_rate=0.7)
    assert probability_of_acceptance(test, 0.3) <= 0.05
    assert probability_of_acceptance(test, 0.7) >= 0.95
    assert test.decided(0, 0) is None
    assert test.decided(4, 4) is True
    assert test.decided(0, 4) is False


def test_on_real_servers_a_candidate_is_played_until_the_test_decides(red: RedRun) -> None:
    """Simulated servers stand in for real ones: each try of a candidate is the same."""
    judged = OnRealServers(red.kind, SequentialTest(0.3, 0.7), tries_max=24)
    some = shrink_run(red, ShrinkBudget(), Stop(), real=judged)
    assert judged.tries == 24
    assert some.tries is not None
    assert (some.tries.hits, some.tries.conclusive) == (4, 4)
    assert some.after.calls < some.before.calls
    assert not some.minimal, "the tries were spent before every call was tried"
    assert some.why == "The budget is spent; a larger one may find a smaller run."
    assert some.small.options.keys() == red.script.options.keys()
    assert {counts.total for counts in judged.counts.values() if counts.total} == {4}
    assert "It reproduced in 4 of 4 tries" in "\n".join(some.comments)


def test_on_real_servers_tries_that_do_not_decide_about_the_run_itself_are_told(
    red: RedRun,
) -> None:
    judged = OnRealServers(red.kind, SequentialTest(0.3, 0.7), tries_max=1)
    with pytest.raises(UsageError, match="all tries are spent; expected more --tries"):
        shrink_run(red, ShrinkBudget(), Stop(), real=judged)


def test_calls_that_went_on_beyond_the_time_limit_are_in_the_script() -> None:
    """A run on real servers goes on if too little was acknowledged, and notes it as an op."""
    noted = [
        Op(index=2, process="nemesis", kind=Kind.INVOKE, f="extend", time_ns=600 * MS),
        Op(index=3, process="nemesis", kind=Kind.OK, f="extend", time_ns=600 * MS, value={}),
    ]
    calls = [
        Op(index=0, process=0, kind=Kind.INVOKE, f="read", time_ns=500 * MS, key=0),
        Op(index=1, process=0, kind=Kind.OK, f="read", time_ns=510 * MS, key=0, value=()),
        *noted,
        Op(index=4, process=0, kind=Kind.INVOKE, f="read", time_ns=900 * MS, key=0),
        Op(index=5, process=0, kind=Kind.OK, f="read", time_ns=910 * MS, key=0, value=()),
    ]
    found = script_of(calls, 1)
    assert [(call.at_ns // MS, call.call.f) for call in found] == [(500, "read"), (900, "read")]
    assert [one.call.f for one in calls_of(History(calls), 1)] == ["read", "read"]
    assert time_limit_s(0.6, found) == 0.901
    assert time_limit_s(2.0, found) == 2.0
