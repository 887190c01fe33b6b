"""Virtual time, shared by the caller's events and tasks and the simulated servers.

Nothing here is concurrent. A task is a greenlet: it runs until it waits, then the next event
happens. Events of one time happen in the order in which they were scheduled, so that one seed gives
one run.
"""

from collections.abc import Callable
from itertools import count
from typing import Final

from greenlet import GreenletExit, getcurrent, greenlet

from harness.core.runtime import Calls, Executor
from harness.native.simulator import Simulation

MS: Final = 1_000_000
SECOND: Final = 1_000_000_000
NEVER_NS: Final = 1 << 62


class World:
    """Pending events and the current time."""

    def __init__(self, servers: Simulation) -> None:
        self.servers = servers
        self._hub = getcurrent()
        self.number: Callable[[], int] = count(1).__next__
        """Function that returns a fresh number for a request to the servers, which report the
        number when the request ends."""
        self._due: dict[int, Callable[[], object]] = {}
        """Actions by the number that triggers them."""
        self._failure: BaseException | None = None

    @property
    def now_ns(self) -> int:
        """Current time."""
        return self.servers.now_ns

    @property
    def events(self) -> int:
        """Number of events that have happened."""
        return self.servers.events

    def after(self, delay_ns: int, act: Callable[[], object]) -> None:
        """Call `act` after a delay; it must not wait."""
        self._after(delay_ns, act, task=False)

    def spawn(self, work: Callable[[], object]) -> None:
        """Start a task at the current time, after the events that are due already."""

        def run() -> None:
            try:
                work()
            except GreenletExit:
                pass
            except BaseException as error:  # raised to the caller that runs the world
                self._failure = self._failure or error

        self._after(0, greenlet(run, self._hub).switch, task=True)

    def _after(self, delay_ns: int, act: Callable[[], object], *, task: bool) -> None:
        number = self.number()
        self._due[number] = act
        self.servers.after(delay_ns, number, task)

    def sleep(self, ns: int) -> None:
        """Wait for this long."""
        if getcurrent() is self._hub:
            self._run(self.now_ns + ns)
        else:
            self._after(ns, getcurrent().switch, task=True)
            self._hub.switch()

    def wait(self, number: int) -> None:
        """Wait until the request with this number has ended."""
        if getcurrent() is self._hub:
            if not self._run(NEVER_NS, number):
                raise AssertionError("no event is pending, and the request has not ended")
        else:
            self._due[number] = getcurrent().switch
            self._hub.switch()

    def _run(self, until_ns: int, last: int | None = None) -> bool:
        """Let events happen until then, or until the number `last` is due; return whether it is."""
        step = self.servers.step
        try:
            while (number := step(until_ns)) is not None:
                if number == last:
                    return True
                self.do(number)
            return False
        finally:
            self.outside()

    def outside(self) -> None:
        """Note that no task is running any more. Every caller that let the world advance reports
        this."""
        self.servers.outside()

    def do(self, number: int) -> None:
        """Execute the action of this number. Raises what a task raised."""
        self._due.pop(number)()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure


class SimulatedClock:
    """Clock that shows the virtual nanoseconds since it was created."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._zero = world.now_ns

    def now_ns(self) -> int:
        """Return the time."""
        return self._world.now_ns - self._zero

    def sleep_until(self, time_ns: int) -> None:
        """Let the world advance until then."""
        left = time_ns - self.now_ns()
        if left > 0:
            self._world.sleep(left)


class VirtualTime:
    """Runtime of a simulated cluster, whose time advances only while a caller waits.

    Both its tasks and callers outside of them may wait on its clock; other tasks go on meanwhile.
    """

    reproducible: Final = True
    poll_s: Final = 1.0
    """Poll interval: waiting costs nothing, but each look at the cluster does."""

    def __init__(self, world: World) -> None:
        self._world = world

    def clock(self) -> SimulatedClock:
        """Return a clock of the world."""
        return SimulatedClock(self._world)

    def execute(self, calls: Calls, executor: Executor[Calls]) -> None:
        """Make the calls in tasks."""
        executor.in_world(calls, self._world)
