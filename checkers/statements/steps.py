"""What the models of a row speak of: statements on it, and its states."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeAlias

from checkers.statements.calls import Effect, StatementCall

Copy: TypeAlias = tuple[int, ...]
"""One copy of a row: the numbers of its updates, in the order in which it took them."""
Copies: TypeAlias = tuple[Copy, ...]
"""Copies of a row in one place, in ascending order."""
Shown: TypeAlias = tuple[tuple[str, Copies], ...]
"""Copies of a row by table, without the tables that have none."""
TO_ANOTHER: Final = (Effect.MOVE, Effect.REPLACE, Effect.COPY, Effect.SELECT, Effect.FETCH)
"""Effects on two tables."""
INSERTING: Final = (Effect.INSERT, Effect.AGAIN)
REFRESHING: Final = (Effect.REFRESH, Effect.EXTEND)
"""Effects on the table of a view."""
TAKING: Final = (*TO_ANOTHER, *REFRESHING, Effect.DETACH)
"""Effects on what a replica has of a table."""
FORGETTING: Final = (Effect.DELETE, Effect.DETACH, Effect.MOVE, Effect.REPLACE)
FOREVER: Final = 1 << 62


class Sees(StrEnum):
    """What a statement sees of a table from which it takes rows."""

    ACKNOWLEDGED = "acknowledged"
    """All that was acknowledged."""
    LOCAL = "local"
    """What its replica has."""


class StatementStep(NamedTuple):
    """A statement on the row."""

    place: int
    """Its place among the calls of the history."""
    begin: int
    """Index of the op that began it."""
    end: int | None
    """Index of the op that ended it; None if it may take effect at any later time, or never."""
    node: str | None
    call: StatementCall
    killed: bool = False
    """Whether it is a mutation that another statement may have stopped."""

    exchanged: tuple[bool, ...] = (False,)
    """Whether the two tables had each other's names when it looked for them; both values if they
    may have had them or not."""

    @property
    def is_partial(self) -> bool:
        """Return whether it may change some copies of the row and not others."""
        return self.killed or self.call.one_part

    @property
    def least(self) -> int:
        """Return how many of the copies it changes at least, if it is partial."""
        return int(self.call.one_part and self.end is not None and not self.killed)

    @property
    def is_taking(self) -> bool:
        """Return whether it takes rows from a table."""
        return self.call.effect in TAKING


class RowState(NamedTuple):
    """State of one row."""

    places: tuple[tuple[str, Any], ...] = ()
    """What is in each place, a table or "table@replica" where copies were put aside: the copies, or
    their number. Only places that have some, in ascending order."""
    memory: frozenset[tuple[Any, ...]] = frozenset()
    """What later statements may fall back on, but need not: what a COPY, a REPLACE of an empty
    partition, which works as a COPY, or an insert added, which the next COPY or SELECT may take for
    a duplicate, and what tables had before."""

    def put(self, changed: Mapping[str, Any], memory: Iterable[tuple[Any, ...]] = ()) -> "RowState":
        """Return the state after these places have other contents, and with more memory."""
        places = {place: now for place, now in {**dict(self.places), **changed}.items() if now}
        return RowState(tuple(sorted(places.items())), self.memory.union(memory))
