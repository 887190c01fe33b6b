"""A night: every run is counted once, whatever kills it; what it came to is said per cell."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from checkers.judge import judge
from checkers.replication.conformance import Conformance
from checkers.triage.explanation import Cause, Explained
from harness.conform.steps import STEPS, steps_with
from harness.core.dialect import Version, dialect_of
from harness.core.errors import HarnessError, UsageError
from harness.core.history import History
from harness.core.op import NEMESIS, Kind, Op
from harness.core.verdict import Status
from harness.nights.findings import CellRecord, FailOn, nights_before
from harness.nights.matrix import read_matrix
from harness.nights.night import JOURNAL, Night
from harness.nights.night_summary import NightSummary, ReachCounts, cells, headline
from harness.nights.rota import Rota, replayed
from harness.run.monitor import show_nothing
from harness.run.stop import Stop
from harness.spec.run_spec import RunSpec
from harness.store.store import RunDirectory

ROOT = Path(__file__).parent.parent
QUORUM_SET = 'workloads = ["quorum-set"]\nnemeses = ["none"]\n'
SIM = """
workloads = ["quorum-set"]
nemeses = ["none", "partition"]
seed = 7
[options]
cluster = "sim"
time-limit = 5
"""


def summary_of(night, names=("a",), earlier=None, missing=None, **more):
    return NightSummary(
        night=night, cells=cells(night, names, earlier or {}, missing or {}), **more
    )


def harness(*words, cwd, **more):
    command = [sys.executable, "-m", "harness.cli.main", *map(str, words)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, cwd=cwd, env=env, stdout=subprocess.PIPE, text=True, **more)


VERSIONS = """
clickhouse = ["18.16", "25.8"]
workloads = ["quorum-set", "merges"]
nemeses = ["none", "kill-clickhouse-leader"]
"""


def test_what_a_version_cannot_run_is_said_and_counts_as_nothing(tmp_path):
    night = Night.begun(tmp_path / "night", {"matrix": "m", "seed": "1"})
    night.say("begin", 0, cell="a on 18.16", seed="0x1")
    night.say("directory", 0, path="a/0")
    night.say("recorded", 0, troubles=[], seconds=5.0, phases={})
    night.say("judged", 0, status="VALID", reason="r", kinds=[], first_ns=None)
    missing = {"a on 25.8": "leaders"}
    summary = summary_of(night, ["a on 18.16", "a on 25.8"], missing=missing)
    report = summary.results()
    assert report["status"] == "VALID"
    output = [(cell["name"], cell["runs"], cell["not_applicable"]) for cell in report["cells"]]
    assert output == [("a on 18.16", 1, None), ("a on 25.8", 0, "leaders")]
    xml = summary.junit()
    assert (xml.tests, xml.failures, xml.errors, xml.skipped) == (2, 0, 0, 1)
    assert [suite.name for suite in xml] == ["a on 18.16", "a on 25.8"]


def test_a_matrix_that_no_version_can_run_is_refused(tmp_path):
    file = tmp_path / "m.toml"
    text = 'workloads = ["quorum-set"]\nnemeses = ["kill-clickhouse-leader"]\n'
    file.write_text(f"{text}clickhouse = ['25.8']")
    with pytest.raises(UsageError, match="no cell can be run on its version"):
        read_matrix(file).settled(str(tmp_path), show_nothing, Stop())
    file.write_text(f"{text}[options]\nclickhouse = '25.8'")
    with pytest.raises(UsageError, match=r"cell quorum-set \+ kill-clickhouse-leader: nemesis"):
        read_matrix(file).settled(str(tmp_path), show_nothing, Stop())


def test_a_journal_says_what_was_said_and_a_line_cut_off_was_not(tmp_path):
    night = Night.begun(tmp_path / "night", {"matrix": "m", "seed": "1"})
    night.say("begin", 0, cell="a", seed="0x1")
    night.say("directory", 0, path="a/0")
    night.say("recorded", 0, troubles=[], seconds=5.0, phases={"faults": 4.0})
    night.say("judged", 0, status="INVALID", reason="r", kinds=["stale"], first_ns=2_000_000_000)
    night.say("begin", 1, cell="b", seed="0x1")
    night.say("begin", 2, cell="a", seed="0x2")
    night.say("broken", 2, error="ClusterError: gone")
    whole = (night.path / JOURNAL).read_bytes()
    (night.path / JOURNAL).write_bytes(whole + b'{"event": "begin", "ru')
    again = Night.read(night.path)
    assert again == night
    assert (again.next, again.over) == (3, False)
    assert (again.expected_s("a"), again.expected_s("b")) == (5.0, 5.0)
    assert Night(tmp_path).expected_s("a") == 0.0
    assert [slot.killed for slot in again.slots.values()] == [False, True, False]
    again.say("end")
    assert Night.read(night.path).over
    (night.path / JOURNAL).write_bytes(whole + b"nonsense\n")
    with pytest.raises(HarnessError, match="is no journal of a night"):
        Night.read(night.path)
    summary = summary_of(night, ["a", "b"])
    cells_ = summary.cells
    assert [(c.count(Status.INVALID), c.killed, c.broken, c.new) for c in cells_] == [
        (1, 0, 1, ("unexplained stale",)),
        (0, 1, 0, ()),
    ]
    report = summary.results()
    assert report["statuses"] == {"VALID": 0, "UNKNOWN": 2, "INVALID": 1}
    assert report["cells"][0]["first_anomaly_s"] == 2.0
    xml = summary.junit()
    assert (xml.tests, xml.failures, xml.errors) == (3, 1, 2)
    assert [case.name for suite in xml for case in suite] == ["a #1", "a #2", "b #1"]
    assert night.slots[1].verdict is Status.UNKNOWN


def judged_night(path, *causes, accept=()):
    """Return a night of runs of a cell "a" with these explanations: each INVALID, but for "" VALID
    and "?" UNKNOWN."""
    night = Night.begun(path, {"matrix": "m", "seed": "1", "accept": {"a": list(accept)}})
    for run, cause in enumerate(causes):
        night.say("begin", run, cell="a", seed="0x1")
        night.say("directory", run, path=f"a/{run}")
        night.say("recorded", run, troubles=[], seconds=5.0, phases={})
        if cause in ("", "?"):
            status, kinds, cause = {"": "VALID", "?": "UNKNOWN"}[cause], [], None
        else:
            status, kinds = "INVALID", ["stale"]
        said = {"status": status, "reason": "r", "kinds": kinds, "first_ns": 1}
        night.say("judged", run, **said, cause=cause)
    return Night.read(path)


def known(*names):
    """Return the explanation of a run by these defects, as a journal has it."""
    return Cause("known", tuple(Explained(name, "18.16.1", 1, "w") for name in names), ()).results()


def test_known_failures_are_told_apart_and_unexplained_runs_come_first(tmp_path):
    defect = Explained("stale-read", "18.16.1", 4, "op #7 read on ch2: …")
    known = Cause("known", (defect,), ()).results()
    partly = Cause("partly", (defect,), ("set-full lost: value 3",)).results()
    night = judged_night(tmp_path / "night", known, partly, None)
    summary = summary_of(night)
    report = summary.results()
    assert report["causes"] == {"not explained": 2, "stale-read": 1}
    assert [run["run"] for run in report["runs_by_number"]] == [1, 2, 0]
    (suite,) = summary.junit()
    assert [case.result[0].type for case in suite] == ["KNOWN", "INVALID", "INVALID"]
    messages = [case.result[0].message for case in suite]
    assert messages[0] == "explained by stale-read (known since 18.16.1); r"
    assert messages[1].startswith("not explained: set-full lost: value 3; beside it stale-read")
    assert {p.name: p.value for p in suite.properties()} == {
        "known-defect:stale-read": "1",
        "unexplained": "2",
    }


def test_earlier_nights_are_all_that_began_before(tmp_path):
    judged_night(tmp_path / "1", known("stale-read"), "")
    judged_night(tmp_path / "3", known("skipped-part"), None, "?")
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / JOURNAL).write_text("nonsense\n")
    of = {
        name: {
            cell: sorted(record.hits)
            for cell, record in nights_before(tmp_path / name).records.items()
        }
        for name in "124"
    }
    assert of == {
        "1": {},
        "2": {"a": ["stale-read"]},
        "4": {"a": ["skipped-part", "stale-read", "unexplained stale"]},
    }
    assert nights_before(tmp_path / "4").records["a"].runs == 4, "UNKNOWN runs have no conclusion"


POLICIES = {
    "a run that is explained by nothing fails by default": (
        [None], FailOn.UNEXPLAINED, Status.INVALID, [0]
    ),
    "a known defect that is not accepted fails by default": (
        [known("skipped-part")], FailOn.UNEXPLAINED, Status.INVALID, [0]
    ),
    "an accepted defect does not": (
        [known("stale-read"), ""], FailOn.UNEXPLAINED, Status.VALID, []
    ),
    "an accepted defect beside another one fails": (
        [known("stale-read"), known("stale-read", "skipped-part")],
        FailOn.UNEXPLAINED, Status.INVALID, [1],
    ),
    "any fails, also an accepted one": ([known("stale-read")], FailOn.ANY, Status.INVALID, [0]),
    "what an earlier night had is nothing new": (
        [known("early-snapshot")], FailOn.NEW, Status.VALID, []
    ),
    "what no earlier night had is new": ([known("skipped-part")], FailOn.NEW, Status.INVALID, [0]),
    "what is accepted is nothing new": ([known("stale-read")], FailOn.NEW, Status.VALID, []),
    "an unexplained kind is new where only an explained one was seen": (
        [None], FailOn.NEW, Status.INVALID, [0]
    ),
    "a run without a conclusion is UNKNOWN": (
        [known("stale-read"), "?"], FailOn.UNEXPLAINED, Status.UNKNOWN, []
    ),
}  # fmt: skip


@pytest.mark.parametrize(("runs", "fail_on", "status", "failed"), POLICIES.values(), ids=POLICIES)
def test_which_runs_fail_a_night(tmp_path, runs, fail_on, status, failed):
    judged_night(tmp_path / "1", known("early-snapshot"))
    night = judged_night(tmp_path / "2", *runs, accept=["stale-read"])
    summary = summary_of(night, earlier=nights_before(night.path).records, fail_on=fail_on)
    report = summary.results()
    assert (summary.status, report["exit_status"]) == (status, status.exit_status)
    assert [slot.number for slot in night.runs if summary.fails(slot)] == failed
    assert report["failed"] == failed
    (suite,) = summary.junit()
    cases = [*suite]
    runs, accepted = cases[: len(night.slots)], cases[len(night.slots) :]
    skipped = [
        run for run, case in enumerate(runs) if case.result and case.result[0]._tag == "skipped"
    ]
    invalid = [slot.number for slot in night.slots.values() if slot.status is Status.INVALID]
    assert skipped == [run for run in invalid if run not in failed]
    assert suite.failures == len(failed)
    shown = any("stale-read" in slot.findings for slot in night.slots.values())
    assert [(one.name, one.result) for one in accepted] == [("a accepts stale-read", [])] * shown


def test_an_accepted_defect_is_gone_when_its_rate_would_have_shown_it(tmp_path):
    """It was in 5 of 10 runs, so that its rate was 22 % at the least (95 %): the probability that
    18 runs do not show it is over 1 %, and that of 19 is not."""
    judged_night(tmp_path / "1", *[known("stale-read"), ""] * 4, "", known("stale-read"))
    for runs, gone in ((18, []), (19, ["stale-read"])):
        night = judged_night(
            tmp_path / f"2-{runs}", *[""] * runs, accept=["stale-read", "skipped-part"]
        )
        summary = summary_of(night, earlier={"a": nights_before(tmp_path / "2").records["a"]})
        report = summary.results()
        assert (report["gone"], report["exit_status"]) == (gone, 2 if gone else 0)
        assert [[*cell.gone] for cell in summary.cells] == [gone]
    text = headline(summary.cells)
    assert text == "19 runs in 1 cell: 19 VALID; accepted and gone: stale-read"
    (case,) = [case for case in next(iter(summary.junit())) if case.name == "a accepts stale-read"]
    assert (case.result[0].type, case.result[0].message) == (
        "GONE",
        "not seen in the last 19 runs, and in 5 of those before: accept it no longer",
    )
    assert not CellRecord().is_gone("stale-read"), "it was never there"


def test_a_defect_that_explains_a_part_of_a_run_is_there(tmp_path):
    partly = Cause("partly", (Explained("stale-read", "18.16.1", 1, "w"),), ("lost",)).results()
    night = judged_night(tmp_path / "1", known("stale-read"), partly)
    record = nights_before(tmp_path / "2").records["a"]
    assert (record.hits["stale-read"], record.last["stale-read"]) == (2, 2)
    assert night.runs[1].findings == ("unexplained stale",)


def taken(path, *runs):
    """Return a night of runs, given the cell and the steps of each."""
    night = Night.begun(path, {"matrix": "m", "seed": "1"})
    for run, (cell, steps) in enumerate(runs):
        night.say("begin", run, cell=cell, seed="0x1")
        night.say("recorded", run, troubles=[], seconds=5.0, phases={})
        said = {"status": "VALID", "reason": "r", "kinds": [], "first_ns": None}
        night.say("judged", run, **said, steps=steps.split())
    return Night.read(path)


def test_cells_whose_runs_take_rare_steps_have_more_runs(tmp_path):
    common = "Insert PullLog"
    first = [("a", common), ("b", f"{common} MarkLost CloneReplica"), ("c", common)]
    night = taken(tmp_path / "1", *first, ("a", common))
    rota, order = Rota(["a", "b", "c"]), []
    for run in range(4, 14):
        cell = rota.names[rota.next(night.runs)]
        night.say("begin", run, cell=cell, seed="0x1")
        order.append(cell)
    assert order == ["b", "b", "c", "a", "b", "b", "c", "a", "b", "b"]
    # Steps that many runs of earlier nights took are not rare.
    often = Rota(rota.names, {"MarkLost": 100, "CloneReplica": 100})
    assert often.turns(night.runs, "b") == 1


def test_without_steps_the_cells_run_in_turn(tmp_path):
    night = taken(tmp_path / "1")
    rota, order = Rota(["a", "b"]), []
    for run in range(5):
        order.append(rota.names[rota.next(night.runs)])
        night.say("begin", run, cell=order[-1], seed="0x1")
    assert order == ["a", "b", "a", "b", "a"]


def test_a_cell_that_says_nothing_new_has_one_turn_in_three_rounds(tmp_path):
    night, rota, order = taken(tmp_path / "1"), Rota(["a", "b"]), []
    for run in range(20):
        cell = rota.names[rota.next(night.runs)]
        order.append(cell)
        night.say("begin", run, cell=cell, seed="0x1")
        night.say("recorded", run, troubles=[], seconds=5.0, phases={})
        status = "UNKNOWN" if cell == "a" else "VALID"
        said = {"status": status, "reason": "r", "kinds": [], "first_ns": None, "steps": []}
        night.say("judged", run, **said)
    assert "".join(order) == "ababa" + "bbbbba" * 2 + "bbb"


def test_known_defects_that_a_cell_has_shown_before_are_nothing_new(tmp_path):
    night, rota = taken(tmp_path / "1"), Rota(["a", "b"])

    def judged(run, cell, *defects):
        cause = Cause("known", tuple(Explained(name, "18.16.1", 1, "w") for name in defects), ())
        night.say("begin", run, cell=cell, seed="0x1")
        night.say("recorded", run, troubles=[], seconds=5.0, phases={})
        said = {"status": "INVALID", "reason": "r", "kinds": ["stale"], "first_ns": 1}
        night.say("judged", run, **said, steps=[], cause=cause.results())

    def next_cell():
        return rota.names[rota.next(night.runs)]

    for run, defect in enumerate(["stale-read", "stale-read", "stale-read", "stale-read"]):
        judged(run, "a", defect)
    judged(4, "b", "stale-read")
    assert next_cell() == "b"
    judged(5, "a", "skipped-part")
    judged(6, "b", "stale-read")
    assert next_cell() == "a"


def test_the_summary_lists_the_steps_that_no_run_took(tmp_path):
    nights = tmp_path / "torture"
    for name, steps in (("1", "Insert MarkLost"), ("2", "Insert PullLog")):
        night = taken(nights / "m" / name, ("a", steps), ("a", "Insert"))
        report = summary_of(night, earlier_reach=ReachCounts.before(night.path)).results()
        (night.path / "summary.json").write_text(json.dumps(report))
    assert report["steps"] == {"Insert": 2, "PullLog": 1}
    assert {*report["steps_not_taken"]} - {*report["steps_never_taken"]} == {"MarkLost"}
    assert "CloneReplica" in report["steps_never_taken"]
    before = ReachCounts.before(nights / "other" / "3")
    assert before.steps == {"Insert": 4, "PullLog": 1, "MarkLost": 1}
    assert before.elements == {}


def test_a_step_that_the_servers_of_a_night_lack_is_not_missing(tmp_path):
    old, new = (dialect_of(Version.of(one)).log_entries for one in ("18.16.1", "25.8.2"))
    assert steps_with(new) - steps_with(old) == {"AttachPart", "AlterMetadata"}
    assert steps_with(new) == STEPS
    night = taken(tmp_path / "1", ("a", " ".join(steps_with(old))))
    report = summary_of(night, steps=steps_with(old)).results()
    assert report["steps_not_taken"] == report["steps_never_taken"] == []


def test_what_a_run_reached_is_in_its_results():
    table = {"steps": 3, "actions": {"PullLog": 2, "Insert": 1}, "departures": {}, "stopped": None,
             "elements": ["log lag 2", "healthy: Insert"]}  # fmt: skip
    value = {"tables": {"/t": {**table, "unmodelled": False, "digest": "a"}}, "gaps": []}
    of = {"process": NEMESIS, "f": "conformance"}
    kinds = (Kind.INVOKE, Kind.OK)
    ops = [Op(index=n, kind=kind, time_ns=n, value=value, **of) for n, kind in enumerate(kinds)]
    judgement = judge(History(ops), [Conformance()], 10.0, "eventual")
    steps, elements = ["Insert", "PullLog"], ["healthy: Insert", "log lag 2"]
    assert replayed(judgement.results()) == {"steps": steps, "elements": elements}
    assert replayed({}) == {"steps": [], "elements": []}


def test_killed_in_the_middle_it_goes_on_and_nothing_is_lost_or_twice(tmp_path):
    (tmp_path / "sim.toml").write_text(SIM)
    first = harness(
        "torture", "sim.toml", "--runs", 8, "--json", cwd=tmp_path, start_new_session=True
    )
    journals, deadline = tmp_path / "store" / "torture" / "sim", time.monotonic() + 300
    while time.monotonic() < deadline:
        result = "".join(file.read_text() for file in journals.glob(f"*/{JOURNAL}"))
        if result.count('"directory"') >= 3:
            break
        time.sleep(0.02)
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    second = harness("torture", "sim.toml", "--runs", 8, "--json", cwd=tmp_path)
    report = json.loads(second.communicate()[0])
    (night,) = [Night.read(file.parent) for file in journals.glob(f"*/{JOURNAL}")]
    assert night.over
    assert sorted(night.slots) == list(range(8))
    assert report["runs"] == 8
    assert sum(report["statuses"].values()) == 8
    assert [(cell["name"], cell["runs"]) for cell in report["cells"]] == [
        ("quorum-set + none", 4),
        ("quorum-set + partition", 4),
    ]
    assert report["killed"] <= 1
    assert {slot.seed for slot in night.slots.values()} == {"0x7", "0x8", "0x9", "0xa"}
    paths = [slot.path for slot in night.slots.values() if slot.path]
    assert len(set(paths)) == len(paths) >= 7
    for slot in night.slots.values():
        if slot.path:
            assert slot.status is not None
        if not slot.killed:  # else it may have died before its first operation
            assert (tmp_path / "store" / slot.path / "results.json").exists()
    assert (night.path / "junit.xml").read_text().count("<testcase") == 8


def test_the_runs_of_a_steered_night_have_the_options_that_were_drawn(tmp_path):
    (tmp_path / "sim.toml").write_text(SIM)
    words = ("torture", "sim.toml", "--steer", "--runs", 10, "--json")
    report = json.loads(harness(*words, cwd=tmp_path).communicate()[0])
    (path,) = (tmp_path / "store" / "torture" / "sim").glob("*")
    slots = Night.read(path).runs
    assert (report["runs"], report["request"]["steer"]) == (10, True)
    assert {slot.how for slot in slots} == {"fresh", "fresh options"}  # nothing is replayed here
    for slot in slots:
        spec = RunDirectory(tmp_path / "store" / slot.path).info().spec
        drawn = {"interval": spec.interval_s, "time-limit": spec.time_limit_s}
        assert drawn == {
            "interval": pytest.approx(float(slot.options.get("interval", RunSpec().interval_s))),
            "time-limit": pytest.approx(float(slot.options.get("time-limit", 5))),
        }
        assert bool(slot.options) == (slot.how == "fresh options")
        for name, value in slot.options.items():
            assert f"--{name} {value}" in spec.command


def test_a_night_whose_hours_are_over_is_judged_and_a_new_one_begins(tmp_path):
    matrix = tmp_path / "sim.toml"
    matrix.write_text(SIM)
    request = {"matrix": read_matrix(matrix).digest, "seed": "1"}
    nights = tmp_path / "store" / "torture" / "sim"
    old = Night.begun(nights / "1", {**request, "started_utc": "2026-01-01T00:00:00+00:00"})
    old.say("begin", 0, cell="quorum-set + none", seed="0x1")
    # 4 ms: when the first run could begin nothing is left, or by the time it has ended.
    done = harness("torture", "sim.toml", "--hours", 0.000001, "--json", cwd=tmp_path)
    report = json.loads(done.communicate()[0])
    assert [path.name == "1" for path in sorted(nights.iterdir())] == [True, False]
    ended = Night.read(old.path)
    assert ended.over
    assert [slot.killed for slot in ended.slots.values()] == [True]
    assert json.loads((old.path / "summary.json").read_text())["killed"] == 1
    assert report["runs"] <= 1
    assert report["killed"] == 0


def test_after_an_invalid_run_none_begins_when_that_is_asked_for(tmp_path):
    (tmp_path / "sim.toml").write_text(SIM)
    done = harness("torture", "sim.toml", "--runs", 30, "--fail-fast", "--json", cwd=tmp_path)
    report = json.loads(done.communicate()[0])
    assert done.returncode == 1
    assert report["statuses"]["INVALID"] >= 1
    assert report["runs"] < 30


def test_simulated_servers_are_judged_by_their_record_too(tmp_path):
    """Replicas keep rows in different orders, which no client sees."""
    (tmp_path / "sim.toml").write_text(
        f'{SIM}bug = "merge-order"\nread = "linearizable"\nrate = 40\n'
    )
    words = ("torture", "sim.toml", "--runs", 1, "--json", "--notify", "tee told.json")
    done = harness(*words, cwd=tmp_path)
    report = json.loads(done.communicate()[0])
    assert report["statuses"]["INVALID"] == 1
    told = json.loads((tmp_path / "told.json").read_text())
    assert told["night"].startswith("store/torture/sim/")
    assert told == report
    (results,) = (tmp_path / "store").glob("quorum-set*/2*/results.json")
    verdicts = json.loads(results.read_text())["verdicts"]
    assert [v["checker"] for v in verdicts if v["status"] == "INVALID"] == ["protocol"]
