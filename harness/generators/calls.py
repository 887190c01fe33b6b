"""Generators that make calls themselves: all others wrap these."""

from collections.abc import Callable, Iterable

import msgspec
from msgspec.structs import replace

from harness.core.op import Call, Op, Process
from harness.core.protocols import Context, Generator, Pending, Ready, Step
from harness.core.seed import Seed
from harness.native.simulator import Combinator


def numbered(make: Callable[[int], Call]) -> Generator:
    """Return an endless generator of `make(0)`, `make(1)`, …; `make` must be pure."""
    return Combinator.numbered(make)


def repeat(call: Call) -> Generator:
    """Return a generator that repeats one call without end."""
    return numbered(lambda _: call)


def sequence(calls: Iterable[Call]) -> Generator:
    """Return a generator of each call once, in this order; no call waits for the one before."""
    return Combinator.sequence(list(calls))


def once(call: Call) -> Generator:
    """Return a generator of one call."""
    return sequence((call,))


class AtMostInFlight(msgspec.Struct, frozen=True):
    """`make(0)`, `make(1)`, … without end, at most `most` of them in flight, each at least
    `pause_ns` after one has ended, on workers that the seed draws."""

    make: Callable[[int], Call]
    most: int
    pause_ns: int
    seed: Seed
    number: int = 0
    due_ns: int = 0
    in_flight: frozenset[Process] = frozenset()

    def op(self, context: Context) -> tuple[Step, Generator]:
        """Return the next call, if it is due and fewer than `most` are in flight."""
        workers = [worker for worker in context.free if worker.number >= 0]
        if len(self.in_flight) >= self.most or not workers:
            return Pending(), self
        if context.time_ns < self.due_ns:
            return Pending(self.due_ns), self
        worker = self.seed.choice(self.number, workers)
        in_flight = self.in_flight | {worker.process}
        after = replace(self, number=self.number + 1, in_flight=in_flight)
        return Ready(self.make(self.number), worker), after

    def update(self, context: Context, event: Op) -> Generator:  # noqa: ARG002
        """Learn which calls have ended."""
        if event.process not in self.in_flight:
            return self
        in_flight = self.in_flight - {event.process}
        return replace(self, in_flight=in_flight, due_ns=event.time_ns + self.pause_ns)
