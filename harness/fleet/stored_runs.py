"""Runs of a store as input of a fleet of checkers: which runs there are, and which have changed."""

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import structs

from checkers.every_run import every_run
from checkers.judge import Judgement, fitting
from checkers.ladder import Level
from harness.core import plugins
from harness.core.bounded_json import load, open_regular
from harness.core.errors import HarnessError, HistoryError
from harness.core.history import History
from harness.core.protocols import Checker, Workload
from harness.core.verdict import Status
from harness.fleet.code_digest import judge_digest
from harness.fleet.found_runs import COLUMNS, Found, bring, trusted_digest
from harness.fleet.key_ranges import KeyRange, batches_of_keys
from harness.fleet.location import Location
from harness.fleet.plan import BIG_BYTES, Item, split_by_keys
from harness.fleet.rows import RunSummary
from harness.fleet.task import Job, JudgeRequest, StoredColumns
from harness.fleet.verdicts import JudgedRun, Verdicts, judged_in
from harness.spec.run_spec import RunSpec
from harness.spec.stored_spec import current
from harness.store.conditions import conditions_of
from harness.store.disk import why_unwritable
from harness.store.history_files import BROKEN
from harness.store.parquet import history_of_batches, read_parquet
from harness.store.store import RunDirectory, Store

SCRATCH: Final = ".fleet"
"""Directory in the store for the files of running tasks."""


@dataclass(frozen=True, slots=True)
class StoredRuns:
    """Access of a fleet's tasks to stored runs."""

    workload: Callable[[RunSpec], Workload]
    promise: str | None = None
    """Level that replaces the promise of each run; None: keep it."""
    check_s: float | None = None
    """Time limit that replaces that of each run; None: keep it."""
    more: Callable[[], Sequence[Checker]] = tuple
    """Function that returns the checkers that judge every run beside its own."""
    saved: Callable[[RunDirectory, Status], None] | None = None
    """Function that is called when the results of a run are saved. It goes to other processes, so
    it is a function of a module."""

    @contextmanager
    def here(self, store: Location, run: str, *, whole: bool) -> Iterator[Path]:
        """Yield a directory on this machine with the files of a run. Raises OSError and
        HarnessError."""
        if store.path is not None:
            yield store.path / run
            return
        with tempfile.TemporaryDirectory(prefix="harness-run-") as directory:
            path = Path(directory)
            bring(store.below(run), path, whole=whole)
            yield path

    def request(self, run: Path) -> JudgeRequest:
        """Return the request to judge a run, from its run.json."""
        info = RunDirectory(run).info()
        spec = info.spec
        level = Level.named(self.promise or spec.promise)
        workload = self.workload(structs.replace(spec, promise=level.value))
        return JudgeRequest(
            workload=spec.workload,
            nemesis=spec.nemesis,
            seed=str(spec.seed),
            conditions=conditions_of(info.stored()),
            promise=level,
            checkers=(
                *fitting(workload.checkers(), info.engines.dialect),
                *every_run(spec.fail_on),
                *self.more(),
            ),
            check_s=self.check_s or spec.check_s,
            workload_module=type(workload).__module__,
        )

    def columns(self, run: Path) -> StoredColumns:
        """Return history.parquet and what was wrong with the run's files. The journal decides: the
        file is made again unless it was made from the very bytes that the journal has now, or has
        what a damaged journal has lost."""
        directory = RunDirectory(run)
        path, journal = directory.parquet_file, directory.journal
        if not journal.exists():
            if not path.exists():
                raise HistoryError(f"{run}: has neither {path.name} nor {journal.name}")
            return StoredColumns(path, "", self.digest(run))
        unwritten = None
        try:
            directory.parquet()
        except HistoryError as error:  # the store is read-only, or a number is too large for it
            unwritten = error
        files = directory.history_files
        # Reported every time: a task that is repeated must report it again.
        notes = [f"{path}: was broken, and is made again from the journal"]
        notes = notes if files.beside(BROKEN).exists() else []
        notes += filter(None, [files.damage()])
        digest = self.digest_with(run, (files.digest() or "").encode())
        return StoredColumns(None if unwritten else path, "; ".join(notes), digest)

    def columns_in_place(self, store: Location, item: Item) -> StoredColumns:
        """Return the columns of a run that the driver has split."""
        file = store.below(item.run, COLUMNS)
        return StoredColumns(file.path or file.input(), item.note, item.digest)

    def repair(self, run: Path) -> StoredColumns | None:
        """Write history.parquet anew if it is broken and there is a journal, and keep the broken
        file beside it; None if that is not so."""
        directory = RunDirectory(run)
        if not directory.journal.exists() or _readable(directory.parquet_file):
            return None
        directory.history_files.set_aside(BROKEN)
        return self.columns(run)

    def history(self, run: Path, stored: StoredColumns) -> History:
        """Return the history from Parquet, or from the journal if `columns` could not write it."""
        directory = RunDirectory(run)
        return directory.history() if stored.file is None else read_parquet(directory.parquet_file)

    def history_of_keys(self, file: Any, keys: KeyRange) -> History:
        """Return the ops of a range of keys, from a path or a file that is open."""
        if isinstance(file, Path) and not file.is_file():  # Arrow waits forever for a FIFO
            raise HistoryError(f"{file}: cannot be read: it is not a regular file")
        try:
            opened = pq.ParquetFile(file, page_checksum_verification=True)
            return history_of_batches(batches_of_keys(opened, keys), whole=False)
        except (OSError, pa.ArrowException) as error:
            raise HistoryError(f"is not a readable Parquet file: {error}") from error
        except ValueError as error:
            raise HistoryError(f"cannot be read: {error}") from error

    def digest(self, run: Path) -> str:
        """Return a digest of the journal that the history is of, or of history.parquet if there is
        none, and of what the run was asked for."""
        directory = RunDirectory(run)
        if not directory.journal.exists():
            return self.digest_with(run, _digest(directory.parquet_file))
        try:
            return self.digest_with(run, (directory.history_files.digest() or "").encode())
        except HistoryError as error:
            return self.digest_with(run, str(error).encode())

    def digest_with(self, run: Path, history: bytes) -> str:
        """Return the digest of a run whose history has this one. Reads run.json alone."""
        said = blake2b(history, digest_size=16)
        said.update(self.asked.encode())
        directory = RunDirectory(run)
        try:
            info = current(load(directory.info_file))
            asked = [info[key] for key in ("spec", "workload_options", "engines")]
            said.update(json.dumps(asked, sort_keys=True).encode())
            said.update(plugins.source_digest(plugins.WORKLOADS, str(info["spec"]["workload"])))
        except (OSError, ValueError, KeyError, TypeError):
            said.update(_digest(directory.info_file))
        return said.hexdigest()

    @property
    def asked(self) -> str:
        """Return what else than the run's files decides the verdict."""
        return f"{self.promise} {self.check_s}"

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


