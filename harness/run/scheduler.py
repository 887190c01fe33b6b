"""The core of both interpreters: which worker does what next, and what the history says of it.

A state machine without threads, clocks or I/O. The caller says what time it is and what has
ended; the scheduler asks the generator, numbers ops and processes, and hands every op to a sink
in the order of the history. It outlives generators, so that the phases of one run make one
history. The caller must not use it from two threads at once.
"""

from collections.abc import Callable, Sequence

import msgspec

from harness.core.errors import HarnessError
from harness.core.op import NEMESIS, Call, Done, Kind, Op
from harness.core.protocols import ANY_NODE, Context, Exhausted, Generator, Pending, Ready, Worker
from harness.generators.steps import NEMESIS_NUMBER, listens
from harness.run.live import Live

__all__ = ["NEMESIS_NUMBER", "Assigned", "Place", "Scheduler", "workers_on"]


class Assigned(msgspec.Struct, frozen=True):
    """A call that was given to a worker and is in flight from now on."""

    op: Op
    worker: Worker


class Place(msgspec.Struct, frozen=True):
    """How far a history has come."""

    index: int
    """Of the next op."""
    time_ns: int
    """Of the last op."""
    free: tuple[Worker, ...]
    """The one free for longest first."""
    busy: tuple[Worker, ...]


def workers_on(
    nodes: Sequence[str], concurrency: int, extra: Sequence[str] = ()
) -> tuple[Worker, ...]:
    """Worker i on node i modulo the number of nodes; then one on each of `extra`, such as nodes
    that only final reads go to; and the nemesis, last."""
    if concurrency < 1 or not nodes:
        raise HarnessError(
            f"{concurrency} workers on {len(nodes)} nodes given, at least one of each expected"
        )
    homes = [*(nodes[i % len(nodes)] for i in range(concurrency)), *extra]
    clients = tuple(Worker(i, i, node) for i, node in enumerate(homes))
    return (*clients, Worker(NEMESIS_NUMBER, NEMESIS_NUMBER, ""))


