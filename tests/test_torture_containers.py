"""A night on real servers: its harness is killed, a server vanishes, and every run is counted."""

import json
import os
import re
import signal
import subprocess
import sys
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import docker
import pytest
from real_servers import left, wait_until

from harness.fleet.location import Location
from harness.fleet.stored_runs import verdicts_of
from harness.nights.night import JOURNAL, Night
from harness.store.journal import read_history
from harness.store.store import RunDirectory, Store

pytestmark = pytest.mark.containers

MATRIX = """
workloads = ["quorum-set"]
nemeses = ["none", "partition"]
[options]
replicas = 2
keepers = 1
time-limit = 3
rate = 40
interval = 1
duration = 1
quiesce = 40
insert = "plain"
read = "plain"
extend = 40
"""
"""A cut can leave a part whose insert nobody knows the outcome of; a run waits 10 s for it. On a
machine that stands still, few inserts succeed in three seconds."""
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


def latest(store: Path) -> Path:
    return Store(store).find("latest").path


def remove_server(run: Path, node: str) -> None:
    """Remove a server for good from the cluster of a run."""
    (name,) = re.findall(rf"container_name: (\S+-{node})\n", (run / "compose.yml").read_text())
    client = docker.from_env()
    client.containers.get(name).remove(force=True)
    client.close()


def in_faults(store: Path) -> bool:
    journal = store / "latest" / "history.jsonl"
    return journal.exists() and '"f":"quiesce"' not in journal.read_text()


class Span(NamedTuple):
    """Time span, in seconds since 1970."""

    begin: float
    end: float


def faults(run: Path) -> list[Span]:
    """Return the spans from each run's first operation to its healing; a killed run has none."""
    ops = read_history(run / "history.jsonl").nemesis
    healed = [op.time_ns / 1e9 for op in ops if op.f == "heal"]
    zero = RunDirectory(run).info().zero_utc
    began = datetime.fromisoformat(zero).timestamp() if zero else 0
    return [Span(began, began + healed[0])] if healed else []


def test_killed_and_robbed_of_a_server_it_counts_every_run_once(tmp_path: Path) -> None:
    matrix, store = tmp_path / "m.toml", tmp_path / "store"
    matrix.write_text(MATRIX)
    first = night(store, matrix)
    wait_until(lambda: said(store, "directory") == 2 and in_faults(store), "the second run")
    os.kill(first.pid, signal.SIGKILL)
    first.communicate(timeout=60)
    assert left(store) != []

    second = night(store, matrix)
    wait_until(lambda: said(store, "directory") == 4 and in_faults(store), "the fourth run")
    robbed = latest(store)
    remove_server(robbed, "ch2")
    report = json.loads(second.communicate(timeout=400)[0])
    assert left(store) == []

    (journal,) = store.glob(f"torture/*/*/{JOURNAL}")
    slots = list(Night.read(journal.parent).slots.values())
    assert [slot.number for slot in slots] == list(range(RUNS))
    paths = {str(slot.path) for slot in slots}
    assert paths == {str(run.path.relative_to(store)) for run in Store(store).runs()}
    assert len(paths) == RUNS == report["runs"] == sum(report["statuses"].values())
    assert slots[1].killed
    assert [slot.killed for slot in slots].count(True) <= 2
    ill = [str(slot.path) for slot in slots[2:] if slot.troubles or slot.broken]
    assert ill == [str(robbed.relative_to(store))]  # then a fresh cluster, without trouble
    spans = sorted(span for slot in slots for span in faults(store / str(slot.path)))
    assert len(spans) >= RUNS - 3
    assert all(first.end <= second.begin for first, second in pairwise(spans))
    judged = verdicts_of(Location.of(store), None).rows()
    assert set(judged["run"].to_pylist()) == paths
    for slot in slots:
        run = store / str(slot.path)
        assert slot.status is not None
        assert (run / "report.html").exists() == (slot.status != "VALID")
        assert (run / "logs").exists() == (slot.status != "VALID" and not slot.killed)
