"""Differences between server versions: one frozen Dialect for each set of versions.

Nothing else in the project compares versions. Code that depends on what only some servers have
consults the cluster's dialect. Workloads, nemeses, scenarios and checkers name the mechanisms that
they need; if one is missing, a run is refused before it starts and a checker does not judge.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import Final

from harness.core.errors import MissingMechanismError, UsageError
from harness.core.op import Kind
from harness.core.outcomes import CERTAINLY_READ_ONLY, PERHAPS_READ_ONLY, WRITE_OUTCOMES, Outcome
from harness.core.ranges import quoted


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """First three numbers of a server's version."""

    major: int
    minor: int
    patch: int = 0

    @staticmethod
    def of(text: str) -> "Version":
        """Return the first version in a text, such as "ClickHouse client version 18.16.1.".

        Raises UsageError if there is none.
        """
        found = re.search(r"([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,9})", text)
        if not found:
            raise UsageError(f"version {quoted(text)}: expected three numbers such as 18.16.1")
        return Version(*map(int, found.groups()))

    def within(self, since: "Version", until: "Version | None") -> bool:
        """Return whether this version is at least `since` and before `until`."""
        return since <= self and (until is None or self < until)

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


FIRST: Final = Version(18, 16, 1)
"""Version of the servers of old runs, whose files do not name it."""
COORDINATED: Final = "/clickhouse/coordinated"
"""Path in ZooKeeper below which servers have KeeperMap tables, series and transaction logs."""


class Mechanism(StrEnum):
    """Mechanism that some servers have and others lack. The value is its name in messages."""

    TABLE_LEADER = "a single leading replica per table"
    """One replica leads a table, until 20.5; since then all assign merges and report that they
    lead."""
    PARALLEL_QUORUM = "parallel quorum inserts"
    """`insert_quorum_parallel`, with its nodes below /quorum/parallel; since 20.10."""
    QUORUM_AUTO = "insert_quorum='auto'"
    """Quorum of a majority of the replicas; since 22.9."""
    ATOMIC_DATABASES = "Atomic databases"
    """Default since 20.10: data is in store/<uuid>, and DROP is deferred without SYNC."""
    REPLICATED_DATABASES = "Replicated databases"
    """Database engine Replicated, since 20.12."""
    ALTER_IN_LOG = "ALTER as an entry of the replication log"
    """ALTERs are log entries whose version check refuses stale ones (517), since 20.3
    (ClickHouse#8701)."""
    OWN_WAIT = "OPTIMIZE that waits for one replica"
    """`replication_alter_partitions_sync` = 1 waits for the replica that was asked, not for all;
    since 21.9 (ClickHouse#27931)."""
    ASYNC_INSERT = "asynchronous inserts"
    """`async_insert`; since 21.11, on by default since 26.2."""
    DEDUPLICATION_TOKEN = "tokens that decide what is a duplicate"  # noqa: S105 # no password
    """`insert_deduplication_token`; since 22.2."""
    ZERO_COPY = "zero-copy replication"
    """Zero-copy replication, since 21.4."""
    INSERT_RETRIES = "inserts that retry ZooKeeper"
    """`insert_keeper_max_retries`; since 22.11."""
    SUBSECOND_LIMITS = "max_execution_time of less than a second"
    """Fractions of a second in settings whose unit is seconds; in 24.8 at the latest."""
    FAILPOINTS = "failpoints"
    """`SYSTEM ENABLE FAILPOINT`; since 23.4."""
    REPLICA_ERRORS = "errors_count in system.clusters"
    """The errors that a server counts for each replica of a cluster; in 24.8 at the latest."""
    ZOOKEEPER_RELOAD = "a ZooKeeper configuration that is reloaded without a restart"
    """The server opens another session when the section <zookeeper> of its files changes; since
    20.10 (ClickHouse#14678)."""
    DROP_REPLICA = "replicas that drop another"
    """A replica drops another one that is not active; since 20.5 (ClickHouse#10898)."""
    CLEANUP_BACKOFF = "a cleanup that backs off"
    """A table with little to clean up waits up to `max_cleanup_delay_period`, regardless of its
    `cleanup_delay_period`; since 23.6."""
    DURABLE_PARTS = "parts that are durable before they are acknowledged"
    """`fsync_after_insert`, `fsync_part_directory` and their like; since 20.10."""
    MOVE_TO_TABLE = "partitions that move to another table"
    """MOVE PARTITION TO TABLE (ClickHouse#6168); in 24.8 at the latest."""
    COPIED_PARTITIONS = "partitions copied between tables"
    """REPLACE PARTITION and ATTACH PARTITION FROM, in all versions."""
    VIEWS = "materialized views"
    """CREATE MATERIALIZED VIEW … TO, in all versions."""
    ROW_TTL = "rows that expire"
    """TTL of tables; in 24.8 at the latest."""
    WAITED_MUTATIONS = "mutations that can be waited for"
    """`mutations_sync`; in 24.8 at the latest."""
    LIGHTWEIGHT_DELETES = "lightweight deletes"
    """DELETE FROM, `lightweight_deletes_sync`, APPLY DELETED MASK; in 24.8 at the latest."""
    LIGHTWEIGHT_UPDATES = "lightweight updates"
    """UPDATE and DELETE FROM as patch parts; since 25.7."""
    NAMED_PARTS = "parts that statements name"
    """DROP PART and DETACH PART (ClickHouse#15511); in 24.8 at the latest."""
    FORGET_PARTITION = "partitions that ZooKeeper forgets"
    """FORGET PARTITION (ClickHouse#59507); in 24.8 at the latest."""
    REFRESHABLE_VIEWS = "refreshable views"
    """Views with REFRESH, and SYSTEM WAIT VIEW. 24.8.4.1 lacks the latter, 25.8 has it."""
    PROJECTIONS = "projections"
    """`lightweight_mutation_projection_mode` of tables: DELETE FROM keeps projections. 24.8.4.1
    lacks it, 25.8 has it."""
    BACKUPS = "backups"
    """BACKUP and RESTORE; in 24.8 at the latest."""
    SERIAL_IDS = "generateSerialID"
    """Numbers of a series, which is a node in ZooKeeper; since 25.1."""
    KEEPER_MAP = "KeeperMap tables"
    """Table engine KeeperMap with `keeper_map_strict_mode`; in 24.8 at the latest."""
    TRANSACTIONS = "transactions"
    """BEGIN TRANSACTION on MergeTree tables, experimental; in 24.8 at the latest."""
    TRANSACTION_LOG = "ZooKeeper's transaction log"
    """ClickHouse Keeper lacks it: it writes a log in another format."""


