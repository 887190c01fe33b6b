"""The wish to end a run early, and why."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class InterruptedRun(KeyboardInterrupt):
    """The wish to stop reached the main thread at a point where it may leave what it does."""


class Stop:
    """Set once; further wishes change nothing, for the first is obeyed already."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self.reason = ""
        self.signals = 0
        """How many signals have arrived."""
        self._interrupting = False

    def wish(self, reason: str) -> None:
        """From any thread."""
        if not self.event.is_set():
            self.reason = reason
            self.event.set()

    def __bool__(self) -> bool:
        return self.event.is_set()

    def check(self) -> None:
        """Raise InterruptedRun if there is a wish to stop already."""
        if self:
            raise InterruptedRun(self.reason)

    @contextmanager
    def interrupting(self) -> Iterator[None]:
        """In this block a signal raises InterruptedRun in the main thread, at once, and once: the
        block's own cleaning up is not torn by the next signal. Elsewhere whoever waits looks at
        the wish: nothing is torn in the middle, so that a run that is stopped still heals, saves
        and cleans up."""
        self._interrupting = True
        try:
            yield
        finally:
            self._interrupting = False

    @contextmanager
    def obeying_signals(self) -> Iterator[None]:
        """SIGINT, SIGTERM and SIGHUP become a wish to stop. Only in the main thread.

        After the block they are ignored if one has arrived: the command is about to end, and the
        next must not keep it from saying how.
        """

        def wished(number: int, _frame: FrameType | None) -> None:
            self.signals += 1
            self.wish(f"{signal.Signals(number).name} received")
            if self._interrupting:
                self._interrupting = False
                raise InterruptedRun(self.reason)

        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {number: signal.signal(number, wished) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, signal.SIG_IGN if self.signals else handler)
