"""Runs on a disk that is full, read-only or missing: one line names the cause.

The disks are real: small file systems in memory, mounted for one test.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from real_servers import left
from store_cases import OPS

from checkers.judge import judge
from checkers.stats import Stats
from harness.core.engines import Engines
from harness.core.errors import HarnessError
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.nights.night import JOURNAL, Night
from harness.report.run_files import facts_in
from harness.spec.run_spec import RunSpec
from harness.store.journal import Journal
from harness.store.store import RESERVE_BYTES, RunDirectory, Store
from harness.web.runs import Runs

SPEC = RunSpec(
    workload="quorum-set", nemesis="none", seed=Seed(7), promise="linearizable",
)  # fmt: skip
SIM = ("run", "--cluster", "sim", "--time-limit", "1", "--rate", "20", "--seed", "1")
FULL = "No space left on device"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Yield a disk of 2 MB."""
    at = tmp_path / "disk"
    at.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", at], check=True)
    try:
        yield at
    finally:
        # Lazily: what still holds a file of it does not keep it in the tree.
        subprocess.run(["umount", "--lazy", at], check=True)


def filled(disk: Path) -> Path:
    """Fill the disk to its last byte."""
    filler = disk / "filler"
    with filler.open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    return filler


def read_only(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)


def harness(*words: str, within_s: float = 240) -> tuple[int, str, str]:
    """Exit status, standard output and error."""
    run = [sys.executable, "-m", "harness.cli.main", *words]
    done = subprocess.run(run, capture_output=True, text=True, timeout=within_s, check=False)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


def begun(store: Path) -> RunDirectory:
    directory = Store(store).create("quorum-set", "none", SPEC.seed)
    directory.begin(SPEC, Engines(), Topology.of(), {})
    journal = Journal(directory.journal)
    for op in OPS:
        journal.append(op)
    journal.close()
    return directory


@pytest.mark.parametrize("cluster", ["sim", "docker"])
@pytest.mark.parametrize("state", ["full", "read-only", "a file", "below a file"])
def test_a_store_that_cannot_be_written_is_refused_before_anything_is_brought_up(
    disk: Path, cluster: str, state: str
) -> None:
    (disk / "file").touch()
    store = {"a file": disk / "file", "below a file": disk / "file" / "store"}.get(state, disk)
    filled(disk)
    if state == "read-only":
        read_only(disk)
    status, out, err = harness("run", "--cluster", cluster, "--store", str(store))
    assert out == "", "no phase was entered"
    if state == "a file":
        assert status == 254
        assert f"Invalid value for '--store': Directory '{store}' is a file." in err
        return
    why = {
        "full": f"{FULL} (the disk at {disk} is full)",
        "read-only": f"Read-only file system (the disk at {disk})",
        "below a file": "Not a directory",
    }[state]
    line = f"harness: store {store}: cannot be written: {why}; give another --store\n"
    assert (status, err) == (255, line)


