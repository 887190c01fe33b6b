"""Runs one task of a fleet: judges its runs one after the other, and survives them.

A run, or an object of it, may kill its process: the kernel kills a process that takes too much
memory, and an extension may crash. So the second attempt at a task judges every item in a separate
process, and no run kills the task twice. When that process dies, each checker of the item gets a
process of its own, and a checker whose process dies is UNKNOWN. The rest of the task continues.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any, Protocol, TypeGuard
from uuid import uuid4

from msgspec import structs

from checkers.consistency.linearizable import LEAST_S, KeyVerdict, Linearizable
from checkers.consistency.objects import SetObject
from checkers.every_run import applicable
from checkers.judge import Judgement, budget_of, explained, judge
from checkers.ladder import Level, decides
from harness.core.clock import WallClock
from harness.core.errors import PLUGIN_ERRORS, HarnessError, HistoryError, UsageError
from harness.core.file_lock import lock
from harness.core.history import History
from harness.core.protocols import Checker
from harness.core.verdict import Status, Verdict, worst
from harness.fleet.code_digest import judge_digest
from harness.fleet.key_ranges import KeyRange
from harness.fleet.location import Location
from harness.fleet.plan import BIG_BYTES, Item
from harness.fleet.rows import NOTHING, VerdictRow, write_rows
from harness.fleet.subprocess import Subprocess
from harness.store.conditions import Conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeRequest:
    """The checkers of one run, and what they need to know."""

    workload: str
    nemesis: str
    seed: str
    conditions: Conditions
    promise: Level
    checkers: Sequence[Checker]
    check_s: float
    """Time budget for all checkers together."""
    workload_module: str
    """Module that chose the checkers."""


@dataclass(frozen=True, slots=True)
class StoredColumns:
    """Columns of a stored history."""

    file: Any
    """Path of the file, or the file itself, open for reading; None if it could not be written, so
    that the journal is read."""
    note: str
    """What was wrong with the run's files; "" if nothing was."""
    digest: str
    """Digest of what is judged."""


class StoredHistories(Protocol):
    """The store, as a task sees it. It is pickled and sent to the executors. Every method raises
    HarnessError that says what is wrong with the run."""

    def here(self, store: Location, run: str, *, whole: bool) -> AbstractContextManager[Path]:
        """Return a directory on this machine with the files of a run: the run itself in a local
        store, otherwise a copy that lasts as long as the block. Without `whole` it may lack the
        history."""
        ...

    def request(self, run: Path) -> JudgeRequest:
        """Return how to judge the run. Reads no history."""
        ...

    def columns(self, run: Path) -> StoredColumns:
        """Return the columns of its history, up to date."""
        ...

    def columns_in_place(self, store: Location, item: Item) -> StoredColumns:
        """Return the columns of a run that is split, as the driver found them."""
        ...

    def repair(self, run: Path) -> StoredColumns | None:
        """Rebuild the columns if they are broken and can be rebuilt; None if they are not."""
        ...

    def history(self, run: Path, stored: StoredColumns) -> History:
        """Return the whole history, of which the columns are known."""
        ...

    def history_of_keys(self, file: Any, keys: KeyRange) -> History:
        """Return the ops of a range of keys in a stored history."""
        ...

    def digest(self, run: Path) -> str:
        """Return a digest of everything that the verdict depends on, except the judge."""
        ...

    def save(self, run: Path, judgement: Judgement, note: str) -> None:
        """Save the results of all checkers."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Settings that all tasks share."""

    runs: StoredHistories
    store: Location
    only: frozenset[str] | None
    """Names of the requested checkers; None for all of the run's."""
    scratch: Location
    """A directory of the store for the rows of each attempt at a task."""
    save: bool = False
    """True if each run's results are saved beside the run."""
    threads: int = 1
    """Number of tasks that a machine runs at the same time, if it is known to be larger than its
    number of cores."""


def write_task(job: Job, items: Sequence[Item], *, isolated: bool) -> Location:
    """Judge all items of a task and return the file of their rows, which no other attempt at the
    task has. `isolated`: an earlier attempt died."""
    file = job.scratch.below(f"{uuid4().hex}.parquet")
    write_rows(rows_of_task(job, items, isolated=isolated), file)
    return file


def rows_of_task(job: Job, items: Sequence[Item], *, isolated: bool) -> Iterator[VerdictRow]:
    """Yield the rows of all items of a task. If something is wrong with an item, its rows say
    so."""
    with closing(Subprocess()) as process:
        for item in items:
            yield from (rows_isolated(job, item, process) if isolated else rows_of(job, item))


