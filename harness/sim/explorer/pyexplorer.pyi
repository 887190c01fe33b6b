"""Explores every interleaving of small models of the replication protocol, breadth first."""

from collections.abc import Sequence
from typing import Literal, final

__version__: str
MODELS: list[tuple[str, list[str]]]
"""Each model, and what may be changed in it by name: its mutants; of zero-copy its fixes."""

@final
class Claim:
    """A property that every state must have, and what the search knows of it so far."""

    @property
    def name(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def applied(self) -> int:
        """States about which it says something; of comes-to-rest, steps."""
    @property
    def broken_after(self) -> int | None:
        """Actions to the nearest state that breaks it; None: it holds so far."""

@final
class Step:
    """One step of a counterexample and the state after it. The first is the initial state."""

    @property
    def action(self) -> str | None: ...
    @property
    def who(self) -> Literal["client", "replica", "fault"] | None: ...
    @property
    def replica(self) -> int | None:
        """From 0."""
    @property
    def other(self) -> int | None:
        """A record, a log entry or another replica, from 0."""
    @property
    def state(self) -> list[tuple[str, str]]:
        """The state after the step in words, by column."""
    @property
    def visible(self) -> list[list[int]]:
        """For each replica the records, from 1, that a client could read there."""

@final
class Exploration:
    """A search over one model; it goes on only while `advance` is called.

    `states_max` and `memory_mb` (10**6 bytes) bound it; None: no bound. With `symmetry` states
    that differ only by which replica is which are one. Raises ValueError for what no model takes.
    """

    def __new__(
        cls,
        model: str,
        *,
        replicas: int = 3,
        records: int = 2,
        reads: int = 2,
        quorum: int = 2,
        read: str = "server",
        skip_failed: bool = False,
        mutant: str | None = None,
        fixes: Sequence[str] = (),
        symmetry: bool = False,
        states_max: int | None = None,
        memory_mb: float | None = None,
    ) -> Exploration: ...
    def advance(self, seconds: float) -> bool:
        """Searches for so long, without the GIL; True when it has ended."""
    @property
    def ended(self) -> Literal["whole", "states", "memory"] | None:
        """Why: every state was found, or a bound was met. None: it has not."""
    @property
    def states(self) -> int: ...
    @property
    def transitions(self) -> int:
        """Steps that were looked at, those to known states included."""
    @property
    def depth(self) -> int:
        """The greatest distance from the initial state at which one was found, in actions."""
    @property
    def frontier(self) -> int:
        """States whose steps were not looked at."""
    @property
    def bytes(self) -> int: ...
    def claims(self) -> list[Claim]: ...
    def trace(self, claim: str) -> list[Step] | None:
        """A shortest way to break a claim."""
