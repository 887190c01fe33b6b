"""Calls of which only a few may be in flight at a time, beside others."""

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from harness.core.op import Call, Op, Process
from harness.core.protocols import Context, Generator, Pending, Ready, Step
from harness.core.seed import Seed


class Few(msgspec.Struct, frozen=True):
    """`make(0)`, `make(1)`, … without end, at most `most` in flight, `pause_ns` after one has
    ended, on workers that the seed draws."""

    make: Callable[[int], Call]
    most: int
    pause_ns: int
    seed: Seed
    number: int = 0
    due_ns: int = 0
    in_flight: frozenset[Process] = frozenset()

    def op(self, context: Context) -> tuple[Step, Generator]:
        """The next call, if it is due and there is room."""
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
        """Learns which have ended."""
        if event.process not in self.in_flight:
            return self
        in_flight = self.in_flight - {event.process}
        return replace(self, in_flight=in_flight, due_ns=event.time_ns + self.pause_ns)