def rows_of(job: Job, item: Item) -> list[VerdictRow]:
    """Return the rows of one run, or of a part of it. Never raises for what is wrong with the
    run."""
    row = VerdictRow(run=item.run)
    try:
        with job.runs.here(job.store, item.run, whole=item.keys is None) as path:
            return _rows_here(job, item, row, path)
    except HarnessError as error:
        return [structs.replace(row, reason=str(error), note=str(error))]
    except OSError as error:
        why = f"cannot be read from the store: {error}"
        return [structs.replace(row, reason=why, note=why)]


def _rows_here(job: Job, item: Item, row: VerdictRow, path: Path) -> list[VerdictRow]:
    try:
        request, row = request_of(job, path, row)
        if not request.checkers:
            return [structs.replace(row, history=_digest(job, path), reason=NOTHING)]
        if item.is_part:
            stored = job.runs.columns_in_place(job.store, item)
        else:
            stored = job.runs.columns(path)
        row = structs.replace(row, note=stored.note, history=stored.digest)
        try:
            return _rows_of_item(job, request, item, row, path, stored)
        except HistoryError:
            mended = None if item.is_part else job.runs.repair(path)
            if mended is None:
                raise
            row = structs.replace(row, note=mended.note, history=mended.digest)
            return _rows_of_item(job, request, item, row, path, mended)
    except UsageError as error:  # what lacks, such as a plug-in, may be there the next time
        return [structs.replace(_unjudged_row(job, path, row, str(error)), judge="")]
    except HarnessError as error:
        return [_unjudged_row(job, path, row, str(error))]
    except PLUGIN_ERRORS as error:  # this run is UNKNOWN, the others are judged
        return [_unjudged_row(job, path, row, f"the judge failed: {type(error).__name__}: {error}")]


def request_of(job: Job, path: Path, row: VerdictRow) -> tuple[JudgeRequest, VerdictRow]:
    """Return how to judge a run in this job, and a row that says so."""
    request = job.runs.request(path)
    # The digest covers all checkers of the run; the dataset says which of them are requested.
    modules = sorted({request.workload_module, *(type(c).__module__ for c in request.checkers)})
    tasks = max(job.threads, os.cpu_count() or 1)
    own = [
        checker.sharing(tasks) if isinstance(checker, Linearizable) else checker
        for checker in request.checkers
        if job.only is None or checker.name in job.only
    ]
    return replace(request, checkers=own), structs.replace(
        row,
        workload=request.workload,
        nemesis=request.nemesis,
        seed=request.seed,
        **structs.asdict(request.conditions),
        modules=" ".join(modules),
        judge=judge_digest(modules),
    )


def _unjudged_row(job: Job, path: Path, row: VerdictRow, why: str) -> VerdictRow:
    digest = row.history or _digest(job, path)
    judge = row.judge or judge_digest(())
    return structs.replace(row, history=digest, judge=judge, reason=why, note=row.note or why)


def _digest(job: Job, path: Path) -> str:
    """Return the digest of what is judged; "" if even that fails, so that the run counts as changed
    the next time."""
    try:
        return job.runs.digest(path)
    except PLUGIN_ERRORS:  # the row already says what is wrong with the run
        return ""


def _rows_of_item(
    job: Job, request: JudgeRequest, item: Item, row: VerdictRow, path: Path, stored: StoredColumns
) -> list[VerdictRow]:
    if item.keys is not None:
        return _rows_of_keys(job, request, item.keys, row, stored.file)
    with _alone_if_big(item):
        if item.remainder:
            return _rows_of_remainder(job, request, row, path, stored)
        return _rows_of_whole_run(job, request, row, path, stored)


@contextmanager
def _alone_if_big(item: Item) -> Iterator[None]:
    """Let one process of this machine at a time take a big history whole."""
    if item.bytes <= BIG_BYTES and not item.remainder:
        yield
        return
    with Path(__file__).open("rb") as file:  # any file that all of them can open
        lock(file)
        yield


def rows_isolated(job: Job, item: Item, process: Subprocess) -> list[VerdictRow]:
    """Return the rows of an item that a separate process judges; if that dies, one process for each
    checker."""
    rows, died = process.call(rows_of, job, item)
    if rows is not None:
        return rows
    row = VerdictRow(run=item.run)
    try:
        with job.runs.here(job.store, item.run, whole=True) as path:
            row = structs.replace(row, history=item.digest or _digest(job, path))
            request, row = request_of(job, path, row)
    except PLUGIN_ERRORS as error:
        return [structs.replace(row, reason=f"{died}; {error}", note=f"{died}; {error}")]
    found: list[VerdictRow] = []
    for checker in request.checkers:
        alone = replace(job, only=frozenset({checker.name}), save=False)
        one, died = process.call(rows_of, alone, item)
        counts = decides(request.promise, checker)
        lost = structs.replace(row, checker=checker.name, decides=counts, reason=died)
        found += [lost] if one is None else one
    return found


