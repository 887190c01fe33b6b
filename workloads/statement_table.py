"""The table of statements: what each of them does to a row, and how it is written.

A statement is a row of this table. Generator, client, history, judge and manual follow from it; a
user's own is a `StatementKind` in a module of theirs, named MODULE:NAME.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from string import Formatter
from typing import Final, TypeAlias

from checkers.statements.calls import Effect
from checkers.statements.effects import TAKING, TO_ANOTHER
from harness.clients.clickhouse import SettingName
from harness.core import plugins
from harness.core.dialect import Mechanism
from harness.core.errors import UsageError
from harness.core.ranges import unknown_name

Drawn: TypeAlias = tuple[tuple[SettingName, tuple[int | str, ...]], ...]
"""Settings of which the seed draws a value for each call."""

ANY_WAIT: Final[Drawn] = (("replication_alter_partitions_sync", (0, 1, 2)),)
"""Wait for nobody, for the replica that is asked, for all."""
ANY_MUTATION: Final[Drawn] = (("mutations_sync", (0, 1, 2)),)
PATCHED: Final = {"enable_block_number_column": 1, "enable_block_offset_column": 1}
"""Settings of tables whose rows are patched."""
PLACEHOLDERS: Final = ("table", "to", "p", "update", "where", "path")
"""Names that the text of a statement may have in braces."""
_MANUAL: Final = "sql-reference/statements"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementKind:
    """A kind of statement."""

    sql: str
    """Its text; {table} and {to} are tables, {path} is the first one's in ZooKeeper, {p:d} the
    partition, {update:d} the number of an update that no other statement has, {where} the condition
    on the rows that it touches. Without {p:d} and {where} it acts on whole tables. After that of an
    insert come the rows."""
    effect: Effect
    """What it does to a copy of a row that it touches."""
    text: str
    """What it does, for a reader."""
    promise: str
    """Page of ClickHouse's manual that says so."""
    settings: Drawn = ()
    table_settings: Mapping[str, int] = field(default_factory=dict)
    """Settings that the tables must have."""
    weight: float = 1.0
    """How often it is drawn, beside the others."""
    by_name: bool = False
    """Whether "all" leaves it out, because it gets in the way of others."""
    spread: bool = False
    """Whether it inserts its row into two partitions."""
    needs: Sequence[Mechanism] = ()
    """Mechanisms that the servers must have."""

    @property
    def takes_rows(self) -> bool:
        """Return whether it takes from a table what its replica has, so that SYSTEM SYNC REPLICA
        matters."""
        return self.effect in TAKING

    @property
    def placeholders(self) -> frozenset[str]:
        """Return the names in braces of its text. Raises ValueError for braces that do not
        match."""
        return frozenset(name for _, name, _, _ in Formatter().parse(self.sql) if name is not None)

    @property
    def has_partition(self) -> bool:
        """Return whether it touches rows of one partition."""
        return self.effect is Effect.INSERT or bool({"p", "where"} & self.placeholders)

    @property
    def is_one_block(self) -> bool:
        """Return whether it inserts a block of its own, of which servers write all or nothing."""
        gathered = any(name == "async_insert" for name, _ in self.settings)
        return self.effect is Effect.INSERT and not self.spread and not gathered

    @property
    def description(self) -> str:
        """Return what it does, its effect, the mechanisms that it needs, and its promise."""
        needs = f"; needs {', '.join(self.needs)}" if self.needs else ""
        named = "; only if it is named" if self.by_name else ""
        return f"{self.text} (effect {self.effect}{needs}{named}; {self.promise})"

    def validate(self, name: str) -> None:
        """Raise UsageError if its text and its effect do not go together."""
        if not isinstance(self.effect, Effect):
            raise UsageError(f"statement {name}: effect {self.effect!r}: expected an Effect")
        try:
            for part in sorted(self.placeholders - {*PLACEHOLDERS}):
                known = unknown_name(part, PLACEHOLDERS)
                raise UsageError(f"statement {name}: placeholder {known}")
            self.sql.format(**dict.fromkeys(("table", "to", "where", "path"), ""), p=1, update=1)
        except ValueError as error:
            raise UsageError(f"statement {name}: {error} in {self.sql!r}") from None
        expected = {"table": self.effect is not Effect.FETCH, "to": self.effect in TO_ANOTHER}
        expected |= {"update": self.effect is Effect.APPEND, "path": self.effect is Effect.FETCH}
        for part, needed in expected.items():
            if (part in self.placeholders) != needed:
                has = "has no" if needed else "has a"
                raise UsageError(
                    f"statement {name}: its effect is {self.effect} and its text {has} "
                    f"{{{part}}}: {self.sql!r}"
                )
        for setting, values in self.settings:
            if not values:
                raise UsageError(f"statement {name}: setting {setting} has no values to draw from")


