"""Interface between the composed nemesis and its families, and the wait for an effect."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from harness.core.clock import Clock, WallClock
from harness.core.dialect import Mechanism
from harness.core.errors import FaultError
from harness.core.op import Json
from harness.core.protocols import Cluster
from harness.core.seed import Seed

Needs: TypeAlias = tuple[type | Mechanism, ...]
"""Capabilities of the cluster, and mechanisms of its servers."""

POLL_NS = 100_000_000
"""Interval between two checks for an effect that has not been seen yet."""


class NotBegunError(FaultError):
    """A fault that could not be begun; nothing was touched."""


class Family(Protocol):
    """One kind of fault. It begins one fault at a time; begin and end alternate.

    A family records what it is about to touch before it touches it, so that `undo` repairs a
    `begin` that was interrupted anywhere.
    """

    f: str
    """The f of its ops."""
    once: bool
    """True if a fault is over when its call returns, so that it has no end."""
    needs: Needs
    heal_rank: int
    """Rank in the order in which families are healed, lowest first."""

    def plan(self, seed: Seed, turn: int) -> Mapping[str, Json]:
        """Return what the seed decides about fault number `turn`, from 0: "name", nodes, etc.

        The function is pure. The seed is that of the family, the same for every turn.
        """
        ...

    def begin(self, cluster: Cluster, plan: Mapping[str, Json], watch: "Watch") -> dict[str, Json]:
        """Begin a fault, see its effect, and return what was decided at run time, with "text".

        Raises NotBegunError if nothing was touched, FaultError if the effect was not seen.
        """
        ...

    def end(self, cluster: Cluster, watch: "Watch") -> dict[str, Json]:
        """End the fault in force and whatever an earlier end left, and return "text".

        Raises FaultError with what is still broken.
        """
        ...

    def undo(self, cluster: Cluster) -> None:
        """End whatever may ever have been begun. Any thread may call it any number of times."""
        ...

    def broken(self, cluster: Cluster) -> Sequence[str]:
        """Return what is still broken of all that was ever touched, a reason each."""
        ...


@runtime_checkable
class Stepwise(Protocol):
    """Family whose faults are steps towards a state in which the cluster stays."""

    turns: int
    """Number of steps; `plan` is called for no more."""

    def finish(self, cluster: Cluster) -> None:
        """Take the remaining steps. A heal calls it after `undo`, any number of times."""
        ...


@dataclass(frozen=True, slots=True)
class Watch:
    """Limits of the wait for an effect: a time, and a heal that abandons the call."""

    within_s: float
    abandoned: Callable[[], bool] = lambda: False
    """Returns True if a heal has begun in another thread, so that nothing more may be touched."""
    clock: Callable[[], Clock] = WallClock
    """Returns a new clock of the cluster's time."""

    def check(self) -> None:
        """Raise FaultError if the call was abandoned. To be called before anything is touched."""
        if self.abandoned():
            raise FaultError("a heal began while this fault was under way")

    def until_none(self, look: Callable[[], Sequence[str]]) -> tuple[str, ...]:
        """Call `look` until it returns nothing or the time is over; return its last result.

        It is called at least once, however long that takes. Raises FaultError if the call was
        abandoned.
        """
        clock = self.clock()
        while wrong := tuple(look()):
            self.check()
            if clock.now_ns() >= self.within_s * 1e9:
                break
            clock.sleep_until(clock.now_ns() + POLL_NS)
        return wrong

    def require_none(self, look: Callable[[], Sequence[str]]) -> None:
        """Call `look` as `until_none` does. Raises FaultError with what it returns at the end."""
        if wrong := self.until_none(look):
            raise FaultError("; ".join(wrong))


def names(nodes: Iterable[str]) -> str:
    """Return names of nodes as text, such as "ch2 ch3"."""
    return " ".join(nodes) or "nothing"
