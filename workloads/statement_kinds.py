"""A kind of statement: what it does to a row, and how it is written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from string import Formatter
from typing import Final, TypeAlias

from checkers.statements.calls import Effect
from checkers.statements.steps import TAKING, TO_ANOTHER
from harness.clients.clickhouse import SettingName
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
_NAMES: Final = ("table", "to", "staging", "columns", "part", "aside", "where", "path")
_NUMBERS: Final = ("p", "update", "index")
PLACEHOLDERS: Final = (*_NAMES, *_NUMBERS)
"""Names that the text of a statement may have in braces."""
SEPARATOR: Final = "; "
"""What is between the statements of a text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementKind:
    """A kind of statement."""

    sql: str
    """Its text, or several that are executed one after the other, separated by "; ". {table} and
    {to} are tables, {staging} is a plain one of the replica, {path} that of the first table in
    ZooKeeper, {columns} are their columns, {p:d} is the partition, {part} one of its parts,
    {aside} one that the replica that is asked has put aside,
    {update:d} the number of an update that no other statement has, {index:d} the index of the call,
    {where} the condition on the rows that it touches. Without {p:d}, {where},
    {part} and {aside} it acts on whole tables. After that of an insert come the rows."""
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
    reshapes: bool = False
    """Whether it changes the columns, by which a server tells equal blocks."""
    needs: Sequence[Mechanism] = ()
    """Mechanisms that the servers must have."""

    @property
    def takes_rows(self) -> bool:
        """Return whether it takes from a table what its replica has, so that SYSTEM SYNC REPLICA
        matters. On all hosts another replica may make it."""
        return (
            self.effect in TAKING
            and "staging" not in self.placeholders
            and "ON CLUSTER" not in self.sql
        )

    @property
    def takes_staged(self) -> bool:
        """Return whether it takes from a plain table what its replica alone has."""
        plain = "staging" in self.placeholders and "ON CLUSTER" not in self.sql
        return self.effect in TAKING and plain

    @property
    def inserts_row(self) -> bool:
        """Return whether it inserts a row that its call has."""
        return self.effect in (Effect.INSERT, Effect.AGAIN)

    @property
    def placeholders(self) -> frozenset[str]:
        """Return the names in braces of its text. Raises ValueError for braces that do not
        match."""
        return frozenset(name for _, name, _, _ in Formatter().parse(self.sql) if name is not None)

    @property
    def has_partition(self) -> bool:
        """Return whether it touches rows of one partition."""
        return self.inserts_row or self.has_part or bool({"p", "where"} & self.placeholders)

    @property
    def has_part(self) -> bool:
        """Return whether it acts on one part."""
        return bool({"part", "aside"} & self.placeholders)

    @property
    def is_one_block(self) -> bool:
        """Return whether it inserts a block of its own, of which servers write all or nothing."""
        gathered = any(name == "async_insert" for name, _ in self.settings)
        return self.inserts_row and not self.spread and not gathered

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
            self.sql.format(**dict.fromkeys(_NAMES, ""), **dict.fromkeys(_NUMBERS, 1))
        except ValueError as error:
            raise UsageError(f"statement {name}: {error} in {self.sql!r}") from None
        of_table = self.effect is not Effect.FETCH and "staging" not in self.placeholders
        expected = {"table": of_table, "to": self.effect in (*TO_ANOTHER, Effect.EXCHANGE)}
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