def statement_named(name: str) -> StatementKind:
    """Return the statement of the table, or the user's own, of this name. Raises UsageError."""
    if not plugins.is_reference(name):
        if name not in STATEMENTS:
            listed_by = "harness list statements"
            raise UsageError(f"statements {unknown_name(name, STATEMENTS, listed_by)}")
        return STATEMENTS[name]
    kind = plugins.load_value(name, StatementKind)
    kind.validate(name)
    return kind


_PARTITION: Final = f"{_MANUAL}/alter/partition"

STATEMENTS: Final[Mapping[str, StatementKind]] = {
    "insert-row": StatementKind(
        sql="INSERT INTO {table} VALUES",
        effect=Effect.INSERT,
        text="inserts a row",
        promise=f"{_MANUAL}/insert-into",
        weight=12,
    ),
    "insert-quorum": StatementKind(
        sql="INSERT INTO {table} VALUES",
        effect=Effect.INSERT,
        text="inserts a row that two replicas acknowledge",
        promise="operations/settings/settings#insert_quorum",
        settings=(
            ("insert_quorum", (2,)),
            ("insert_quorum_parallel", (0, 1)),
            ("insert_quorum_timeout", (5000,)),
        ),
        needs=(Mechanism.PARALLEL_QUORUM,),
        weight=2,
        by_name=True,
    ),
    "insert-async": StatementKind(
        sql="INSERT INTO {table} VALUES",
        effect=Effect.INSERT,
        text="inserts a row into the block that the server gathers, and waits for that",
        promise="optimize/asynchronous-inserts",
        settings=(("async_insert", (1,)), ("wait_for_async_insert", (1,))),
        needs=(Mechanism.ASYNC_INSERT,),
        weight=2,
    ),
    "insert-spread": StatementKind(
        sql="INSERT INTO {table} VALUES",
        effect=Effect.INSERT,
        text="inserts a row into each of two partitions, in one statement",
        promise=f"{_MANUAL}/insert-into",
        spread=True,
        weight=2,
    ),
    "insert-select": StatementKind(
        sql="INSERT INTO {to} (p, id, v) SELECT p, id, v FROM {table} WHERE p = {p:d}",
        effect=Effect.SELECT,
        text="inserts the rows of a partition of another table",
        promise=f"{_MANUAL}/insert-into#inserting-the-results-of-select",
        weight=0.5,
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
    "delete-from": StatementKind(
        sql="DELETE FROM {table} WHERE {where}",
        effect=Effect.DELETE,
        text="marks rows as removed, as a mutation",
        promise=f"{_MANUAL}/delete",
        settings=(("lightweight_deletes_sync", (0, 1, 2)),),
        needs=(Mechanism.LIGHTWEIGHT_DELETES,),
        weight=0.5,
    ),
    "apply-deleted": StatementKind(
        sql="ALTER TABLE {table} APPLY DELETED MASK IN PARTITION {p:d}",
        effect=Effect.NONE,
        text="removes the rows that are marked as removed from the parts",
        promise=f"{_MANUAL}/alter/apply-deleted-mask",
        settings=ANY_MUTATION,
        needs=(Mechanism.LIGHTWEIGHT_DELETES,),
        weight=0.2,
    ),
    "patch": StatementKind(
        sql="UPDATE {table} SET v = arrayPushBack(v, {update:d}) WHERE {where}",
        effect=Effect.APPEND,
        text="appends a number to the list of each row, in a patch part",
        promise=f"{_MANUAL}/update",
        settings=(("enable_lightweight_update", (1,)), ("update_parallel_mode", ("auto",))),
        table_settings=PATCHED,
        needs=(Mechanism.LIGHTWEIGHT_UPDATES,),
        by_name=True,
    ),
    "patch-sync": StatementKind(
        sql="UPDATE {table} SET v = arrayPushBack(v, {update:d}) WHERE {where}",
        effect=Effect.APPEND,
        text="the same, one after the other",
        promise="operations/settings/settings#update_parallel_mode",
        settings=(("enable_lightweight_update", (1,)), ("update_parallel_mode", ("sync",))),
        table_settings=PATCHED,
        needs=(Mechanism.LIGHTWEIGHT_UPDATES,),
        by_name=True,
    ),
    "patch-delete": StatementKind(
        sql="DELETE FROM {table} WHERE {where}",
        effect=Effect.DELETE,
        text="marks rows as removed, in a patch part",
        promise=f"{_MANUAL}/delete",
        settings=(
            ("enable_lightweight_update", (1,)),
            ("lightweight_delete_mode", ("lightweight_update_force",)),
        ),
        table_settings=PATCHED,
        needs=(Mechanism.LIGHTWEIGHT_UPDATES,),
        weight=0.5,
        by_name=True,
    ),
    "move": StatementKind(
        sql="ALTER TABLE {table} MOVE PARTITION {p:d} TO TABLE {to}",
        effect=Effect.MOVE,
        text="moves a partition to another table",
        promise=f"{_PARTITION}#move-partition-to-table",
        settings=ANY_WAIT,
        needs=(Mechanism.MOVE_TO_TABLE,),
    ),
    "replace": StatementKind(
        sql="ALTER TABLE {to} REPLACE PARTITION {p:d} FROM {table}",
        effect=Effect.REPLACE,
        text="replaces a partition by that of another table",
        promise=f"{_PARTITION}#replace-partition",
        settings=ANY_WAIT,
        weight=0.5,
        needs=(Mechanism.COPIED_PARTITIONS,),
    ),
    "attach-from": StatementKind(
        sql="ALTER TABLE {to} ATTACH PARTITION {p:d} FROM {table}",
        effect=Effect.COPY,
        text="copies a partition from another table",
        promise=f"{_PARTITION}#attach-partition-from",
        settings=ANY_WAIT,
        weight=0.5,
        needs=(Mechanism.COPIED_PARTITIONS,),
    ),
    "drop": StatementKind(
        sql="ALTER TABLE {table} DROP PARTITION {p:d}",
        effect=Effect.DELETE,
        text="removes a partition",
        promise=f"{_PARTITION}#drop-partition",
        settings=ANY_WAIT,
        weight=0.5,
    ),
    "truncate": StatementKind(
        sql="TRUNCATE TABLE {table}",
        effect=Effect.DELETE,
        text="removes every partition",
        promise=f"{_MANUAL}/truncate",
        settings=ANY_WAIT,
        weight=0.05,
    ),
    "detach": StatementKind(
        sql="ALTER TABLE {table} DETACH PARTITION {p:d}",
        effect=Effect.DETACH,
        text="puts a partition aside, on each replica",
        promise=f"{_PARTITION}#detach-partitionpart",
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
    "fetch": StatementKind(
        sql="ALTER TABLE {to} FETCH PARTITION {p:d} FROM '{path}'",
        effect=Effect.FETCH,
        text="puts a copy of a partition of another table aside, on the replica that is asked",
        promise=f"{_PARTITION}#fetch-partitionpart",
        weight=0.3,
    ),
    "optimize": StatementKind(
        sql="OPTIMIZE TABLE {table} PARTITION {p:d} FINAL",
        effect=Effect.NONE,
        text="merges the parts of a partition",
        promise=f"{_MANUAL}/optimize",
        settings=ANY_WAIT,
        weight=0.5,
    ),
    "deduplicate": StatementKind(
        sql="OPTIMIZE TABLE {table} PARTITION {p:d} FINAL DEDUPLICATE",
        effect=Effect.COLLAPSE,
        text="merges the parts of a partition, and leaves one of equal rows",
        promise=f"{_MANUAL}/optimize#by-expression",
        settings=ANY_WAIT,
        weight=0.2,
    ),
    "freeze": StatementKind(
        sql="ALTER TABLE {table} FREEZE PARTITION {p:d}",
        effect=Effect.NONE,
        text="makes hard links of the parts of a partition, as a backup",
        promise=f"{_PARTITION}#freeze-partition",
        weight=0.2,
    ),
    "column-default": StatementKind(
        sql="ALTER TABLE {table} MODIFY COLUMN v DEFAULT [{p:d}]",
        effect=Effect.NONE,
        text="changes a default that no insert uses",
        promise=f"{_MANUAL}/alter/column#modify-column",
        settings=ANY_WAIT,
        weight=0.2,
    ),
    "restart-replica": StatementKind(
        sql="SYSTEM RESTART REPLICA {table}",
        effect=Effect.NONE,
        text="makes the replica begin anew, as after a restart of its server",
        promise=f"{_MANUAL}/system#restart-replica",
        weight=0.1,
    ),
}
"""Statements by their names, which are those of their calls."""
