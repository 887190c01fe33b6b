"""Whole runs on the simulated cluster: what the thesis claims, and that a seed is a run."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sim_play import play

from harness.core.verdict import Status
from harness.store.parquet import read_parquet
from harness.store.store import Store

HARNESS = [sys.executable, "-m", "harness.cli.main"]


def run(store: Path, *arguments: str) -> tuple[int, Any]:
    """Exit status, and what was printed as JSON."""
    said = subprocess.run(
        [*HARNESS, "run", "--cluster", "sim", "--store", str(store), "--json", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return said.returncode, json.loads(said.stdout)


def test_the_servers_reading_misses_what_was_acknowledged() -> None:
    """One ZooKeeper follower is cut from its leader; its replica goes on answering the past."""
    played = play(1, "partition-keeper-follower", read="server")
    assert {"set-full", "linearizable"} <= played.accusers
    assert "sequential" not in played.accusers, "the past, in its order"


@pytest.mark.parametrize("seed", range(1, 4))
def test_the_linearizable_reading_is_linearizable(seed: int) -> None:
    played = play(seed, "partition", read="linearizable")
    assert (played.status, played.accusers) == (Status.VALID, set())


@pytest.mark.parametrize(("read", "status"), [("thesis", "INVALID"), ("linearizable", "VALID")])
def test_the_thesis_rule_shows_a_part_that_no_log_has(read: str, status: str) -> None:
    """Its insert ended with a lost connection: ch1 shows it, and no longer once it is restarted."""
    often = {"interval_s": 0.5, "duration_s": 0.5, "rate": 200.0, "time_limit_s": 15.0}
    played = play(4, "kill-zookeeper", read=read, insert="plain", **often)
    assert played.status.value == status


@pytest.mark.parametrize(
    ("asked", "read", "drawn"),
    [("all", "linearizable", True), ("invalid", "server", True),
     ("invalid", "linearizable", False), ("none", "server", False)],
)  # fmt: skip
def test_report_says_which_runs_have_a_page_and_columns(
    tmp_path: Path, asked: str, read: str, drawn: bool
) -> None:
    faults = ["--nemesis", "partition-keeper-follower", "--time-limit", "5", "--rate", "60"]
    status, _ = run(tmp_path, *faults, "--seed", "1", "--read", read, "--report", asked)
    assert status == (1 if read == "server" else 0)
    left = Store(tmp_path).find("latest")
    assert (left.report.exists(), left.parquet_file.exists()) == (drawn, drawn)
    assert len(read_parquet(left.parquet())) == len(left.history()), "made when it is asked for"


def test_one_seed_is_one_run_byte_for_byte_and_another_is_another(tmp_path: Path) -> None:
    arguments = ["--nemesis", "partition,kill,pause", "--time-limit", "5"]
    for store, seed in (("a", "7"), ("b", "7"), ("c", "8")):
        run(tmp_path / store, *arguments, "--seed", seed)
    runs = [Store(tmp_path / store).find("latest") for store in ("a", "b", "c")]
    histories = [one.journal.read_bytes() for one in runs]
    results = [one.results_file.read_bytes() for one in runs]
    assert histories[0].count(b"\n") > 1000
    assert (histories[0], results[0]) == (histories[1], results[1])
    assert histories[0] != histories[2]
    assert runs[0].info().spec.command == (
        "harness run --nemesis partition,kill,pause --cluster sim --time-limit 5 --seed 0x7"
    )


def test_no_leader_is_blamed_for_sessions_that_outlived_its_pause(tmp_path: Path) -> None:
    """It is paused for 4 s, and ends a session of 5 s after 9 s of silence."""
    times = ["--time-limit", "8", "--interval", "1", "--duration", "4", "--rate", "40"]
    run_as = ["--workload", "phantom", "--nemesis", "partition,pause", "--protocol", "repaired"]
    status, said = run(tmp_path, *run_as, *times, "--seed", "0x4c4e2c")
    assert (status, said["status"]) == (0, "VALID")


def test_runs_of_one_command_have_a_cluster_each(tmp_path: Path) -> None:
    """Each run can then be reproduced by its own seed."""
    quick = ["--time-limit", "2", "--rate", "40"]
    run(tmp_path / "many", *quick, "--count", "2", "--seed", "3")
    run(tmp_path / "one", *quick, "--seed", "4")
    last, _ = Store(tmp_path / "many").runs()
    (alone,) = Store(tmp_path / "one").runs()
    assert last.journal.read_bytes() == alone.journal.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--read", "sideways"], "--read 'sideways': expected one of sequential sync plain server"),
        (["--bug", "nope"], "'nope' is unknown; see `harness list bugs`"),
        (["--keep-cluster"], "--keep-cluster: --cluster sim has no containers"),
        (["--storage", "faulty"], "--storage faulty: --cluster sim has no containers"),
        (
            ["--fsync", "all"],
            "--fsync all: needs parts that are durable before they are acknowledged, which",
        ),
        (
            ["--cluster", "docker", "--bug", "ack-early"],
            "--cluster docker does not simulate servers",
        ),
        (["--cluster", "docker", "--read", "thesis"], "only simulated servers have it"),
        (
            ["--protocol", "18.16", "--insert", "parallel"],
            "18.16.1 with ZooKeeper does not have; choose another --protocol",
        ),
        (["--protocol", "25.8", "--insert", "async"], "which simulated servers do not have"),
        (
            ["--protocol", "25.8", "--insert", "parallel", "--read", "linearizable"],
            "a merged part may have rows whose parallel quorum is pending",
        ),
    ],
)
def test_what_cannot_be_used_is_refused(tmp_path: Path, arguments: list[str], says: str) -> None:
    status, report = run(tmp_path, *arguments)
    assert status == 254
    assert says in report["error"]
