"""Ends what takes too long."""

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from time import monotonic


class OutOfTime(BaseException):
    """Raised where a time limit is over. Like KeyboardInterrupt it is no error of what it ends."""


class _TimeLimits:
    """One thread that ends whatever is over. It is not woken for a limit that ends later than the
    one that it waits for, so that most limits cost microseconds."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.ends: dict[object, tuple[float, int]] = {}
        """When each limit ends, and on which thread."""
        self._wakes = -inf

    def begin(self, limit: object, end: float) -> None:
        """Watch a limit of this thread that ends at a time of the monotonic clock."""
        with self.changed:
            self.ends[limit] = (end, threading.get_ident())
            if self._wakes == -inf:
                threading.Thread(target=self._run, name="time limits", daemon=True).start()
                self._wakes = inf
            if end < self._wakes:
                self.changed.notify()

    def _run(self) -> None:
        with self.changed:
            while True:
                now = monotonic()
                for limit, (end, thread) in [*self.ends.items()]:
                    if end <= now:
                        del self.ends[limit]
                        raised = ctypes.py_object(OutOfTime)
                        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), raised)
                self._wakes = min((end for end, _ in self.ends.values()), default=inf)
                wait_s = min(self._wakes - now, threading.TIMEOUT_MAX)
                self.changed.wait(wait_s)


_limits = _TimeLimits()


def _forget() -> None:
    """Begin anew in a process that was forked, which has no other thread."""
    global _limits
    _limits = _TimeLimits()


os.register_at_fork(after_in_child=_forget)


@contextmanager
def time_limit(limit_s: float) -> Iterator[None]:
    """Raise OutOfTime in the block, on whatever thread it runs, when `limit_s` seconds are over. A
    call of native code ends first."""
    limits, limit = _limits, object()
    limits.begin(limit, monotonic() + limit_s)
    try:
        yield
    finally:
        with limits.changed:  # What was raised before is raised here.
            limits.ends.pop(limit, None)
