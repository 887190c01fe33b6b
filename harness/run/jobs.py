"""Parallel runs on simulated servers: one process for each job, results in the order of the seeds.

A run happens within one process and its seed decides it, so it stores the same files as alone.
"""

import os
import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any, Final, TypeVar

from harness.core.errors import HarnessError
from harness.core.os_process import follow_parent
from harness.run.stop import Stop

Given = TypeVar("Given")
T = TypeVar("T")

_OVER: Final = object()
AHEAD: Final = 4
"""Number of runs queued for each job, so that no job waits for the result of a slower one."""

_work: Callable[[Any], Any]
"""The function that this job's process calls."""


def side_by_side(
    work: Callable[[Given], T],
    inputs: Iterable[Given],
    jobs: int,
    stop: Stop,
    ahead: int | None = None,
) -> Iterator[T]:
    """Yield the results of `work` for each input, in their order. The next input is taken when
    fewer than `ahead` results are awaited, by default AHEAD for each job. After a request to stop,
    only started work is finished. Raises what `work` raises, and HarnessError if a process dies."""
    ahead = ahead or AHEAD * jobs
    count = len(inputs) if isinstance(inputs, Sized) else ahead
    # Forked, so that only the results of `work` are pickled.
    with ProcessPoolExecutor(
        max(1, min(jobs, count, ahead)), get_context("fork"), _begin, (work, os.getpid())
    ) as pool:
        try:
            yield from _in_turn(pool, iter(inputs), ahead, stop)
        except BrokenProcessPool as error:
            if not stop:
                raise HarnessError(
                    f"--jobs {jobs}: a process died during a run, most likely for lack of memory; "
                    "finished runs are stored; try fewer jobs"
                ) from error


def _in_turn(
    pool: ProcessPoolExecutor, inputs: Iterator[Any], ahead: int, stop: Stop
) -> Iterator[Any]:
    pending: deque[Future[Any]] = deque()
    while True:
        while not stop and len(pending) < ahead:
            given = next(inputs, _OVER)
            if given is _OVER:
                break
            pending.append(pool.submit(_done, given))
        if not pending:
            return
        future = pending.popleft()
        if not (stop and future.cancel()):
            yield future.result()


def _begin(work: Callable[[Any], Any], parent: int) -> None:
    """Prepare a job's process."""
    global _work
    _work = work
    follow_parent(parent)


def _done(given: Any) -> Any:
    """Return the result of the work. An exception of a plug-in that does not survive pickling,
    which would look like the death of this process, is told in words."""
    try:
        return _work(given)
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))  # noqa: S301 # what this line has just written
        except Exception:
            raise HarnessError(f"{type(error).__name__}: {error}") from None
        raise
