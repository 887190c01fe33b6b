"""Generators that make calls themselves: all others wrap these."""

from collections.abc import Callable, Iterable

from harness.core.op import Call
from harness.core.protocols import Generator
from harness.core.seed import Seed
from harness.native.generators import Combinator


def numbered(make: Callable[[int], Call]) -> Generator:
    """Return an endless generator of `make(0)`, `make(1)`, …; `make` must be pure."""
    return Combinator.numbered(make)


def repeat(call: Call) -> Generator:
    """Return a generator that repeats one call without end."""
    return Combinator.repeat(call)


def sequence(calls: Iterable[Call]) -> Generator:
    """Return a generator of each call once, in this order; no call waits for the one before."""
    return Combinator.sequence(list(calls))


def once(call: Call) -> Generator:
    """Return a generator of one call."""
    return sequence((call,))


def at_most_in_flight(
    make: Callable[[int], Call], most: int, pause_ns: int, seed: Seed, *, first_ns: int = 0
) -> Generator:
    """Return `make(0)`, `make(1)`, … without end, at most `most` of them in flight, each at least
    `pause_ns` after one has ended and none before `first_ns` of the run, on workers that the seed
    draws. `make` must be pure."""
    return Combinator.at_most_in_flight(make, most, pause_ns, seed.value, first_ns)
