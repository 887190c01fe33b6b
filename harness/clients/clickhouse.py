"""Connection to one ClickHouse server, all of whose failures have a code of the table of
outcomes."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from harness.clients.call_statements import note_statement
from harness.core.connections import QueryChannel, QueryError, Shape, check_shape
from harness.core.op import Done, Kind
from harness.core.outcomes import (
    PERHAPS_READ_ONLY,
    UNREADABLE,
    WRITE_OUTCOMES,
    Outcome,
    read_outcome,
    write_outcome,
)
from harness.core.protocols import Cluster

ServerSetting: TypeAlias = Literal[
    "allow_experimental_database_replicated",
    "async_insert",
    "database_replicated_allow_replicated_engine_arguments",
    "deduplicate_blocks_in_dependent_materialized_views",
    "distributed_ddl_output_mode",
    "distributed_ddl_task_timeout",
    "enable_lightweight_update",
    "insert_deduplicate",
    "insert_deduplication_token",
    "insert_distributed_sync",
    "insert_distributed_timeout",
    "insert_keeper_max_retries",
    "insert_keeper_retry_initial_backoff_ms",
    "insert_keeper_retry_max_backoff_ms",
    "insert_quorum",
    "insert_quorum_parallel",
    "insert_quorum_timeout",
    "keeper_map_strict_mode",
    "keeper_max_retries",
    "lightweight_delete_mode",
    "lightweight_deletes_sync",
    "max_execution_time",
    "mutations_sync",
    "optimize_skip_merged_partitions",
    "optimize_throw_if_noop",
    "receive_timeout",
    "replication_alter_partitions_sync",
    "select_sequential_consistency",
    "update_parallel_mode",
    "wait_for_async_insert",
]
"""Settings of queries that servers have; the tests ask the newest engine for each of them."""
SettingName: TypeAlias = ServerSetting | Literal["sequential_reading"]
"""Settings of queries, including those that only simulated servers have."""
QuerySettings: TypeAlias = Mapping[SettingName, int | str]

NO_SETTINGS: QuerySettings = MappingProxyType({})
_QUOTED: Final = 100
"""Number of characters that are quoted of a query whose answer has another shape."""


CAUTIOUS_OUTCOMES = (PERHAPS_READ_ONLY, *WRITE_OUTCOMES)
"""Outcomes for a server of unknown version: info if a server of any version may have done it."""


class DatabaseError(QueryError):
    """Failure of a query. `outcomes` says what it means for a write on the server that reported
    it."""

    def __init__(
        self, code: int, text: str, outcomes: Sequence[Outcome] = CAUTIOUS_OUTCOMES
    ) -> None:
        super().__init__(code, text)
        self.outcomes = outcomes


class ClickHouse:
    """Connection to one server, for one thread at a time."""

    def __init__(
        self,
        channel: QueryChannel,
        *,
        outcomes: Sequence[Outcome] = CAUTIOUS_OUTCOMES,
        node: str = "",
    ) -> None:
        """Create a client without a connection; `outcomes` says what the server's dialect makes of
        errors, `node` which server it is."""
        self._channel = channel
        self._node = node
        self._outcomes = outcomes

    def insert(
        self,
        table: str,
        rows: Sequence[Sequence[Any]],
        settings: QuerySettings = NO_SETTINGS,
        query_id: str = "",
    ) -> None:
        """Insert the rows as one block, under a query id if one is given. Raise DatabaseError."""
        self._execute(f"INSERT INTO {table} VALUES", settings, rows, query_id)

    def numbers(self, sql: str, settings: QuerySettings = NO_SETTINGS) -> tuple[int, ...]:
        """Return the numbers of a result of one column. Raise DatabaseError."""
        columns: Sequence[Sequence[int]] = self._execute(sql, settings, None, shape=(int,))
        return tuple(columns[0]) if columns else ()

    def rows(self, sql: str, shape: Shape | None = None) -> list[tuple[Any, ...]]:
        """Return the rows of a result, whose columns have these types; without a shape, whatever
        came. Raise DatabaseError."""
        return list(zip(*self._execute(sql, NO_SETTINGS, None, shape=shape), strict=True))

    def row(self, sql: str, shape: Shape) -> tuple[Any, ...]:
        """Return the row of a result that has one. Raise DatabaseError."""
        columns = self._execute(sql, NO_SETTINGS, None, shape=shape, count=1)
        return tuple(column[0] for column in columns)

    def command(self, sql: str, settings: QuerySettings = NO_SETTINGS) -> None:
        """Run a statement that returns nothing, such as CREATE or SYSTEM. Raise DatabaseError."""
        self._execute(sql, settings, None)

    def keep_session(self) -> None:
        """From now on, fail as unsent where the connection was lost since the last statement."""
        self._channel.keep_session()

    def close(self) -> None:
        """Close the connection; may be called twice."""
        self._channel.disconnect()

    def _execute(
        self,
        sql: str,
        settings: QuerySettings,
        rows: Sequence[Any] | None,
        query_id: str = "",
        *,
        shape: Shape | None = None,
        count: int | None = None,
    ) -> Any:
        given = {str(name): value for name, value in settings.items()}
        query_id = note_statement(self._node, sql, given, rows, query_id)
        try:
            result = self._channel.ask(sql, given, rows, query_id)
            if shape is not None:
                check_shape(result, shape, count)
        except QueryError as error:
            text = f"{sql[:_QUOTED]}: {error.text}" if error.code == UNREADABLE else error.text
            raise DatabaseError(error.code, text, self._outcomes) from error
        return result


def failed_write(error: DatabaseError) -> Done:
    """Return how a write ended that failed so."""
    return _done(write_outcome(error.code, error.text, error.outcomes), error)


def failed_read(error: DatabaseError) -> Done:
    """Return how a read ended that failed so."""
    return _done(read_outcome(error.code), error)


def _done(row: Outcome, error: DatabaseError) -> Done:
    assert row.kind in (Kind.FAIL, Kind.INFO), "an error is never ok"
    return Done(row.kind, error=f"{error.code} {row.name}: {error.text}")


def connect(cluster: Cluster, node: str, *, timeout_s: float = 10.0) -> ClickHouse:
    """Return a connection that is made on first use. `timeout_s` bounds each whole answer."""
    channel = cluster.query_channel(node, timeout_s)
    return ClickHouse(channel, outcomes=cluster.engines.dialect.write_outcomes, node=node)
