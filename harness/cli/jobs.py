"""Parallel runs on simulated servers: one process for each job, results in the order of the seeds.

A run happens within one process and its seed decides it, so it stores the same files as alone.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any, Final, TypeVar

from harness.core.errors import HarnessError
from harness.core.os_process import follow_parent
from harness.run.stop import Stop

T = TypeVar("T")

AHEAD: Final = 4
"""Number of runs queued for each job, so that no job waits for the result of a slower one."""

_work: Callable[[int], Any]
"""The function that this job's process calls."""


def side_by_side(work: Callable[[int], T], count: int, jobs: int, stop: Stop) -> Iterator[T]:
    """Yield the results of `work` for 0, 1, … in this order. After a request to stop, only started
    work is finished. Raises what `work` raises, and HarnessError if a process dies."""
    # Forked, so that only the results of `work` are pickled.
    with ProcessPoolExecutor(
        min(jobs, count), get_context("fork"), _begin, (work, os.getpid())
    ) as pool:
        try:
            yield from _in_turn(pool, count, jobs, stop)
        except BrokenProcessPool as error:
            if not stop:
                raise HarnessError(
                    f"--jobs {jobs}: a process died during a run, most likely for lack of memory; "
                    "finished runs are stored; try fewer jobs"
                ) from error


def _in_turn(pool: ProcessPoolExecutor, count: int, jobs: int, stop: Stop) -> Iterator[Any]:
    pending: deque[Future[Any]] = deque()
    numbers = iter(range(count))
    while True:
        while not stop and len(pending) < AHEAD * jobs:
            number = next(numbers, None)
            if number is None:
                break
            pending.append(pool.submit(_done, number))
        if not pending:
            return
        future = pending.popleft()
        if not (stop and future.cancel()):
            yield future.result()


def _begin(work: Callable[[int], Any], parent: int) -> None:
    """Prepare a job's process."""
    global _work
    _work = work
    follow_parent(parent)


def _done(number: int) -> Any:
    return _work(number)