class Coordination(StrEnum):
    """Program through which replicas coordinate. Both serve clients in ZooKeeper's protocol."""

    ZOOKEEPER = "ZooKeeper"
    KEEPER = "ClickHouse Keeper"


_SINCE: Final[Mapping[Mechanism, Version]] = {
    Mechanism.PARALLEL_QUORUM: Version(20, 10),
    Mechanism.DURABLE_PARTS: Version(20, 10),
    Mechanism.QUORUM_AUTO: Version(22, 9),
    Mechanism.ATOMIC_DATABASES: Version(20, 10),
    Mechanism.REPLICATED_DATABASES: Version(20, 12),
    Mechanism.ALTER_IN_LOG: Version(20, 3),
    Mechanism.OWN_WAIT: Version(21, 9),
    Mechanism.ASYNC_INSERT: Version(21, 11),
    Mechanism.DEDUPLICATION_TOKEN: Version(22, 2),
    Mechanism.ZERO_COPY: Version(21, 4),
    Mechanism.INSERT_RETRIES: Version(22, 11),
    Mechanism.SUBSECOND_LIMITS: Version(24, 8),
    Mechanism.FAILPOINTS: Version(23, 4),
    Mechanism.REPLICA_ERRORS: Version(24, 8),
    Mechanism.ZOOKEEPER_RELOAD: Version(20, 10),
    Mechanism.DROP_REPLICA: Version(20, 5),
    Mechanism.CLEANUP_BACKOFF: Version(23, 6),
    Mechanism.COPIED_PARTITIONS: FIRST,
    Mechanism.MOVE_TO_TABLE: Version(24, 8),
    Mechanism.VIEWS: FIRST,
    Mechanism.ROW_TTL: Version(24, 8),
    Mechanism.WAITED_MUTATIONS: Version(24, 8),
    Mechanism.LIGHTWEIGHT_DELETES: Version(24, 8),
    Mechanism.NAMED_PARTS: Version(24, 8),
    Mechanism.FORGET_PARTITION: Version(24, 8),
    Mechanism.REFRESHABLE_VIEWS: Version(25, 8),
    Mechanism.PROJECTIONS: Version(25, 8),
    Mechanism.BACKUPS: Version(24, 8),
    Mechanism.LIGHTWEIGHT_UPDATES: Version(25, 7),
    Mechanism.SERIAL_IDS: Version(25, 1),
    Mechanism.KEEPER_MAP: Version(24, 8),
    Mechanism.TRANSACTIONS: Version(24, 8),
}
_UNTIL: Final[Mapping[Mechanism, Version]] = {Mechanism.TABLE_LEADER: Version(20, 5)}
"""First version without the mechanism."""

