"""Runs of a store as input of a fleet of checkers: which runs there are, and which have changed."""

import json
import os
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
import pyporcupine

import checkers
import harness.core
import harness.fleet
import harness.native
import workloads
from checkers.judge import Judgement, fitting
from checkers.ladder import Level
from checkers.replication.protocol import EVERY_RUN
from harness.core.bounded_json import load, open_regular
from harness.core.errors import HarnessError, HistoryError
from harness.core.history import History
from harness.core.protocols import Workload
from harness.core.verdict import Status
from harness.fleet.plan import BIG_BYTES, Item, split_by_keys
from harness.fleet.rows import judged_digests, merge_rows, runs_in
from harness.fleet.task import Job, JudgeRequest
from harness.run.journal import ends_mid_line
from harness.run.parquet import journal_digest_of, read_parquet
from harness.run.plan import Plan
from harness.run.store import RunDirectory

SCRATCH: Final = ".fleet"
"""Directory in the store for the files of running tasks."""
_LEFT_BY_A_RUN: Final = ("run.json", "history.parquet", "history.jsonl")


@dataclass(frozen=True, slots=True)
class StoredRuns:
    """Access of a fleet's tasks to stored runs."""

    workload: Callable[[Plan], Workload]
    promise: str | None = None
    """Level that replaces the promise of each run; None: keep it."""
    check_s: float | None = None
    """Time limit that replaces that of each run; None: keep it."""
    saved: Callable[[RunDirectory, Status], None] | None = None
    """Function that is called when the results of a run are saved. It goes to other processes, so
    it is a function of a module."""

    def request(self, run: Path) -> JudgeRequest:
        """Return the request to judge a run, from its run.json."""
        plan = RunDirectory(run).info().plan
        level = Level.named(self.promise or plan.promise)
        workload = self.workload(replace(plan, promise=level.value))
        return JudgeRequest(
            workload=plan.workload,
            nemesis=plan.nemesis,
            seed=str(plan.seed),
            promise=level,
            checkers=(*fitting(workload.checkers(), plan.engines.dialect), *EVERY_RUN),
            check_s=self.check_s or plan.check_s,
        )

    def parquet(self, run: Path) -> tuple[Path, str]:
        """Return history.parquet and what was wrong with the run's files. The journal decides: the
        file is made again unless it was made from the very bytes that the journal has now."""
        directory = RunDirectory(run)
        path, journal = directory.parquet_file, directory.journal
        if not journal.exists():
            if not path.exists():
                raise HistoryError(f"{run}: has neither {path.name} nor {journal.name}")
            return path, ""
        if path.exists() and journal_digest_of(path) is None:
            path.replace(_broken(path))
        # Reported every time: a task that is repeated must report it again.
        notes = [f"{path}: was broken, and is made again from the journal"]
        notes = notes if _broken(path).exists() else []
        if ends_mid_line(journal):
            notes.append(directory.contents().truncated or "")
        directory.parquet()
        return path, "; ".join(filter(None, notes))

    def repair(self, run: Path) -> str:
        """Write history.parquet anew if it is broken and there is a journal, and keep the broken
        file beside it. Return what was wrong; "" if nothing was."""
        directory = RunDirectory(run)
        path = directory.parquet_file
        if not directory.journal.exists() or _readable(path):
            return ""
        path.replace(_broken(path))
        return self.parquet(run)[1]

    def history(self, run: Path) -> History:
        """Return the history from Parquet, which `parquet` has written."""
        return read_parquet(RunDirectory(run).parquet_file)

    def digest(self, run: Path) -> str:
        """Return a digest of the history, both files of it, and of what the run was asked for."""
        directory = RunDirectory(run)
        said = blake2b(digest_size=16)
        said.update(_digest(directory.parquet_file))
        said.update(_digest(directory.journal))
        said.update(f"{self.promise} {self.check_s}".encode())
        try:
            plan = load(directory.info_file)["plan"]
            said.update(json.dumps(plan, sort_keys=True).encode())
        except (OSError, ValueError, KeyError, TypeError):
            said.update(_digest(directory.info_file))
        return said.hexdigest()

    def save(self, run: Path, judgement: Judgement, note: str) -> None:
        """Write results.json."""
        directory = RunDirectory(run)
        info, notes = directory.info(), [note] if note else []
        if info.state == "recorded":
            unstored = directory.finish(judgement, [*info.troubles, *notes])
            if unstored:
                raise HarnessError("; ".join(unstored))
        else:
            ended = info.state == "finished"
            troubles = [] if ended else [f"the run never ended: {info.error or info.state}"]
            directory.save(judgement, [*troubles, *notes])
        if self.saved is not None:
            self.saved(directory, judgement.status)


def _readable(path: Path) -> bool:
    """Return whether the file can be read to its end."""
    try:
        for _ in pq.ParquetFile(path, page_checksum_verification=True).iter_batches():
            pass
    except (OSError, ValueError):
        return False
    return True


