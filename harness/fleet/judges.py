"""Judges of runs while other runs go on: one process, or Spark."""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, closing, contextmanager
from multiprocessing import get_context
from pathlib import Path
from queue import Empty, SimpleQueue

import pyarrow as pa
import pyarrow.parquet as pq

from harness.core.errors import HarnessError
from harness.core.os_process import follow_parent
from harness.fleet.code_digest import judge_digest
from harness.fleet.engine import ChosenEngine, spark_fleet
from harness.fleet.found_runs import found_again
from harness.fleet.location import Location
from harness.fleet.plan import Item
from harness.fleet.rows import SCHEMA, RunSummary, VerdictRow, batch_of, summaries, write_rows
from harness.fleet.stored_runs import SCRATCH, StoredRuns, check_fleet, verdicts_of
from harness.fleet.subprocess import Subprocess
from harness.fleet.task import Job, rows_isolated, rows_of
from harness.store.disk import why_unwritable

KEPT = f"{SCRATCH}/kept"
"""Directory in the store with the rows of judged runs, one file per run."""


class OneProcess:
    """Judge in a process of its own, less urgent than the servers. If it dies over a run, it is
    replaced, and that run is judged checker by checker."""

    def __init__(self, root: Path, runs: StoredRuns) -> None:
        self._root = root.resolve()
        store = Location.of(self._root)
        self._job = Job(runs=runs, store=store, only=None, scratch=store.below(SCRATCH), save=True)
        self._waiting: dict[str, Future[list[VerdictRow]]] = {}
        self._pool = self._fresh()

    def _fresh(self) -> ProcessPoolExecutor:
        # Forking would copy the threads' locks.
        context = get_context("spawn")
        pool = ProcessPoolExecutor(1, context, _settle, (os.getpid(),))
        pool.submit(judge_digest, ())  # so that all is loaded when the first run ends
        return pool

    def submit(self, run: str) -> None:
        """Judge a run, by its path in the store."""
        try:
            self._waiting[run] = self._pool.submit(rows_of, self._job, Item(run, 0))
        except BrokenProcessPool:
            self._pool = self._fresh()
            self._waiting[run] = self._pool.submit(rows_of, self._job, Item(run, 0))

    def done(self, *, wait: bool = False) -> Sequence[RunSummary]:
        """Return what was judged since the last call; with `wait`, after all is."""
        rows: list[VerdictRow] = []
        for run, future in list(self._waiting.items()):
            if not (wait or future.done()):
                continue
            del self._waiting[run]
            try:
                found = future.result()
            except BrokenProcessPool:
                with closing(Subprocess()) as process:
                    found = rows_isolated(self._job, Item(run, 0), process)
            self._keep(run, found)
            rows += found
        return summaries(pa.Table.from_batches([batch_of(rows)]))

    def _keep(self, run: str, rows: Sequence[VerdictRow]) -> None:
        """Keep the rows on disk until `merge_kept`, which may follow a crash."""
        target = self._root / KEPT / f"{run.replace('/', '+')}.parquet"
        try:
            write_rows(rows, Location.of(target))
        except OSError as error:
            why = why_unwritable(target, error)
            raise HarnessError(f"{target}: cannot be written: {why}") from error

    def close(self) -> None:
        """End the process; runs that it has not begun stay unjudged."""
        self._pool.shutdown(cancel_futures=True)


def merge_kept(root: Path) -> None:
    """Merge the verdicts that `OneProcess` has kept into the store's dataset. Raises
    HarnessError."""
    kept = sorted((root / KEPT).glob("*.parquet"))
    # The runs of files that an earlier version has left are judged by the next check.
    files = [file for file in kept if pq.read_schema(file).names == SCHEMA.names]
    if not files:
        return
    columns = [pq.read_table(file, columns=["run"])["run"] for file in files]
    # Each run was saved after it was judged, so its files have other times than the judge saw.
    stamps = {run: "" for column in columns for run in column.unique().to_pylist()}
    try:
        verdicts_of(Location.of(root), None).append([Location.of(file) for file in files], stamps)
    except OSError as error:
        raise HarnessError(f"store {root}: cannot be written: {error}") from error
    for file in kept:
        file.unlink(missing_ok=True)  # another night in this store may be at its end too


def _settle(parent: int) -> None:
    """Initialize the process, which is less urgent."""
    follow_parent(parent)
    os.nice(5)


class OnSpark:
    """Judge on a fleet, which gets the runs that came while it judged the last batch."""

    def __init__(
        self,
        root: Path,
        runs: StoredRuns,
        engine: Callable[[Job, Sequence[Item]], Sequence[Location]],
    ) -> None:
        self._root, self._runs, self._engine = root, runs, engine
        self._queue: SimpleQueue[str | None] = SimpleQueue()
        self._judged: SimpleQueue[RunSummary | Exception] = SimpleQueue()
        self._left = 0
        self._thread = threading.Thread(target=self._work, name="fleet", daemon=True)
        self._thread.start()

    def submit(self, run: str) -> None:
        """Judge a run, by its path in the store."""
        self._left += 1
        self._queue.put(run)

    def done(self, *, wait: bool = False) -> Sequence[RunSummary]:
        """Return what was judged since the last call; with `wait`, after all is. Raises what Spark
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
        """Judge what is queued, then end the thread."""
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        try:
            while (first := self._queue.get()) is not None:
                batch, more = [first], True
                while more and not self._queue.empty():
                    one = self._queue.get()
                    more = one is not None
                    batch += [] if one is None else [one]
                found = found_again(self._root, batch)
                checked = check_fleet(found, self._runs, self._engine, save=True)
                for summary in checked.runs.values():
                    self._judged.put(summary)
                if not more:
                    return
        except Exception as error:  # raised in the thread that collects the verdicts
            self._judged.put(error)


@contextmanager
def judging(root: Path, runs: StoredRuns, engine: ChosenEngine) -> Iterator[OneProcess | OnSpark]:
    """Yield a judge of the runs of a store, which ends with the block: in one process, or on
    Spark."""
    root.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        if not engine.on_spark:
            yield stack.enter_context(closing(OneProcess(root, runs)))
            return
        fleet = stack.enter_context(spark_fleet(engine.master, Location.of(root)))
        yield stack.enter_context(closing(OnSpark(root, runs, fleet.judge)))
