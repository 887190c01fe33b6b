"""What the calls of the workload `statements` say: the effect of a statement on a row, and the rows
that a replica shows.

A row has a number of its own, and a list of the updates that it has seen. A statement is an
operation on each row that it touches; its effect is part of the call, so that a statement that
nobody knew before is judged like any other.
"""

from collections.abc import Mapping
from enum import StrEnum

import msgspec
from msgspec import UNSET, UnsetType

FINAL_ROWS = "final-rows"
READ_ROWS = "read-rows"
"""Call that reads the rows of a partition during the run, as the final one does at rest."""


class Effect(StrEnum):
    """What a statement does to the copies of a row in a table."""

    INSERT = "insert"
    """Adds a copy without updates."""
    APPEND = "append"
    """Appends the number of an update to the list of each copy."""
    DELETE = "delete"
    """Removes every copy."""
    MOVE = "move"
    """Adds every copy to another table and removes it here."""
    COPY = "copy"
    """Adds every copy to another table."""
    SELECT = "select"
    """Inserts every copy into another table, in a block that may be a duplicate of another."""
    REPLACE = "replace"
    """Removes the copies of another table and adds those of this one."""
    DETACH = "detach"
    """Puts every copy aside, on each replica."""
    ATTACH = "attach"
    """Adds the copies that were put aside on the replica that is asked."""
    FETCH = "fetch"
    """Puts a copy of each aside for another table, on the replica that is asked."""
    COLLAPSE = "collapse"
    """May remove copies that equal another one."""
    AGAIN = "again"
    """Sends the block of an insert once more: adds a copy unless there is one."""
    NONE = "none"
    """Changes no row."""


class StatementCall(msgspec.Struct, frozen=True):
    """Value of a call. Its key is the partition, or None for all of them."""

    effect: Effect
    table: str
    """Table whose rows it reads or changes."""
    row: int | UnsetType = UNSET
    """Number of the row that is inserted."""
    also: int | UnsetType = UNSET
    """Partition into which it inserts the row, too."""
    to: str | UnsetType = UNSET
    """Table that receives the copies."""
    expires: bool = False
    """Whether the row that is inserted may be removed by a TTL at any time."""
    replacing: bool = False
    """Whether merges of the tables leave one of the rows with equal keys, which the row's copies
    have."""
    view: str | UnsetType = UNSET
    """Table of a materialized view, which receives a copy of each row that is inserted, also by a
    SELECT into the view's source."""
    update: int | UnsetType = UNSET
    """Number of the update that is appended; no other statement has it."""
    one_in: int = 1
    """It touches the rows whose number divided by this ..."""
    rest: int = 0
    """... leaves this."""
    settings: Mapping[str, int | str] = {}
    """Settings of the query."""
    synced: bool = False
    """Whether SYSTEM SYNC REPLICA on the same replica preceded it."""

    @property
    def is_current(self) -> bool:
        """Return whether its replica must have what was acknowledged before: after a SYSTEM SYNC
        REPLICA, or for a sequentially consistent read, if all inserts have a quorum."""
        return self.synced or bool(self.settings.get("select_sequential_consistency"))

    def touches(self, row: int) -> bool:
        """Return whether it touches a row of its partition."""
        return self.row == row if self.row is not UNSET else row % self.one_in == self.rest


class RowsShown(msgspec.Struct, frozen=True):
    """Look at the rows of a partition on a replica."""

    tables: dict[str, list[tuple[int, list[int], int]]]
    """By table: the number of a row, the updates of its copies, and how many copies are equal."""
