"""The table of statements: what each of them does to a row, and how it is written.

A statement is a row of this table. Generator, client, history, judge and manual follow from it; a
user's own is a `StatementKind` in a module of theirs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from checkers.statements.calls import Effect
from harness.clients.clickhouse import SettingName
from harness.core.dialect import Mechanism

Drawn: TypeAlias = tuple[tuple[SettingName, tuple[int, ...]], ...]
"""Settings of which the seed draws a value for each call."""

ANY_WAIT: Final[Drawn] = (("replication_alter_partitions_sync", (0, 1, 2)),)
"""Wait for nobody, for the replica that is asked, for all."""
ANY_MUTATION: Final[Drawn] = (("mutations_sync", (0, 1, 2)),)
_MANUAL: Final = "sql-reference/statements"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementKind:
    """A kind of statement."""

    sql: str
    """Its text; {table} and {to} are tables, {p:d} is the partition, {update:d} the number of an
    update that no other statement has, {where} the condition on the rows that it touches."""
    effect: Effect
    """What it does to a copy of a row that it touches."""
    text: str
    """What it does, for a reader."""
    promise: str
    """Page of ClickHouse's manual that says so."""
    takes_rows: bool = False
    """Whether it takes from a table what its replica has, so that SYSTEM SYNC REPLICA matters."""
    settings: Drawn = ()
    weight: float = 1.0
    """How often it is drawn, beside the others."""
    needs: Sequence[Mechanism] = ()
    """Mechanisms that the servers must have."""

    @property
    def selects_rows(self) -> bool:
        """Return whether it touches only rows that its condition selects."""
        return "{where}" in self.sql


_PARTITION: Final = f"{_MANUAL}/alter/partition"

STATEMENTS: Final[Mapping[str, StatementKind]] = {
    "insert-row": StatementKind(
        sql="INSERT INTO {table} VALUES",
        effect=Effect.INSERT,
        text="inserts a row",
        promise=f"{_MANUAL}/insert-into",
        weight=12,
    ),
    "update": StatementKind(
        sql="ALTER TABLE {table} UPDATE v = arrayPushBack(v, {update:d}) WHERE {where}",
        effect=Effect.APPEND,
        text="appends a number to the list of each row, as a mutation",
        promise=f"{_MANUAL}/alter/update",
        settings=ANY_MUTATION,
        needs=(Mechanism.WAITED_MUTATIONS,),
    ),
    "delete": StatementKind(
        sql="ALTER TABLE {table} DELETE WHERE {where}",
        effect=Effect.DELETE,
        text="removes rows, as a mutation",
        promise=f"{_MANUAL}/alter/delete",
        settings=ANY_MUTATION,
        needs=(Mechanism.WAITED_MUTATIONS,),
        weight=0.5,
    ),
    "move": StatementKind(
        sql="ALTER TABLE {table} MOVE PARTITION {p:d} TO TABLE {to}",
        effect=Effect.MOVE,
        text="moves a partition to another table",
        promise=f"{_PARTITION}#move-partition-to-table",
        takes_rows=True,
        settings=ANY_WAIT,
        needs=(Mechanism.MOVE_TO_TABLE,),
    ),
    "replace": StatementKind(
        sql="ALTER TABLE {to} REPLACE PARTITION {p:d} FROM {table}",
        effect=Effect.REPLACE,
        text="replaces a partition by that of another table",
        promise=f"{_PARTITION}#replace-partition",
        takes_rows=True,
        settings=ANY_WAIT,
        weight=0.5,
    ),
    "attach-from": StatementKind(
        sql="ALTER TABLE {to} ATTACH PARTITION {p:d} FROM {table}",
        effect=Effect.COPY,
        text="copies a partition from another table",
        promise=f"{_PARTITION}#attach-partition-from",
        takes_rows=True,
        settings=ANY_WAIT,
        weight=0.5,
    ),
    "drop": StatementKind(
        sql="ALTER TABLE {table} DROP PARTITION {p:d}",
        effect=Effect.DELETE,
        text="removes a partition",
        promise=f"{_PARTITION}#drop-partition",
        settings=ANY_WAIT,
        weight=0.5,
    ),
    "detach": StatementKind(
        sql="ALTER TABLE {table} DETACH PARTITION {p:d}",
        effect=Effect.DETACH,
        text="puts a partition aside, on each replica",
        promise=f"{_PARTITION}#detach-partitionpart",
        takes_rows=True,
        settings=ANY_WAIT,
        weight=0.5,
    ),
    "attach": StatementKind(
        sql="ALTER TABLE {table} ATTACH PARTITION {p:d}",
        effect=Effect.ATTACH,
        text="adds what the replica that is asked has put aside",
        promise=f"{_PARTITION}#attach-partitionpart",
        settings=ANY_WAIT,
        weight=0.5,
    ),
    "optimize": StatementKind(
        sql="OPTIMIZE TABLE {table} PARTITION {p:d} FINAL",
        effect=Effect.NONE,
        text="merges the parts of a partition",
        promise=f"{_MANUAL}/optimize",
        settings=ANY_WAIT,
        weight=0.5,
    ),
}
"""Statements by their names, which are those of their calls."""
