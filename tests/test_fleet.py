"""Many runs on Spark: sound ones are judged whatever is wrong with the others."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from contextlib import closing, suppress
from importlib import import_module
from pathlib import Path

import fleet_cases as cases
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest

import harness.cli.main
from harness.core.bounded_json import MAX_BYTES
from harness.core.errors import EXIT_CRASH, HarnessError, UsageError
from harness.core.verdict import Status
from harness.fleet import processes
from harness.fleet.found_runs import found
from harness.fleet.java import require_java
from harness.fleet.location import Location
from harness.fleet.plan import Item
from harness.fleet.rows import summaries
from harness.fleet.spark import Fleet
from harness.fleet.spark_errors import last_error
from harness.fleet.stored_runs import StoredRuns, check_fleet
from harness.fleet.task import Job
from harness.spec.workload_options import workload_of
from harness.store.parquet import read_parquet

RUNS = StoredRuns(workload_of)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent))
        with closing(Fleet("local[2]", tmp_path_factory.mktemp("spark") / "spark.log")) as fleet:
            yield fleet


def hostile(store: Path) -> dict[str, str]:
    """Write hostile runs, and return their paths in the store by name."""
    made = {
        "sound": cases.run(store, "none", 1, cases.sound(2)),
        "stale": cases.run(store, "none", 2, cases.stale()),
        "killed": cases.run(store, "kill", 3, cases.sound(), journal=True, columns=False),
        "mended": cases.run(store, "kill", 4, cases.sound(), journal=True),
        "corrupt": cases.run(store, "kill", 5, cases.sound()),
        "headless": cases.run(store, "kill", 6, cases.sound()),
        "lost": cases.run(store, "kill", 7, cases.sound(), columns=False),
        "poison": cases.run(store, "kill", 8, cases.sound()),
        "poison too": cases.run(store, "kill", 8, cases.sound()),
        "nested": cases.run(store, "kill", 10, cases.sound(), journal=True),
        "nested op": cases.run(store, "kill", 11, cases.sound(), journal=True),
        "digits": cases.run(store, "kill", 12, cases.sound(), journal=True),
        "large": cases.run(store, "kill", 13, cases.sound()),
        "waits": cases.run(store, "kill", 14, cases.sound()),
        "waits too": cases.run(store, "kill", 15, cases.sound(), columns=False),
        "after": cases.run(store, "kill", 9, cases.sound()),
    }
    lines = made["killed"].journal.read_bytes()
    made["killed"].journal.write_bytes(lines[: len(lines) // 2])
    for name in ("mended", "corrupt"):
        whole = bytearray(made[name].parquet_file.read_bytes())
        whole[4 : len(whole) // 2] = bytes(len(whole) // 2 - 4)  # the footer stays
        made[name].parquet_file.write_bytes(whole)
    made["headless"].info_file.write_text("{")
    made["nested"].info_file.write_bytes(b"[" * 100_000 + b"]" * 100_000)
    for name, value in (("nested op", b'{"a":' * 50_000 + b"1" + b"}" * 50_000),
                        ("digits", b"1" * 5_000)):  # fmt: skip
        with made[name].journal.open("ab") as file:
            file.write(
                b'{"index":94,"process":9999,"kind":"invoke","f":"insert","time_ns":99000000000,'
                b'"value":%b,"key":0,"node":"ch1","error":null}\n' % value
            )
    with made["large"].info_file.open("ab") as file:
        file.truncate(MAX_BYTES + 1)
    info = json.loads(made["lost"].info_file.read_text())
    made["lost"].info_file.write_text(json.dumps({**info, "state": "finished"}))
    for fifo in (made["waits"].info_file, made["waits too"].journal):
        fifo.unlink(missing_ok=True)
        os.mkfifo(fifo)
    return {name: str(run.path.relative_to(store)) for name, run in made.items()}


def test_a_run_that_kills_its_task_costs_the_others_of_the_task_nothing_on_spark(tmp_path, fleet):
    made = [cases.run(tmp_path, "kill", seed, cases.sound()) for seed in (7, 8, 9)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("harness.fleet.plan.TASKS_A_CORE", 0)  # so that it is one task
        checked = check_fleet(found(tmp_path), cases.poisoned(8), fleet.judge)
    got = [checked.runs[str(run.path.relative_to(tmp_path))] for run in made]
    assert [one.status.value for one in got] == ["VALID", "UNKNOWN", "VALID"]
    assert got[1].reason == "killer: the process that judged it died (signal 9)"
    assert not list((tmp_path / ".fleet").iterdir())


def test_what_is_wrong_with_a_run_is_named_and_the_rest_is_judged(tmp_path):
    names = hostile(tmp_path)
    checked = check_fleet(found(tmp_path), cases.poisoned(8), processes.judge)
    of = {one.run: one for one in summaries(checked.verdicts.rows())}
    assert {run: (one.status, one.reason) for run, one in of.items()} == {
        run: (one.status, one.reason) for run, one in checked.runs.items()
    }
    assert set(of) == set(names.values()) == checked.judged
    got = {
        name: (of[run].status.value, of[run].reason, of[run].note) for name, run in names.items()
    }
    assert {name: status for name, (status, _, _) in got.items()} == {
        "sound": "VALID",
        "stale": "INVALID",
        "killed": "UNKNOWN",  # no final reads
        "mended": "VALID",
        "corrupt": "UNKNOWN",
        "headless": "UNKNOWN",
        "lost": "UNKNOWN",
        "poison": "UNKNOWN",
        "poison too": "UNKNOWN",
        "nested": "UNKNOWN",
        "nested op": "UNKNOWN",
        "digits": "UNKNOWN",
        "large": "UNKNOWN",
        "waits": "UNKNOWN",
        "waits too": "UNKNOWN",
        "after": "VALID",
    }
    assert "is cut off after" in got["killed"][2]
    assert "made again from the journal" in got["mended"][2]
    assert "is not a readable Parquet file" in got["corrupt"][1]
    assert "run.json: cannot be read as JSON" in got["headless"][1]
    assert "neither history.parquet nor history.jsonl" in got["lost"][1]
    for name in ("poison", "poison too"):
        assert got[name][1] == "killer: the process that judged it died (signal 9)"
        assert of[names[name]].judged["linearizable"].value == "VALID"
    assert "run.json: cannot be read as JSON: line 1 column 101: it is nested" in got["nested"][1]
    assert "it is nested more than 100 deep" in got["nested op"][1]
    assert "a number has 5,000 digits, expected at most 4,300" in got["digits"][1]
    assert "it has 67,108,865 bytes, expected at most 67,108,864" in got["large"][1]
    assert "run.json: cannot be read as JSON: it is not a regular file" in got["waits"][1]
    assert "history.jsonl: cannot be read: it is not a regular file" in got["waits too"][1]
    assert not list((tmp_path / ".fleet").iterdir())


def test_only_what_changed_is_judged_again(tmp_path):
    for seed in (1, 2, 3):
        cases.run(tmp_path, "none", seed, cases.sound())
    store = found(tmp_path)
    first = check_fleet(store, RUNS, cases.in_process)
    assert (len(first.judged), len(first.unchanged)) == (3, 0)
    rows = first.verdicts.rows()
    second = check_fleet(store, RUNS, lambda job, items: pytest.fail("nothing to judge"))
    assert (len(second.judged), len(second.unchanged)) == (0, 3)
    changed = tmp_path / store.runs[1] / "history.parquet"
    changed.unlink()
    cases.write_parquet(cases.stale(), changed)
    cases.run(tmp_path, "kill", 4, cases.sound())
    found_after = found(tmp_path)
    third = check_fleet(found_after, RUNS, cases.in_process)
    assert third.judged == {store.runs[1], *set(found_after.runs) - set(store.runs)}
    merged = third.verdicts.rows()
    keys = list(zip(*(merged[n].to_pylist() for n in ("run", "checker", "object")), strict=True))
    assert len(keys) == len(set(keys))
    assert {one.run: one.status.value for one in summaries(merged)} == {
        run: "INVALID" if run == store.runs[1] else "VALID" for run in found_after.runs
    }
    assert len(merged) >= len(rows)
    forced = check_fleet(found_after, RUNS, cases.in_process, force=True, only=frozenset({"stats"}))
    assert (len(forced.judged), forced.verdicts.place.name) == (4, "verdicts-stats")


def test_a_changed_bit_of_the_journal_counts_although_its_length_is_the_same(tmp_path):
    run = cases.run(tmp_path, "none", 1, cases.sound(), journal=True)

    def judged_again() -> tuple[str, str, str]:
        checked = check_fleet(found(tmp_path), RUNS, cases.in_process)
        (one,) = summaries(checked.verdicts.rows())
        return one.status.value, ",".join(one.kinds), one.reason

    def flip(old: bytes, new: bytes) -> None:
        whole = run.journal.read_bytes()
        assert whole.count(old) == 1
        assert sum((a ^ b).bit_count() for a, b in zip(old, new, strict=True)) == 1
        run.journal.write_bytes(whole.replace(old, new))

    assert judged_again()[0] == "VALID"
    read = b'"f":"read","time_ns":440000000,"value":[0,1,2,3,4]'
    flip(read, read.replace(b"2", b"6"))
    assert judged_again()[:2] == ("INVALID", "cycle,monotonic-reads,phantom")
    assert tuple(run.history()) == tuple(read_parquet(run.parquet_file))
    flip(read.replace(b"2", b"6"), read.replace(b"2", b"6").replace(b"[", b"{"))
    status, kinds, reason = judged_again()
    assert (status, kinds) == ("UNKNOWN", "")
    assert re.search(r"record: line \d+ of history\.jsonl: .* is not an op", reason)


def test_a_row_says_what_the_checkers_say(tmp_path, fleet):
    run = cases.run(tmp_path, "none", 2, cases.stale())
    checked = check_fleet(found(tmp_path), RUNS, fleet.judge, save=True)
    rows = checked.verdicts.rows().to_pylist()
    results = {v["checker"]: v for v in run.results()["verdicts"]}
    assert {row["checker"] for row in rows} == set(results)
    (row,) = [row for row in rows if row["checker"] == "linearizable"]
    (anomaly,) = results["linearizable"]["anomalies"]
    assert (row["object"], row["status"], row["kind"]) == (0, "INVALID", "cycle")
    assert row["witness"] == anomaly["ops"]
    assert row["time_ns"] == anomaly["time_ns"]
    assert row["checked"] == results["linearizable"]["checked"]
    assert row["decides"]
    assert row["seconds"] > 0


def test_a_run_that_is_split_by_keys_is_the_same_run(tmp_path, fleet, monkeypatch):
    run = cases.run(tmp_path, "none", 1, cases.sound(6))
    only = frozenset({"linearizable", "sequential"})
    whole = check_fleet(found(tmp_path), RUNS, fleet.judge, only=only)
    rows = _judged(whole.verdicts)
    assert len(rows) == 12
    whole.verdicts.clear()
    table = pq.read_table(run.parquet_file)
    pq.write_table(table, run.parquet_file, row_group_size=60)
    monkeypatch.setattr("harness.fleet.stored_runs.BIG_BYTES", 0)
    parts = check_fleet(found(tmp_path), RUNS, fleet.judge, only=only)
    assert _judged(parts.verdicts) == rows
    again = check_fleet(found(tmp_path), RUNS, fleet.judge)
    of = summaries(again.verdicts.rows())[0].judged
    assert of["linearizable"].value == "VALID"
    whole.verdicts.clear()
    monkeypatch.setattr("harness.fleet.stored_runs.BIG_BYTES", 2**40)
    unsplit = check_fleet(found(tmp_path), RUNS, fleet.judge)
    assert of == summaries(unsplit.verdicts.rows())[0].judged
    assert of["set-full"].value == "VALID"


def test_a_split_run_too_long_for_this_machine_is_judged_by_keys(tmp_path, fleet, monkeypatch):
    run = cases.run(tmp_path, "none", 1, cases.sound(6))
    pq.write_table(pq.read_table(run.parquet_file), run.parquet_file, row_group_size=60)
    monkeypatch.setattr("harness.fleet.stored_runs.BIG_BYTES", 0)
    monkeypatch.setattr("harness.store.parquet.COLUMNS_BYTES_MAX", 50_000)
    checked = check_fleet(found(tmp_path), RUNS, cases.in_process)
    [of] = summaries(checked.verdicts.rows())
    assert (of.judged["linearizable"].value, of.judged["set-full"].value) == ("VALID", "UNKNOWN")
    assert "expected at most 50,000, half" in str(checked.verdicts.rows()["reason"].to_pylist())


def test_a_split_run_with_a_damaged_record_is_not_valid(tmp_path, monkeypatch):
    """Also if only checkers are asked for that judge key by key."""
    run = cases.run(tmp_path, "none", 1, cases.sound(6), journal=True, columns=False)
    lines = run.journal.read_bytes().splitlines(keepends=True)
    run.journal.write_bytes(b"".join((*lines[:-1], b"{}\n")))
    pq.write_table(pq.read_table(run.parquet()), run.parquet_file, row_group_size=60)
    run.journal.unlink()
    monkeypatch.setattr("harness.fleet.stored_runs.BIG_BYTES", 0)
    checked = check_fleet(found(tmp_path), RUNS, cases.in_process, only=frozenset({"linearizable"}))
    [of] = summaries(checked.verdicts.rows())
    assert (of.status.value, of.judged["record"].value) == ("UNKNOWN", "UNKNOWN")
    assert of.judged["linearizable"].value == "VALID"


def test_a_range_of_keys_that_cannot_be_judged_makes_its_run_unknown(tmp_path, monkeypatch):
    run = cases.run(tmp_path, "none", 1, cases.sound(6))
    table = pq.read_table(run.parquet_file)
    values = [
        None if key == 5 else value
        for key, value in zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)
    ]
    at = table.schema.get_field_index("value")
    table = table.set_column(at, table.schema.field("value"), pa.array(values, pa.int64()))
    pq.write_table(table, run.parquet_file, row_group_size=60)
    monkeypatch.setattr("harness.fleet.stored_runs.BIG_BYTES", 0)
    checked = check_fleet(found(tmp_path), RUNS, cases.in_process, only=frozenset({"linearizable"}))
    [of] = summaries(checked.verdicts.rows())
    assert of.status is Status.UNKNOWN
    assert "op #5: an insert of None, expected an int" in of.reason


def _judged(verdicts):
    names = ("checker", "object", "status", "checked")
    return sorted(zip(*(verdicts.rows()[name].to_pylist() for name in names), strict=True))


def test_executors_may_be_other_processes_started_by_spark_submit(tmp_path):
    for seed in range(6):
        cases.run(tmp_path, "none", seed + 1, cases.stale() if seed == 3 else cases.sound())
    home = Path(pyspark.__file__).parent
    main = Path(harness.cli.main.__file__)
    done = subprocess.run(
        [home / "bin" / "spark-submit", "--master", "local-cluster[2,1,1024]", main, "check",
         tmp_path, "--json"],
        env={**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable,
             "PYSPARK_DRIVER_PYTHON": sys.executable},
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout.rstrip().split("\n")[-1])
    assert report["statuses"] == {"VALID": 5, "UNKNOWN": 0, "INVALID": 1}


def test_what_fails_twice_ends_the_job_with_the_executors_last_error(tmp_path, fleet):
    run = cases.run(tmp_path, "none", 1, cases.sound())
    place = Location.of(tmp_path)
    job = Job(runs=Uninstalled(), store=place, only=None, scratch=place)
    with pytest.raises(HarnessError) as caught:
        fleet.judge(job, [Item(str(run.path.relative_to(tmp_path)), 1)])
    assert str(caught.value) == (
        "Spark gave up: a task failed at every attempt, the last time with "
        f"ModuleNotFoundError: No module named 'not_on_this_executor'; see {fleet.log}"
    )
    assert re.findall(r"failed (\d+) times; aborting job", fleet.log.read_text()) == ["2"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "Job aborted due to stage failure: Task 3 in stage 0.0 failed 2 times, most recent "
            "failure: Lost task 3.1 in stage 0.0 (TID 9) (10.0.0.7 executor 1): "
            "ExecutorLostFailure (executor 1 exited) Reason: killed\n"
            "Driver stacktrace:\n\tat org.apache.spark.scheduler.DAGScheduler",
            "a task failed 2 times, the last time with (10.0.0.7 executor 1): "
            "ExecutorLostFailure (executor 1 exited) Reason: killed",
        ),
        (
            "An exception was thrown from the Python worker:\n"
            "Traceback (most recent call last):\n"
            '  File "fleet.py", line 213, in rows\n    with path.open("a")\n'
            "FileNotFoundError: [Errno 2] No such file or directory: '/shared/.fleet/7/x'",
            "a task failed at every attempt, the last time with FileNotFoundError: "
            "[Errno 2] No such file or directory: '/shared/.fleet/7/x'",
        ),
        ("Answer from Java side is empty\nmore", "Answer from Java side is empty"),
    ],
)  # fmt: skip
def test_the_cause_of_a_failure_of_spark_fits_in_one_line(text, said):
    assert last_error(text) == said


class Uninstalled:
    """Object that an executor cannot unpickle because its Python lacks a package."""

    def __reduce__(self):
        return import_module, ("not_on_this_executor",)


def test_ctrl_c_ends_the_job_without_a_traceback(tmp_path):
    cases.run(tmp_path, "none", 1, cases.sound())
    process, terminal = pty.fork()
    if process == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # whatever the tests were started by
        os.execv(
            sys.executable,
            [
                sys.executable,
                "-m",
                "harness.cli.main",
                "check",
                f"{tmp_path}/",
                "--spark",
                "local[*]",
            ],
        )
    shown = b""
    with suppress(OSError):  # the terminal is gone
        while more := os.read(terminal, 4096):
            if b"starting Spark" in more and b"starting Spark" not in shown:
                os.write(terminal, b"\x03")
            shown += more
    _, status = os.waitpid(process, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == EXIT_CRASH
    assert shown.rstrip().endswith(b"harness: interrupted"), shown.decode()
    assert b"Traceback" not in shown
    assert not (tmp_path / "verdicts").exists()


def test_a_missing_java_is_reported(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(UsageError, match=r"java: not found in PATH.*apt install openjdk-17"):
        require_java()
    old = tmp_path / "java"
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    old.chmod(0o755)
    with pytest.raises(UsageError, match=r"11\.0\.2.*needs Java 17"):
        require_java()
