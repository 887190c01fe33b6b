"""What one task of a fleet does: judges its runs one after the other, and survives them.

A run, or an object of it, may take the process with it: the kernel ends what takes too much
memory, an extension may crash. So a task notes in a file which item it begins. When the task is
done again after a death, the item that was begun last is the suspect: it is judged in a process of
its own, and when that dies too, each checker and each key of it in one, and what dies then is
UNKNOWN. The rest of the task goes on as ever.
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
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
from checkers.judge import Judgement, judge
from checkers.ladder import Level, decides
from checkers.linearizable import Linearizable
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
    """Seconds for the checkers; of those that judge key by key, for each key."""


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


@dataclass(slots=True)
class Progress:
    """Which items a task has begun: a line each, on disk before the item is."""

    path: Path
    before: dict[str, int] = field(default_factory=dict)
    """How many times each was begun by tasks that died."""

    def __post_init__(self) -> None:
        lines = self.path.read_text().split("\n") if self.path.exists() else []
        begun = [line for line in lines if line and not line.startswith("-")]
        ended = {line[1:] for line in lines if line.startswith("-")}
        self.before = {name: begun.count(name) for name in begun if name not in ended}

    def begin(self, name: str) -> None:
        """Before the item."""
        with self.path.open("a") as file:
            file.write(f"{name}\n")

    def end(self, name: str) -> None:
        """After it."""
        with self.path.open("a") as file:
            file.write(f"-{name}\n")


def work(job: Job, task: int, items: Sequence[Item]) -> Iterator[Row]:
    """The rows of all items of a task. Whatever is wrong with an item is in its rows."""
    progress = Progress(Path(job.scratch) / f"task-{task}.begun")
    for item in items:
        suspect = item.name in progress.before
        progress.begin(item.name)
        yield from (alone(job, item) if suspect else rows_of(job, item))
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
    return asked, replace(row, workload=asked.workload, nemesis=asked.nemesis, seed=asked.seed)


def _unjudged(job: Job, item: Item, row: Row, why: str) -> Row:
    digest = row.history or item.digest or job.runs.digest(Path(item.path))
    return replace(row, history=digest, reason=why, note=row.note or why)


def _judged(job: Job, asked: Asked, item: Item, row: Row, file: Path) -> list[Row]:
    if item.keys is not None or item.rest:
        return _part(asked, item, row, file)
    return _whole(job, asked, Path(item.path), row, file)


def alone(job: Job, item: Item) -> list[Row]:
    """A suspect, in a process of its own; checker by checker when that dies."""
    rows, died = _apart(job, item)
    if rows is not None:
        return rows
    row = Row(run=item.run, judge=job.judge, history=job.runs.digest(Path(item.path)))
    try:
        asked, row = _asked(job, item, row)
    except HarnessError as error:
        return [_unjudged(job, item, row, str(error))]
    found: list[Row] = []
    for checker in asked.checkers:
        one, died = _apart(replace(job, only=frozenset({checker.name}), save=False), item)
        counts = decides(asked.promise, checker.name)
        lost = replace(row, checker=checker.name, decides=counts, reason=died)
        found += [lost] if one is None else one
    return found


def _apart(job: Job, item: Item) -> tuple[list[Row] | None, str]:
    """What another process says; None, and how it ended, when it says nothing."""
    done = subprocess.run(
        [sys.executable, "-m", "checkers.fleet_apart"],
        input=pickle.dumps((job, item)),
        capture_output=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=False,
    )
    if done.returncode == 0:
        rows: list[Row] = pickle.loads(done.stdout)  # noqa: S301  # from our own child
        return rows, ""
    how = f"signal {-done.returncode}" if done.returncode < 0 else f"exit {done.returncode}"
    said = done.stderr.decode(errors="replace").strip().split("\n")[-1]
    return None, f"the process that judged it died ({how}{': ' + said if said else ''})"


def _whole(job: Job, asked: Asked, path: Path, row: Row, file: Path) -> list[Row]:
    keyed = [c for c in asked.checkers if _of_sets(c)]
    known: dict[str, _Known] = {}
    if keyed:
        calls = calls_of(read_columns(_opened(file)))
        known = {checker.name: _known(checker, calls, asked.check_s) for checker in keyed}
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
    judgement = judge(history, checkers, asked.check_s, asked.promise)
    if job.save and job.only is None:
        job.runs.save(path, judgement, row.note)
    return list(_rows_of(row, judgement, known))


def _part(asked: Asked, item: Item, row: Row, file: Path) -> list[Row]:
    """A range of keys by the checkers that judge key by key; or else what no range has: the
    calls without a key, and the other checkers, which are not given so long a history."""
    calls = calls_of(read_keys(_opened(file), item.keys))
    rows: list[Row] = []
    for checker in asked.checkers:
        if _of_sets(checker):
            rows += _objects(row, _known(checker, calls, asked.check_s), asked.promise)
        elif item.rest:
            reason = f"a history beyond {HISTORY_OPS_MAX:,} ops is judged key by key only"
            counts = decides(asked.promise, checker.name)
            rows.append(replace(row, checker=checker.name, decides=counts, reason=reason))
    return rows


def _of_sets(checker: Checker) -> TypeGuard[Linearizable]:
    """Whether its question can be put in columns."""
    return isinstance(checker, Linearizable) and isinstance(checker.model, SetObject)


def _opened(file: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(file)
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
