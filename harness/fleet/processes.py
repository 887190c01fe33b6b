"""Judges runs with processes of this machine, which start in milliseconds.

They are processes and not threads because most of a small history's time is Python's. A process
that dies over a task is replaced, and that task is judged again with each of its items in a process
of its own.
"""

import gc
import os
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Final

import pyarrow as pa

from harness.core import plugins
from harness.core.errors import PLUGIN_ERRORS, HarnessError
from harness.core.os_process import follow_parent, yield_memory
from harness.fleet.location import Location
from harness.fleet.plan import Item, assign_to_tasks
from harness.fleet.rows import VerdictRow
from harness.fleet.task import Job, request_of, write_task

POLL_S: Final = 0.2


@dataclass(slots=True)
class _JudgeProcess:
    process: BaseProcess
    pipe: Connection
    task: int | None = None
    """Task that it judges; None if it waits."""


def judge(
    job: Job,
    items: Sequence[Item],
    on_progress: Callable[[int], None] | None = None,
) -> list[Location]:
    """Judge all items and return files of rows, in the job's scratch directory. Calls `on_progress`
    with the number of judged items. Raises HarnessError if a task kills its process twice."""
    if job.store.path is not None and items:
        _load(job, items[0])
    cores = os.cpu_count() or 1
    tasks = assign_to_tasks(items, cores)
    processes = min(cores, len(tasks))
    with closing(_Pool(replace(job, threads=processes), tasks, processes)) as pool:
        while pool.files.count(None):
            pool.step()
            if on_progress is not None:
                on_progress(pool.done())
        return [file for file in pool.files if file is not None]


def _load(job: Job, item: Item) -> None:
    """Do once what every process would do for itself: import the run's workload, and pandas, which
    Arrow loads with its first array if it is installed; digest the code that judges; and list the
    plug-ins, for the digest of a run."""
    pa.array([0])
    plugins.installed(plugins.WORKLOADS)
    with suppress(*PLUGIN_ERRORS), job.runs.here(job.store, item.run, whole=False) as path:
        request_of(job, path, VerdictRow(run=item.run))


class _Pool:
    """Processes, and the tasks that they judge."""

    def __init__(self, job: Job, tasks: Sequence[Sequence[Item]], processes: int) -> None:
        self._job = job
        self._tasks = tasks
        self._waiting = list(reversed(range(len(self._tasks))))
        self._died: set[int] = set()
        self.files: list[Location | None] = [None] * len(self._tasks)
        """File of rows of each task that is done."""
        # A file system other than the local one has threads, which a fork would not copy.
        self._context: Any = get_context("fork" if job.store.path is not None else "spawn")
        self._workers: list[_JudgeProcess] = []
        for _ in range(processes):
            self._start()

    def step(self) -> None:
        """Wait for at most a fifth of a second for something to end, and begin what is next."""
        for pipe in wait([worker.pipe for worker in self._workers], POLL_S):
            worker = next(one for one in self._workers if one.pipe is pipe)
            assert worker.task is not None, "a worker that waits says nothing"
            try:
                answer = worker.pipe.recv()
            except (EOFError, OSError):
                self._replace(worker)
                continue
            if isinstance(answer, Exception):
                raise answer
            self.files[worker.task] = answer
            self._give(worker)

    def done(self) -> int:
        """Return the number of judged items."""
        return sum(len(self._tasks[at]) for at, file in enumerate(self.files) if file is not None)

    def close(self) -> None:
        """Kill the processes, which have nothing that is not on disk."""
        for worker in self._workers:
            worker.process.kill()
            worker.process.join()
            worker.pipe.close()

    def _start(self) -> None:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(
            target=_serve, args=(self._job, theirs, os.getpid()), daemon=True
        )
        process.start()
        theirs.close()
        worker = _JudgeProcess(process, ours)
        self._workers.append(worker)
        self._give(worker)

    def _give(self, worker: _JudgeProcess) -> None:
        worker.task = self._waiting.pop() if self._waiting else None
        if worker.task is not None:
            with suppress(OSError):  # it died: the next step finds out
                worker.pipe.send((self._tasks[worker.task], worker.task in self._died))

    def _replace(self, worker: _JudgeProcess) -> None:
        assert worker.task is not None, "only a task kills it"
        worker.process.join()
        if worker.task in self._died:
            raise HarnessError(
                f"a process died twice over the same runs (exit {worker.process.exitcode}), the "
                f"second time although each run had a process of its own: the first is "
                f"{self._tasks[worker.task][0].run}"
            )
        self._died.add(worker.task)
        self._waiting.append(worker.task)
        self._workers.remove(worker)
        worker.pipe.close()
        self._start()


def _serve(job: Job, pipe: Connection, parent: int) -> None:
    """Judge tasks until the parent ends this process."""
    follow_parent(parent)
    yield_memory()
    gc.freeze()  # exempt the loaded modules from every later collection
    while True:
        try:
            items, isolated = pipe.recv()
        except EOFError:
            return
        try:
            answer: Any = write_task(job, items, isolated=isolated)
        except OSError as error:
            answer = HarnessError(f"{job.scratch.shown}: cannot be written: {error}")
        except PLUGIN_ERRORS as error:  # raised in the parent
            answer = HarnessError(f"a task failed: {type(error).__name__}: {error}")
        pipe.send(answer)
