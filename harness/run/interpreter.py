"""The interpreter on the wall clock: a thread for each worker, and one for the nemesis.

Workers take calls from the scheduler themselves, under one lock. No thread hands out work, so a
call costs one turn of the lock. A worker that finds nothing to do sleeps on its own condition.
One sleeper, the watch, wakes at the time that the generator waits for. A worker that takes a call
while there is no watch, or while other clients' workers sleep, wakes the one that has slept
longest, which polls in turn. So no thread polls in a loop, and one event wakes one thread.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TypeAlias

from harness.core.clock import Clock
from harness.core.errors import HarnessError
from harness.core.op import Done, Kind, Op
from harness.core.protocols import Client, Exhausted, Generator, Worker
from harness.generators.steps import NEMESIS_NUMBER
from harness.native.generators import Assigned, Scheduler
from harness.run.call_ends import HarnessIssues, checked_end


@dataclass(frozen=True, slots=True)
class Limits:
    """Times after which a call is ended as info and its thread is abandoned."""

    call_s: float = 120.0
    """Limit of a client's call, at any time. Well above the client's own timeout: a call that
    exceeds it costs a thread."""
    fault_s: float = 300.0
    """Limit of a call of the nemesis, at any time."""
    grace_s: float = 15.0
    """Limit of a client's call that is in flight when the generator is exhausted, from then on."""
    stop_s: float = 2.0
    """Limit of a client's call that is in flight when the run is stopped, from then on."""
    fault_grace_s: float = 30.0
    """Limit of a call of the nemesis that is in flight in either case. Longer, because the healing
    follows, and a fault that goes on in an abandoned thread may undo it."""


Around: TypeAlias = Callable[[Op], AbstractContextManager[None]]
"""Returns the block in which a client makes a call."""

__all__ = ["HarnessIssues", "Limits", "Scheduler", "run_threads", "workers_on"]

SUPERVISION_S = 0.05
"""Interval at which the caller's thread looks for a stop and for calls that hang."""

_NEVER_NS = 1 << 63


def workers_on(
    nodes: Sequence[str], concurrency: int, extra: Sequence[str] = ()
) -> tuple[Worker, ...]:
    """Return worker i on node i modulo the number of nodes; then one on each of `extra`, such as
    nodes that only final reads go to; and the nemesis, last."""
    if concurrency < 1 or not nodes:
        raise HarnessError(
            f"{concurrency} workers on {len(nodes)} nodes given, at least one of each expected"
        )
    homes = [*(nodes[i % len(nodes)] for i in range(concurrency)), *extra]
    clients = tuple(Worker(i, i, node) for i, node in enumerate(homes))
    return (*clients, Worker(NEMESIS_NUMBER, NEMESIS_NUMBER, ""))


def run_threads(
    scheduler: Scheduler,
    generator: Generator,
    *,
    client: Callable[[str], Client],
    nemesis: Callable[[Op], Done] | None,
    clock: Clock,
    stop: threading.Event,
    limits: Limits | None = None,
    issues: HarnessIssues | None = None,
    around: Around = lambda _: nullcontext(),
) -> HarnessIssues:
    """Run a generator until it is exhausted and every call has ended, or `stop` is set.

    `client(node)` opens a client. Each worker has one, opens another after an info, and closes it
    at the end. `around` returns the block in which a client makes a call.
    `nemesis` injects a fault; without one every fault is info. A worker whose call
    hangs past a limit is replaced by a fresh thread, and what the old thread returns is dropped.

    An exception of the sink or of the generator, and KeyboardInterrupt, ends the run and is raised
    here. In every case each call in the history has an end. Returns `issues` (a fresh one when none
    is given), added to.
    """
    run = _ThreadedRun(
        scheduler, client, nemesis, clock, limits or Limits(), issues or HarnessIssues(), around
    )
    scheduler.follow(generator)
    run.supervise(stop)
    return run.issues


class _WorkerSlot:
    """The state of one worker: its thread, and the call that waits for the thread."""

    def __init__(self, number: int, lock: threading.Lock) -> None:
        self.number = number
        self.wake = threading.Condition(lock)
        self.assigned: Assigned | None = None
        """A call that another worker's poll began for this one."""
        self.thread: threading.Thread | None = None
        """Thread of the worker; None once it was abandoned."""


