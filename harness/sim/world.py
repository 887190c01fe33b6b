"""Virtual time: events in order, tasks that wait, processes that are paused and killed.

Nothing here is concurrent. A task is a greenlet: it runs until it waits, and then the next event
does. Events of one time come in the order in which they were made, so that one seed is one run.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, Final, Protocol, TypeVar

from greenlet import GreenletExit, getcurrent, greenlet

from harness.core.seed import Seed
from harness.sim.draws import draws

MS: Final = 1_000_000
SECOND: Final = 1_000_000_000

T = TypeVar("T")


class TimedOutError(Exception):
    """What was waited for did not come in time."""


class Process:
    """One life of a server: what it has scheduled ends with it and stands still with it."""

    __slots__ = ("alive", "deferred", "name", "paused", "tasks")

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.paused = False
        self.deferred: list[tuple[Callable[..., object], tuple[Any, ...]]] = []
        """What would have happened while it was paused."""
        self.tasks: dict[greenlet, None] = {}


class Future:
    """A value, or an error, that one task may wait for."""

    __slots__ = ("done", "error", "value", "waiting")

    def __init__(self) -> None:
        self.done = False
        self.value: Any = None
        self.error: BaseException | None = None
        self.waiting: _Waiting | None = None

    def set(self, value: Any = None) -> None:
        """The first value or error counts."""
        if not self.done:
            self.done, self.value = True, value
            if self.waiting is not None:
                self.waiting.wake(self)

    def fail(self, error: BaseException) -> None:
        """Raised to whoever waits."""
        if not self.done:
            self.error = error
            self.set()


class _Waiting:
    """A task, of a process, that waits for a future."""

    __slots__ = ("of", "task", "world")

    def __init__(self, world: "World", task: greenlet, of: Process | None) -> None:
        self.world, self.task, self.of = world, task, of

    def wake(self, future: Future) -> None:
        """Once: the value has come, or the time is over."""
        if future.waiting is self:
            future.waiting = None
            self.world.wake(self.task, self.of)


class Gate(Protocol):
    """What an event may have to pass when its time has come."""

    opens_ns: int
    """Not before this."""

    def hold(self, of: Process | None, act: Callable[..., object], args: tuple[Any, ...]) -> None:
        """Keeps an event whose time came too early."""
        ...


class World:
    """The events to come, and the time."""

    def __init__(self, seed: Seed) -> None:
        self.now_ns = 0
        self.events = 0
        """How many have happened."""
        self._draw = draws(seed)
        self._sequence = 0
        self._heap: list[
            tuple[int, int, Process | None, Gate | None, Callable[..., object], tuple[Any, ...]]
        ] = []
        self._hub = getcurrent()
        self._owner: Process | None = None
        self._failure: BaseException | None = None

    # --- chance -----------------------------------------------------------------------------

    def below(self, bound: int) -> int:
        """The next draw, uniform in [0, bound)."""
        return (self._draw() * bound) >> 64

    def around(self, ns: int) -> int:
        """A duration: the given one as the median, half of it at least, seldom ten times it."""
        draw = (self._draw() * 1000) >> 64
        if draw >= 990:
            return ns * (2 + (draw - 990))
        return ns // 2 + ns * draw // 1000

    def shuffled(self, items: list[T]) -> list[T]:
        """A permutation."""
        return list(Seed(self._draw()).shuffled(0, items))

    # --- events -----------------------------------------------------------------------------

    def after(
        self, delay_ns: int, act: Callable[..., object], *args: Any, of: Process | None = None
    ) -> None:
        """Calls `act` then, in the life of the process `of`; acts must not wait."""
        self._sequence += 1
        heappush(self._heap, (self.now_ns + delay_ns, self._sequence, of, None, act, args))

    def through(
        self,
        gate: Gate,
        time_ns: int,
        of: Process | None,
        act: Callable[..., object],
        args: tuple[Any, ...],
    ) -> None:
        """Calls `act` at that time, unless the gate holds it then."""
        self._sequence += 1
        heappush(self._heap, (time_ns, self._sequence, of, gate, act, args))

    def spawn(self, work: Callable[..., object], *args: Any, of: Process | None = None) -> None:
        """Starts a task at this time, after what is due already."""
        self.after(0, self._begin, work, args, of, of=of)

    def _begin(
        self, work: Callable[..., object], args: tuple[Any, ...], of: Process | None
    ) -> None:
        def run() -> None:
            try:
                work(*args)
            except GreenletExit:
                pass
            except BaseException as error:  # raised to whoever runs the world
                self._failure = self._failure or error
            finally:
                if of is not None:
                    of.tasks.pop(task, None)

        task = greenlet(run, self._hub)
        if of is not None:
            of.tasks[task] = None
        self._switch(task, of)

    def _switch(self, task: greenlet, of: Process | None) -> None:
        self._owner = of
        task.switch()

    def wake(self, task: greenlet, of: Process | None) -> None:
        """A task goes on: at once, where it may."""
        if getcurrent() is self._hub and (of is None or (of.alive and not of.paused)):
            self._switch(task, of)
        else:
            self.after(0, self._switch, task, of, of=of)

    def step(self) -> bool:
        """The next event; False when there is none. Raises what a task raised."""
        if not self._heap:
            return False
        self.now_ns, _, of, gate, act, args = heappop(self._heap)
        if gate is not None and self.now_ns < gate.opens_ns:
            gate.hold(of, act, args)
            return True
        if of is not None:
            if not of.alive:
                return True
            if of.paused:
                of.deferred.append((act, args))
                return True
        self.events += 1
        act(*args)
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        return True

    def run_until(self, over: Callable[[], bool]) -> None:
        """Events, one after the other, until it is over. Only outside of tasks."""
        assert getcurrent() is self._hub, "a task cannot run the world that it is in"
        while not over():
            if not self.step():
                raise AssertionError("nothing will ever happen again, and it is not over")

    # --- waiting ----------------------------------------------------------------------------

    def sleep(self, ns: int) -> None:
        """Waits so long."""
        if getcurrent() is self._hub:
            until = self.now_ns + ns
            while self._heap and self._heap[0][0] <= until:
                self.step()
            self.now_ns = max(self.now_ns, until)
            return
        task, of = getcurrent(), self._owner
        self.after(ns, self._switch, task, of, of=of)
        self._hub.switch()

    def wait(self, future: Future, timeout_ns: int | None = None) -> Any:
        """The value. Raises its error, or TimedOutError when the time is over."""
        if not future.done:
            if getcurrent() is self._hub:
                self._wait_in_hub(future, timeout_ns)
            else:
                self._wait_in_task(future, timeout_ns)
        if not future.done:
            raise TimedOutError
        if future.error is not None:
            raise future.error
        return future.value

    def _wait_in_hub(self, future: Future, timeout_ns: int | None) -> None:
        until = None if timeout_ns is None else self.now_ns + timeout_ns
        while not future.done and self._heap and (until is None or self._heap[0][0] <= until):
            self.step()
        if not future.done and until is not None:
            self.now_ns = max(self.now_ns, until)

    def _wait_in_task(self, future: Future, timeout_ns: int | None) -> None:
        waiting = future.waiting = _Waiting(self, getcurrent(), self._owner)
        if timeout_ns is not None:
            self.after(timeout_ns, waiting.wake, future, of=waiting.of)
        self._hub.switch()

    # --- processes --------------------------------------------------------------------------

    def kill(self, process: Process) -> None:
        """Ends it: its tasks and everything that it has scheduled."""
        process.alive = False
        process.deferred.clear()
        for task in list(process.tasks):
            # From the hub, for a task that ends goes on there.
            self.after(0, self._end, task)

    @staticmethod
    def _end(task: greenlet) -> None:
        task.throw(GreenletExit)

    def pause(self, process: Process) -> None:
        """What it would do is put off."""
        process.paused = True

    def resume(self, process: Process) -> None:
        """What was put off is done now, in its order."""
        if process.paused and process.alive:
            process.paused = False
            deferred, process.deferred = process.deferred, []
            for act, args in deferred:
                self.after(0, act, *args, of=process)


class Lock:
    """One task at a time, in the order in which they came."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._held = False
        self._waiting: list[Future] = []

    def __enter__(self) -> None:
        if self._held:
            turn = Future()
            self._waiting.append(turn)
            self._world.wait(turn)
        self._held = True

    def __exit__(self, *_: object) -> None:
        self._held = bool(self._waiting)
        if self._waiting:
            self._waiting.pop(0).set()


class SimulatedClock:
    """Virtual nanoseconds since this object was made."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._zero = world.now_ns

    def now_ns(self) -> int:
        """The time."""
        return self._world.now_ns - self._zero

    def sleep_until(self, time_ns: int) -> None:
        """Lets the world go on until then."""
        left = time_ns - self.now_ns()
        if left > 0:
            self._world.sleep(left)
