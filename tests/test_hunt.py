"""`harness hunt`: one seed makes the same runs, a killed hunt goes on, a planted bug is found."""

import json
import os
import shlex
import signal
import time
from multiprocessing import get_context
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from harness.cli.main import app
from harness.clusters.sim_cluster import SimCluster
from harness.core.errors import EXIT_INVALID, EXIT_UNKNOWN, UsageError
from harness.core.op import Call
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.generators.script import TimedCall
from harness.generators.steps import NEMESIS_NUMBER
from harness.run.scripted import ScriptedRun, read_script, script_of
from harness.search import hunt_session
from harness.search.fault_edits import faults_of, spliced, timetable_of
from harness.search.hunt_runs import HuntRuns
from harness.search.hunting import AHEAD, Hunt, HuntInput, HuntRun, HuntState
from harness.store.store import Store

MS = 1_000_000
QUICK = (
    *("--nemesis", "partition,kill", "--read", "linearizable", "--rate", "40"),
    *("--time-limit", "2", "--interval", "0.3", "--duration", "0.5"),
)


def harness(*words: str) -> tuple[int, str]:
    found = CliRunner().invoke(app, words, standalone_mode=False, catch_exceptions=False)
    return found.return_value, found.stdout


def hunted(store: Path, *words: str) -> tuple[int, str, list[dict[str, object]]]:
    """Return the exit status, what was printed, and the lines of the only hunt of a store."""
    status, printed = harness("hunt", *QUICK, "--seed", "1", "--store", str(store), *words)
    (log,) = store.glob("hunts/*/runs.jsonl")
    return status, printed, [json.loads(line) for line in log.read_text().splitlines()]


# --- the search -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    """Return the runs of a hunt in one process."""
    status, printed, lines = hunted(tmp_path_factory.mktemp("store"), "--runs", "40")
    statuses = [line["status"] for line in lines]
    assert set(statuses) == {"VALID", "UNKNOWN"}, "some runs are too short for a verdict"
    assert status == EXIT_UNKNOWN
    tally = f"{statuses.count('VALID')} VALID, {statuses.count('UNKNOWN')} UNKNOWN"
    assert f"0 kinds of anomalies in 40 runs ({tally})" in printed.splitlines()[-1]
    return lines


def test_the_seed_decides_every_run_whatever_the_number_of_processes(
    whole: list[dict[str, object]], tmp_path: Path
) -> None:
    assert len(whole) == 40
    assert hunted(tmp_path, "--runs", "40", "--jobs", "3")[2] == whole
    assert {line["how"] for line in whole[:AHEAD]} <= {"fresh", "options"}
    assert {line["how"] for line in whole} > {"faults", "server-seed"}
    assert all(line["parent"] is not None for line in whole if line["how"] == "faults")


def _hunt_to_be_killed(store: Path) -> None:
    pytest.MonkeyPatch().setattr(hunt_session, "SAVE_S", 0.0)
    hunted(store, "--runs", "40")


def test_a_killed_hunt_goes_on(whole: list[dict[str, object]], tmp_path: Path) -> None:
    process = get_context("fork").Process(target=_hunt_to_be_killed, args=(tmp_path,))
    process.start()
    assert process.pid is not None
    while not any(_taken(file) >= 5 for file in tmp_path.glob("hunts/*/hunt.json")):
        assert process.is_alive()
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    (state,) = tmp_path.glob("hunts/*/hunt.json")
    assert 5 <= _taken(state) < 40
    assert hunted(tmp_path, "--runs", "40")[2] == whole


def _taken(file: Path) -> int:
    taken = json.loads(file.read_bytes())["state"]["taken"]
    assert isinstance(taken, int)
    return taken


def test_servers_on_which_every_replica_leads_are_hunted(tmp_path: Path) -> None:
    """Their one node below /leader_election has no number."""
    _, _, lines = hunted(tmp_path, "--runs", "2", "--protocol", "25.8")
    assert [line.get("trouble", "") for line in lines] == ["", ""]
    assert all(line["elements"] for line in lines)


