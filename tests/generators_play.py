"""Plays a generator on virtual time, so that a test can look at what came out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Protocol

from harness.core.history import History
from harness.core.op import NEMESIS, Call, Done, Kind, Op
from harness.core.protocols import Context, Generator, Pending, Worker
from harness.core.seed import Seed
from harness.generators import (
    mix,
    numbered,
    on_clients,
    on_nemesis,
    per_key,
    rate,
    time_limit,
    together,
)
from harness.native.generators import Assigned, Scheduler
from harness.run.interpreter import workers_on
from nemesis.options import FaultOptions
from nemesis.schedule import Schedule, Track, schedule

MS = 1_000_000
SECOND = 1_000_000_000

NODES = ("ch1", "ch2", "ch3")


class VirtualClient(Protocol):
    """A client that knows when its call will end."""

    def start(self, op: Op, now_ns: int) -> tuple[Done, int]:
        """Return how the call ends, and when, at or after `now_ns`."""
        ...


def run_virtual(
    scheduler: Scheduler,
    generator: Generator,
    *,
    client: Callable[[str], VirtualClient],
    nemesis: VirtualClient | None = None,
    start_ns: int = 0,
) -> int:
    """Drive the scheduler until the generator is exhausted and every call has ended. Return the
    time then. Ends come before calls of the same time, and in the order of their calls."""
    clients: dict[int, VirtualClient] = {} if nemesis is None else {-1: nemesis}
    ends: list[tuple[int, int, int, Done]] = []
    now_ns = start_ns
    scheduler.follow(generator)
    while True:
        while ends and ends[0][0] <= now_ns:
            _, _, number, done = heappop(ends)
            scheduler.complete(number, done, now_ns)
            if done.kind is Kind.INFO and number >= 0:
                clients.pop(number, None)
        step = scheduler.poll(now_ns)
        if isinstance(step, Assigned):
            number = step.worker.number
            if number not in clients:
                clients[number] = client(step.worker.node)
            done, end_ns = clients[number].start(step.op, now_ns)
            heappush(ends, (end_ns, step.op.index, number, done))
            continue
        times = [ends[0][0]] if ends else []
        if isinstance(step, Pending) and step.wake_ns is not None:
            times.append(step.wake_ns)
        if not times:
            return now_ns
        now_ns = min(times)


@dataclass
class Scripted:
    """Every call takes `latency_ns` and ends as ok, unless the script of its f and node says
    otherwise, call by call."""

    latency_ns: int = 10 * MS
    script: Mapping[tuple[str, str | None], list[Kind]] = field(default_factory=dict)

    def start(self, op: Op, now_ns: int) -> tuple[Done, int]:
        kinds = self.script.get((op.f, op.node)) or [Kind.OK]
        kind = kinds.pop(0) if (op.f, op.node) in self.script else Kind.OK
        error = None if kind is Kind.OK else "scripted"
        return Done(kind, error=error), now_ns + self.latency_ns


@dataclass
class Flaky:
    """Latency and outcome are drawn from the seed and the op's index."""

    seed: Seed

    def start(self, op: Op, now_ns: int) -> tuple[Done, int]:
        end_ns = now_ns + self.seed.below(op.index, 40 * MS)
        if op.process == "nemesis":
            return Done(Kind.OK), end_ns
        kind = self.seed.child("kind").choice(op.index, [Kind.OK] * 8 + [Kind.FAIL, Kind.INFO])
        return Done(kind, error=None if kind is Kind.OK else "drawn"), end_ns


def play(
    generator: Generator,
    *,
    workers: int = 3,
    latency_ns: int = 10 * MS,
    client: Scripted | None = None,
) -> History:
    """Execute the generator until it is exhausted and every call has ended. History checks the
    rules."""
    ops: list[Op] = []
    world = client or Scripted(latency_ns)
    run_virtual(
        Scheduler(workers_on(NODES, workers), ops.append),
        generator,
        client=lambda _: world,
        nemesis=world,
    )
    return History(ops)


def calls(history: History) -> list[Call]:
    """Return the calls that clients were given, in order."""
    return [Call(f=i.f, value=i.value, key=i.key) for i in invocations(history)]


def invocations(history: History, process: str = "clients") -> list[Op]:
    """Return the invocations of clients, or of the nemesis."""
    return [
        op
        for op in history
        if op.kind is Kind.INVOKE and (op.process == NEMESIS) == (process == "nemesis")
    ]


def context(time_ns: int = 0, free: int = 3, busy: int = 0) -> Context:
    """Return a context with this many free workers, followed by this many busy ones, and the free
    nemesis."""
    every = [Worker(i, i, NODES[i % 3]) for i in range(free + busy)]
    return Context(time_ns, (*every[:free], Worker(-1, -1, "")), tuple(every[free:]))


def cuts(interval_s: float, duration_s: float) -> Schedule:
    """Return a schedule that repeats the same cut without jitter."""
    track = Track("cut", once=False, plan=lambda *_: {"name": "cut", "text": "{ch1 | ch2 ch3}"})
    options = FaultOptions(interval_s=interval_s, duration_s=duration_s, jitter=0)
    return schedule([track], Seed(1), options)


def read(value: int | None = None, key: int | None = None) -> Call:
    return Call(f="read", value=value, key=key)


def write(value: int | None = None, key: int | None = None) -> Call:
    return Call(f="write", value=value, key=key)


def main_job(seed: Seed) -> Generator:
    def one_key(key: int) -> Generator:
        reads = numbered(lambda _: read())
        return mix(seed.child("mix", key), [(1, numbered(lambda n: write(n))), (1, reads)])

    keys = per_key(seed.child("keys"), one_key, keys=3, ops_per_key=30)
    clients = on_clients(rate(keys, 300, seed.child("rate")))
    return time_limit(together(clients, on_nemesis(cuts(1, 1))), 10)
