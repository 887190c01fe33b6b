"""One generator after the other: phases, rounds, and calls repeated until they succeed."""

from collections.abc import Callable, Iterable

import msgspec
from msgspec.structs import replace

from harness.core.errors import UsageError
from harness.core.op import NEMESIS, Call, Kind, Op, Process
from harness.core.protocols import Context, Exhausted, Generator, Pending, Ready, Step
from harness.generators.steps import (
    EXHAUSTED,
    PENDING,
    Compiled,
    assign,
    compiled,
    listen,
    listens,
    nanoseconds,
)


class Phases(msgspec.Struct, frozen=True):
    """One after the other, with a barrier between them. See `phases`."""

    left: tuple[Generator, ...]
    listens: bool
    started: bool = False
    """Whether the first of `left` was asked, the barrier before it passed."""

    def op(self, context: Context) -> tuple[Step, Generator]:
        """What the current phase says."""
        left, started = self.left, self.started
        while left:
            if not started and context.busy:
                return PENDING, (self if left is self.left else Phases(left, self.listens))
            step, generator = left[0].op(context)
            if not isinstance(step, Exhausted):
                if generator is self.left[0] and self.started:
                    return step, self
                return step, Phases((generator, *left[1:]), self.listens, started=True)
            left, started = left[1:], False
        return EXHAUSTED, Phases((), self.listens)

    def update(self, context: Context, event: Op) -> Generator:
        """Told to the current phase."""
        if not self.left:
            return self
        after = self.left[0].update(context, event)
        return self if after is self.left[0] else replace(self, left=(after, *self.left[1:]))

    def compiled(self) -> Compiled | None:
        """In Rust, before its first call."""
        return None if self.started else ("phases", tuple([compiled(part) for part in self.left]))


def phases(*generators: Generator) -> Generator:
    """Each starts when the one before is exhausted and its workers have ended their calls."""
    return Phases(generators, listen(generators))


class Cycle(msgspec.Struct, frozen=True):
    """Rounds without end. See `cycle`."""

    make: Callable[[int], Generator]
    listens: bool
    number: int = 0
    """Of the next round."""
    round: Generator | None = None

    def op(self, context: Context) -> tuple[Step, Generator]:
        """What the current round says."""
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
        """Told to the current round."""
        if self.round is None:
            return self
        after = self.round.update(context, event)
        return self if after is self.round else replace(self, round=after)


def cycle(make: Callable[[int], Generator]) -> Generator:
    """`make(0)`, then `make(1)`, …: each starts when the one before is exhausted and its workers
    have ended their calls. `make` must be pure. A round with nothing at all raises UsageError."""
    return Cycle(make, listens(make(0)))


class Try(msgspec.Struct, frozen=True):
    """A call that is to succeed."""

    call: Call
    tries: int
    """Made so far."""
    process: Process = -1
    """In flight: whose call it is."""
    due_ns: int = 0
    """Waiting: not before this."""


class UntilOk(msgspec.Struct, frozen=True):
    """Calls, each repeated until it succeeds. See `until_ok`."""

    fresh: tuple[Call, ...]
    tries_max: int
    pause_ns: int
    at: int = 0
    """The first of `fresh` that was not tried."""
    waiting: tuple[Try, ...] = ()
    in_flight: tuple[Try, ...] = ()

    def op(self, context: Context) -> tuple[Step, Generator]:
        """A call that is due again, else one not tried yet."""
        for i, entry in enumerate(self.waiting):
            if entry.due_ns <= context.time_ns:
                step = assign(entry.call, context)
                if isinstance(step, Ready):
                    waiting = (*self.waiting[:i], *self.waiting[i + 1 :])
                    return step, self._called(step, entry.tries, self.at, waiting)
        if self.at < len(self.fresh):
            step = assign(self.fresh[self.at], context)
            if isinstance(step, Ready):
                return step, self._called(step, 0, self.at + 1, self.waiting)
            return step, self
        later = [e.due_ns for e in self.waiting if e.due_ns > context.time_ns]
        if later:
            return Pending(min(later)), self
        return (PENDING if self.in_flight or self.waiting else EXHAUSTED), self

    def _called(self, step: Ready, tries: int, at: int, waiting: tuple[Try, ...]) -> "UntilOk":
        process: Process = step.worker.process if step.worker.number >= 0 else NEMESIS
        entry = Try(step.call, tries + 1, process=process)
        in_flight = (*self.in_flight, entry)
        return UntilOk(self.fresh, self.tries_max, self.pause_ns, at, waiting, in_flight)

    def update(self, context: Context, event: Op) -> Generator:  # noqa: ARG002
        """Learns how its calls ended, by the process that made them."""
        ended = [e for e in self.in_flight if e.process == event.process]
        if not ended:
            return self
        in_flight = tuple([e for e in self.in_flight if e.process != event.process])
        waiting = self.waiting
        entry = ended[0]
        if event.kind is not Kind.OK and entry.tries < self.tries_max:
            again = Try(entry.call, entry.tries, due_ns=event.time_ns + self.pause_ns)
            waiting = (*waiting, again)
        return UntilOk(self.fresh, self.tries_max, self.pause_ns, self.at, waiting, in_flight)

    def compiled(self) -> Compiled | None:
        """In Rust, before its first call, if its calls are any client's and of 64-bit numbers."""
        if self.at or not all(map(_is_plain, self.fresh)):
            return None
        calls = [(call.f, call.value, call.key) for call in self.fresh]
        return "until_ok", calls, self.tries_max, self.pause_ns


def _is_plain(call: Call) -> bool:
    value = call.value
    is_number = type(value) is int and -(2**63) <= value < 2**63
    return (value is None or is_number) and call.node is None and not call.nemesis


def until_ok(calls: Iterable[Call], *, tries: int, pause_s: float = 0.5) -> Generator:
    """Each call, again and again until it ended ok, `tries` times at most, at least `pause_s`
    after it failed. As many at a time as workers are free. Exhausted when every call was ok or
    was given up; the history tells which.

    Only for calls that may be repeated: reads, and faults that heal.
    """
    if tries < 1:
        raise UsageError(f"until_ok: {tries} tries given, at least 1 expected")
    return UntilOk(tuple(calls), tries, nanoseconds(pause_s))


class StopWhen(msgspec.Struct, frozen=True):
    """Calls until one of them ends as awaited. See `stop_when`."""

    generator: Generator
    seen: Callable[[Op], bool]
    over: bool = False

    def op(self, context: Context) -> tuple[Step, Generator]:
        """What the generator says, until the awaited end was seen."""
        if self.over:
            return EXHAUSTED, self
        step, generator = self.generator.op(context)
        return step, (self if generator is self.generator else replace(self, generator=generator))

    def update(self, context: Context, event: Op) -> Generator:
        """Learns how calls end, and passes it on."""
        if self.over or self.seen(event):
            return self if self.over else replace(self, over=True)
        after = self.generator.update(context, event)
        return self if after is self.generator else replace(self, generator=after)


def stop_when(seen: Callable[[Op], bool], generator: Generator) -> Generator:
    """The generator, until a call has ended for which `seen` holds. `seen` must be pure. It is
    asked about every call that ends meanwhile, whoever made it; calls in flight then go on."""
    return StopWhen(generator, seen)
