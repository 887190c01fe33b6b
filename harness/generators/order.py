"""One generator after the other: phases, rounds, and calls repeated until they succeed."""

from collections.abc import Callable, Iterable, Sequence

from harness.core.errors import UsageError
from harness.core.op import Call, Op
from harness.core.protocols import Generator
from harness.generators.steps import nanoseconds
from harness.generators.workers import each_node
from harness.native.generators import Combinator

FINAL_TRIES = 20
"""Number of tries of a final read, half a second apart: a replica that answers none is not at
rest."""


def phases(*generators: Generator) -> Generator:
    """Return phases: each begins when the one before is exhausted and its calls have ended."""
    return Combinator.phases(generators)


def cycle(make: Callable[[int], Generator]) -> Generator:
    """Return endless rounds `make(0)`, `make(1)`, …: each begins when the one before is exhausted
    and its calls have ended. `make` must be pure. A round with nothing at all raises UsageError."""
    return Combinator.cycle(make)


def until_ok(calls: Iterable[Call], *, tries: int, pause_s: float = 0.5) -> Generator:
    """Return a generator that repeats each call until it ends ok, at most `tries` times and
    `pause_s` after it failed, on all free workers. It is exhausted when every call was ok or
    was given up; the history shows which.

    Only for calls that may be repeated: reads, and faults that heal.
    """
    if tries < 1:
        raise UsageError(f"until_ok: {tries} tries given, at least 1 expected")
    return Combinator.until_ok(list(calls), tries, nanoseconds(pause_s))


def stop_when(seen: Callable[[Op], bool], generator: Generator) -> Generator:
    """Return the generator until a call has ended for which `seen`, a pure function, holds.

    `seen` is asked about every call that ends meanwhile, whoever made it. Calls in flight go on."""
    return Combinator.stop_when(seen, generator)


def final_reads_on(calls: Iterable[Call], nodes: Sequence[str], *, rounds: int = 1) -> Generator:
    """Return each call on each node until it is answered, `rounds` times."""
    one = each_node(until_ok(tuple(calls), tries=FINAL_TRIES), nodes)
    return phases(*(one,) * rounds)