class Scheduler:
    """One history in the making.

    Every op goes to `sink`, which must not raise lightly: what it raises ends the run.
    """

    def __init__(
        self, workers: Sequence[Worker], sink: Callable[[Op], None], live: Live | None = None
    ) -> None:
        self.live = live or Live()
        self._sink = sink
        self._clients = sum(worker.number >= 0 for worker in workers)
        # Both by number and in order of becoming so: the one free for longest comes first.
        self._free = {worker.number: worker for worker in workers}
        self._busy: dict[int, Worker] = {}
        self._shown: tuple[tuple[Worker, ...], tuple[Worker, ...]] = ((), ())
        """The same as generators see them."""
        self._moved()
        self._calls: dict[int, Op] = {}
        self._index = 0
        self._time_ns = 0
        self._generator: Generator | None = None
        self._told = False
        """Whether the generator looks at events."""
        self._quiet = Pending(0, firm=True)
        """What the generator said last, if that was a firm wait."""

    @property
    def workers(self) -> tuple[Worker, ...]:
        """All of them, by number; the nemesis first."""
        every = {**self._free, **self._busy}
        return tuple(every[number] for number in sorted(every))

    @property
    def in_flight(self) -> tuple[Op, ...]:
        """The calls without an end, oldest first."""
        return tuple(self._calls.values())

    @property
    def time_ns(self) -> int:
        """Of the last op."""
        return self._time_ns

    def call_of(self, number: int) -> Op | None:
        """The worker's call in flight."""
        return self._calls.get(number)

    def lend(self) -> Place:
        """How far the history has come, for somebody who goes on with it."""
        assert not self._busy, "nothing is in flight between two generators"
        return Place(self._index, self._time_ns, tuple(self._free.values()), ())

    def take_back(self, place: Place) -> None:
        """The history has come so far."""
        self._index, self._time_ns = place.index, place.time_ns
        self._free = {worker.number: worker for worker in place.free}
        self._busy = {worker.number: worker for worker in place.busy}
        self._moved()

    @property
    def generator(self) -> Generator:
        """The generator that is followed, as it is now."""
        assert self._generator is not None, "follow a generator first"
        return self._generator

    def follow(self, generator: Generator) -> None:
        """From now on the calls are this generator's; the history goes on."""
        self._generator = generator
        self._told = listens(generator)
        self._quiet = Pending(0, firm=True)

    def poll(self, now_ns: int, prefer: int | None = None) -> Assigned | Pending | Exhausted:
        """What to do at `now_ns`; `prefer` is the number of the worker that asks, if it is free.

        Exhausted: no calls any more; some may be in flight still. Raises HarnessError when the
        generator waits for an end although nothing is in flight, and when it gives a call to a
        worker that is not free.
        """
        assert self._generator is not None, "follow a generator first"
        if now_ns < (self._quiet.wake_ns or 0):
            return self._quiet
        step, generator = self._generator.op(self._context(now_ns, prefer))
        self._generator = generator
        if isinstance(step, Ready):
            op = self.begin(step.worker.number, step.call, now_ns)
            return Assigned(op, step.worker)
        if isinstance(step, Pending) and step.firm:
            self._quiet = step
        if isinstance(step, Pending) and step.wake_ns is None and not self._busy:
            raise HarnessError(
                "the generator waits for a call to end, but none is in flight: it would wait "
                f"for ever; see its {type(generator).__name__}"
            )
        return step

    def begin(self, number: int, call: Call, now_ns: int) -> Op:
        """Puts a call into the history, in flight on a free worker. `poll` does; also for calls
        that no generator made, such as the healing after a run."""
        worker = self._free.pop(number, None)
        if worker is None:
            raise HarnessError(f"call {call.f} for worker {number}, which is not free")
        self._busy[number] = worker
        self._moved()
        is_fault = number == NEMESIS_NUMBER
        roams = worker.node == ANY_NODE
        assert not roams or call.node, f"call {call.f} of a worker that roams names no node"
        op = Op(
            index=self._index,
            process=NEMESIS if is_fault else worker.process,
            kind=Kind.INVOKE,
            f=call.f,
            time_ns=self._advance(now_ns),
            value=call.value,
            key=call.key,
            node=call.node if is_fault or roams else worker.node,
        )
        self._calls[number] = op
        self._emit(op)
        return op

    def complete(self, number: int, done: Done, now_ns: int) -> Op:
        """Puts the end of a worker's call into the history, and frees the worker.

        An end without a value has its call's. An info retires a client's process: the worker
        goes on as process + number of clients.
        """
        call = self._calls.pop(number)
        assert done.kind is not Kind.INVOKE, "a call ends as ok, fail or info"
        op = Op(
            index=self._index,
            process=call.process,
            kind=done.kind,
            f=call.f,
            time_ns=self._advance(now_ns),
            value=call.value if done.value is None else done.value,
            key=call.key,
            node=call.node,
            error=done.error,
        )
        worker = self._busy.pop(number)
        if done.kind is Kind.INFO and number != NEMESIS_NUMBER:
            worker = Worker(number, worker.process + self._clients, worker.node)
        self._free[number] = worker
        if number != NEMESIS_NUMBER and NEMESIS_NUMBER in self._free:
            # Last, so that a client's call finds a client's worker first.
            self._free[NEMESIS_NUMBER] = self._free.pop(NEMESIS_NUMBER)
        self._moved()
        self._emit(op)
        if self._told and self._generator is not None:
            self._generator = self._generator.update(self._context(op.time_ns, None), op)
        return op

    def _moved(self) -> None:
        self._shown = tuple(self._free.values()), tuple(self._busy.values())

    def _advance(self, now_ns: int) -> int:
        if now_ns > self._time_ns:
            self._time_ns = now_ns
        return self._time_ns

    def _emit(self, op: Op) -> None:
        self._index += 1
        self._sink(op)
        self.live.saw(op)

    def _context(self, now_ns: int, prefer: int | None) -> Context:
        free, busy = self._shown
        if prefer is not None and prefer in self._free and free[0].number != prefer:
            first = self._free[prefer]
            free = (first, *[worker for worker in free if worker is not first])
        return Context(now_ns, free, busy)
