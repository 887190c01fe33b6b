"""The seam between the composed nemesis and its families, and how an effect is waited for."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from harness.core.clock import Clock, WallClock
from harness.core.dialect import Mechanism
from harness.core.errors import FaultError
from harness.core.op import Json
from harness.core.protocols import CanKill, CanPause, Cluster
from harness.core.seed import Seed

POLL_NS = 100_000_000
"""Between two looks at an effect that has not been seen yet."""


class NotBegunError(FaultError):
    """The fault could not be tried, and nothing was touched."""


class Family(Protocol):
    """One kind of fault. Begins one at a time; alternates begin and end.

    What it is about to touch it records before it touches it, so that `undo` repairs a `begin`
    that was interrupted anywhere.
    """

    f: str
    """The f of its ops."""
    once: bool
    """Its fault is over when the call is: no end."""
    needs: tuple[type | Mechanism, ...]
    """Capabilities of the cluster, and mechanisms of its servers."""
    heal_rank: int
    """Families are healed in this order, lowest first."""

    def plan(self, seed: Seed, turn: int) -> Mapping[str, Json]:
        """Everything of its fault number `turn`, from 0, that a seed can decide: "name", and
        whom. Pure; the seed is the family's, the same for every turn."""
        ...

    def begin(self, cluster: Cluster, plan: Mapping[str, Json], watch: "Watch") -> dict[str, Json]:
        """Returns, once the effect was seen, what was decided at run time, and "text".

        Raises NotBegunError when nothing was touched, FaultError when the effect was not seen.
        """
        ...

    def end(self, cluster: Cluster, watch: "Watch") -> dict[str, Json]:
        """Ends what is in force, also what an earlier end left. Returns "text".

        Raises FaultError, with what is still broken.
        """
        ...

    def undo(self, cluster: Cluster) -> None:
        """Ends whatever it may ever have begun. From any thread, any number of times."""
        ...

    def broken(self, cluster: Cluster) -> Sequence[str]:
        """What is not whole among what it may ever have touched, a reason each."""
        ...


@runtime_checkable
class Stepwise(Protocol):
    """A family whose faults are steps to a state in which it leaves the cluster."""

    turns: int
    """How many steps there are; `plan` is asked for no more."""

    def finish(self, cluster: Cluster) -> None:
        """Take the steps that are left. The heal at the end of a run calls it after `undo`, any
        number of times."""
        ...


@dataclass(frozen=True, slots=True)
class Watch:
    """How long to wait for an effect, and whether to stop waiting."""

    within_s: float
    abandoned: Callable[[], bool] = lambda: False
    """True: a heal has begun elsewhere, so nothing more may be touched."""
    clock: Callable[[], Clock] = WallClock
    """A new clock of the cluster's time."""

    def check(self) -> None:
        """Raises FaultError when the call was abandoned. Called before anything is touched."""
        if self.abandoned():
            raise FaultError("a heal began while this fault was under way")

    def until_none(self, look: Callable[[], Sequence[str]]) -> tuple[str, ...]:
        """Looks until nothing is wrong or the time is over; returns what was wrong at last.

        Looks at least once, however long that takes. Raises FaultError when abandoned.
        """
        clock = self.clock()
        while wrong := tuple(look()):
            self.check()
            if clock.now_ns() >= self.within_s * 1e9:
                break
            clock.sleep_until(clock.now_ns() + POLL_NS)
        return wrong


def running(cluster: Cluster, nodes: Iterable[str]) -> tuple[str, ...]:
    """Those whose server process exists; all of them when the cluster cannot tell."""
    if not isinstance(cluster, CanKill):
        return tuple(nodes)
    return tuple(node for node in nodes if cluster.running(node))


def standing(cluster: Cluster, nodes: Iterable[str]) -> tuple[str, ...]:
    """Those that run and are not paused, as far as the cluster can tell.

    With other faults in force a chosen node may be dead or frozen already. To pause the dead,
    or to ask the frozen to stop gracefully, would undo the other fault or wait in vain.
    """
    alive = running(cluster, nodes)
    if not isinstance(cluster, CanPause):
        return alive
    return tuple(node for node in alive if not cluster.paused(node))


def names(nodes: Iterable[str]) -> str:
    """For people: "ch2 ch3"."""
    return " ".join(nodes) or "nothing"