class _ThreadedRun:
    """The state that the threads share. The lock guards all of it; calls are made without it."""

    def __init__(
        self,
        scheduler: Scheduler,
        client: Callable[[str], Client],
        nemesis: Callable[[Op], Done] | None,
        clock: Clock,
        limits: Limits,
        issues: HarnessIssues,
        around: Around,
    ) -> None:
        self.issues = issues
        self._around = around
        self._scheduler = scheduler
        self._open = client
        self._nemesis = nemesis
        self._clock = clock
        self._limits = limits
        self._lock = threading.Lock()
        self._left = threading.Condition(self._lock)
        self._slots = {w.number: _WorkerSlot(w.number, self._lock) for w in scheduler.workers}
        self._threads: list[threading.Thread] = []
        self._asleep: dict[int, _WorkerSlot] = {}
        """Sleeping clients' workers; the one that has slept longest comes first."""
        self._nemesis_asleep: dict[int, _WorkerSlot] = {}
        self._watch: _WorkerSlot | None = None
        self._watch_ns = _NEVER_NS
        self._deadline_ns: int | None = None
        """The time by which clients' calls in flight must end; set when no more calls begin."""
        self._fault_deadline_ns = 0
        self._failure: BaseException | None = None

    # --- the caller's thread ------------------------------------------------------------------

    def supervise(self, stop: threading.Event) -> None:
        """Start the workers, and return when all threads have left."""
        try:
            with self._lock:
                for slot in self._slots.values():
                    self._start_thread(slot)
                while any(slot.thread for slot in self._slots.values()):
                    if stop.is_set():
                        self._end(self._limits.stop_s)
                    self._abandon_hanging()
                    self._left.wait(SUPERVISION_S)
        except BaseException as error:
            with self._lock:
                self._fail(error)
                for slot in self._slots.values():
                    self._abandon(slot, "the run was interrupted")
        self._join()
        if self._failure is not None:
            raise self._failure

    def _start_thread(self, slot: _WorkerSlot) -> None:
        name = "nemesis" if slot.number == NEMESIS_NUMBER else f"worker-{slot.number}"
        slot.thread = threading.Thread(target=self._work, args=(slot,), name=name, daemon=True)
        self._threads.append(slot.thread)
        slot.thread.start()

    def _abandon_hanging(self) -> None:
        now_ns = self._clock.now_ns()
        for slot in self._slots.values():
            call = self._scheduler.call_of(slot.number)
            if call is None:
                continue
            limit_s, deadline_ns = self._limits.call_s, self._deadline_ns
            if slot.number == NEMESIS_NUMBER:
                limit_s = self._limits.fault_s
                deadline_ns = None if deadline_ns is None else self._fault_deadline_ns
            if now_ns - call.time_ns > limit_s * 1e9:
                self._abandon(slot, f"no end after {limit_s:g} s")
            elif deadline_ns is not None and now_ns >= deadline_ns:
                self._abandon(slot, "no end when the run was over")

    def _abandon(self, slot: _WorkerSlot, why: str) -> None:
        """End the worker's call, if it has one, and start a fresh thread for the worker if there is
        more to do."""
        thread, slot.thread, slot.assigned = slot.thread, None, None
        call = self._scheduler.call_of(slot.number)
        if call is None:
            return
        self.issues.abandoned.append((call, why))
        if thread is not None:
            self._threads.remove(thread)
        try:
            done = Done(Kind.INFO, error=f"HARNESS: {why}")
            self._scheduler.complete(slot.number, done, self._clock.now_ns())
        except BaseException as error:  # a sink that fails must not keep the run from ending
            self._fail(error)
        if self._deadline_ns is None:
            self._start_thread(slot)

    def _end(self, patience_s: float) -> None:
        """Begin no more calls; those in flight have this long. The shortest patience counts."""
        now_ns = self._clock.now_ns()
        deadline_ns = now_ns + round(patience_s * 1e9)
        if self._deadline_ns is None:
            self._deadline_ns = deadline_ns
            self._fault_deadline_ns = now_ns + round(self._limits.fault_grace_s * 1e9)
        self._deadline_ns = min(deadline_ns, self._deadline_ns)
        for slot in self._slots.values():
            slot.wake.notify()

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self._end(self._limits.stop_s)

    def _join(self) -> None:
        """Wait a limited time for clients to be closed, but not for threads that hang."""
        until_ns = self._clock.now_ns() + round(self._limits.stop_s * 1e9)
        for thread in self._threads:
            thread.join(max(0.0, (until_ns - self._clock.now_ns()) / 1e9))

    # --- the workers' threads -----------------------------------------------------------------

    def _work(self, slot: _WorkerSlot) -> None:
        me = threading.current_thread()
        client: Client | None = None
        assigned = self._next(slot, me, None)
        while assigned is not None:
            if slot.number == NEMESIS_NUMBER:
                done = self._fault(assigned.op)
            else:
                done, client = self._call(assigned, client)
            assigned = self._next(slot, me, done)
        if client is not None:
            self._close(client)

    def _call(self, assigned: Assigned, client: Client | None) -> tuple[Done, Client | None]:
        """Make the call. Return its end, and the client if it can go on."""
        try:
            if client is None:
                client = self._open(assigned.worker.node)
            with self._around(assigned.op):
                done = checked_end(client.invoke(assigned.op), assigned.op, client)
        except BaseException as error:  # whatever it is, it would end this thread alone
            done = self._bug(error)
        if done.kind is Kind.INFO and client is not None:
            self._close(client)
            client = None
        return done, client

    def _fault(self, op: Op) -> Done:
        if self._nemesis is None:
            return Done(Kind.INFO, error=f"no nemesis takes {op.f}")
        try:
            return checked_end(self._nemesis(op), op)
        except BaseException as error:
            return self._bug(error)

    def _close(self, client: Client) -> None:
        try:
            client.close()
        except BaseException as error:
            self._bug(error)

    def _bug(self, error: BaseException) -> Done:
        with self._lock:
            return self.issues.bug(error)

    def _next(self, slot: _WorkerSlot, me: threading.Thread, done: Done | None) -> Assigned | None:
        """Record the end of the last call and wait for the next; None: the thread must leave."""
        with self._lock:
            if slot.thread is not me:
                return None  # The call was ended without this thread: its result is too late.
            assigned = None
            try:
                if done is not None:
                    self._scheduler.complete(slot.number, done, self._clock.now_ns())
                assigned = self._take(slot)
            except BaseException as error:
                self._fail(error)
            if assigned is None and slot.thread is me:
                slot.thread = None
                self._left.notify()
            return assigned

    def _take(self, slot: _WorkerSlot) -> Assigned | None:
        while True:
            if slot.assigned is not None:
                assigned, slot.assigned = slot.assigned, None
                self._wake_next()
                return assigned
            if self._deadline_ns is not None:
                return None
            now_ns = self._clock.now_ns()
            step = self._scheduler.poll(now_ns, slot.number)
            if isinstance(step, Assigned):
                if step.worker.number == slot.number:
                    self._wake_next()
                    return step
                other = self._slots[step.worker.number]
                other.assigned = step
                other.wake.notify()
            elif isinstance(step, Exhausted):
                self._end(self._limits.grace_s)
            else:
                self._sleep(slot, now_ns, step.wake_ns)

    def _sleep(self, slot: _WorkerSlot, now_ns: int, wake_ns: int | None) -> None:
        until_ns = _NEVER_NS if wake_ns is None else wake_ns
        timeout_s = None
        if self._watch is None or until_ns < self._watch_ns:
            self._watch, self._watch_ns = slot, until_ns
            timeout_s = None if wake_ns is None else max(0, wake_ns - now_ns) / 1e9
        sleepers = self._nemesis_asleep if slot.number == NEMESIS_NUMBER else self._asleep
        sleepers[slot.number] = slot
        slot.wake.wait(timeout_s)
        sleepers.pop(slot.number, None)
        if self._watch is slot:
            self._watch = None

    def _wake_next(self) -> None:
        """Wake a sleeper after a call was taken: there may be one more, and there must be a watch.

        A nemesis that sleeps as the watch is left alone: every client that ends a call polls for
        it.
        """
        if self._asleep:
            sleepers = self._asleep
        elif self._watch is None and self._nemesis_asleep:
            sleepers = self._nemesis_asleep
        else:
            return
        # Taken off the list, so that the next call that is taken wakes another.
        chosen = sleepers.pop(next(iter(sleepers)))
        if self._watch is None:
            # It is the watch already, before it knows until when: otherwise the worker that wakes
            # it, done with a quick call, would be the watch again and take every call itself.
            self._watch, self._watch_ns = chosen, 0
        chosen.wake.notify()
