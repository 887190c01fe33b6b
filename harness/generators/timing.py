"""Generators that decide when calls are made: rates, limits, pauses. They use the time of the
context, so they also work on virtual time."""

from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from harness.core.errors import UsageError
from harness.core.op import Kind, Op
from harness.core.protocols import Context, Generator, Pending, Ready, Step
from harness.core.seed import Seed
from harness.generators.steps import EXHAUSTED, listens, nanoseconds
from harness.native.simulator import Combinator

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


class WhileAnswered(msgspec.Struct, frozen=True):
    """Calls as long as some succeed. See `while_answered`."""

    generator: Generator
    patience_ns: int
    since_ns: int | None = None
    """Time of the last success, or of the first request; None before that."""

    @property
    def listens(self) -> bool:
        """Return True: it looks at how calls end."""
        return True

    def op(self, context: Context) -> tuple[Step, Generator]:
        """Return the step of the generator while its calls succeed."""
        since = context.time_ns if self.since_ns is None else self.since_ns
        end = since + self.patience_ns
        if context.time_ns >= end:
            return EXHAUSTED, self
        step, generator = self.generator.op(context)
        if isinstance(step, Pending) and (step.wake_ns is None or step.wake_ns > end):
            step = Pending(end, step.firm)
        return step, WhileAnswered(generator, self.patience_ns, since)

    def update(self, context: Context, event: Op) -> Generator:
        """Restart the patience when a call succeeded, and pass the event on."""
        after = self.generator.update(context, event)
        since = event.time_ns if event.kind is Kind.OK else self.since_ns
        return WhileAnswered(after, self.patience_ns, since)


def while_answered(generator: Generator, patience_s: float) -> Generator:
    """Return the generator until no call has succeeded for `patience_s`. Calls in flight go on.

    Calls that are repeated until they succeed would otherwise go on for hours on a server that
    never answers."""
    return WhileAnswered(generator, nanoseconds(patience_s))


class Limit(msgspec.Struct, frozen=True):
    """A limit of the number of calls. See `limit`."""

    generator: Generator
    left: int
    listens: bool

    def op(self, context: Context) -> tuple[Step, Generator]:
        """Return the step of the generator while calls are left."""
        if self.left <= 0:
            return EXHAUSTED, self
        step, generator = self.generator.op(context)
        return step, Limit(generator, self.left - isinstance(step, Ready), self.listens)

    def update(self, context: Context, event: Op) -> Generator:
        """Pass the event on."""
        after = self.generator.update(context, event)
        return self if after is self.generator else replace(self, generator=after)


def limit(generator: Generator, ops: int) -> Generator:
    """Return a generator of the first `ops` calls."""
    return Limit(generator, ops, listens(generator))


class Sleep(msgspec.Struct, frozen=True):
    """A pause. See `sleep`."""

    length_ns: int
    end_ns: int | None = None

    @property
    def listens(self) -> bool:
        """Return False: it looks at no event."""
        return False

    def op(self, context: Context) -> tuple[Step, Generator]:
        """Return Pending until the time is over, then Exhausted."""
        end = context.time_ns + self.length_ns if self.end_ns is None else self.end_ns
        if context.time_ns >= end:
            return EXHAUSTED, self
        return Pending(end), (self if self.end_ns is not None else Sleep(self.length_ns, end))

    def update(self, context: Context, event: Op) -> Generator:  # noqa: ARG002
        """Return itself."""
        return self


def sleep(seconds: float) -> Generator:
    """Return a pause between phases: no call for `seconds` from when it is first asked."""
    return Sleep(nanoseconds(seconds))
