"""Generators that decide when calls are made: rates, limits, pauses. They use the time of the
context, so they also work on virtual time."""

from typing import Literal, TypeAlias

from harness.core.errors import UsageError
from harness.core.protocols import Generator
from harness.core.seed import Seed
from harness.generators.steps import nanoseconds
from harness.native.generators import Combinator

Gaps: TypeAlias = Literal["exponential", "uniform"]


def rate(
    generator: Generator, ops_per_s: float, seed: Seed, gaps: Gaps = "exponential"
) -> Generator:
    """Return the calls of the generator at `ops_per_s` on average.

    The gap between two calls is drawn from the seed: exponential (calls fall as if many
    independent users made them) or uniform from 0 to twice the mean. Calls that were late,
    because no worker was free, are made up for without a burst: at twice the rate at most, and
    only those of the last second. Raises UsageError for a rate not above 0.
    """
    if not ops_per_s > 0:
        raise UsageError(f"rate: {ops_per_s} ops/s given, more than 0 expected")
    exponential = gaps == "exponential"
    return Combinator.rate(generator, 1e9 / ops_per_s, seed.value, exponential)


def time_limit(generator: Generator, seconds: float) -> Combinator:
    """Return the generator until `seconds` after it is first asked. Calls in flight go on."""
    return Combinator.time_limit(generator, nanoseconds(seconds))


def while_answered(generator: Generator, patience_s: float) -> Generator:
    """Return the generator until no call has succeeded for `patience_s`. Calls in flight go on.

    Calls that are repeated until they succeed would otherwise go on for hours on a server that
    never answers."""
    return Combinator.while_answered(generator, nanoseconds(patience_s))


def limit(generator: Generator, ops: int) -> Generator:
    """Return a generator of the first `ops` calls."""
    return Combinator.limit(generator, ops)


def sleep(seconds: float) -> Generator:
    """Return a pause between phases: no call for `seconds` from when it is first asked."""
    return Combinator.sleep(nanoseconds(seconds))


def rest_after_fail(generator: Generator, pause_s: float) -> Generator:
    """Return the generator, which gets no worker for `pause_s` after a call of the worker has
    failed. Otherwise refusals, which cost no time, would crowd out everything else."""
    return Combinator.rest_after_fail(generator, nanoseconds(pause_s))
