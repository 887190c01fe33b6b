"""Time since the run began, and the date. The only place that asks a clock."""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Monotonic nanoseconds since the run began."""

    def now_ns(self) -> int:
        """The time."""
        ...

    def sleep_until(self, time_ns: int) -> None:
        """Returns at or after `time_ns`."""
        ...


class WallClock:
    """The machine's monotonic clock; zero is when this object was made."""

    def __init__(self) -> None:
        self._zero = time.monotonic_ns()

    def now_ns(self) -> int:
        """The time."""
        return time.monotonic_ns() - self._zero

    def sleep_until(self, time_ns: int) -> None:
        """Sleeps; returns at once for a time that has passed."""
        left = time_ns - self.now_ns()
        if left > 0:
            time.sleep(left / 1e9)


def utc_now() -> datetime:
    """The date, for names and records of runs; nothing is ever measured with it."""
    return datetime.now(UTC)
