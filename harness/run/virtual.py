"""The interpreter on virtual time: no threads, no waiting, the same history every time."""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Protocol

from harness.core.op import Done, Kind, Op
from harness.core.protocols import Exhausted, Generator, Pending
from harness.run.scheduler import NEMESIS_NUMBER, Assigned, Scheduler


class VirtualClient(Protocol):
    """A client that knows when its call will end."""

    def start(self, op: Op, now_ns: int) -> tuple[Done, int]:
        """How the call ends, and when, at or after `now_ns`."""
        ...


def run_virtual(
    scheduler: Scheduler,
    generator: Generator,
    *,
    client: Callable[[str], VirtualClient],
    nemesis: VirtualClient | None = None,
    start_ns: int = 0,
) -> int:
    """Runs a generator until it is exhausted and every call has ended. Returns the time then.

    `client(node)` opens a client, one for each process, as for real servers. Ends come before
    calls of the same time, and in the order in which their calls were made: the same generator
    and clients make the same history, byte for byte.
    """
    clients: dict[int, VirtualClient] = {}
    ends: list[tuple[int, int, int, Done]] = []
    now_ns = start_ns
    scheduler.follow(generator)
    while True:
        while ends and ends[0][0] <= now_ns:
            _, _, number, done = heappop(ends)
            scheduler.complete(number, done, now_ns)
            if done.kind is Kind.INFO:
                clients.pop(number, None)
        step: Assigned | Pending | Exhausted = scheduler.poll(now_ns)
        if isinstance(step, Assigned):
            number = step.worker.number
            if number == NEMESIS_NUMBER:
                done, end_ns = _fault(nemesis, step.op, now_ns)
            else:
                if number not in clients:
                    clients[number] = client(step.worker.node)
                done, end_ns = clients[number].start(step.op, now_ns)
            assert end_ns >= now_ns, "a call cannot end before it began"
            heappush(ends, (end_ns, step.op.index, number, done))
            continue
        times = [ends[0][0]] if ends else []
        if isinstance(step, Pending) and step.wake_ns is not None:
            assert step.wake_ns > now_ns, "a wait must end later than now"
            times.append(step.wake_ns)
        if not times:
            return now_ns
        now_ns = min(times)


def _fault(nemesis: VirtualClient | None, op: Op, now_ns: int) -> tuple[Done, int]:
    if nemesis is None:
        return Done(Kind.INFO, error=f"no nemesis takes {op.f}"), now_ns
    return nemesis.start(op, now_ns)