@pytest.mark.parametrize(
    "words", [("scenario", "stale-read"), ("torture", "m.toml", "--runs", "1")]
)
def test_so_do_the_other_commands_that_bring_clusters_up(
    disk: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.toml").write_text('workloads = ["quorum-set"]\nnemeses = ["none"]')
    read_only(disk)
    status, _, err = harness(*words, "--store", str(disk))
    assert (status, err.count("\n")) == (255, 1)
    assert f"store {disk}: cannot be written: Read-only file system" in err


def ended_by_a_full_disk(disk: Path, status: int, err: str) -> None:
    """Check that one line names the cause, and that everything that was written is there, with the
    end and its reason."""
    (directory,) = Store(disk).runs()
    why = f"journal {directory.journal}: cannot be written: {FULL} (the disk at {disk} is full)"
    assert status == 255
    assert f"harness: {why}; a run cannot go on without its history\n" in err
    info = directory.info()
    assert (info.state, info.ended_utc is not None) == ("crashed", True)
    assert why in (info.error or "")
    contents = directory.contents()
    assert contents.damage is None, "no line was cut off"
    assert len(contents.history) > 1_000
    assert {file.name for file in directory.path.glob(".*")} == set()


def test_a_disk_that_fills_during_a_run_ends_it_and_everybody_sees_why(disk: Path) -> None:
    words = ("--cluster", "sim", "--time-limit", "60", "--rate", "2000", "--report", "none")
    status, _, err = harness("run", *words, "--store", str(disk))
    ended_by_a_full_disk(disk, status, err)
    assert [row.status for row in Runs(Store(disk)).all()] == ["CRASHED"]
    (run,) = Store(disk).runs()
    assert FULL in str(facts_in(run).info.error)
    _, out, _ = harness("check", str(run.path), "--json")
    (output, *_) = json.loads(out)["troubles"]
    assert output.startswith("the run never ended: ")
    assert FULL in output


@pytest.mark.containers
def test_so_does_one_on_real_servers_and_nothing_of_them_is_left(disk: Path) -> None:
    (disk / "filler").write_bytes(bytes(700_000))  # so that it takes thousands of ops, not tens
    words = ("--replicas", "1", "--keepers", "1", "--insert", "plain", "--read", "plain")
    often = ("--time-limit", "300", "--concurrency", "8", "--ops-per-key", "100000")
    status, _, err = harness("run", *words, *often, "--store", str(disk), within_s=500)
    ended_by_a_full_disk(disk, status, err)
    assert left(disk) == []


def test_a_verdict_that_cannot_be_stored_is_printed_with_the_trouble(disk: Path) -> None:
    status, out, _ = harness(*SIM, "--store", str(disk), "--json")
    verdict = json.loads(out)["status"]
    run = Store(disk).find("latest")
    before = run.results_file.read_bytes()
    read_only(disk)
    again, out, _ = harness("check", str(run.path), "--json")
    report = json.loads(out)
    assert (again, report["status"]) == (status, verdict)
    assert "the verdict is not stored" in report["troubles"][0]
    assert f"Read-only file system (the disk at {disk})" in report["troubles"][0]
    assert run.results_file.read_bytes() == before


@pytest.mark.parametrize(
    ("state", "known"), [("read-only", True), ("read-only", False), ("full", False)]
)
def test_verdicts_of_a_store_that_cannot_be_stored_are_printed(
    disk: Path, state: str, known: bool
) -> None:
    run = begun(disk)
    if known:
        assert harness("check", f"{disk}/", "--json")[0] == 1
        os.utime(run.journal)  # so that another stamp is to be stored
    filled(disk)
    if state == "read-only":
        read_only(disk)
    status, out, err = harness("check", f"{disk}/", "--json")
    report = json.loads(out)
    assert (status, report["status"], report["judged"]) == (1, "INVALID", int(not known))
    why = FULL if state == "full" else "Read-only file system"
    assert report["unstored"].startswith(f"{disk}/verdicts: cannot be written: ") != known
    assert (why in report["unstored"]) != known
    unstored = f"{disk}/verdicts.json: cannot be written: " if known else report["unstored"]
    assert f"! not stored: {unstored}" in err


def test_a_run_whose_verdict_cannot_be_stored_is_recorded_and_judged_again(disk: Path) -> None:
    run = begun(disk)
    filler = filled(disk)
    judgement = judge(run.history(), [Stats()], 10, "linearizable")
    (trouble,) = run.finish(judgement)
    assert trouble == (
        f"the verdict is not stored: {run.results_file}: cannot be written: {FULL} "
        f"(the disk at {disk} is full)"
    )
    info = run.info()
    assert (info.state, info.status, info.troubles) == ("recorded", None, (trouble,))
    assert not run.alive
    filler.unlink()
    assert harness("check", str(run.path), "--json")[0] == 1
    assert run.results()["status"] == "INVALID"


def test_the_end_of_a_run_is_told_though_the_disk_is_full(disk: Path) -> None:
    run = begun(disk)
    filled(disk)
    run.crash("HarnessError: " + "x" * RESERVE_BYTES)
    info = run.info()
    assert info.state == "crashed"
    assert (info.error or "").startswith("HarnessError: xxx")
    assert [file.name for file in run.path.iterdir() if file.name.startswith(".")] == []


def test_a_run_that_cannot_say_that_it_began_leaves_no_run(disk: Path) -> None:
    filler = filled(disk)
    with filler.open("r+b") as file:
        file.truncate(filler.stat().st_size - 3 * 4096)
    directory = Store(disk).create("quorum-set", "none", SPEC.seed)
    with pytest.raises(HarnessError, match=rf"run\.json: cannot be written: {FULL}"):
        directory.begin(SPEC, Engines(), Topology.of(), {})
    assert Store(disk).runs() == ()
    assert not directory.path.exists()


def test_a_journal_keeps_whole_lines_when_the_disk_is_full(disk: Path) -> None:
    journal = Journal(disk / "history.jsonl")
    filled(disk).unlink()
    line = b'{"index":0,"process":0,"kind":"invoke","f":"read","time_ns":1}\n'
    lines = line * 100_000
    with pytest.raises(HarnessError, match=FULL):
        journal.extend(lines)
    with pytest.raises(HarnessError, match=FULL):
        journal.close()
    written = (disk / "history.jsonl").read_bytes()
    assert len(written) > 1_500_000
    assert written == line * (len(written) // len(line))


def test_a_night_on_a_full_disk_says_so_and_goes_on_later(disk: Path) -> None:
    night = Night.begun(disk / "night", {"matrix": "m", "seed": "1"})
    filler = filled(disk)
    with pytest.raises(HarnessError, match=FULL):
        night.say("begin", 0, cell="a" * 8_000, seed="0x1")
    filler.unlink()
    known = Night.read(night.path)
    known.say("end")
    assert Night.read(night.path).over
    assert (night.path / JOURNAL).read_bytes().endswith(b"\n")


def test_a_counterexample_that_cannot_be_stored_is_printed(disk: Path) -> None:
    read_only(disk)
    words = ("explore", "truncation", "--mutant", "max-for-min", "--first", "--store", str(disk))
    status, out, _ = harness(*words)
    assert status == 1
    assert "INVALID" in out
    assert "! the counterexample is not stored: store" in out