def _digest(path: Path) -> bytes:
    try:
        with open_regular(path) as file:
            return file_digest(file, lambda: blake2b(digest_size=16)).hexdigest().encode()
    except OSError as error:
        return f"no {path.name}: {error.strerror}".encode()
    except ValueError as error:
        return f"no {path.name}: {error}".encode()


@dataclass(frozen=True, slots=True)
class Checked:
    """Runs that a fleet has judged."""

    verdicts: Verdicts
    runs: Mapping[str, RunSummary]
    """The verdict on every run of the store that was found."""
    judged: frozenset[str]
    unchanged: frozenset[str]
    """Runs whose verdicts are still valid."""
    bytes_read: int
    """Bytes that were read to know which runs are unchanged."""
    never_began: Mapping[str, str]
    """Why nothing happened in the runs that have no history; they have no verdict."""
    unstored: str
    """Why the verdicts are not stored; "" if they are."""


def verdicts_of(
    root: Location, only: frozenset[str] | None, promise: str | None = None
) -> Verdicts:
    """Return the verdicts of a store. Verdicts of a few checkers, and those against another promise
    than each run's own, are datasets of their own."""
    apart = [*(["+".join(sorted(only))] if only else []), *([promise] if promise else [])]
    return Verdicts(root.below("-".join(["verdicts", *apart])))


def check_fleet(
    found: Found,
    runs: StoredRuns,
    engine: Callable[[Job, Sequence[Item]], Sequence[Location]],
    *,
    force: bool = False,
    only: frozenset[str] | None = None,
    save: bool = False,
) -> Checked:
    """Judge the runs that are new or have changed, or whose checkers have; all runs with `force`.
    `engine` judges items and returns files of rows. Raises HarnessError."""
    verdicts = verdicts_of(found.root, only, runs.promise)
    never_began = _never_began(found, runs)
    found = replace(
        found, files={run: found.files[run] for run in found.runs if run not in never_began}
    )
    unstored = ""
    try:
        if force and _is_broken(verdicts):
            verdicts.clear()
        known: Mapping[str, JudgedRun] = {} if force else verdicts.judged()
        stamps = {run: found.stamp(run, runs.asked) for run in found.runs}
        changes = _changes(found, runs, known, stamps, verdicts)
        changed = [run for run in found.runs if run not in changes.unchanged]
        if changed:
            fresh, unstored = _judge(
                found, runs, engine, verdicts, changed, stamps, only=only, save=save
            )
            known = {**known, **fresh}
    except OSError as error:
        raise HarnessError(f"store {found.root.shown}: {error}") from error
    return Checked(
        verdicts,
        {run: known[run].summary for run in found.runs},
        frozenset(changed),
        changes.unchanged,
        verdicts.bytes_read + changes.bytes_read,
        never_began,
        unstored,
    )