_Settings = Mapping[str, int]
_PROFILE: Final[tuple[tuple[Version, _Settings], ...]] = (
    # It is on by default since 21.1, and sequentially consistent reads do not work with it.
    (Version(20, 10), {"insert_quorum_parallel": 0}),
    # It is on by default since 26.2; it refuses serial quorums and joins inserts to one block.
    (Version(21, 11), {"async_insert": 0}),
    # By default 20 retries wait up to 10 s each and outlast every client; with this, 10 s in total.
    (Version(22, 11), {"insert_keeper_retry_max_backoff_ms": 500}),
    (Version(24, 3), {"keeper_retry_max_backoff_ms": 500}),
)
_SERVER: Final[tuple[tuple[Version, _Settings], ...]] = (
    # These are the defaults of the official server. The servers in chdb's wheels are compiled with
    # pools of 2, 1 and 0 threads, with which a Distributed table never sends, and an OPTIMIZE that
    # waits for its turn prevents the replication log from being pulled.
    (
        Version(24, 8),
        {
            "background_pool_size": 16,
            "background_move_pool_size": 8,
            "background_fetches_pool_size": 16,
            "background_common_pool_size": 8,
            "background_buffer_flush_schedule_pool_size": 16,
            "background_schedule_pool_size": 512,
            "background_message_broker_schedule_pool_size": 16,
            "background_distributed_schedule_pool_size": 16,
        },
    ),
    # Each of 16 threads for asynchronous inserts polls every few milliseconds, and the metrics are
    # computed each second: together three quarters of what an idle server uses (4 % of a core).
    (Version(24, 8), {"async_insert_threads": 2, "asynchronous_metrics_update_period_s": 30}),
    # A server that is to end waits for this time for the idle connections over which its peers
    # fetched parts. With the default of 30 s it takes 28 s from SIGTERM to its end, with this 2 s.
    (Version(24, 8), {"keep_alive_timeout": 3}),
    # A server that died in the middle of a DROP TABLE goes on with it this long after it was asked,
    # and until then the replica cannot be created again. The default of 480 s outlasts every run.
    (Version(24, 8), {"database_atomic_delay_before_drop_table_sec": 1}),
)
_MERGE_TREE: Final[tuple[tuple[Version, _Settings], ...]] = (
    # This is the interval at which a table checks for an expired session; until it does, it stays
    # read-only. The default is 60 s, as long as a whole run.
    (Version(18, 16), {"zookeeper_session_expiration_check_period": 1}),
    # By default a task that failed waits up to 60 s, some up to 300 s, which is longer than a
    # cluster may take to reach quiescence.
    (Version(24, 8), {"max_postpone_time_for_failed_mutations_ms": 1000}),
    # These are the official defaults, for a pool of 16 threads; in chdb's wheels they are 0.
    (
        Version(24, 8),
        {
            "number_of_free_entries_in_pool_to_lower_max_size_of_merge": 8,
            "number_of_free_entries_in_pool_to_execute_mutation": 20,
            "number_of_free_entries_in_pool_to_execute_optimize_entire_partition": 25,
        },
    ),
    (
        Version(25, 4),
        {
            "max_postpone_time_for_failed_replicated_fetches_ms": 1000,
            "max_postpone_time_for_failed_replicated_merges_ms": 1000,
            "max_postpone_time_for_failed_replicated_tasks_ms": 1000,
        },
    ),
)
_CLEANUP: Final[tuple[tuple[Version, _Settings], ...]] = (
    (Version(18, 16), {"cleanup_delay_period": 1, "cleanup_delay_period_random_add": 0}),
    # The period grows up to this while there is little to clean up; the default is 300 s.
    (Version(24, 8), {"max_cleanup_delay_period": 1}),
)

