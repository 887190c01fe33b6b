"""Runtimes: how runs on a cluster make calls and spend time. Every cluster brings its own, so that
no code needs to know the cluster's kind."""

from typing import Any, Final, Protocol, TypeVar

from harness.core.clock import Clock, WallClock

Calls = TypeVar("Calls")
Calls_contra = TypeVar("Calls_contra", contravariant=True)


class Executor(Protocol[Calls_contra]):
    """Makes calls and faults, in either way."""

    def on_threads(self, calls: Calls_contra) -> None:
        """Make them on a thread for each worker, which waits for the server's answer."""
        ...

    def in_world(self, calls: Calls_contra, world: Any) -> None:
        """Make them in tasks of a simulated world (`harness.sim.world.World`, which is not named
        here because checkers may not import it, even indirectly). It goes on while they wait."""
        ...


class Runtime(Protocol):
    """Means by which runs on a cluster make calls and spend time."""

    @property
    def reproducible(self) -> bool:
        """Return whether the seed alone decides every byte that a run leaves. Then neither dates,
        nor names made of dates, nor the speed of the machine may affect a run. Its files need not
        be flushed to disk, because the seed reproduces them, and its servers cannot be lost,
        because they are in this process.
        """
        ...

    @property
    def poll_s(self) -> float:
        """Return the seconds between two looks at whether the cluster has come to rest."""
        ...

    def clock(self) -> Clock:
        """Return a new clock that shows the cluster's time, from now on."""
        ...

    def execute(self, calls: Calls, executor: Executor[Calls]) -> None:
        """Have the calls made in the way of this cluster."""
        ...


class WallTime:
    """The runtime of servers that run by themselves: the machine's clock, and threads that wait."""

    reproducible: Final = False
    poll_s: Final = 0.2

    def clock(self) -> Clock:
        """Return a clock of the machine."""
        return WallClock()

    def execute(self, calls: Calls, executor: Executor[Calls]) -> None:
        """Have the calls made on threads."""
        executor.on_threads(calls)
