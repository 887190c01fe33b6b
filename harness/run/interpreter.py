"""The interpreter on the wall clock: a thread for each worker, and one for the nemesis.

Workers take calls from the scheduler themselves, under one lock: no thread hands out work, so a
call costs one turn of the lock. A worker that finds nothing to do sleeps on a condition of its
own. One sleeper, the watch, wakes at the time that the generator waits for. A worker that takes
a call while nobody watches, or while other clients' workers sleep, wakes the one that has slept
longest, which asks in turn. So nobody polls, and one event wakes one thread.
"""

import threading
import traceback
from collections.abc import Callable

from harness.core.clock import Clock
from harness.core.op import Done, Kind, Op
from harness.core.protocols import Client, Exhausted, Generator
from harness.run.limits import Limits, Trouble
from harness.run.scheduler import NEMESIS_NUMBER, Assigned, Scheduler

__all__ = ["Limits", "Trouble", "run_threads"]

SUPERVISION_S = 0.05
"""How often the caller's thread looks for a stop and for calls that hang."""

_NEVER_NS = 1 << 63


def run_threads(
    scheduler: Scheduler,
    generator: Generator,
    *,
    client: Callable[[str], Client],
    nemesis: Callable[[Op], Done] | None,
    clock: Clock,
    stop: threading.Event,
    limits: Limits | None = None,
    trouble: Trouble | None = None,
) -> Trouble:
    """Runs a generator until it is exhausted and every call has ended, or `stop` is set.

    `client(node)` opens a client: each worker has one, opens another after an info, and closes
    it at the end. `nemesis` does a fault; None: every fault is info. A worker whose call hangs
    past a limit is replaced by a fresh thread, and what the old one says later is dropped.

    What the sink or the generator raises, and KeyboardInterrupt, ends the run and is raised
    here. However it ends, every call in the history has an end. Returns `trouble` (a fresh one
    when none is given), added to.
    """
    run = _Run(scheduler, client, nemesis, clock, limits or Limits(), trouble or Trouble())
    scheduler.follow(generator)
    run.supervise(stop)
    return run.trouble


class _Seat:
    """A worker's place: which thread has it, and what that is to do."""

    def __init__(self, number: int, lock: threading.Lock) -> None:
        self.number = number
        self.wake = threading.Condition(lock)
        self.assigned: Assigned | None = None
        """A call that another worker's question brought up."""
        self.thread: threading.Thread | None = None
        """None: it has left."""


