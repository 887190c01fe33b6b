"""What one task of a fleet does: judges its runs one after the other, and survives them.

A run, or an object of it, may take the process with it: the kernel ends what takes too much
memory, an extension may crash. So a task notes in a file which item it begins. A task that finds
such a file has died before: it judges every item in a process beside its own, and so dies of no
run a second time. When that process dies, each checker of the item gets one of its own, and what
dies then is UNKNOWN. The rest of the task goes on as ever.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol, TypeGuard

import pyarrow as pa
import pyarrow.parquet as pq

from checkers.fleet_columns import (
    Calls,
    ObjectVerdict,
    calls_of,
    decided,
    read_columns,
    read_keys,
)
from checkers.fleet_plan import Item
from checkers.fleet_rows import Row
from checkers.fleet_subprocess import Subprocess
from checkers.judge import Judgement, judge
from checkers.ladder import Level, decides
from checkers.linearizable import LEAST_S, Linearizable
from checkers.objects import SetObject
from checkers.protocol import applicable
from checkers.words import number
from harness.core.clock import WallClock
from harness.core.errors import HarnessError, HistoryError
from harness.core.history import History
from harness.core.protocols import Checker
from harness.core.verdict import Status, Verdict, worst

HISTORY_OPS_MAX: Final = 2_000_000
"""Checkers that take a whole history take some 2 KB an op: longer ones they are not given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What one run is to be judged by."""

    workload: str
    nemesis: str
    seed: str
    promise: Level
    checkers: Sequence[Checker]
    check_s: float
    """Seconds for all checkers together."""


class Runs(Protocol):
    """The store, as a task sees it. Pickled: it goes to the executors. All raise HarnessError
    that says what is wrong with the run."""

    def asked(self, run: Path) -> Asked:
        """From what the run left; needs no history."""
        ...

    def parquet(self, run: Path) -> tuple[Path, str]:
        """The columns of its history, up to date; and what was wrong with its files, or ""."""
        ...

    def mended(self, run: Path) -> str:
        """Makes the columns again where they are broken and there is something to make them
        from; what was wrong, or ""."""
        ...

    def history(self, run: Path) -> History:
        """All of it."""
        ...

    def digest(self, run: Path) -> str:
        """Of everything that the verdict depends on, less the judge."""
        ...

    def save(self, run: Path, judgement: Judgement, note: str) -> None:
        """All checkers were put to it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What all tasks share."""

    runs: Runs
    judge: str
    """A digest of the code that judges."""
    only: frozenset[str] | None
    """The checkers that are asked for; None: all of the run's."""
    scratch: str
    """A directory that all executors see."""
    save: bool = False
    """Whether each run's results are saved beside it."""
    threads: int = 1
    """How many tasks a machine does at a time, if that is known to be more than it has cores."""


@dataclass(slots=True)
class Progress:
    """Which items a task has begun: a line each, on disk before the item is begun."""

    path: Path

    @property
    def died(self) -> bool:
        """Whether an earlier attempt at the task began an item. Had it come to its end, there
        would be no other attempt."""
        return self.path.exists()

    def begin(self, name: str) -> None:
        """Before the item."""
        with self.path.open("a") as file:
            file.write(f"{name}\n")

    def end(self, name: str) -> None:
        """After it."""
        with self.path.open("a") as file:
            file.write(f"-{name}\n")


def work(job: Job, task: int, items: Sequence[Item]) -> Iterator[Row]:
    """Yield the rows of all items of a task. Whatever is wrong with an item is in its rows."""
    progress = Progress(Path(job.scratch) / f"task-{task}.begun")
    died = progress.died
    with Subprocess() as process:
        for item in items:
            progress.begin(item.name)
            yield from (rows_isolated(job, item, process) if died else rows_of(job, item))
            progress.end(item.name)


