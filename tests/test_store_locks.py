"""Stores without file locks, stores that several commands prune, and clusters that are cleaned."""

import errno
import os
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import IO

import fleet_cases as cases
import pytest
from click.testing import CliRunner
from test_retention import asked, run

from compose.plan import DIRECTORY, KEEP, OWNER
from harness.cli import machine
from harness.cli.main import app
from harness.clusters import manifest, removal
from harness.clusters.own_directory import locked
from harness.clusters.removal import LOCK, KeptCluster, kept_clusters, lock_cluster
from harness.core import file_lock
from harness.core.clock import utc_now
from harness.core.errors import ClusterError, HarnessError, UsageError
from harness.core.os_process import this_process
from harness.nights.retention import Retention, remove, usage
from harness.store.store import RunDirectory, RunInfo, Store


@pytest.fixture
def no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the file system have no locks, as NFS without its lock daemon."""

    def flock(_file: object, _operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("harness.core.file_lock.fcntl.flock", flock)


@pytest.mark.usefixtures("no_locks")
def test_without_locks_a_run_is_made_judged_and_shown_and_that_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--cluster", "sim", "--time-limit", "1", "--seed", "1", "--count", "2"]
    assert app(["run", *words, "--store", str(tmp_path)], standalone_mode=False) == 2
    said = f"! the file system of the store {tmp_path} {file_lock.MEANING}\n"
    assert capsys.readouterr().out.count(said) == 1
    for command, status in (("report", None), ("check", 2)):
        assert app([command, "latest", "--store", str(tmp_path)], standalone_mode=False) == status
        assert "no file locks" not in capsys.readouterr().out, "the run is over"


@pytest.mark.usefixtures("no_locks")
def test_without_locks_a_run_that_may_go_on_is_kept_and_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    killed = run(tmp_path, "none", 1, None, 70)
    run(tmp_path, "none", 2, "VALID", 70)
    shown = asked(tmp_path, "--delete")
    assert [one["rule"] for one in shown["removals"]] == ["valid"]
    assert shown["spared"] == {"may still run: there are no file locks": 1}
    assert killed.path.exists()
    app(["report", str(killed.path)], standalone_mode=False)
    said = f"whether the run goes on is not known: its file system {file_lock.MEANING}"
    assert said in " ".join(capsys.readouterr().out.split())


@pytest.mark.usefixtures("no_locks")
def test_without_locks_nobody_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with locked("images"), locked("images"):
        pass
    with lock_cluster(tmp_path / "c"), lock_cluster(tmp_path / "c"):
        pass


def test_what_another_process_has_pruned_is_gone(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for seed in range(4):
        run(tmp_path, "none", seed + 1, "VALID", 70)
    kept = cases.run(tmp_path, "none", 9, cases.sound())
    listed = [usage(store, Retention(), utc_now()) for _ in range(3)]
    assert [len(one.removals) for one in listed] == [4, 4, 4]
    removed = [
        len(remove(store, one.removals[:most])) for one, most in zip(listed, (2, 4, 4), strict=True)
    ]
    assert removed == [2, 2, 0]
    assert [one.path for one in store.runs()] == [kept.path]
    assert not listed[0].removals[0].run.alive


def test_a_run_that_goes_while_it_is_looked_at_is_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = run(tmp_path, "none", 1, "VALID", 70)
    info = gone.info()
    remove(Store(tmp_path), usage(Store(tmp_path), Retention(), utc_now()).removals)
    monkeypatch.setattr(Store, "runs", lambda _: (gone,))
    answers = iter([info])

    def read(run: RunDirectory) -> RunInfo:
        for answer in answers:
            return answer
        raise HarnessError(f"{run.info_file}: cannot be read")

    monkeypatch.setattr(RunDirectory, "info", read)
    seen = usage(Store(tmp_path), Retention(), utc_now())
    assert (seen.removals, seen.spared) == ((), {})


# --- clusters -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "stays"),
    [("of a killed process", False), ("in use", True), ("with a manifest", True),
     ("that the engine knows", True), ("with other files", True)],
)  # fmt: skip
def test_a_directory_of_a_cluster_is_removed_unless_it_is_one(
    what: str, stays: bool, tmp_path: Path
) -> None:
    directory = tmp_path / "harness-71f953cf"
    lock_cluster(directory).close()
    (directory / "compose.yml").touch()
    if what == "with a manifest":
        (directory / manifest.FILE).touch()
    if what == "with other files":
        (directory / "notes").touch()
    known = {directory.name} if what == "that the engine knows" else set()
    with lock_cluster(directory) if what == "in use" else nullcontext():
        assert removal._remove_begun(tmp_path, known) == ([] if stays else [str(directory)])
    assert directory.exists() == stays


def test_a_cluster_whose_directory_is_cleaned_while_it_is_locked_gets_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = file_lock.lock

    def cleaned_before(file: IO[str], *, wait: bool) -> bool | None:
        monkeypatch.setattr(removal, "lock", made)
        (tmp_path / LOCK).unlink()
        return made(file, wait=wait)

    monkeypatch.setattr(removal, "lock", cleaned_before)
    with lock_cluster(tmp_path) as file:
        assert os.path.samestat(os.fstat(file.fileno()), (tmp_path / LOCK).stat())
        with pytest.raises(ClusterError, match="another process uses this cluster"):
            lock_cluster(tmp_path)


def test_kept_clusters_are_those_that_nobody_uses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = "1234:5:" + this_process().split(":")[2]
    labels = {
        "kept": {OWNER: ended, KEEP: "1", DIRECTORY: str(tmp_path / "kept")},
        "gone": {OWNER: ended, KEEP: "1", DIRECTORY: str(tmp_path / "gone")},
        "used": {OWNER: ended, KEEP: "1", DIRECTORY: str(tmp_path / "used")},
        "alive": {OWNER: this_process(), KEEP: "1", DIRECTORY: str(tmp_path)},
        "left": {OWNER: ended, DIRECTORY: str(tmp_path)},
    }
    monkeypatch.setattr(removal, "engine", lambda: ExitStack())
    monkeypatch.setattr(removal, "_labels_by_run", lambda _: labels)
    (tmp_path / "kept").mkdir()
    user = tmp_path.owner()
    with lock_cluster(tmp_path / "used"):
        assert [str(one) for one in kept_clusters()] == [
            "gone of an unknown user, made by process 1234, which has ended; files: "
            f"{tmp_path}/gone",
            f"kept of {user}, made by process 1234, which has ended; files: {tmp_path}/kept",
        ]


@pytest.mark.parametrize(
    ("terminal", "words", "answer", "removes"),
    [(True, ["--all"], "n\n", None), (True, ["--all"], "y\n", True), (True, [], "", False),
     (False, ["--all", "--yes"], "", True), (False, ["--all"], "", "refused")],
)  # fmt: skip
def test_all_asks_before_it_removes_what_somebody_keeps(
    terminal: bool, words: list[str], answer: str, removes: object, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    kept = KeptCluster("harness-1", "somebody", "1234", tmp_path)
    asked_for: list[bool] = []

    def removed(_names: tuple[str, ...], *, everything: bool, store: Path) -> list[str]:
        assert store == tmp_path
        asked_for.append(everything)
        return []

    monkeypatch.setattr(machine, "kept_clusters", lambda: [kept, replace(kept, name="harness-2")])
    monkeypatch.setattr(machine, "remove", removed)
    monkeypatch.setattr(machine, "_can_ask", lambda _: terminal)
    command = [*words, "--store", str(tmp_path)]
    if removes == "refused":
        with pytest.raises(UsageError, match=r"removes 2 kept clusters.*\n  harness-1 of somebody"):
            CliRunner().invoke(
                machine.clean, command, catch_exceptions=False, standalone_mode=False
            )
        assert not asked_for
        return
    done = CliRunner().invoke(machine.clean, command, input=answer, catch_exceptions=False)
    assert asked_for == ([] if removes is None else [removes])
    if answer:
        assert f"harness-1 of somebody, made by process 1234, which has ended; files: {tmp_path}" \
            in done.output  # fmt: skip
