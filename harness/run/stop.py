"""Requests to end a run early, with their reason."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from harness.core.errors import ClusterError
from harness.core.protocols import Cluster

INTERVAL_S: Final = 1.0
"""Interval between two pings of the cluster."""
STRIKES: Final = 3
"""Number of unanswered pings after which the cluster counts as lost; a busy engine may miss one."""


class InterruptedRun(KeyboardInterrupt):
    """A request to stop interrupted the main thread at a point where it may abandon its work."""


class Stop:
    """Request to stop. Only the first one counts, because the run already obeys it."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self.reason = ""
        self.signals = 0
        """Number of signals that have arrived."""
        self.frozen = False
        """True if the servers are paused, to be looked at, and must not be healed."""
        self._interrupting = False

    def request(self, reason: str) -> None:
        """Request a stop; any thread may do so."""
        if not self.event.is_set():
            self.reason = reason
            self.event.set()

    def __bool__(self) -> bool:
        return self.event.is_set()

    def check(self) -> None:
        """Raise InterruptedRun if a stop is requested already."""
        if self:
            raise InterruptedRun(self.reason)

    @contextmanager
    def interrupting(self) -> Iterator[None]:
        """Let the first signal in this block raise InterruptedRun in the main thread at once; later
        ones do not disturb the block's cleanup. Outside such blocks waiting code looks at the
        request, so that a run that is stopped still heals, saves and cleans up."""
        self._interrupting = True
        try:
            yield
        finally:
            self._interrupting = False

    @contextmanager
    def obeying_signals(self) -> Iterator[None]:
        """Turn SIGINT, SIGTERM and SIGHUP into a request to stop. For the main thread only.

        After the block they are ignored if one has arrived: the command is about to end, and
        another signal must not keep it from reporting the result.
        """

        def on_signal(number: int, _frame: FrameType | None) -> None:
            self.signals += 1
            self.request(f"{signal.Signals(number).name} received")
            if self._interrupting:
                self._interrupting = False
                raise InterruptedRun(self.reason)

        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {number: signal.signal(number, on_signal) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, signal.SIG_IGN if self.signals else handler)


@contextmanager
def watched(cluster: Cluster, stop: Stop) -> Iterator[None]:
    """Ping the cluster while the block runs, and request a stop if it is lost, so that the run does
    not go on without servers."""
    over = threading.Event()

    def watch() -> None:
        strikes = 0
        while not over.wait(INTERVAL_S):
            try:
                cluster.ping()
            except ClusterError as error:
                strikes += 1
                if strikes == STRIKES:
                    stop.request(f"the cluster is lost: {error}")
                    return
            else:
                strikes = 0

    thread = threading.Thread(target=watch, name="watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(INTERVAL_S)
