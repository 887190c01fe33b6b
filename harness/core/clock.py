"""Clocks that measure the time since a run began, and the date."""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Clock with monotonic time in nanoseconds since the run began."""

    def now_ns(self) -> int:
        """Return the time."""
        ...

    def sleep_until(self, time_ns: int) -> None:
        """Return at or after `time_ns`."""
        ...


class WallClock:
    """Clock of the machine, monotonic; it starts at 0 when the object is made."""

    def __init__(self) -> None:
        self._zero = time.monotonic_ns()

    def now_ns(self) -> int:
        """Return the time."""
        return time.monotonic_ns() - self._zero

    def sleep_until(self, time_ns: int) -> None:
        """Sleep until a time; return at once if it has passed."""
        left = time_ns - self.now_ns()
        if left > 0:
            time.sleep(left / 1e9)


def utc_now() -> datetime:
    """Return the date and time, for names and records of runs, never to measure durations."""
    return datetime.now(UTC)