class _Run:
    """What the threads share. Everything is under the lock, except the calls themselves."""

    def __init__(
        self,
        scheduler: Scheduler,
        client: Callable[[str], Client],
        nemesis: Callable[[Op], Done] | None,
        clock: Clock,
        limits: Limits,
        trouble: Trouble,
    ) -> None:
        self.trouble = trouble
        self._scheduler = scheduler
        self._open = client
        self._nemesis = nemesis
        self._clock = clock
        self._limits = limits
        self._lock = threading.Lock()
        self._left = threading.Condition(self._lock)
        self._seats = {w.number: _Seat(w.number, self._lock) for w in scheduler.workers}
        self._threads: list[threading.Thread] = []
        self._asleep: dict[int, _Seat] = {}
        """Of clients; the one that has slept longest comes first."""
        self._nemesis_asleep: dict[int, _Seat] = {}
        self._watch: _Seat | None = None
        self._watch_ns = _NEVER_NS
        self._deadline_ns: int | None = None
        """Set when there are no calls any more: clients' calls in flight end by then."""
        self._fault_deadline_ns = 0
        self._failure: BaseException | None = None

    # --- the caller's thread ------------------------------------------------------------------

    def supervise(self, stop: threading.Event) -> None:
        """Starts the workers and returns when all have left."""
        try:
            with self._lock:
                for seat in self._seats.values():
                    self._seat_thread(seat)
                while any(seat.thread for seat in self._seats.values()):
                    if stop.is_set():
                        self._end(self._limits.stop_s)
                    self._abandon_hanging()
                    self._left.wait(SUPERVISION_S)
        except BaseException as error:
            with self._lock:
                self._fail(error)
                for seat in self._seats.values():
                    self._abandon(seat, "the run was interrupted")
        self._join()
        if self._failure is not None:
            raise self._failure

    def _seat_thread(self, seat: _Seat) -> None:
        name = "nemesis" if seat.number == NEMESIS_NUMBER else f"worker-{seat.number}"
        seat.thread = threading.Thread(target=self._work, args=(seat,), name=name, daemon=True)
        self._threads.append(seat.thread)
        seat.thread.start()

    def _abandon_hanging(self) -> None:
        now_ns = self._clock.now_ns()
        for seat in self._seats.values():
            call = self._scheduler.call_of(seat.number)
            if call is None:
                continue
            limit_s, deadline_ns = self._limits.call_s, self._deadline_ns
            if seat.number == NEMESIS_NUMBER:
                limit_s = self._limits.fault_s
                deadline_ns = None if deadline_ns is None else self._fault_deadline_ns
            if now_ns - call.time_ns > limit_s * 1e9:
                self._abandon(seat, f"no end after {limit_s:g} s")
            elif deadline_ns is not None and now_ns >= deadline_ns:
                self._abandon(seat, "no end when the run was over")

    def _abandon(self, seat: _Seat, why: str) -> None:
        """Ends the seat's call, if it has one, and gives the seat to a fresh thread if there is
        more to do."""
        thread, seat.thread, seat.assigned = seat.thread, None, None
        call = self._scheduler.call_of(seat.number)
        if call is None:
            return
        self.trouble.abandoned.append(call)
        if thread is not None:
            self._threads.remove(thread)
        try:
            done = Done(Kind.INFO, error=f"HARNESS: {why}")
            self._scheduler.complete(seat.number, done, self._clock.now_ns())
        except BaseException as error:  # a sink that fails must not keep the run from ending
            self._fail(error)
        if self._deadline_ns is None:
            self._seat_thread(seat)

    def _end(self, patience_s: float) -> None:
        """No calls any more; those in flight have this long. The shortest patience counts."""
        now_ns = self._clock.now_ns()
        deadline_ns = now_ns + round(patience_s * 1e9)
        if self._deadline_ns is None:
            self._deadline_ns = deadline_ns
            self._fault_deadline_ns = now_ns + round(self._limits.fault_grace_s * 1e9)
        self._deadline_ns = min(deadline_ns, self._deadline_ns)
        for seat in self._seats.values():
            seat.wake.notify()

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self._end(self._limits.stop_s)

    def _join(self) -> None:
        """Waits for clients to be closed, though not for ever, and not for threads that hang."""
        until_ns = self._clock.now_ns() + round(self._limits.stop_s * 1e9)
        for thread in self._threads:
            thread.join(max(0.0, (until_ns - self._clock.now_ns()) / 1e9))

    # --- the workers' threads -----------------------------------------------------------------

    def _work(self, seat: _Seat) -> None:
        me = threading.current_thread()
        client: Client | None = None
        assigned = self._next(seat, me, None)
        while assigned is not None:
            if seat.number == NEMESIS_NUMBER:
                done = self._fault(assigned.op)
            else:
                done, client = self._call(assigned, client)
            assigned = self._next(seat, me, done)
        if client is not None:
            self._close(client)

    def _call(self, assigned: Assigned, client: Client | None) -> tuple[Done, Client | None]:
        """Makes the call. Returns its end, and the client if it can go on."""
        try:
            if client is None:
                client = self._open(assigned.worker.node)
            done = _checked(client.invoke(assigned.op))
        except Exception as error:
            done = self._bug(error)
        if done.kind is Kind.INFO and client is not None:
            self._close(client)
            client = None
        return done, client

    def _fault(self, op: Op) -> Done:
        if self._nemesis is None:
            return Done(Kind.INFO, error=f"no nemesis takes {op.f}")
        try:
            return _checked(self._nemesis(op))
        except Exception as error:
            return self._bug(error)

    def _close(self, client: Client) -> None:
        try:
            client.close()
        except Exception as error:
            self._bug(error)

    def _bug(self, error: Exception) -> Done:
        with self._lock:
            self.trouble.bugs += 1
            self.trouble.first = self.trouble.first or "".join(traceback.format_exception(error))
        return Done(Kind.INFO, error=f"{type(error).__name__}: {error}")

    def _next(self, seat: _Seat, me: threading.Thread, done: Done | None) -> Assigned | None:
        """Tells how the last call ended and waits for the next; None: leave."""
        with self._lock:
            if seat.thread is not me:
                return None  # The call was ended without us: what we know came too late.
            assigned = None
            try:
                if done is not None:
                    self._scheduler.complete(seat.number, done, self._clock.now_ns())
                assigned = self._take(seat)
            except BaseException as error:
                self._fail(error)
            if assigned is None and seat.thread is me:
                seat.thread = None
                self._left.notify()
            return assigned

    def _take(self, seat: _Seat) -> Assigned | None:
        while True:
            if seat.assigned is not None:
                assigned, seat.assigned = seat.assigned, None
                self._wake_next()
                return assigned
            if self._deadline_ns is not None:
                return None
            now_ns = self._clock.now_ns()
            step = self._scheduler.poll(now_ns, seat.number)
            if isinstance(step, Assigned):
                if step.worker.number == seat.number:
                    self._wake_next()
                    return step
                other = self._seats[step.worker.number]
                other.assigned = step
                other.wake.notify()
            elif isinstance(step, Exhausted):
                self._end(self._limits.grace_s)
            else:
                self._sleep(seat, now_ns, step.wake_ns)

    def _sleep(self, seat: _Seat, now_ns: int, wake_ns: int | None) -> None:
        until_ns = _NEVER_NS if wake_ns is None else wake_ns
        timeout_s = None
        if self._watch is None or until_ns < self._watch_ns:
            self._watch, self._watch_ns = seat, until_ns
            timeout_s = None if wake_ns is None else max(0, wake_ns - now_ns) / 1e9
        beds = self._nemesis_asleep if seat.number == NEMESIS_NUMBER else self._asleep
        beds[seat.number] = seat
        seat.wake.wait(timeout_s)
        beds.pop(seat.number, None)
        if self._watch is seat:
            self._watch = None

    def _wake_next(self) -> None:
        """A call was taken: there may be one more, and somebody must watch.

        A sleeping nemesis that watches is left alone: every client that ends a call asks for it.
        """
        if self._asleep:
            beds = self._asleep
        elif self._watch is None and self._nemesis_asleep:
            beds = self._nemesis_asleep
        else:
            return
        # Taken off the list, so that the next call that is taken wakes another.
        chosen = beds.pop(next(iter(beds)))
        if self._watch is None:
            # Already the watch, though it has yet to ask until when: else the worker that wakes
            # it, done with a quick call, would be the watch again and take every call itself.
            self._watch, self._watch_ns = chosen, 0
        chosen.wake.notify()


def _checked(done: object) -> Done:
    if isinstance(done, Done) and done.kind is not Kind.INVOKE:
        return done
    raise TypeError(f"a call ended with {done!r}; expected a Done that is ok, fail or info")