def rows_of(job: Job, item: Item) -> list[Row]:
    """One run, or its part. Never raises for what is wrong with the run."""
    row = Row(run=item.run, judge=job.judge)
    path = Path(item.path)
    try:
        asked, row = _asked(job, item, row)
        file, note = job.runs.parquet(path)
        # What was wrong with the files may have been mended, so that the digest is another.
        row = replace(row, note=note, history=item.digest or job.runs.digest(path))
        try:
            return _judged(job, asked, item, row, file)
        except HistoryError:
            note = job.runs.mended(path)
            if not note:
                raise
            row = replace(row, note=note, history=job.runs.digest(path))
            return _judged(job, asked, item, row, file)
    except HarnessError as error:
        return [_unjudged(job, item, row, str(error))]
    except Exception as error:  # an honest UNKNOWN for this run, and the others are judged
        return [_unjudged(job, item, row, f"the judge failed: {type(error).__name__}: {error}")]


def _asked(job: Job, item: Item, row: Row) -> tuple[Asked, Row]:
    asked = job.runs.asked(Path(item.path))
    if job.only is not None:
        asked = replace(asked, checkers=[c for c in asked.checkers if c.name in job.only])
    tasks = max(job.threads, os.cpu_count() or 1)
    shared = [c.sharing(tasks) if isinstance(c, Linearizable) else c for c in asked.checkers]
    asked = replace(asked, checkers=shared)
    return asked, replace(row, workload=asked.workload, nemesis=asked.nemesis, seed=asked.seed)


def _unjudged(job: Job, item: Item, row: Row, why: str) -> Row:
    digest = row.history or item.digest or _digest(job, item)
    return replace(row, history=digest, reason=why, note=row.note or why)


def _digest(job: Job, item: Item) -> str:
    """Return the digest of what was to be judged; "" if even that fails, so that the run counts
    as changed the next time."""
    try:
        return job.runs.digest(Path(item.path))
    except Exception:  # the row says already what is wrong with the run
        return ""


def _judged(job: Job, asked: Asked, item: Item, row: Row, file: Path) -> list[Row]:
    if item.keys is not None or item.rest:
        return _part(asked, item, row, file)
    return _whole(job, asked, Path(item.path), row, file)


def rows_isolated(job: Job, item: Item, process: Subprocess) -> list[Row]:
    """Return the rows of an item that is judged in another process; checker by checker when that
    dies of it."""
    rows, died = process.judge(job, item)
    if rows is not None:
        return rows
    row = Row(run=item.run, judge=job.judge, history=_digest(job, item))
    try:
        asked, row = _asked(job, item, row)
    except Exception as error:
        return [_unjudged(job, item, row, f"{died}; {error}")]
    found: list[Row] = []
    for checker in asked.checkers:
        alone = replace(job, only=frozenset({checker.name}), save=False)
        one, died = process.judge(alone, item)
        counts = decides(asked.promise, checker.name)
        lost = replace(row, checker=checker.name, decides=counts, reason=died)
        found += [lost] if one is None else one
    return found


def _whole(job: Job, asked: Asked, path: Path, row: Row, file: Path) -> list[Row]:
    keyed = [c for c in asked.checkers if _of_sets(c)]
    known: dict[str, _Known] = {}
    left_s = asked.check_s
    if keyed:
        calls = calls_of(read_columns(_opened(file)))
        for checker in keyed:
            known[checker.name] = one = _known(checker, calls, left_s)
            left_s = max(left_s - one.seconds, LEAST_S)
    if len(keyed) == len(asked.checkers) and all(one.sure for one in known.values()):
        return [made for one in known.values() for made in _objects(row, one, asked.promise)]
    rows = pq.read_metadata(file).num_rows
    if rows > HISTORY_OPS_MAX:
        raise HistoryError(
            f"{rows:,} ops are more than the {HISTORY_OPS_MAX:,} that checkers of a whole history "
            "are given; name those that judge key by key"
        )
    history = job.runs.history(path)
    checkers: list[Checker] = [known.get(c.name, c) for c in applicable(asked.checkers, history)]
    judgement = judge(history, checkers, left_s, asked.promise)
    if job.save and job.only is None:
        job.runs.save(path, judgement, row.note)
    return list(_rows_of(row, judgement, known))


