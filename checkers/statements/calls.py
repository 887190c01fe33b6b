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
MERGE_EXPIRED = "merge-expired"
"""Call that merges all parts of a partition of a table at rest, so that no row is left that has
expired."""
EXPIRED_ROWS = "expired-rows"
"""Call that reads the rows of a partition after that."""
OF_VIEW = ".view"
"""What follows the name of a table in that of its refreshable view's table."""
OF_APPENDING_VIEW = ".appending.view"
"""What follows it in that of its appending view's table."""

_MUTATION_SETTINGS = frozenset({"mutations_sync", "lightweight_deletes_sync"})
"""Settings that only mutations have."""


class Effect(StrEnum):
    """What a statement does to the copies of a row in a table."""

    INSERT = "insert"
    """Adds a copy, whose list has the value of the insert, if it has one."""
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
    """Adds the copies that were put aside on the replica that is asked. What others have put aside
    of the same parts may go with them."""
    FETCH = "fetch"
    """Puts a copy of each aside for another table, on the replica that is asked."""
    CLEAR = "clear"
    """Empties the list of each copy."""
    KILL = "kill"
    """Stops the mutations of a table: each copy may have taken them or not."""
    COLLAPSE = "collapse"
    """May remove copies that equal another one."""
    AGAIN = "again"
    """Sends the block of an insert once more: adds a copy unless there is one."""
    EXCHANGE = "exchange"
    """Gives two tables each other's names, on the replica that is asked: it changes no row, but
    what later statements there mean."""
    FORGET = "forget"
    """Removes what ZooKeeper has of an empty partition: it changes no row, but the blocks of the
    partition are numbered from 0 again."""
    REFRESH = "refresh"
    """Replaces the rows of a table's refreshable view, on the replica that is asked, by those that
    this has of the table: it changes no row of a table."""
    EXTEND = "extend"
    """Adds to the rows of a table's appending view, which refreshes on the replica that is asked,
    those that this has of the table: it changes no row of a table."""
    NONE = "none"
    """Changes no row."""


class StatementCall(msgspec.Struct, frozen=True):
    """Value of a call. Its key is the partition, or None for all of them."""

    effect: Effect
    table: str
    """Table whose rows it reads or changes. One that ends with "@" is a plain one, of which each
    replica has its own."""
    row: int | UnsetType = UNSET
    """Number of the row that is inserted."""
    also: int | UnsetType = UNSET
    """Partition into which it inserts the row, too."""
    to: str | UnsetType = UNSET
    """Table that receives the copies."""
    expires: bool = False
    """Whether the row that is inserted expires by its TTL: from then on any merge may remove a
    copy, and one of all parts of its partition has to."""
    expires_s: int = 0
    """Number of seconds after which it does, by the clock of the replica that is asked; 0 if it has
    expired when it is inserted."""
    replacing: bool = False
    """Whether merges of the tables leave one of the rows with equal keys, which the row's copies
    have."""
    view: str | UnsetType = UNSET
    """Table of a materialized view, which receives a copy of each row that is inserted, also by a
    SELECT into the view's source."""
    on_each: bool = False
    """Whether every replica makes it, each on its own tables."""
    reshapes: bool = False
    """Whether it changes the columns, so that a block that is sent again is not the same one."""
    update: int | UnsetType = UNSET
    """Number of the update that is appended, or of the value with which a row is inserted, as if
    its insert were an update, too; no other statement has it."""
    one_in: int = 1
    """It touches the rows whose number divided by this ..."""
    rest: int = 0
    """... leaves this."""
    one_part: bool = False
    """Whether it acts on one part alone, which has one copy at least of each row that it
    touches."""
    rows: tuple[int, ...] | UnsetType = UNSET
    """The rows of that part, which the answer names."""
    settings: Mapping[str, int | str] = {}
    """Settings of the query."""
    synced: bool = False
    """Whether SYSTEM SYNC REPLICA on the same replica preceded it, or it takes rows from a plain
    table, of which nobody else knows."""

    @property
    def is_current(self) -> bool:
        """Return whether its replica must have what was acknowledged before: after a SYSTEM SYNC
        REPLICA, or for a sequentially consistent read, if all inserts have a quorum."""
        return self.synced or bool(self.settings.get("select_sequential_consistency"))

    @property
    def value(self) -> tuple[int, ...]:
        """Return the list of a copy that an insert adds."""
        return () if self.update is UNSET else (self.update,)

    @property
    def is_on_all_hosts(self) -> bool:
        """Return whether it is made ON CLUSTER: any replica of a shard may make it."""
        return "distributed_ddl_task_timeout" in self.settings

    @property
    def is_mutation(self) -> bool:
        """Return whether it changes parts one by one, in the background."""
        return not _MUTATION_SETTINGS.isdisjoint(self.settings)

    def touches(self, row: int) -> bool:
        """Return whether it touches a row of its partition."""
        if self.row is not UNSET:
            return self.row == row
        return row % self.one_in == self.rest and (self.rows is UNSET or row in self.rows)

    def condition(self, key: int | None) -> str:
        """Return the condition that selects the rows of its partition that it touches."""
        return f"p = {key} AND id % {self.one_in} = {self.rest}"


class RowsShown(msgspec.Struct, frozen=True):
    """Look at the rows of a partition on a replica."""

    tables: dict[str, list[tuple[int, list[int], int]]]
    """By table: the number of a row, the updates of its copies, and how many copies are equal."""
    projections: dict[str, list[tuple[int, list[int], int]]] | UnsetType = UNSET
    """The same as the projection of a table shows it, by the tables whose projection was used."""