_OLDER_PARTS: Final[tuple[tuple[Version, _Settings], ...]] = (
    # It is on by default since 25.8. 24.8 does not know such marks ("Unknown mark file extension:
    # '4'", 79); 25.5 fetches such a part incompletely ("No columns_substreams.txt", 226).
    (Version(25, 8), {"write_marks_for_substreams_in_compact_parts": 0}),
)
"""Versions since which servers write parts that older ones cannot read, with the settings that
prevent it."""
_SETTINGS_OF: Final[Mapping[str, Mechanism]] = {"mutations_sync": Mechanism.WAITED_MUTATIONS}
"""Settings of queries that only servers with a mechanism know."""
_LOG_ENTRIES: Final[Mapping[str, tuple[Version, Version | None]]] = {
    "get": (Version(0, 0), None),
    "merge": (Version(0, 0), None),
    "mutate": (Version(0, 0), None),
    "drop": (Version(0, 0), None),
    "detach": (Version(0, 0), None),
    "REPLACE_RANGE": (Version(0, 0), None),
    "clear_column": (Version(0, 0), Version(20, 3)),
    "alter": (_SINCE[Mechanism.ALTER_IN_LOG], None),
    # The month of ClickHouse#18978; no version between 18.16 and 24.8 was examined.
    "attach": (Version(21, 4), None),
}
"""Kinds of entries in the replication log, with the first version that writes each and the first
that does not. Source: ReplicatedMergeTreeLogEntryData::writeText of 18.16.1 and of 25.8."""
_DEDUPLICATION_BLOCKS: Final = (
    (Version(0, 0), 100),
    (Version(24, 8), 1000),
    (Version(25, 9), 10_000),
)
"""Defaults of `replicated_deduplication_window`, by the version that introduced each."""
_DEDUPLICATION_S: Final = ((Version(0, 0), 604_800), (Version(25, 10), 3600))
"""Defaults of `replicated_deduplication_window_seconds`, likewise."""
_FETCH_BUFFER_BYTES: Final = (
    (Version(0, 0), 0),
    # `Fetcher::fetchSelectedPart` reads the part's size before it makes the directory, and
    # `ReadBufferFromIStream` returns when its buffer is full or the answer has ended.
    (Version(24, 8), 1 << 20),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """Behaviour of one ClickHouse version with one coordination service.

    A dialect of several versions describes what servers of all these versions have in common.
    """

    versions: tuple[Version, ...]
    """Versions, the oldest first."""
    coordination: Coordination
    mechanisms: frozenset[Mechanism]
    configuration_root: str
    """Root element of the configuration. Engines before late 2021 read only "yandex"; newer ones
    warn about it."""
    profile: _Settings
    """Settings of the default profile, in users.xml."""
    server: _Settings
    """Settings of the server itself, in config.xml."""
    merge_tree: _Settings
    """Defaults of every MergeTree table, in config.xml."""
    cleanup: _Settings
    """Settings of a table whose old block hashes and log entries are cleaned up every second."""
    write_outcomes: tuple[Outcome, ...]
    """Outcomes of a write by its error; the first row that matches decides."""
    log_entries: frozenset[str]
    """Kinds of the entries that the servers write into the replication log; of several versions,
    those of any."""
    deduplication_blocks: int
    """Default number of blocks that a table remembers for deduplication."""
    deduplication_s: int
    """Default time for which it remembers them."""
    fetch_buffer_bytes: int
    """Size of the buffer that an answer must fill, unless it ends before, until a fetch makes the
    part's directory; 0: it makes the directory first."""

    unsimulated: frozenset[Mechanism] = frozenset()
    """Mechanisms that the versions have and their simulated servers lack."""
    chosen_by: str = "--clickhouse"
    """Option that chooses the servers."""

    def has(self, mechanism: Mechanism) -> bool:
        """Return whether the servers have a mechanism."""
        return mechanism in self.mechanisms

    def lacks(self, needs: Iterable[Mechanism]) -> tuple[Mechanism, ...]:
        """Return the mechanisms that the servers do not have, in the given order."""
        return tuple(mechanism for mechanism in needs if mechanism not in self.mechanisms)

    def require(self, what: str, needs: Iterable[Mechanism]) -> None:
        """Raise MissingMechanismError, which names what is missing, unless the servers have all.

        `what` says who needs them, such as "workload merges".
        """
        lacks = self.lacks(needs)
        missing = ", ".join(lacks)
        if self.unsimulated.intersection(lacks):
            raise MissingMechanismError(
                f"{what}: needs {missing}, which simulated servers do not have; expected --cluster "
                "docker",
                missing,
            )
        if missing:
            servers = f"ClickHouse {', '.join(map(str, self.versions))} with {self.coordination}"
            lack = f"not all of {servers} have" if self.versions[1:] else f"{servers} does not have"
            raise MissingMechanismError(
                f"{what}: needs {missing}, which {lack}; choose another {self.chosen_by}", missing
            )

    def parts_read_by(self, oldest: Version) -> _Settings:
        """Return the defaults of MergeTree tables with which the oldest version reads the parts."""
        own = self.versions[0]
        rows = (settings for since, settings in _OLDER_PARTS if oldest < since <= own)
        return {name: value for row in rows for name, value in row.items()}

    def durable_parts(self, every: bool) -> _Settings:
        """Return the defaults of MergeTree tables with which inserted parts are durable when they
        are acknowledged; with `every` those of merges, mutations and fetches, too."""
        assert self.has(Mechanism.DURABLE_PARTS), "mechanisms are checked before the run"
        inserted = {"fsync_after_insert": 1, "fsync_part_directory": 1}
        others = {
            "min_rows_to_fsync_after_merge": 1,
            "min_compressed_bytes_to_fsync_after_merge": 1,
            "min_compressed_bytes_to_fsync_after_fetch": 1,
        }
        return {**inserted, **others} if every else inserted

    def drop_database(self, name: str) -> str:
        """Return the statement that removes a database and its data before it returns.

        Without SYNC an Atomic database keeps both, and the replicas' nodes in ZooKeeper, for
        minutes.
        """
        sync = " SYNC" if self.has(Mechanism.ATOMIC_DATABASES) else ""
        return f"DROP DATABASE IF EXISTS {name}{sync}"

    def table_settings(self, settings: Mapping[str, int | str]) -> Mapping[str, int | str]:
        """Return a table's settings, with what makes its cleanup period effective.

        Otherwise a table that was idle for one period is not cleaned up, and its log is not
        truncated, for five minutes.
        """
        period = settings.get("cleanup_delay_period")
        if period is None or not self.has(Mechanism.CLEANUP_BACKOFF):
            return settings
        return {**settings, "max_cleanup_delay_period": period}

    def query_settings(self, settings: Mapping[str, int | str]) -> Mapping[str, int | str]:
        """Return those of a query's settings that the servers know."""
        return {
            name: value
            for name, value in settings.items()
            if name not in _SETTINGS_OF or self.has(_SETTINGS_OF[name])
        }

    def optimize_waits(self, sync: int, own: str, replicas: Sequence[str]) -> tuple[str, ...]:
        """Return the replicas that have merged when an OPTIMIZE on `own` returns, given its
        `replication_alter_partitions_sync`."""
        if sync == 0:
            return ()
        return (own,) if sync == 1 and self.has(Mechanism.OWN_WAIT) else tuple(replicas)

    def alter_waits(self, sync: int, own: str, replicas: Sequence[str]) -> tuple[str, ...]:
        """Return the replicas that have the columns when an ALTER on `own` returns; an ALTER that
        is no entry of the log ignores the setting."""
        if not self.has(Mechanism.ALTER_IN_LOG):
            return tuple(replicas)
        return {0: (), 1: (own,)}.get(sync, tuple(replicas))

    def data_directory(self, database: str, table: str, uuid: str) -> str:
        """Return the directory of a table's files, relative to the server's data directory.

        `uuid` is that of the table in system.tables, "" if there is none.
        """
        if self.has(Mechanism.ATOMIC_DATABASES):
            return f"store/{uuid[:3]}/{uuid}"
        return f"data/{database}/{table}"


def _up_to(version: Version, table: Iterable[tuple[Version, _Settings]]) -> _Settings:
    rows = (settings for since, settings in table if version >= since)
    return MappingProxyType({name: value for row in rows for name, value in row.items()})


def _newest(version: Version, defaults: Sequence[tuple[Version, int]]) -> int:
    return [default for since, default in defaults if version >= since][-1]


@cache
def dialect_of(clickhouse: Version, coordination: Coordination = Coordination.ZOOKEEPER) -> Dialect:
    """Return the dialect of one ClickHouse version with one coordination service."""
    has = {mechanism for mechanism, since in _SINCE.items() if clickhouse >= since}
    has |= {mechanism for mechanism, until in _UNTIL.items() if clickhouse < until}
    if coordination is Coordination.ZOOKEEPER:
        has.add(Mechanism.TRANSACTION_LOG)
    read_only = PERHAPS_READ_ONLY if Mechanism.INSERT_RETRIES in has else CERTAINLY_READ_ONLY
    return Dialect(
        versions=(clickhouse,),
        coordination=coordination,
        mechanisms=frozenset(has),
        configuration_root="clickhouse" if clickhouse >= Version(22, 1) else "yandex",
        profile=_up_to(clickhouse, _PROFILE),
        server=_up_to(clickhouse, _SERVER),
        merge_tree=_up_to(clickhouse, _MERGE_TREE),
        cleanup=_up_to(clickhouse, _CLEANUP),
        write_outcomes=(read_only, *WRITE_OUTCOMES),
        log_entries=frozenset(
            kind for kind, (since, until) in _LOG_ENTRIES.items() if clickhouse.within(since, until)
        ),
        deduplication_blocks=_newest(clickhouse, _DEDUPLICATION_BLOCKS),
        deduplication_s=_newest(clickhouse, _DEDUPLICATION_S),
        fetch_buffer_bytes=_newest(clickhouse, _FETCH_BUFFER_BYTES),
    )


@cache
def common_dialect(
    versions: frozenset[Version], coordination: Coordination = Coordination.ZOOKEEPER
) -> Dialect:
    """Return the dialect of a cluster that has ClickHouse servers of all these versions.

    It has the mechanisms that every server has. An error is a certain failure only if it is one on
    each server. The configuration is that of the oldest, which all of them read; each server is
    configured by its own dialect.
    """
    oldest, *others = (dialect_of(version, coordination) for version in sorted(versions))
    if not others:
        return oldest
    every = (oldest, *others)
    return replace(
        oldest,
        versions=tuple(sorted(versions)),
        mechanisms=frozenset.intersection(*(dialect.mechanisms for dialect in every)),
        write_outcomes=most_doubtful([dialect.write_outcomes for dialect in every]),
        log_entries=frozenset().union(*(dialect.log_entries for dialect in every)),
        deduplication_blocks=min(dialect.deduplication_blocks for dialect in every),
        deduplication_s=min(dialect.deduplication_s for dialect in every),
        fetch_buffer_bytes=max(dialect.fetch_buffer_bytes for dialect in every),
    )


def most_doubtful(tables: Iterable[tuple[Outcome, ...]]) -> tuple[Outcome, ...]:
    """Merge tables of outcomes so that an error is certain only if it is in every table.

    An error that a table does not list is info.
    """
    by_error = [{(row.code, row.text): row for row in table} for table in tables]
    errors = dict.fromkeys(error for rows in by_error for error in rows)
    out: list[Outcome] = []
    for error in errors:
        found = [rows[error] for rows in by_error if error in rows]
        doubtful = next((row for row in found if row.kind is Kind.INFO), None)
        if doubtful is not None:
            out.append(doubtful)
        elif len(found) == len(by_error):
            out.append(found[0])
    return tuple(out)
