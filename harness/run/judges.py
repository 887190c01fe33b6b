"""Judge runs beside the runs that go on: in a process of their own, or on Spark."""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from queue import Empty, SimpleQueue

import pyarrow as pa
import pyarrow.parquet as pq

from checkers.fleet_plan import Item
from checkers.fleet_rows import (
    Row,
    RunSummary,
    batch_of,
    judged,
    merged,
    read_rows,
    runs_in,
    summaries,
)
from checkers.fleet_subprocess import Subprocess
from checkers.fleet_work import Job, rows_isolated, rows_of
from harness.core.child import settle
from harness.core.errors import HarnessError
from harness.run.disk import why_unwritable
from harness.run.fleet import SCRATCH, Found, StoredRuns, check_fleet, judge_digest, verdicts_of

KEPT = f"{SCRATCH}/kept"
"""In the store: rows of runs that were judged, a file a run."""


class OneProcess:
    """A process beside this one, less urgent than the servers. One that dies over a run is
    replaced, and that run judged checker by checker."""

    def __init__(self, root: Path, runs: StoredRuns) -> None:
        self._root = root.resolve()
        scratch = str(self._root / SCRATCH)
        self._job = Job(runs=runs, judge=judge_digest(), only=None, scratch=scratch, save=True)
        self._waiting: dict[str, Future[list[Row]]] = {}
        self._pool = self._fresh()

    def _fresh(self) -> ProcessPoolExecutor:
        # Forking would copy the threads' locks.
        context = get_context("spawn")
        pool = ProcessPoolExecutor(1, context, _settle, (os.getpid(),))
        pool.submit(judge_digest)  # so that all is loaded when the first run ends
        return pool

    def submit(self, run: str) -> None:
        """A run, by its path in the store."""
        try:
            self._waiting[run] = self._pool.submit(rows_of, self._job, self._item(run))
        except BrokenProcessPool:
            self._pool = self._fresh()
            self._waiting[run] = self._pool.submit(rows_of, self._job, self._item(run))

    def _item(self, run: str) -> Item:
        return Item(run, str(self._root / run), 0)

    def done(self, *, wait: bool = False) -> Sequence[RunSummary]:
        """What was judged since the last call; with `wait`, after all is."""
        rows: list[Row] = []
        for run, future in list(self._waiting.items()):
            if not (wait or future.done()):
                continue
            del self._waiting[run]
            try:
                found = future.result()
            except BrokenProcessPool:
                with Subprocess() as process:
                    found = rows_isolated(self._job, self._item(run), process)
            self._keep(run, found)
            rows += found
        return summaries(pa.Table.from_batches([batch_of(rows)]))

    def _keep(self, run: str, rows: Sequence[Row]) -> None:
        """On disk until `merge_kept`, which may be after a crash."""
        target = self._root / KEPT / f"{run.replace('/', '+')}.parquet"
        partial = target.with_suffix(".partial")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.Table.from_batches([batch_of(rows)]), partial)
            partial.replace(target)
        except OSError as error:
            why = why_unwritable(target, error)
            raise HarnessError(f"{target}: cannot be written: {why}") from error

    def close(self) -> None:
        """Ends the process; what it has not begun is left unjudged."""
        self._pool.shutdown(cancel_futures=True)


def merge_kept(root: Path) -> None:
    """Puts the verdicts that `OneProcess` has kept into the store's dataset. Raises
    HarnessError."""
    files = sorted((root / KEPT).glob("*.parquet"))
    if not files:
        return
    target = verdicts_of(root, None)
    judged(target)  # raises for what cannot be read
    merged(target, files, runs_in(files))
    for file in files:
        file.unlink(missing_ok=True)  # another night in this store may be at its end too


def _settle(parent: int) -> None:
    """In the process, which is less urgent."""
    settle(parent)
    os.nice(5)


class OnSpark:
    """A fleet, given whatever has gathered while it judged the last batch."""

    def __init__(
        self,
        root: Path,
        runs: StoredRuns,
        engine: Callable[[Job, Sequence[Item]], list[Path]],
    ) -> None:
        self._root, self._runs, self._engine = root, runs, engine
        self._asked: SimpleQueue[str | None] = SimpleQueue()
        self._judged: SimpleQueue[RunSummary | Exception] = SimpleQueue()
        self._left = 0
        self._thread = threading.Thread(target=self._work, name="fleet", daemon=True)
        self._thread.start()

    def submit(self, run: str) -> None:
        """A run, by its path in the store."""
        self._left += 1
        self._asked.put(run)

    def done(self, *, wait: bool = False) -> Sequence[RunSummary]:
        """What was judged since the last call; with `wait`, after all is. Raises what Spark
        raised."""
        found: list[RunSummary] = []
        while self._left:
            try:
                one = self._judged.get(block=wait)
            except Empty:
                break
            if isinstance(one, Exception):
                raise one
            found.append(one)
            self._left -= 1
        return found

    def close(self) -> None:
        """Ends the thread."""
        self._asked.put(None)
        self._thread.join()

    def _work(self) -> None:
        try:
            while (first := self._asked.get()) is not None:
                batch, more = [first], True
                while more and not self._asked.empty():
                    one = self._asked.get()
                    more = one is not None
                    batch += [] if one is None else [one]
                found = Found(self._root, tuple(sorted(batch)))
                checked = check_fleet(found, self._runs, self._engine, save=True)
                for summary in summaries(read_rows(checked.verdicts), frozenset(batch)):
                    self._judged.put(summary)
                if not more:
                    return
        except Exception as error:  # raised where the verdicts are waited for
            self._judged.put(error)