def _broken(path: Path) -> Path:
    return path.with_name(f"{path.name}.broken")


def _digest(path: Path) -> bytes:
    try:
        with open_regular(path) as file:
            return file_digest(file, lambda: blake2b(digest_size=16)).digest()
    except OSError as error:
        return f"no {path.name}: {error.strerror}".encode()
    except ValueError as error:
        return f"no {path.name}: {error}".encode()


def _size(path: Path) -> int | None:
    return path.stat().st_size if path.exists() else None


def judge_digest() -> str:
    """Return a digest of the code that judges: when it changes, verdicts are old."""
    said = blake2b(digest_size=16)
    for package in (checkers, harness.fleet, workloads, harness.core):
        root = Path(next(iter(package.__path__)))
        for path in sorted(root.rglob("*.py")):
            said.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    for package in (pyporcupine, harness.native):
        for path in sorted(Path(next(iter(package.__path__))).glob("*.so")):
            said.update(path.read_bytes())
    return said.hexdigest()


@dataclass(frozen=True, slots=True)
class Found:
    """Runs of one store."""

    root: Path
    runs: tuple[str, ...]
    """Paths of the runs in the store, ascending."""


def found(target: Path) -> Found | None:
    """Return all runs of a store, or of one of its folders; None for anything else."""
    for root, pattern in ((target, "*/*"), (target.parent, f"{target.name}/*")):
        runs = [path for path in root.glob(pattern) if _is_run(path)]
        if runs:
            return Found(root, tuple(sorted(p.relative_to(root).as_posix() for p in runs)))
    return None


def _is_run(path: Path) -> bool:
    hidden = any(part.startswith(".") for part in path.parts[-2:])
    return (
        not hidden
        and not path.is_symlink()
        and any((path / name).exists() for name in _LEFT_BY_A_RUN)
    )


@dataclass(frozen=True, slots=True)
class Checked:
    """Runs that a fleet has judged."""

    verdicts: Path
    """Dataset of the verdicts."""
    judged: frozenset[str]
    unchanged: frozenset[str]
    """Runs whose verdicts are still valid."""


def verdicts_of(root: Path, only: frozenset[str] | None, promise: str | None = None) -> Path:
    """Return the path of the verdicts. Verdicts of a few checkers, and those against another
    promise than each run's own, are datasets of their own."""
    apart = [*(["+".join(sorted(only))] if only else []), *([promise] if promise else [])]
    return root / f"{'-'.join(['verdicts', *apart])}.parquet"


def check_fleet(
    found: Found,
    runs: StoredRuns,
    engine: Callable[[Job, Sequence[Item]], list[Path]],
    *,
    force: bool = False,
    only: frozenset[str] | None = None,
    save: bool = False,
) -> Checked:
    """Judge the runs that are new or have changed, or whose checkers have; all runs with `force`.
    `engine` judges items and returns files of rows. Raises HarnessError."""
    target, judge = verdicts_of(found.root, only, runs.promise), judge_digest()
    if force and target.exists() and not _readable(target):
        target.unlink()
    known = {} if force else judged_digests(target)
    with ThreadPoolExecutor() as pool:
        old = [run for run in found.runs if run in known]
        digests = dict(zip(old, pool.map(lambda r: runs.digest(found.root / r), old), strict=True))
    unchanged = frozenset(run for run in old if known[run] == (digests[run], judge))
    changed = [run for run in found.runs if run not in unchanged]
    if not changed:
        return Checked(target, frozenset(), unchanged)
    scratch = found.root.resolve() / SCRATCH / str(os.getpid())
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        scratch.mkdir(parents=True)
        items = [item for run in changed for item in _items(found.root.resolve(), run, runs)]
        job = Job(runs=runs, judge=judge, only=only, scratch=str(scratch), save=save)
        fresh = engine(job, items)
        lost = set(changed) - runs_in(fresh)
        if lost:
            raise HarnessError(f"{len(lost)} runs were judged and have no verdict: {min(lost)}")
        merge_rows(target, fresh, frozenset(changed))
    except OSError as error:
        raise HarnessError(f"store {found.root}: cannot be written: {error}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return Checked(target, frozenset(changed), unchanged)


def _items(root: Path, run: str, runs: StoredRuns) -> list[Item]:
    directory = RunDirectory(root / run)
    size = _size(directory.parquet_file) or _size(directory.journal) or 0
    item = Item(run, str(directory.path), size)
    if size < BIG_BYTES or not directory.parquet_file.exists():
        return [item]
    # Tasks of one run must not each make its file again, nor each digest it.
    try:
        file, _ = runs.parquet(directory.path)
    except HarnessError:
        return [item]
    return split_by_keys(Item(run, item.path, size, digest=runs.digest(directory.path)), file)
