"""Ends what takes too long."""

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class OutOfTime(BaseException):
    """Raised where a time limit is over. Like KeyboardInterrupt it is no error of what it ends."""


@contextmanager
def time_limit(limit_s: float) -> Iterator[None]:
    """Raise OutOfTime in the block, on whatever thread it runs, when `limit_s` seconds are over. A
    call of native code ends first."""
    lock, over = threading.Lock(), False
    thread = threading.get_ident()

    def end() -> None:
        with lock:
            if not over:
                raised = ctypes.py_object(OutOfTime)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), raised)

    timer = threading.Timer(min(limit_s, threading.TIMEOUT_MAX), end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        with lock:  # What was raised before is raised here.
            over = True
        timer.cancel()
