"""A night on real servers: its harness is killed, a server vanishes, and every run is counted."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import docker
import pytest
from real_servers import await_, left

from checkers.fleet_rows import read_rows
from harness.run.night import JOURNAL, Night

pytestmark = pytest.mark.containers

MATRIX = """
workloads = ["quorum-set"]
nemeses = ["none", "partition"]
[options]
time-limit = 3
interval = 1
duration = 1
insert = "plain"
read = "plain"
promise = "eventual"
"""
RUNS = 6


def night(store: Path, matrix: Path) -> subprocess.Popen[str]:
    words = ["torture", str(matrix), "--runs", str(RUNS), "--store", str(store), "--json"]
    command = [sys.executable, "-m", "harness.cli.main", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)


def said(store: Path, event: str) -> int:
    return sum(
        f'"event": "{event}"' in line
        for file in store.glob(f"torture/*/*/{JOURNAL}")
        for line in file.read_text().split("\n")
    )


def in_faults(store: Path) -> bool:
    journal = store / "latest" / "history.jsonl"
    return journal.exists() and '"f":"quiesce"' not in journal.read_text()


def test_killed_and_robbed_of_a_server_it_counts_every_run_once(tmp_path: Path) -> None:
    matrix, store = tmp_path / "m.toml", tmp_path / "store"
    matrix.write_text(MATRIX)
    first = night(store, matrix)
    await_(lambda: said(store, "directory") == 2 and in_faults(store), "the second run", 120)
    os.kill(first.pid, signal.SIGKILL)
    first.communicate(timeout=30)
    assert left(store) != []

    second = night(store, matrix)
    await_(lambda: said(store, "directory") == 4 and in_faults(store), "the fourth run", 120)
    client = docker.from_env()
    name = json.loads((store / "latest" / "run.json").read_text())["started_utc"]
    assert name
    clusters = [path.name for path in (store / "clusters").iterdir()]
    for cluster in clusters:
        client.containers.get(f"{cluster}-ch2").remove(force=True)
    client.close()
    report = json.loads(second.communicate(timeout=240)[0])
    assert left(store) == []

    (journal,) = store.glob(f"torture/*/*/{JOURNAL}")
    slots = list(Night.read(journal.parent).slots.values())
    assert [slot.number for slot in slots] == list(range(RUNS))
    paths = [slot.path for slot in slots]
    assert len(set(paths)) == len(paths) == len(list(store.glob("*/*/run.json"))) == RUNS
    assert slots[1].killed
    assert [slot.killed for slot in slots].count(True) <= 2
    assert report["runs"] == sum(report["statuses"].values()) == RUNS
    assert all(slot.status is not None for slot in slots)
    assert slots[3].troubles or slots[3].broken
    # On clusters that were made anew.
    assert [(slot.troubles, slot.status) for slot in slots[4:]] == [((), "VALID")] * 2
    judged = read_rows(store / "verdicts.parquet")["run"].to_pylist()
    assert set(judged) == set(paths)
    for slot in slots:
        run = store / str(slot.path)
        assert (run / "report.html").exists() == (slot.status != "VALID")
        assert (run / "logs").exists() == (slot.status != "VALID" and not slot.killed)