def test_a_planted_bug_is_found_stored_and_played_again(tmp_path: Path) -> None:
    words = ("--bug", "keeper-minority", "--runs", "60", "--keep", "2", "--json")
    status, printed, lines = hunted(tmp_path, *words)
    result = json.loads(printed)
    assert status == EXIT_INVALID
    assert result["runs"] == 60
    assert result["issues"] == [], "a stored run shows what the hunt saw"
    found = result["kinds"]
    assert found
    for kind, of in found.items():
        assert of["first"] == next(n for n, line in enumerate(lines, 1) if kind in line["kinds"])
        assert 1 <= len(of["stored"]) <= max(2, of["runs"])
    stored = {path for of in found.values() for path in of["stored"]}
    for path in stored:
        info = Store(tmp_path).find(path).info()
        again, _ = harness(*shlex.split(info.spec.command)[1:], "--store", str(tmp_path))
        assert again == EXIT_INVALID


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "neither --hours nor --runs"),
        (("--runs", "3", "--workload", "ddl"), "needs real servers"),
        (("--runs", "3", "--bug", "x"), "'x' is unknown; see `harness list bugs`"),
    ],
)
def test_what_cannot_be_hunted_is_refused(
    words: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    with pytest.raises(Exception, match=r"unknown|needs|expected") as refused:
        harness("hunt", *words, "--store", str(tmp_path))
    why = refused.value
    assert message in (why.format_message() if hasattr(why, "format_message") else str(why))


# --- the pool ---------------------------------------------------------------------------------


def taken(hunt: Hunt, *elements: int, events: int = 10) -> None:
    hunt.draw()
    covered = b"".join(one.to_bytes(4, "little") for one in elements)
    hunt.take(HuntRun("VALID", (), covered, events=events))


def test_the_cheapest_input_that_reached_what_few_runs_reach_is_mutated() -> None:
    hunt = Hunt({"time-limit": "2"}, Topology.of(), HuntState(seed=1))
    taken(hunt, 1, 2)
    taken(hunt, 1, 3, events=40)
    assert hunt.state.cheapest == {2: 1, 3: 2}, "both runs reached 1"
    for _ in range(50):
        taken(hunt, 1, 2)
    assert hunt.state.counts == {1: 52, 2: 51, 3: 1}
    assert (hunt.state.cheapest, [*hunt.state.pool]) == ({3: 2}, [2])
    parents = {hunt.draw().parent for _ in range(60)}
    assert parents == {None, 2}
    taken(hunt, 1, 3, events=30)
    assert (hunt.state.cheapest, [*hunt.state.pool]) == ({3: 53}, [53])
    taken(hunt, 1, 3, events=50)
    assert hunt.state.cheapest == {3: 53}, "another one is cheaper"


def test_without_steering_the_seeds_alone_differ() -> None:
    state = HuntState(seed=1)
    hunt = Hunt({"time-limit": "2"}, Topology.of(), state, steered=False, varied=False)
    drawn = [hunt.draw() for _ in range(50)]
    assert {frozenset(one.options) for one in drawn} == {frozenset({"seed"})}
    assert len({one.options["seed"] for one in drawn}) == 50


# --- coverage ---------------------------------------------------------------------------------


def test_the_coverage_of_a_literal_trace() -> None:
    """Each step adds the state of the table before it, and that of each part after it."""
    cluster = SimCluster(Topology.of(replicas=1, keepers=1), Seed(1))
    cluster.simulation.servers.cover()
    cluster.up()
    session = cluster.simulation.session(["zk1"])

    def new(*operations: tuple[object, ...]) -> int:
        before = set(elements())
        session.multi(*operations)
        return len(set(elements()) - before)

    def elements() -> list[int]:
        return memoryview(cluster.simulation.servers.coverage()[0]).cast("I").tolist()

    def create(path: str, *, ephemeral: bool = False) -> tuple[object, ...]:
        return ("create", path, "", ephemeral, False)

    assert elements() == []
    assert new(create("/t"), create("/t/replicas"), create("/t/block_numbers")) == 0
    assert new(create("/t/block_numbers/p")) == 0, "no insert"
    assert new(create("/t/block_numbers/p/block-0")) == 1, "an insert begins"
    assert new(create("/t/block_numbers/p/block-1")) == 0, "no insert or one is under way"
    assert new(create("/t/block_numbers/p/block-2")) == 1, "several are"
    assert new(create("/t/block_numbers/p/block-3")) == 0
    for replica in ("r1", "r2"):
        session.multi(create(f"/t/replicas/{replica}"), create(f"/t/replicas/{replica}/parts"))
    assert new(create("/t/replicas/r1/parts/p_0_0_0")) == 2, "a part on one replica"
    assert new(create("/t/replicas/r1/parts/p_1_1_0")) == 0, "another such part"
    assert new(create("/t/replicas/r2/parts/p_0_0_0")) == 1, "a part on two"
    assert new(("remove", "/t/replicas/r2/parts/p_0_0_0", None)) == 2, "another step"
    cluster.down()


# --- faults -----------------------------------------------------------------------------------


def fault(number: int, begin_ms: int, end_ms: int | None, f: str = "kill") -> list[TimedCall]:
    nodes = {"nodes": ["ch1"], "text": "ch1"}
    ends = [("begin", begin_ms), *([] if end_ms is None else [("end", end_ms)])]
    return [
        TimedCall(
            at * MS,
            NEMESIS_NUMBER,
            Call(f=f, value={"fault": number, "edge": edge, **nodes}, nemesis=True),
        )
        for edge, at in ends
    ]


def times(calls: tuple[TimedCall, ...]) -> list[tuple[object, object, float]]:
    """Return number, edge and time in ms of each call."""
    values = [one.call.value for one in calls]
    assert all(isinstance(value, dict) for value in values)
    return [
        (value["fault"], value["edge"], one.at_ns / MS)  # type: ignore[index, call-overload]
        for value, one in zip(values, calls, strict=True)
    ]


def test_a_fault_that_is_overtaken_ends_before_the_next_of_its_family() -> None:
    calls = (*fault(7, 10, 100), *fault(9, 50, 60), *fault(11, 55, 70, "pause"))
    made = timetable_of(faults_of(sorted(calls, key=lambda one: one.at_ns)))
    assert times(made) == [
        (1, "begin", 10),
        (1, "end", 49),
        (2, "begin", 50),
        (3, "begin", 55),
        (2, "end", 60),
        (3, "end", 70),
    ]
    assert timetable_of(faults_of(made)) == made


def test_a_repeated_end_and_an_end_alone_are_left_out() -> None:
    calls = (*fault(1, 10, 20), fault(1, 0, 30)[1], fault(2, 0, 40)[1], *fault(3, 50, None))
    assert times(timetable_of(faults_of(calls))) == [
        (1, "begin", 10),
        (1, "end", 20),
        (2, "begin", 50),
    ]


def test_a_fault_moves_to_another_server_with_its_text() -> None:
    (one,) = faults_of(fault(1, 10, 20))
    other = one.on({"ch1": "ch3", "ch3": "ch1"})
    for call in timetable_of([other]):
        assert isinstance(call.call.value, dict)
        assert (call.call.value["nodes"], call.call.value["text"]) == (["ch3"], "ch3")


def test_a_splice_has_the_beginning_of_one_and_the_end_of_the_other() -> None:
    first, second = (
        faults_of((*fault(1, at, at + 5), *fault(2, at + 50, at + 55))) for at in (1, 7)
    )
    made = timetable_of(spliced(first, second, 40 * MS, 10 * MS))
    assert [at for _, _, at in times(made)] == [1, 6, 67, 72]


def test_a_script_of_faults_alone_is_the_run_that_drew_them(tmp_path: Path) -> None:
    words = ("run", "--cluster", "sim", *QUICK, "--report", "none", "--seed", "3")
    harness(*words, "--store", str(tmp_path))
    first = Store(tmp_path).find("latest").history()
    options = dict(zip((w.removeprefix("--") for w in QUICK[::2]), QUICK[1::2], strict=True))
    script = ScriptedRun(
        {**options, "cluster": "sim", "seed": "0x3"}, script_of(first.nemesis, 1), faults_alone=True
    )
    file = tmp_path / "faults.toml"
    file.write_text(script.text)
    assert read_script(file) == script
    harness("run", "--script", str(file), "--report", "none", "--store", str(tmp_path))
    second = Store(tmp_path).find("latest").history()
    assert list(first) == list(second)
    assert len(first.nemesis) > 4


def test_a_clients_call_among_faults_alone_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text("[options]\n[script]\nfaults = [{ at = 1, by = 0, on = 'ch1', f = 'read' }]")
    with pytest.raises(UsageError, match="a call of a client among the faults"):
        read_script(file)


def test_the_servers_seed_changes_the_servers_alone() -> None:
    base = dict(zip((w.removeprefix("--") for w in QUICK[::2]), QUICK[1::2], strict=True))
    runs = HuntRuns({**base, "cluster": "sim", "nemesis": "kill"}, Path("store"))
    first, same, other = (
        runs(HuntInput({"seed": "7", **servers})) for servers in ({}, {}, {"server-seed": "8"})
    )
    assert replace(first, cpu_s=0) == replace(same, cpu_s=0)
    assert other.events != first.events
    specs = [[one.call for one in run.faults] for run in (first, other)]
    assert specs[0] == specs[1]


def test_a_seed_of_servers_is_for_simulated_ones() -> None:
    with pytest.raises(UsageError, match="--server-seed 0x7: --cluster docker does not"):
        harness("run", "--cluster", "docker", "--server-seed", "7")
