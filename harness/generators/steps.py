"""Steps and numbers that generators written in Python use."""

from harness.core.protocols import Exhausted, Pending

NEMESIS_NUMBER = -1
"""The number of the worker that runs faults."""

PENDING = Pending()
"""Step that yields nothing until some call has ended."""
EXHAUSTED = Exhausted()


def nanoseconds(seconds: float) -> int:
    """Return a duration as generators count it."""
    return round(seconds * 1e9)
