"""Client of the workload `statements`, which executes its calls on one replica."""

from collections.abc import Callable, Mapping
from typing import Final, cast

from msgspec import UNSET, structs

from checkers.look import decode, encode
from checkers.statements.calls import (
    EXPIRED_ROWS,
    FINAL_ROWS,
    MERGE_EXPIRED,
    READ_ROWS,
    RowsShown,
    StatementCall,
)
from harness.clients.clickhouse import (
    ClickHouse,
    DatabaseError,
    QuerySettings,
    failed_read,
    failed_write,
)
from harness.clients.replicated_table import ReplicatedTable
from harness.clusters.clock_query import read_clock
from harness.core.dialect import Dialect
from harness.core.op import Done, Kind, Op, Value
from harness.core.outcomes import UNSENT
from workloads.statement_kinds import SEPARATOR, StatementKind
from workloads.statement_tables import (
    ENGINES,
    LATE_VIEW,
    LONG_AGO_S,
    NEVER_S,
    STAGING,
    VIEW,
    TableShape,
    ViewTarget,
)

NOT_USED: Final = 584
"""Code of the error with which a server says that it can use no projection."""

REFUSALS: Final = frozenset({UNSENT, 164, 202})
"""Codes of errors with which a statement certainly did nothing: no connection, read-only by its
settings, too many queries. Any other may follow a part of the work."""

MERGE_ALL: Final = {"optimize_throw_if_noop": 1, "replication_alter_partitions_sync": 2}
"""Settings with which OPTIMIZE is acknowledged only if every replica has merged the parts."""
_LOOKS: Final = (FINAL_ROWS, READ_ROWS, EXPIRED_ROWS)
"""Calls that read the rows of a partition."""


