"""When calls are made: rates, limits, pauses. Time is the context's, so virtual time works too."""

from math import log
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from harness.core.errors import UsageError
from harness.core.op import Kind, Op
from harness.core.protocols import Context, Generator, Pending, Ready, Step
from harness.core.seed import Seed
from harness.generators.steps import EXHAUSTED, Compiled, compiled, listens, nanoseconds

Gaps: TypeAlias = Literal["exponential", "uniform"]

LAG_NS_MAX: Final = 1_000_000_000
"""What a rate is behind by more than this is not made up for."""


class Rate(msgspec.Struct, frozen=True):
    """Calls spread over time. See `rate`."""

    generator: Generator
    mean_ns: float
    seed: Seed
    exponential: bool
    listens: bool
    number: int = 0
    """How many calls were made."""
    due_ns: int | None = None
    """When the next call is due; None before the first question."""
    spaced_ns: int = 0
    """No call before this, however late it is."""

    def op(self, context: Context) -> tuple[Step, Generator]:
        """The next call, when it is due."""
        now, due = context.time_ns, self.due_ns
        if due is None:
            return replace(self, due_ns=now + self._gap_ns(0)).op(context)
        if now < due or now < self.spaced_ns:
            return Pending(max(due, self.spaced_ns), firm=True), self
        step, generator = self.generator.op(context)
        if not isinstance(step, Ready):
            return step, replace(self, generator=generator)
        number = self.number + 1
        gap = self._gap_ns(number)
        return step, replace(
            self,
            generator=generator,
            number=number,
            due_ns=max(due, now - LAG_NS_MAX) + gap,
            spaced_ns=now + gap // 2,  # while calls are late, the gaps are half as long
        )

    def _gap_ns(self, number: int) -> int:
        u = self.seed.unit(number)
        return int(self.mean_ns * (-log(1.0 - u) if self.exponential else 2.0 * u))

    def update(self, context: Context, event: Op) -> Generator:
        """Told on."""
        after = self.generator.update(context, event)
        return self if after is self.generator else replace(self, generator=after)

    def compiled(self) -> Compiled:
        """In Rust."""
        return (
            "rate",
            compiled(self.generator),
            self.mean_ns,
            self.seed.value,
            self.exponential,
            self.number,
            self.due_ns,
            self.spaced_ns,
        )


def rate(
    generator: Generator, ops_per_s: float, seed: Seed, gaps: Gaps = "exponential"
) -> Generator:
    """Calls of the generator at `ops_per_s` on average.

    The gap between two calls is drawn from the seed: exponential (calls fall as if many
    independent users made them) or uniform from 0 to twice the mean. When calls were late, for
    no worker was free, they are made up for without a burst: at twice the rate at most, and only
    what belongs to the last second. Raises UsageError for a rate not above 0.
    """
    if not ops_per_s > 0:
        raise UsageError(f"rate: {ops_per_s} ops/s given, more than 0 expected")
    return Rate(generator, 1e9 / ops_per_s, seed, gaps == "exponential", listens(generator))


class TimeLimit(msgspec.Struct, frozen=True):
    """Calls until a time has passed. See `time_limit`."""

    generator: Generator
    length_ns: int
    listens: bool
    end_ns: int | None = None
    """None before the first question."""

    def op(self, context: Context) -> tuple[Step, Generator]:
        """What the generator says, while there is time."""
        end = context.time_ns + self.length_ns if self.end_ns is None else self.end_ns
        if context.time_ns >= end:
            return EXHAUSTED, self
        step, generator = self.generator.op(context)
        if isinstance(step, Pending) and (step.wake_ns is None or step.wake_ns > end):
            step = Pending(end, step.firm)
        return step, TimeLimit(generator, self.length_ns, self.listens, end)

    def update(self, context: Context, event: Op) -> Generator:
        """Told on."""
        after = self.generator.update(context, event)
        return self if after is self.generator else replace(self, generator=after)

    def compiled(self) -> Compiled:
        """In Rust."""
        return "time_limit", compiled(self.generator), self.length_ns, self.end_ns


def time_limit(generator: Generator, seconds: float) -> Generator:
    """The generator, until `seconds` after it is first asked. Calls in flight then go on."""
    return TimeLimit(generator, nanoseconds(seconds), listens(generator))


class WhileAnswered(msgspec.Struct, frozen=True):
    """Calls as long as some succeed. See `while_answered`."""

    generator: Generator
    patience_ns: int
    since_ns: int | None = None
    """When a call succeeded last, or the first question; None before that."""

    @property
    def listens(self) -> bool:
        """It looks at how calls end."""
        return True

    def op(self, context: Context) -> tuple[Step, Generator]:
        """What the generator says, while its calls succeed."""
        since = context.time_ns if self.since_ns is None else self.since_ns
        end = since + self.patience_ns
        if context.time_ns >= end:
            return EXHAUSTED, self
        step, generator = self.generator.op(context)
        if isinstance(step, Pending) and (step.wake_ns is None or step.wake_ns > end):
            step = Pending(end, step.firm)
        return step, WhileAnswered(generator, self.patience_ns, since)

    def update(self, context: Context, event: Op) -> Generator:
        """Counts from here again when a call succeeded; told on."""
        after = self.generator.update(context, event)
        since = event.time_ns if event.kind is Kind.OK else self.since_ns
        return WhileAnswered(after, self.patience_ns, since)


def while_answered(generator: Generator, patience_s: float) -> Generator:
    """The generator, until no call has succeeded for `patience_s`: calls that are repeated until
    they succeed would else go on for hours on a server that never answers. Calls in flight then
    go on."""
    return WhileAnswered(generator, nanoseconds(patience_s))


class Limit(msgspec.Struct, frozen=True):
    """So many calls. See `limit`."""

    generator: Generator
    left: int
    listens: bool

    def op(self, context: Context) -> tuple[Step, Generator]:
        """What the generator says, while some are left."""
        if self.left <= 0:
            return EXHAUSTED, self
        step, generator = self.generator.op(context)
        return step, Limit(generator, self.left - isinstance(step, Ready), self.listens)

    def update(self, context: Context, event: Op) -> Generator:
        """Told on."""
        after = self.generator.update(context, event)
        return self if after is self.generator else replace(self, generator=after)


def limit(generator: Generator, ops: int) -> Generator:
    """The generator's first `ops` calls."""
    return Limit(generator, ops, listens(generator))


class Sleep(msgspec.Struct, frozen=True):
    """Nothing for a time. See `sleep`."""

    length_ns: int
    end_ns: int | None = None

    @property
    def listens(self) -> bool:
        """It looks at no event."""
        return False

    def op(self, context: Context) -> tuple[Step, Generator]:
        """Pending, then Exhausted."""
        end = context.time_ns + self.length_ns if self.end_ns is None else self.end_ns
        if context.time_ns >= end:
            return EXHAUSTED, self
        return Pending(end), (self if self.end_ns is not None else Sleep(self.length_ns, end))

    def update(self, context: Context, event: Op) -> Generator:  # noqa: ARG002
        """Itself."""
        return self


def sleep(seconds: float) -> Generator:
    """No call, for `seconds` from when it is first asked: a pause between phases."""
    return Sleep(nanoseconds(seconds))