def _rows_of_whole_run(
    job: Job, request: JudgeRequest, row: VerdictRow, path: Path, stored: StoredColumns
) -> list[VerdictRow]:
    history = job.runs.history(path, stored)
    judgement, rows = _judged(request, history, request.checkers, row)
    if job.save and job.only is None:
        own = applicable(request.checkers, history)
        job.runs.save(path, explained(judgement, history, own, request.check_s), row.note)
    return rows


def _rows_of_keys(
    job: Job, request: JudgeRequest, keys: KeyRange, row: VerdictRow, file: Any
) -> list[VerdictRow]:
    """Return the rows of a range of keys, or of the calls without a key, from the checkers that
    judge key by key. What one of them raises concerns the whole range, so that it is raised."""
    history = job.runs.history_of_keys(file, keys)
    left_s = budget_of(request.check_s, len(history))
    rows: list[VerdictRow] = []
    for checker in filter(_judges_sets, request.checkers):
        one, clock = _ByKey(checker), WallClock()
        one.check_within(history, left_s)
        seconds = clock.now_ns() / 1e9
        left_s = max(left_s - seconds, LEAST_S)
        rows += one.rows(row, seconds, decides(request.promise, checker))
    return rows


def _rows_of_remainder(
    job: Job, request: JudgeRequest, row: VerdictRow, path: Path, stored: StoredColumns
) -> list[VerdictRow]:
    """Return the rows of a split run that no range of keys covers: those of the calls without a
    key, and those of the checkers that take the whole history."""
    rows = _rows_of_keys(job, request, None, row, stored.file)
    whole = [checker for checker in request.checkers if not _judges_sets(checker)]
    if not whole:
        # The call that stands for a damaged record has no key, and keeps the run from being VALID.
        rest = job.runs.history_of_keys(stored.file, None)
        return rows + _judged(request, rest, (), row)[1]
    try:
        history = job.runs.history(path, stored)
    except HistoryError as error:
        unread = structs.replace(row, reason=str(error))
        counts = {checker.name: decides(request.promise, checker) for checker in whole}
        return rows + [
            structs.replace(unread, checker=name, decides=counts[name]) for name in counts
        ]
    return rows + _judged(request, history, whole, row)[1]


def _judges_sets(checker: Checker) -> TypeGuard[Linearizable]:
    """Return whether the checker judges sets, of which each key has a row."""
    return isinstance(checker, Linearizable) and isinstance(checker.model, SetObject)


class _ByKey:
    """A checker that keeps the verdict on each key."""

    def __init__(self, checker: Linearizable) -> None:
        self.name = checker.name
        self._checker = checker
        self._keys: Sequence[KeyVerdict] = ()

    def check(self, history: History) -> Verdict:
        """Return the checker's verdict."""
        return self.check_within(history, inf)

    def check_within(self, history: History, budget_s: float) -> Verdict:
        """Return the checker's verdict within a time budget."""
        self._keys = self._checker.judged_keys(history, budget_s)
        return self._checker.verdict_of(self._keys)

    def rows(self, row: VerdictRow, seconds: float, counts: bool) -> list[VerdictRow]:
        """Return a row for each key, whose time is its share by calls. `counts`: whether the
        verdict counts for the run."""
        calls = sum(len(one.calls) for one in self._keys)
        return [
            structs.replace(
                row,
                checker=self.name,
                object=one.key,
                status=one.status.value,
                decides=counts,
                reason=one.reason,
                kind=None if one.anomaly is None else one.anomaly.kind,
                witness=() if one.anomaly is None else one.anomaly.ops,
                time_ns=None if one.anomaly is None else one.anomaly.time_ns,
                checked=len(one.calls),
                seconds=seconds * len(one.calls) / calls,
            )
            for one in self._keys
        ]


def _judged(
    request: JudgeRequest, history: History, checkers: Sequence[Checker], row: VerdictRow
) -> tuple[Judgement, list[VerdictRow]]:
    """Return the judgement of those checkers that are applicable, and its rows: one for each
    checker, or one for each key."""
    own = applicable(checkers, history)
    by_key = {one.name: _ByKey(one) for one in own if _judges_sets(one)}
    judgement = judge(
        history, [by_key.get(one.name, one) for one in own], request.check_s, request.promise
    )
    deciding = {verdict.checker for verdict in judgement.deciding}
    rows: list[VerdictRow] = []
    for verdict in judgement.verdicts:
        counts, seconds = verdict.checker in deciding, judgement.seconds[verdict.checker]
        keyed = by_key.get(verdict.checker)
        parts = [] if keyed is None else keyed.rows(row, seconds, counts)
        rows += parts
        if not parts or worst(Status(part.status) for part in parts) is not verdict.status:
            rows.append(row.with_verdict(verdict, decides=counts, seconds=seconds))
    rows += [
        structs.replace(row, checker="ladder", reason=text)
        for text in judgement.ladder.contradictions
    ]
    return judgement, rows
