"""Written by distribution/stubs.py from crates explorer."""

from collections.abc import Sequence
from typing import Literal, final

MODELS: list[tuple[str, list[str], list[str], list[str]]]
"""Each model, with its mutants, its fixes, and the defects of protocols that it has as switches."""

@final
class Claim:
    """A property that every state must have, and what the search knows about it."""
    @property
    def name(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def applied(self) -> int:
        """Number of states to which it applies; for comes-to-rest, of steps."""
    @property
    def broken_after(self) -> int | None:
        """Number of actions to the nearest state that violates it; None if there is none so far."""

@final
class Step:
    """A step of a counterexample and the state after it. The first step is the initial state."""
    @property
    def action(self) -> str | None: ...
    @property
    def who(self) -> Literal["client", "replica", "fault"] | None: ...
    @property
    def replica(self) -> int | None:
        """The replica, from 0."""
    @property
    def other(self) -> int | None:
        """A record, a log entry or another replica, from 0."""
    @property
    def state(self) -> list[tuple[str, str]]:
        """The state after the step, as (column, text)."""
    @property
    def visible(self) -> list[list[int]]:
        """For each replica the records, from 1, that a client could read there."""

@final
class Exploration:
    """A search over one model. It proceeds only during calls of `advance`.

    `states_max` and `memory_mb` (10**6 bytes) limit it; None is no limit. With `symmetry`, states
    that differ only by a permutation of replicas are one state. `protocol` has the mechanisms and
    the defects of a server version; those that the model does not know are left out. Raises
    ValueError for parameters that the model does not take."""
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
        protocol: tuple[Sequence[str], Sequence[str]] | None = None,
        parallel: bool = False,
        mutant: str | None = None,
        fixes: Sequence[str] = (),
        symmetry: bool = False,
        states_max: int | None = None,
        memory_mb: float | None = None,
    ) -> Exploration: ...
    def advance(self, seconds: float) -> bool:
        """Search for this time without the GIL; return whether the search has ended."""
    @property
    def ended(self) -> Literal["whole", "states", "memory"] | None:
        """Why the search ended: every state was found, or a limit was reached. None if it has
        not."""
    @property
    def states(self) -> int: ...
    @property
    def transitions(self) -> int:
        """Number of examined steps, including those to known states."""
    @property
    def depth(self) -> int:
        """The greatest distance of a found state from the initial one, in actions."""
    @property
    def frontier(self) -> int:
        """Number of states that are not expanded yet."""
    @property
    def bytes(self) -> int: ...
    def claims(self) -> list[Claim]: ...
    def trace(self, claim: str) -> list[Step] | None:
        """Return a shortest path that violates a claim; None if there is none so far."""
