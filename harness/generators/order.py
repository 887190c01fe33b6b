"""One generator after the other: phases, rounds, and calls repeated until they succeed."""

from collections.abc import Callable, Iterable, Sequence

import msgspec
from msgspec.structs import replace

from harness.core.errors import UsageError
from harness.core.op import Call, Op
from harness.core.protocols import Context, Exhausted, Generator, Step
from harness.generators.steps import EXHAUSTED, PENDING, listens, nanoseconds
from harness.generators.workers import each_node
from harness.native.simulator import Combinator

FINAL_TRIES = 20
"""Number of tries of a final read, half a second apart: a replica that answers none is not at
rest."""


def phases(*generators: Generator) -> Generator:
    """Return phases: each begins when the one before is exhausted and its calls have ended."""
    return Combinator.phases(generators)


class Cycle(msgspec.Struct, frozen=True):
    """Rounds without end. See `cycle`."""

    make: Callable[[int], Generator]
    listens: bool
    number: int = 0
    """Number of the next round."""
    round: Generator | None = None

    def op(self, context: Context) -> tuple[Step, Generator]:
        """Return the step of the current round."""
        if self.round is not None:
            step, generator = self.round.op(context)
            if not isinstance(step, Exhausted):
                if generator is self.round:
                    return step, self
                return step, replace(self, round=generator)
        if context.busy:
            return PENDING, (self if self.round is None else replace(self, round=None))
        fresh = self.make(self.number)
        if listens(fresh) and not self.listens:
            raise UsageError(
                f"cycle: round {self.number} looks at events and round 0 does not; expected the "
                "same kind of generator for every round"
            )
        step, generator = fresh.op(context)
        if isinstance(step, Exhausted):
            raise UsageError(f"cycle: round {self.number} has no call and no pause; it would spin")
        return step, Cycle(self.make, self.listens, self.number + 1, generator)

    def update(self, context: Context, event: Op) -> Generator:
        """Pass the event to the current round."""
        if self.round is None:
            return self
        after = self.round.update(context, event)
        return self if after is self.round else replace(self, round=after)


def cycle(make: Callable[[int], Generator]) -> Generator:
    """Return endless rounds `make(0)`, `make(1)`, …: each begins when the one before is exhausted
    and its calls have ended. `make` must be pure. A round with nothing at all raises UsageError."""
    return Cycle(make, listens(make(0)))


def until_ok(calls: Iterable[Call], *, tries: int, pause_s: float = 0.5) -> Generator:
    """Return a generator that repeats each call until it ends ok, at most `tries` times and
    `pause_s` after it failed, on all free workers. It is exhausted when every call was ok or
    was given up; the history shows which.

    Only for calls that may be repeated: reads, and faults that heal.
    """
    if tries < 1:
        raise UsageError(f"until_ok: {tries} tries given, at least 1 expected")
    return Combinator.until_ok(list(calls), tries, nanoseconds(pause_s))


class StopWhen(msgspec.Struct, frozen=True):
    """A generator that stops at an awaited end. See `stop_when`."""

    generator: Generator
    seen: Callable[[Op], bool]
    over: bool = False

    def op(self, context: Context) -> tuple[Step, Generator]:
        """Return the step of the generator until the awaited end was seen."""
        if self.over:
            return EXHAUSTED, self
        step, generator = self.generator.op(context)
        return step, (self if generator is self.generator else replace(self, generator=generator))

    def update(self, context: Context, event: Op) -> Generator:
        """Look at how a call ended, and pass the event on."""
        if self.over or self.seen(event):
            return self if self.over else replace(self, over=True)
        after = self.generator.update(context, event)
        return self if after is self.generator else replace(self, generator=after)


def stop_when(seen: Callable[[Op], bool], generator: Generator) -> Generator:
    """Return the generator until a call has ended for which `seen`, a pure function, holds.

    `seen` is asked about every call that ends meanwhile, whoever made it. Calls in flight go on."""
    return StopWhen(generator, seen)


def final_reads_on(calls: Iterable[Call], nodes: Sequence[str], *, rounds: int = 1) -> Generator:
    """Return each call on each node until it is answered, `rounds` times."""
    one = each_node(until_ok(tuple(calls), tries=FINAL_TRIES), nodes)
    return phases(*(one,) * rounds)
