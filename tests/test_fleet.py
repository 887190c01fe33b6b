"""Many runs on Spark: sound ones are judged whatever is wrong with the others."""

import json
import os
import subprocess
import sys
from pathlib import Path

import fleet_cases as cases
import pyarrow.parquet as pq
import pyspark
import pytest

from checkers.fleet import Fleet, needed_java
from checkers.fleet_rows import read_rows, summaries
from checkers.fleet_work import HISTORY_OPS_MAX
from harness.cli.workload import workload_of
from harness.core.errors import UsageError
from harness.run.fleet import StoredRuns, check_fleet, found

RUNS = StoredRuns(workload_of)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent))
        with Fleet("local[2]", tmp_path_factory.mktemp("spark") / "spark.log") as fleet:
            yield fleet


def hostile(store: Path) -> dict[str, str]:
    """By name, the run's path in the store."""
    made = {
        "sound": cases.run(store, "none", 1, cases.sound(2)),
        "stale": cases.run(store, "none", 2, cases.stale()),
        "killed": cases.run(store, "kill", 3, cases.sound(), journal=True, columns=False),
        "mended": cases.run(store, "kill", 4, cases.sound(), journal=True),
        "corrupt": cases.run(store, "kill", 5, cases.sound()),
        "headless": cases.run(store, "kill", 6, cases.sound()),
        "lost": cases.run(store, "kill", 7, cases.sound(), columns=False),
        "poison": cases.run(store, "kill", 8, cases.sound()),
        "after": cases.run(store, "kill", 9, cases.sound()),
    }
    lines = made["killed"].journal.read_bytes()
    made["killed"].journal.write_bytes(lines[: len(lines) // 2])
    for name in ("mended", "corrupt"):
        whole = bytearray(made[name].parquet_file.read_bytes())
        whole[4 : len(whole) // 2] = bytes(len(whole) // 2 - 4)  # the footer stays
        made[name].parquet_file.write_bytes(whole)
    made["headless"].info_file.write_text("{")
    return {name: str(run.path.relative_to(store)) for name, run in made.items()}


def test_what_is_wrong_with_a_run_is_named_and_the_rest_is_judged(tmp_path, fleet):
    names = hostile(tmp_path)
    checked = check_fleet(found(tmp_path), cases.poisoned(8), fleet.judge)
    of = {one.run: one for one in summaries(read_rows(checked.verdicts))}
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
        "after": "VALID",
    }
    assert "is cut off after" in got["killed"][2]
    assert "made again from the journal" in got["mended"][2]
    assert "is no Parquet file that can be read" in got["corrupt"][1]
    assert "run.json: is not JSON" in got["headless"][1]
    assert "neither history.parquet nor history.jsonl" in got["lost"][1]
    assert got["poison"][1] == "killer: the process that judged it died (signal 9)"
    assert of[names["poison"]].judged["linearizable"].value == "VALID"
    assert not list((tmp_path / ".fleet").iterdir())


def test_only_what_changed_is_judged_again(tmp_path, fleet):
    for seed in (1, 2, 3):
        cases.run(tmp_path, "none", seed, cases.sound())
    store = found(tmp_path)
    first = check_fleet(store, RUNS, fleet.judge)
    assert (len(first.judged), len(first.unchanged)) == (3, 0)
    rows = read_rows(first.verdicts)
    second = check_fleet(store, RUNS, lambda job, items: pytest.fail("nothing to judge"))
    assert (len(second.judged), len(second.unchanged)) == (0, 3)
    changed = tmp_path / store.runs[1] / "history.parquet"
    changed.unlink()
    cases.write_parquet(cases.stale(), changed)
    cases.run(tmp_path, "kill", 4, cases.sound())
    found_after = found(tmp_path)
    third = check_fleet(found_after, RUNS, fleet.judge)
    assert third.judged == {store.runs[1], *set(found_after.runs) - set(store.runs)}
    merged = read_rows(third.verdicts)
    keys = list(zip(*(merged[n].to_pylist() for n in ("run", "checker", "object")), strict=True))
    assert len(keys) == len(set(keys))
    assert {one.run: one.status.value for one in summaries(merged)} == {
        run: "INVALID" if run == store.runs[1] else "VALID" for run in found_after.runs
    }
    assert len(merged) >= len(rows)
    forced = check_fleet(found_after, RUNS, fleet.judge, force=True, only=frozenset({"stats"}))
    assert (len(forced.judged), forced.verdicts.name) == (4, "verdicts-stats.parquet")


def test_a_row_says_what_the_checkers_say(tmp_path, fleet):
    run = cases.run(tmp_path, "none", 2, cases.stale())
    checked = check_fleet(found(tmp_path), RUNS, fleet.judge, save=True)
    rows = read_rows(checked.verdicts).to_pylist()
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


def test_a_run_that_is_shared_out_by_keys_is_the_same_run(tmp_path, fleet, monkeypatch):
    run = cases.run(tmp_path, "none", 1, cases.sound(6))
    only = frozenset({"linearizable", "sequential"})
    whole = check_fleet(found(tmp_path), RUNS, fleet.judge, only=only)
    rows = _judged(whole.verdicts)
    assert len(rows) == 12
    whole.verdicts.unlink()
    table = pq.read_table(run.parquet_file)
    pq.write_table(table, run.parquet_file, row_group_size=60)
    monkeypatch.setattr("harness.run.fleet.BIG_BYTES", 0)
    parts = check_fleet(found(tmp_path), RUNS, fleet.judge, only=only)
    assert _judged(parts.verdicts) == rows
    again = check_fleet(found(tmp_path), RUNS, fleet.judge)
    of = summaries(read_rows(again.verdicts))[0].judged
    assert of["linearizable"].value == "VALID"
    assert of["set-full"].value == "UNKNOWN"
    assert f"{HISTORY_OPS_MAX:,}" in str(read_rows(again.verdicts)["reason"].to_pylist())


def _judged(path):
    names = ("checker", "object", "status", "checked")
    return sorted(zip(*(read_rows(path)[name].to_pylist() for name in names), strict=True))


def test_executors_may_be_other_processes_started_by_spark_submit(tmp_path):
    for seed in range(6):
        cases.run(tmp_path, "none", seed + 1, cases.stale() if seed == 3 else cases.sound())
    home = Path(pyspark.__file__).parent
    main = Path(sys.modules["harness.cli.workload"].__file__).with_name("main.py")
    done = subprocess.run(
        [home / "bin" / "spark-submit", "--master", "local-cluster[2,1,1024]", main, "check",
         tmp_path, "--json"],
        env={**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable,
             "PYSPARK_DRIVER_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=400,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout.rstrip().split("\n")[-1])
    assert report["statuses"] == {"VALID": 5, "UNKNOWN": 0, "INVALID": 1}


def test_without_java_it_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(UsageError, match=r"java: not found in PATH.*apt install openjdk-17"):
        needed_java()
    old = tmp_path / "java"
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    old.chmod(0o755)
    with pytest.raises(UsageError, match=r"11\.0\.2.*needs Java 17"):
        needed_java()
