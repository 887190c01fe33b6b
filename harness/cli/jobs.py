"""Runs on simulated servers side by side, a process for each job, told in the order of their seeds.

A run is one process' work and its seed decides it: it leaves what it leaves when it runs alone.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any, Final, TypeVar

from harness.core.child import settle
from harness.core.errors import HarnessError
from harness.run.stop import Stop

T = TypeVar("T")

AHEAD: Final = 4
"""So many runs for each job are asked for at a time: no job waits for a slow one's turn."""

_work: Callable[[int], Any]
"""Of a job's process."""


def side_by_side(work: Callable[[int], T], count: int, jobs: int, stop: Stop) -> Iterator[T]:
    """What `work` gives for 0, 1, …, in this order. After a wish to stop only what has begun is
    finished. Raises what `work` raises, and HarnessError when a process dies."""
    # Forked, so that `work` need not be pickled; what it gives is.
    with ProcessPoolExecutor(
        min(jobs, count), get_context("fork"), _begin, (work, os.getpid())
    ) as pool:
        try:
            yield from _in_turn(pool, count, jobs, stop)
        except BrokenProcessPool as error:
            if not stop:
                raise HarnessError(
                    f"--jobs {jobs}: a process died over a run, most likely for want of memory; "
                    "what had ended is stored; try fewer jobs"
                ) from error


def _in_turn(pool: ProcessPoolExecutor, count: int, jobs: int, stop: Stop) -> Iterator[Any]:
    asked: deque[Future[Any]] = deque()
    numbers = iter(range(count))
    while True:
        while not stop and len(asked) < AHEAD * jobs:
            number = next(numbers, None)
            if number is None:
                break
            asked.append(pool.submit(_done, number))
        if not asked:
            return
        future = asked.popleft()
        if not (stop and future.cancel()):
            yield future.result()


def _begin(work: Callable[[int], Any], parent: int) -> None:
    """In a job's process."""
    global _work
    _work = work
    settle(parent)


def _done(number: int) -> Any:
    return _work(number)
