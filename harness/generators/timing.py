"""When calls are made: rates, limits, pauses. Time is the context's, so virtual time works too."""

from dataclasses import dataclass
from math import log
from typing import Final, Literal, TypeAlias

from harness.core.errors import UsageError
from harness.core.op import Op
from harness.core.protocols import Context, Generator, Pending, Ready, Step
from harness.core.seed import Seed
from harness.generators.steps import EXHAUSTED, nanoseconds

Gaps: TypeAlias = Literal["exponential", "uniform"]

LAG_NS_MAX: Final = 1_000_000_000
"""What a rate is behind by more than this is not made up for."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Calls spread over time. See `rate`."""

    generator: Generator
    mean_ns: float
    seed: Seed
    exponential: bool
    number: int = 0
    """How many calls were made."""
    due_ns: int | None = None
    """When the next call is due; None before the first question."""

    def op(self, context: Context) -> tuple[Step, Generator]:
        """The next call, when it is due."""
        now, due = context.time_ns, self.due_ns
        if due is None:
            due = now + self._gap_ns(0)
            return self._with(self.generator, due).op(context)
        if now < due:
            return Pending(due), self
        step, generator = self.generator.op(context)
        if not isinstance(step, Ready):
            return step, (self if generator is self.generator else self._with(generator, due))
        number = self.number + 1
        gap = self._gap_ns(number)
        # A late call makes the next gaps half as long until the schedule is met again.
        due = max(max(due, now - LAG_NS_MAX) + gap, now + gap // 2)
        return step, Rate(generator, self.mean_ns, self.seed, self.exponential, number, due)

    def _gap_ns(self, number: int) -> int:
        u = self.seed.unit(number)
        return int(self.mean_ns * (-log(1.0 - u) if self.exponential else 2.0 * u))

    def _with(self, generator: Generator, due_ns: int | None) -> "Rate":
        return Rate(generator, self.mean_ns, self.seed, self.exponential, self.number, due_ns)

    def update(self, context: Context, event: Op) -> Generator:
        """Told on."""
        after = self.generator.update(context, event)
        return self if after is self.generator else self._with(after, self.due_ns)


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
    return Rate(generator, 1e9 / ops_per_s, seed, gaps == "exponential")


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """Calls until a time has passed. See `time_limit`."""

    generator: Generator
    length_ns: int
    end_ns: int | None = None
    """None before the first question."""

    def op(self, context: Context) -> tuple[Step, Generator]:
        """What the generator says, while there is time."""
        end = context.time_ns + self.length_ns if self.end_ns is None else self.end_ns
        if context.time_ns >= end:
            return EXHAUSTED, self
        step, generator = self.generator.op(context)
        if isinstance(step, Pending):
            step = Pending(end if step.wake_ns is None else min(step.wake_ns, end))
        return step, TimeLimit(generator, self.length_ns, end)

    def update(self, context: Context, event: Op) -> Generator:
        """Told on."""
        after = self.generator.update(context, event)
        if after is self.generator:
            return self
        return TimeLimit(after, self.length_ns, self.end_ns)


def time_limit(generator: Generator, seconds: float) -> Generator:
    """The generator, until `seconds` after it is first asked. Calls in flight then go on."""
    return TimeLimit(generator, nanoseconds(seconds))


@dataclass(frozen=True, slots=True)
class Limit:
    """So many calls. See `limit`."""

    generator: Generator
    left: int

    def op(self, context: Context) -> tuple[Step, Generator]:
        """What the generator says, while some are left."""
        if self.left <= 0:
            return EXHAUSTED, self
        step, generator = self.generator.op(context)
        return step, Limit(generator, self.left - isinstance(step, Ready))

    def update(self, context: Context, event: Op) -> Generator:
        """Told on."""
        after = self.generator.update(context, event)
        return self if after is self.generator else Limit(after, self.left)


def limit(generator: Generator, ops: int) -> Generator:
    """The generator's first `ops` calls."""
    return Limit(generator, ops)


@dataclass(frozen=True, slots=True)
class Sleep:
    """Nothing for a time. See `sleep`."""

    length_ns: int
    end_ns: int | None = None

    def op(self, context: Context) -> tuple[Step, Generator]:
        """Pending, then Exhausted."""
        end = context.time_ns + self.length_ns if self.end_ns is None else self.end_ns
        if context.time_ns >= end:
            return EXHAUSTED, self
        return Pending(end), (self if self.end_ns is not None else Sleep(self.length_ns, end))

    def update(self, context: Context, event: Op) -> Generator:  # noqa: ARG002
        """Looks at nothing."""
        return self


def sleep(seconds: float) -> Generator:
    """No call, for `seconds` from when it is first asked: a pause between phases."""
    return Sleep(nanoseconds(seconds))