def _never_began(found: Found, runs: StoredRuns) -> dict[str, str]:
    """Return the runs that failed to start, and why."""
    reasons: dict[str, str] = {}
    for run in found.runs:
        if found.has_history(run):
            continue
        with suppress(HarnessError, OSError), runs.here(found.root, run, whole=False) as path:
            reasons[run] = RunDirectory(path).why_never_began()
    return {run: why for run, why in reasons.items() if why}


def restamp(found: Found, runs: StoredRuns) -> None:
    """Give judged runs the stamps of their files as they are now. A run that was saved after it was
    judged has other ones than the judge saw. Raises HarnessError."""
    verdicts = verdicts_of(found.root, None, runs.promise)
    try:
        stamps = {run: found.stamp(run, runs.asked) for run in found.runs}
        settled = {run: one for run, one in verdicts.judged().items() if stamps.get(run)}
        _changes(found, runs, settled, stamps, verdicts)
    except OSError as error:
        raise HarnessError(f"store {found.root.shown}: {error}") from error


def _is_broken(verdicts: Verdicts) -> bool:
    try:
        verdicts.rows()
    except HarnessError:
        return True
    return False


@dataclass(frozen=True, slots=True)
class _Changes:
    unchanged: frozenset[str]
    bytes_read: int


def _changes(
    found: Found,
    runs: StoredRuns,
    known: Mapping[str, JudgedRun],
    stamps: Mapping[str, str],
    verdicts: Verdicts,
) -> _Changes:
    """Return which runs need not be judged. A file is read only if its size or its time differs
    from what it was when the run was judged; a run whose files have other times and the same
    contents gets another stamp."""
    current = {words: judge_digest(words.split()) for words in {k.modules for k in known.values()}}
    candidates = [
        run
        for run in found.runs
        if run in known and known[run].judge == current[known[run].modules]
    ]
    same = {run for run in candidates if stamps[run] and known[run].stamp == stamps[run]}
    doubtful = [run for run in candidates if run not in same]

    def digest(run: str) -> str:
        with runs.here(found.root, run, whole=True) as path:
            return runs.digest(path)

    with ThreadPoolExecutor() as pool:
        digests = dict(zip(doubtful, pool.map(digest, doubtful), strict=True))
    restored = {run for run in doubtful if known[run].history == digests[run]}
    restamped = {run: replace(known[run], stamp=stamps[run]) for run in restored if stamps[run]}
    if restamped:
        with suppress(OSError):  # of a read-only store: its files are read again the next time
            verdicts.restamp(restamped)
    read = sum(found.bytes_to_digest(run) for run in doubtful)
    return _Changes(frozenset(same | restored), read)


def _judge(
    found: Found,
    runs: StoredRuns,
    engine: Callable[[Job, Sequence[Item]], Sequence[Location]],
    verdicts: Verdicts,
    changed: Sequence[str],
    stamps: Mapping[str, str],
    *,
    only: frozenset[str] | None,
    save: bool,
) -> tuple[Mapping[str, JudgedRun], str]:
    """Return the runs as they are judged, and why that is not stored."""
    with _scratch(found.root) as scratch:
        job = Job(runs=runs, store=found.root, only=only, scratch=scratch, save=save)
        items = [item for run in changed for item in _items(found, run, runs)]
        split = frozenset(item.run for item in items if item.is_part)
        files = engine(job, items)
        try:
            return verdicts.append(files, {run: stamps[run] for run in changed}, split), ""
        except OSError as error:
            place = verdicts.place
            why = str(error) if place.path is None else why_unwritable(place.path, error)
            return judged_in(files), f"{place.shown}: cannot be written: {why}"


@contextmanager
def _scratch(root: Location) -> Iterator[Location]:
    """Yield a directory for the rows of tasks. It is in the store, which machines share, or in a
    temporary directory if the store takes no files."""
    if root.path is not None:
        try:
            Store(root.path).prepare()
        except HarnessError:
            with tempfile.TemporaryDirectory(prefix="harness-rows-") as directory:
                yield Location.of(directory)
            return
    scratch = root.below(SCRATCH, f"{os.getpid()}-{uuid4().hex[:8]}")
    try:
        yield scratch
    finally:
        scratch.delete_tree()


def _items(found: Found, run: str, runs: StoredRuns) -> list[Item]:
    """Return a run as one item, or a big one as its parts."""
    whole = Item(run, found.bytes_to_judge(run))
    if whole.bytes < BIG_BYTES or not found.has_columns(run):
        return [whole]
    # Tasks of one run must not each make its file again, nor each digest it.
    try:
        if found.root.path is not None:
            stored = runs.columns(found.root.path / run)
            digest = stored.digest
        else:
            with runs.here(found.root, run, whole=False) as path:
                made_from = trusted_digest(found.root.below(run), path)
                if made_from is None:
                    return [whole]
                digest = runs.digest_with(path, made_from.encode())
            stored = runs.columns_in_place(found.root, whole)
    except HarnessError:
        return [whole]
    if stored.file is None:
        return [whole]
    return split_by_keys(replace(whole, digest=digest, note=stored.note), stored.file)
