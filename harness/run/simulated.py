"""The interpreter for a cluster with a time of its own: tasks in place of threads.

The same clients and the same nemesis as on the wall clock. A call is a task of the simulated
world; while it waits the world goes on, and other calls with it.
"""

import threading
import traceback
from collections.abc import Callable
from functools import partial

from harness.core.op import Done, Kind, Op
from harness.core.protocols import Client, Exhausted, Generator, KeepsTime, Pending
from harness.run.limits import Trouble
from harness.run.scheduler import NEMESIS_NUMBER, Assigned, Scheduler


def run_tasks(
    scheduler: Scheduler,
    generator: Generator,
    *,
    cluster: KeepsTime,
    client: Callable[[str], Client],
    nemesis: Callable[[Op], Done] | None,
    now_ns: Callable[[], int],
    stop: threading.Event,
    trouble: Trouble,
) -> None:
    """Runs a generator until it is exhausted and every call has ended, or `stop` is set.

    Every call ends: clients give up, and faults wait for their effect only so long, on the
    world's time. `now_ns` is the run's time.
    """
    run = _Run(scheduler, cluster, client, nemesis, now_ns, stop, trouble)
    scheduler.follow(generator)
    cluster.call_at(0, run.pump)
    cluster.run_until(run.over)


class _Run:
    def __init__(
        self,
        scheduler: Scheduler,
        cluster: KeepsTime,
        client: Callable[[str], Client],
        nemesis: Callable[[Op], Done] | None,
        now_ns: Callable[[], int],
        stop: threading.Event,
        trouble: Trouble,
    ) -> None:
        self._scheduler = scheduler
        self._cluster = cluster
        self._open = client
        self._nemesis = nemesis
        self._now_ns = now_ns
        self._stop = stop
        self._trouble = trouble
        self._clients: dict[int, Client] = {}
        self._in_flight = 0
        self._exhausted = False
        self._wake_ns: int | None = None

    def over(self) -> bool:
        """Nothing is in flight and nothing will come."""
        return self._exhausted and not self._in_flight

    def pump(self) -> None:
        """Takes every call that there is now."""
        if self._stop.is_set():
            self._exhausted = True
        now_ns = self._now_ns()
        while not self._exhausted:
            step = self._scheduler.poll(now_ns)
            if isinstance(step, Assigned):
                self._in_flight += 1
                self._cluster.spawn(partial(self._call, step))
                continue
            if isinstance(step, Exhausted):
                self._exhausted = True
            elif isinstance(step, Pending) and step.wake_ns is not None:
                self._wake_at(step.wake_ns, now_ns)
            return

    def _wake_at(self, wake_ns: int, now_ns: int) -> None:
        assert wake_ns > now_ns, "a wait must end later than now"
        if self._wake_ns is None or self._wake_ns <= now_ns or wake_ns < self._wake_ns:
            self._wake_ns = wake_ns
            self._cluster.call_at(wake_ns - now_ns, self.pump)

    def _call(self, assigned: Assigned) -> None:
        number = assigned.worker.number
        try:
            done = self._done(number, assigned)
        except Exception as error:
            self._trouble.bugs += 1
            told = "".join(traceback.format_exception(error))
            self._trouble.first = self._trouble.first or told
            done = Done(Kind.INFO, error=f"{type(error).__name__}: {error}")
        self._in_flight -= 1
        self._scheduler.complete(number, done, self._now_ns())
        if done.kind is Kind.INFO and number != NEMESIS_NUMBER:
            self._clients.pop(number).close()
        self.pump()

    def _done(self, number: int, assigned: Assigned) -> Done:
        if number == NEMESIS_NUMBER:
            if self._nemesis is None:
                return Done(Kind.INFO, error=f"no nemesis takes {assigned.op.f}")
            return self._nemesis(assigned.op)
        client = self._clients.get(number)
        if client is None:
            client = self._clients[number] = self._open(assigned.worker.node)
        return client.invoke(assigned.op)