def _part(asked: Asked, item: Item, row: Row, file: Path) -> list[Row]:
    """A range of keys by the checkers that judge key by key; or else what no range has: the
    calls without a key, and the other checkers, which are not given so long a history."""
    calls = calls_of(read_keys(_opened(file), item.keys))
    left_s = asked.check_s
    rows: list[Row] = []
    for checker in asked.checkers:
        if _of_sets(checker):
            one = _known(checker, calls, left_s)
            left_s = max(left_s - one.seconds, LEAST_S)
            rows += _objects(row, one, asked.promise)
        elif item.rest:
            reason = f"a history beyond {HISTORY_OPS_MAX:,} ops is judged key by key only"
            counts = decides(asked.promise, checker.name)
            rows.append(replace(row, checker=checker.name, decides=counts, reason=reason))
    return rows


def _of_sets(checker: Checker) -> TypeGuard[Linearizable]:
    """Whether its question can be put in columns."""
    return isinstance(checker, Linearizable) and isinstance(checker.model, SetObject)


def _opened(file: Path) -> pq.ParquetFile:
    if not file.is_file():  # Arrow waits for ever for a FIFO
        raise HistoryError(f"{file}: cannot be read: it is not a regular file")
    try:
        return pq.ParquetFile(file, page_checksum_verification=True)
    except (OSError, pa.ArrowException) as error:
        raise HistoryError(f"{file}: is no Parquet file that can be read: {error}") from error


@dataclass(slots=True)
class _Known:
    """A checker whose answer is known, from the columns. It finds the words of a witness, where
    there is one, the long way."""

    name: str
    checker: Linearizable
    objects: tuple[ObjectVerdict, ...]
    reads: int
    seconds: float

    @property
    def sure(self) -> bool:
        """There are reads, so that VALID means something."""
        return self.reads > 0

    def check(self, history: History, *, deadline_s: float) -> Verdict:
        """Says what the checker says."""
        if not self.sure or worst(one.status for one in self.objects) is not Status.VALID:
            return self.checker.check(history, deadline_s=deadline_s)
        calls = sum(one.checked for one in self.objects)
        of = number(len(self.objects), "key")
        return Verdict(
            checker=self.name,
            status=Status.VALID,
            summary=f"{of} {self.name} ({number(self.reads, 'read')})",
            checked=calls,
            figures={
                "keys": len(self.objects),
                "reads_ok": self.reads,
                "adds": calls - self.reads,
                "by_key": {str(one.key): one.status.value for one in self.objects},
                "anomalies": {},
            },
        )


def _known(checker: Linearizable, calls: Calls, time_s: float) -> _Known:
    clock = WallClock()
    objects = decided(calls, checker.consistency, time_s=time_s, memory_mb=checker.memory_mb)
    return _Known(checker.name, checker, tuple(objects), calls.reads, clock.now_ns() / 1e9)


def _objects(row: Row, known: _Known, promise: Level) -> list[Row]:
    return [
        replace(
            row,
            checker=known.name,
            object=one.key,
            status=one.status.value,
            decides=decides(promise, known.name),
            reason=one.reason,
            kind=one.kind,
            witness=one.witness,
            time_ns=one.time_ns,
            checked=one.checked,
            seconds=one.seconds,
        )
        for one in known.objects
    ]


def _rows_of(row: Row, judgement: Judgement, known: dict[str, "_Known"]) -> Iterator[Row]:
    deciding = {verdict.checker for verdict in judgement.deciding}
    for verdict in judgement.verdicts:
        counts = verdict.checker in deciding
        one = known.get(verdict.checker)
        parts = [] if one is None else _objects(row, one, judgement.ladder.promise)
        yield from (replace(part, decides=counts) for part in parts)
        if not parts or worst(Status(part.status) for part in parts) is not verdict.status:
            seconds = judgement.seconds[verdict.checker]
            yield row.of(verdict, decides=counts, seconds=seconds)
    for text in judgement.ladder.contradictions:
        yield replace(row, checker="ladder", reason=text)