class StatementsClient:
    """Client that executes the statements of its calls on one replica."""

    def __init__(
        self,
        connection: ClickHouse,
        dialect: Dialect,
        tables: Mapping[str, ReplicatedTable],
        chosen: Mapping[str, StatementKind],
        shape: TableShape,
    ) -> None:
        self._connection = connection
        self._dialect = dialect
        self._tables = tables
        self._names = {name: table.name for name, table in tables.items()}
        view = tables.get(VIEW)
        if isinstance(view, ViewTarget):
            self._names[LATE_VIEW] = view.view
        self._shown = [name for name in tables if name != STAGING]
        self._chosen = chosen
        self._shape = shape
        self._copies = ENGINES[shape.engine].copies

    def invoke(self, op: Op) -> Done:
        """Execute the statement, or read the rows of a partition."""
        if op.f in _LOOKS:
            try:
                return Done(Kind.OK, encode(self._rows(op)))
            except DatabaseError as error:
                return failed_read(error)
        try:
            execute = self._merge if op.f == MERGE_EXPIRED else self._execute
            return Done(Kind.OK, execute(op))
        except DatabaseError as error:
            done = failed_write(error)
            # An insert that is refused where its view writes may have added its own row.
            kind = self._chosen.get(op.f)
            whole = kind is not None and kind.is_one_block and VIEW not in self._tables
            certain = whole or error.code in REFUSALS
            return done if certain or done.kind is Kind.INFO else Done(Kind.INFO, error=done.error)

    def function_of(self, f: str) -> Callable[..., object]:
        """Return the function that makes the calls of this name."""
        if f == MERGE_EXPIRED:
            return self._merge
        return self._rows if f in _LOOKS else self._execute

    def close(self) -> None:
        """Close the connection; idempotent."""
        self._connection.close()

    def _execute(self, op: Op) -> Value:
        """Execute the statements of a call. Return its value, with the rows of the part that it
        names. Raises DatabaseError."""
        kind, call = self._chosen[op.f], decode(op, StatementCall)
        name = call.table.partition("@")[0]
        settings = cast(QuerySettings, self._dialect.query_settings(call.settings))
        table = self._names[name]
        if call.row is not UNSET:
            partitions = [op.key] if call.also is UNSET else [op.key, call.also]
            expiry = [(self._expiry_s(call),)] if self._shape.ttl else [()]
            rows = [(p, call.row, [*call.value], *e) for p in partitions for e in expiry]
            columns = "p, id, v, e" if self._shape.ttl else "p, id, v"
            self._connection.insert(f"{table} ({columns})", rows, settings)
            return op.value
        if call.synced and "@" not in call.table:
            self._connection.command(f"SYSTEM SYNC REPLICA {table}")
        aside = self._aside(op, name) if "aside" in kind.placeholders else ""
        part = self._part(op, name) if call.one_part and not aside else ""
        if part:
            call = structs.replace(call, rows=self._connection.numbers(
                f"SELECT DISTINCT id FROM {table} WHERE _part = '{part}' ORDER BY id"
            ))  # fmt: skip
        sql = kind.sql.format(
            table=table,
            to=self._names[call.to] if call.to is not UNSET else "",
            staging=self._names.get(STAGING, ""),
            columns=self._shape.columns,
            part=part,
            aside=aside,
            path=self._tables[name].path,
            view=self._names.get(VIEW, ""),
            node=op.node,
            p=op.key,
            index=op.index,
            update=0 if call.update is UNSET else call.update,
            where=call.condition(op.key),
        )
        for statement in sql.split(SEPARATOR):
            self._connection.command(statement, settings)
        return encode(call)

    def _expiry_s(self, call: StatementCall) -> int:
        """Return when the row of an insert expires, in seconds since 1970. Raises DatabaseError."""
        if not call.expires:
            return NEVER_S
        if not call.expires_s:
            return LONG_AGO_S
        now_ns, _ = read_clock(lambda sql: int(self._connection.row(sql, (int,))[0]))
        return now_ns // 1_000_000_000 + call.expires_s

    def _merge(self, op: Op) -> Value:
        """Merge all parts of a partition of a table, if the replica has rows of it. Raises
        DatabaseError."""
        name = decode(op, StatementCall).table
        if self._rows_of(name, op, ""):
            table = self._tables[name].name_by(self._connection)
            settings = self._dialect.query_settings(MERGE_ALL)
            self._connection.command(
                f"OPTIMIZE TABLE {table} PARTITION {op.key:d} FINAL", cast(QuerySettings, settings)
            )
        return op.value

    def _part(self, op: Op, name: str) -> str:
        """Return one of the parts that the replica has of a partition. Raises DatabaseError if it
        has none."""
        rows = self._connection.rows(
            "SELECT name FROM system.parts WHERE active AND rows > 0 AND "
            f"concat(database, '.', table) = '{self._names[name]}' AND partition_id = '{op.key}' "
            f"ORDER BY sipHash64(name, '{op.index}') LIMIT 1",
            (str,),
        )
        if not rows:
            raise DatabaseError(UNSENT, f"{op.node} has no part of partition {op.key} of {name}")
        return str(rows[0][0])

    def _aside(self, op: Op, name: str) -> str:
        """Return one of the parts that the replica has put aside of a partition. Raises
        DatabaseError if it has none."""
        rows = self._connection.rows(
            "SELECT name FROM system.detached_parts WHERE reason = '' AND "
            f"concat(database, '.', table) = '{self._names[name]}' AND partition_id = '{op.key}' "
            f"ORDER BY sipHash64(name, '{op.index}') LIMIT 1",
            (str,),
        )
        if not rows:
            raise DatabaseError(UNSENT, f"{op.node} has put aside no part of {op.key} of {name}")
        return str(rows[0][0])

    def _rows(self, op: Op) -> RowsShown:
        without = "optimize_use_projections = 0" if self._shape.projection else ""
        tables = {name: self._rows_of(name, op, without) for name in self._shown}
        if not self._shape.projection:
            return RowsShown(tables)
        projections = {}
        for name in self._shown:
            try:
                projections[name] = self._rows_of(name, op, "force_optimize_projection = 1")
            except DatabaseError as error:
                if error.code != NOT_USED:
                    raise
        return RowsShown(tables, projections)

    def _rows_of(self, name: str, op: Op, settings: str) -> list[tuple[int, list[int], int]]:
        """Return the rows of a partition of a table. Raises DatabaseError."""
        return [
            (row, [*updates], copies)
            for row, updates, copies in self._connection.rows(
                f"SELECT id, v, {self._copies} "
                f"FROM {self._tables[name].name_by(self._connection)} "
                f"WHERE p = {op.key:d} GROUP BY id, v ORDER BY id, v"
                + (f" SETTINGS {settings}" if settings else ""),
                (int, list, int),
            )
        ]
