"""Virtual time: the caller's events and tasks, among those of the simulated servers.

Nothing here is concurrent. A task is a greenlet: it runs until it waits, and then the next event
does. Events of one time come in the order in which they were made, so that one seed is one run.
"""

from collections.abc import Callable
from itertools import count
from typing import Final

from greenlet import GreenletExit, getcurrent, greenlet
from pysimulator import Simulation

MS: Final = 1_000_000
SECOND: Final = 1_000_000_000
NEVER_NS: Final = 1 << 62


class World:
    """The events to come, and the time."""

    def __init__(self, servers: Simulation) -> None:
        self._servers = servers
        self._hub = getcurrent()
        self.number: Callable[[], int] = count(1).__next__
        """For what is begun on the servers: they say so when it ends."""
        self._due: dict[int, Callable[[], object]] = {}
        """What is to be done when a number is due."""
        self._failure: BaseException | None = None

    @property
    def now_ns(self) -> int:
        """The time."""
        return self._servers.now_ns

    @property
    def events(self) -> int:
        """How many have happened."""
        return self._servers.events

    def after(self, delay_ns: int, act: Callable[[], object]) -> None:
        """Calls `act` then; it must not wait."""
        self._after(delay_ns, act, task=False)

    def spawn(self, work: Callable[[], object]) -> None:
        """Starts a task at this time, after what is due already."""

        def run() -> None:
            try:
                work()
            except GreenletExit:
                pass
            except BaseException as error:  # raised to whoever runs the world
                self._failure = self._failure or error

        self._after(0, greenlet(run, self._hub).switch, task=True)

    def _after(self, delay_ns: int, act: Callable[[], object], *, task: bool) -> None:
        number = self.number()
        self._due[number] = act
        self._servers.after(delay_ns, number, task)

    def sleep(self, ns: int) -> None:
        """Waits so long."""
        if getcurrent() is self._hub:
            self._run(self.now_ns + ns)
        else:
            self._after(ns, getcurrent().switch, task=True)
            self._hub.switch()

    def wait(self, number: int) -> None:
        """Until what was begun with this number has ended."""
        if getcurrent() is self._hub:
            if not self._run(NEVER_NS, number):
                raise AssertionError("nothing will ever happen again, and it has not ended")
        else:
            self._due[number] = getcurrent().switch
            self._hub.switch()

    def _run(self, until_ns: int, last: int | None = None) -> bool:
        """What happens until then, or until the number `last` is due; whether it is."""
        step = self._servers.step
        try:
            while (number := step(until_ns)) is not None:
                if number == last:
                    return True
                self.do(number)
            return False
        finally:
            self.outside()

    def outside(self) -> None:
        """None of the tasks runs any more: whoever has let the world go on says so."""
        self._servers.outside()

    def do(self, number: int) -> None:
        """What is due has this number. Raises what a task raised."""
        self._due.pop(number)()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure


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
