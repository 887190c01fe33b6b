"""What differs between server versions: one frozen Dialect for each set of versions.

Nothing else in the project compares versions. Whoever depends on something that only some servers
have asks the cluster's dialect; workloads, nemeses, scenarios and checkers name the mechanisms that
they need, and are refused before the run, or do not judge, where one is missing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from harness.core.errors import MissingMechanismError
from harness.core.op import Kind
from harness.core.outcomes import CERTAINLY_READ_ONLY, PERHAPS_READ_ONLY, WRITE_OUTCOMES, Outcome
from harness.core.topology import Role
from harness.core.version import Version


class Mechanism(StrEnum):
    """Something that some servers have and others lack. The value is its name for people."""

    TABLE_LEADER = "a single leading replica per table"
    """Until 20.5; afterwards every replica assigns merges and says that it leads."""
    PARALLEL_QUORUM = "parallel quorum inserts"
    """`insert_quorum_parallel`, with its nodes below /quorum/parallel; since 20.10."""
    QUORUM_AUTO = "insert_quorum='auto'"
    """A majority of the replicas; since 22.9."""
    ATOMIC_DATABASES = "Atomic databases"
    """The default engine since 20.10: data lies in store/<uuid>, DROP is deferred unless SYNC."""
    REPLICATED_DATABASES = "Replicated databases"
    """Since 20.12."""
    ALTER_IN_LOG = "ALTER as an entry of the replication log"
    """With a version check that refuses stale ones (517); since 20.3 (ClickHouse#8701)."""
    ASYNC_INSERT = "asynchronous inserts"
    """`async_insert`; since 21.11, on by default since 26.2."""
    DEDUPLICATION_TOKEN = "tokens that decide what is a duplicate"  # noqa: S105 # no password
    """`insert_deduplication_token`; since 22.2."""
    ZERO_COPY = "zero-copy replication"
    """Since 21.4."""
    INSERT_RETRIES = "inserts that retry ZooKeeper"
    """`insert_keeper_max_retries`; since 22.11."""
    SUBSECOND_LIMITS = "max_execution_time of less than a second"
    """Fractions of a second in settings that are seconds; in 24.8 at the latest."""
    FAILPOINTS = "failpoints"
    """`SYSTEM ENABLE FAILPOINT`; since 23.4."""
    CLEANUP_BACKOFF = "a cleanup that backs off"
    """A table that had little to clean up waits up to `max_cleanup_delay_period`, whatever its
    `cleanup_delay_period`; since 23.6."""
    TRANSACTION_LOG = "ZooKeeper's transaction log"
    """ClickHouse Keeper writes a log of its own format."""


class Coordination(StrEnum):
    """What keeps the replicas' agreement."""

    ZOOKEEPER = "ZooKeeper"


_SINCE: Final[Mapping[Mechanism, Version]] = {
    Mechanism.PARALLEL_QUORUM: Version(20, 10),
    Mechanism.QUORUM_AUTO: Version(22, 9),
    Mechanism.ATOMIC_DATABASES: Version(20, 10),
    Mechanism.REPLICATED_DATABASES: Version(20, 12),
    Mechanism.ALTER_IN_LOG: Version(20, 3),
    Mechanism.ASYNC_INSERT: Version(21, 11),
    Mechanism.DEDUPLICATION_TOKEN: Version(22, 2),
    Mechanism.ZERO_COPY: Version(21, 4),
    Mechanism.INSERT_RETRIES: Version(22, 11),
    Mechanism.SUBSECOND_LIMITS: Version(24, 8),
    Mechanism.FAILPOINTS: Version(23, 4),
    Mechanism.CLEANUP_BACKOFF: Version(23, 6),
}
_UNTIL: Final[Mapping[Mechanism, Version]] = {Mechanism.TABLE_LEADER: Version(20, 5)}
"""The first version without it."""

_Settings = Mapping[str, int]
_PROFILE: Final[tuple[tuple[Version, _Settings], ...]] = (
    # On by default since 21.1, and sequentially consistent reads do not work with it.
    (Version(20, 10), {"insert_quorum_parallel": 0}),
    # On by default since 26.2: it refuses serial quorums, and makes one block of many inserts.
    (Version(21, 11), {"async_insert": 0}),
    # 20 retries that wait up to 10 s each outlast every client; so they take 10 s at most.
    (Version(22, 11), {"insert_keeper_retry_max_backoff_ms": 500}),
    (Version(24, 3), {"keeper_retry_max_backoff_ms": 500}),
)
_SERVER: Final[tuple[tuple[Version, _Settings], ...]] = (
    # The defaults of the official server. The servers in chdb's wheels are compiled with pools of
    # 2, 1 and 0 threads: a Distributed table never sends, and one OPTIMIZE that waits for its
    # turn keeps the replication log from being pulled.
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
    # For so long a server that is to end waits for the idle connections over which its peers
    # fetched parts, 30 s by default: from SIGTERM to its end 28 s, and 2 s with this.
    (Version(24, 8), {"keep_alive_timeout": 3}),
)
_MERGE_TREE: Final[tuple[tuple[Version, _Settings], ...]] = (
    # How often a table looks whether its session has gone; until it does it stays read-only.
    # 60 s by default, as long as a whole run.
    (Version(18, 16), {"zookeeper_session_expiration_check_period": 1}),
    # After failures a task waits up to 60 s, some up to 300 s: longer than a cluster may take to
    # come to rest.
    (Version(24, 8), {"max_postpone_time_for_failed_mutations_ms": 1000}),
    # The official defaults, which fit a pool of 16 threads; in chdb's wheels they are 0.
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
    # The period grows towards this while there is little to clean; 300 s by default.
    (Version(24, 8), {"max_cleanup_delay_period": 1}),
)

_OLDER_PARTS: Final[tuple[tuple[Version, _Settings], ...]] = (
    # On by default since 25.8. 24.8 knows no such marks: "Unknown mark file extension: '4'" (79);
    # 25.5 fetches such a part without a file of it: "No columns_substreams.txt" (226).
    (Version(25, 8), {"write_marks_for_substreams_in_compact_parts": 0}),
)
"""Since when servers write parts that those before cannot read, and what keeps them from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What one ClickHouse version understands and does, with one coordination service; or what
    servers of several versions all do."""

    versions: tuple[Version, ...]
    """The oldest first."""
    coordination: Coordination
    mechanisms: frozenset[Mechanism]
    configuration_root: str
    """The root element of the configuration. Engines before late 2021 read only "yandex"; those of
    today warn about it."""
    profile: _Settings
    """Settings of the default profile, in users.xml."""
    server: _Settings
    """Settings of the server itself, in config.xml."""
    merge_tree: _Settings
    """Defaults of every MergeTree table, in config.xml."""
    cleanup: _Settings
    """Settings of a table that is cleaned every second: of old blocks' hashes and log entries."""
    write_outcomes: tuple[Outcome, ...]
    """What an error of a write means; the first row that fits decides."""
    deduplication_blocks: int
    """How many blocks a table remembers for deduplication, unless it is told otherwise."""
    deduplication_s: int
    """And for how long."""

    def has(self, mechanism: Mechanism) -> bool:
        """Whether the servers have it."""
        return mechanism in self.mechanisms

    def lacks(self, needs: Iterable[Mechanism]) -> tuple[Mechanism, ...]:
        """Those that the servers do not have, in the given order."""
        return tuple(mechanism for mechanism in needs if mechanism not in self.mechanisms)

    def require(self, what: str, needs: Iterable[Mechanism]) -> None:
        """Raises MissingMechanismError, naming what is missing, unless the servers have all of
        them. `what` says who needs them, such as "workload merges"."""
        missing = ", ".join(self.lacks(needs))
        if missing:
            servers = f"ClickHouse {', '.join(map(str, self.versions))} with {self.coordination}"
            lack = f"not all of {servers} have" if self.versions[1:] else f"{servers} does not have"
            raise MissingMechanismError(
                f"{what}: needs {missing}, which {lack}; choose another --clickhouse", missing
            )

    def parts_read_by(self, oldest: Version) -> _Settings:
        """Return the defaults of MergeTree tables with which a server of this version writes parts
        that one of the oldest version reads."""
        own = self.versions[0]
        rows = (settings for since, settings in _OLDER_PARTS if oldest < since <= own)
        return {name: value for row in rows for name, value in row.items()}

    def drop_database(self, name: str) -> str:
        """The statement that removes a database and its data before it returns: without SYNC an
        Atomic database keeps both, and the replicas' nodes in ZooKeeper, for minutes."""
        sync = " SYNC" if self.has(Mechanism.ATOMIC_DATABASES) else ""
        return f"DROP DATABASE IF EXISTS {name}{sync}"

    def table_settings(self, settings: _Settings) -> _Settings:
        """Return a table's settings, completed so that a cleanup period is kept: otherwise a table
        that was idle for one period is not cleaned up, and its log not cut, for five minutes."""
        period = settings.get("cleanup_delay_period")
        if period is None or not self.has(Mechanism.CLEANUP_BACKOFF):
            return settings
        return {**settings, "max_cleanup_delay_period": period}

    def data_directory(self, database: str, table: str, uuid: str) -> str:
        """Where a table keeps its files, below the server's data directory. `uuid` is the table's
        in system.tables, "" where there is none."""
        if self.has(Mechanism.ATOMIC_DATABASES):
            return f"store/{uuid[:3]}/{uuid}"
        return f"data/{database}/{table}"


def _up_to(version: Version, table: Iterable[tuple[Version, _Settings]]) -> _Settings:
    rows = (settings for since, settings in table if version >= since)
    return MappingProxyType({name: value for row in rows for name, value in row.items()})


@cache
def dialect_of(clickhouse: Version, coordination: Coordination = Coordination.ZOOKEEPER) -> Dialect:
    """The dialect of these servers."""
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
        deduplication_blocks=1000 if clickhouse >= Version(24, 8) else 100,
        deduplication_s=604_800,
    )


@cache
def common_dialect(versions: frozenset[Version]) -> Dialect:
    """Return the dialect of a cluster that has servers of all these versions.

    It has the mechanisms that every server has, and claims no more than the most doubtful of them:
    an error is a certain failure only where each server means that by it. The configuration is
    that of the oldest, which all of them read; each server is configured by its own dialect.
    """
    oldest, *others = (dialect_of(version) for version in sorted(versions))
    if not others:
        return oldest
    every = (oldest, *others)
    return replace(
        oldest,
        versions=tuple(sorted(versions)),
        mechanisms=frozenset.intersection(*(dialect.mechanisms for dialect in every)),
        write_outcomes=most_doubtful([dialect.write_outcomes for dialect in every]),
        deduplication_blocks=min(dialect.deduplication_blocks for dialect in every),
        deduplication_s=min(dialect.deduplication_s for dialect in every),
    )


def most_doubtful(tables: Iterable[tuple[Outcome, ...]]) -> tuple[Outcome, ...]:
    """Return the rows by which an error is certain only where every table says so. What a table
    does not list is info."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """One server program."""

    role: Role
    version: str
    """As the server reports it, such as "25.8.2.1"; "" until a server of unknown version was
    asked."""
    build: str = ""
    """How it was built, such as "as built in chdb 3.7.2"; "" where nobody knows."""

    @property
    def dialect(self) -> Dialect:
        """What a ClickHouse server understands."""
        return dialect_of(Version.of(self.version))

    def __str__(self) -> str:
        return " ".join(filter(None, (_PRODUCT[self.role], self.version, self.build)))


_PRODUCT: Final = {Role.CLICKHOUSE: "ClickHouse", Role.ZOOKEEPER: "ZooKeeper"}
_FIRST: Final = Version(18, 16, 1)
"""What runs met when their files did not name it yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engines:
    """Which servers a run meets: what decides the dialect, and what a finding was seen on."""

    nodes: Mapping[str, Engine] = field(default_factory=dict)
    """What each node runs."""
    others: tuple[Engine, ...] = ()
    """What nodes may run before or after, because the cluster is upgraded."""

    @property
    def distinct(self) -> tuple[Engine, ...]:
        """Return every engine that nodes run at some time, once."""
        return tuple(dict.fromkeys((*self.nodes.values(), *self.others)))

    def only(self, role: Role) -> Engine | None:
        """Return the one engine that all servers of a role run at all times; None if there are
        several, or none."""
        found = [engine for engine in self.distinct if engine.role is role]
        return found[0] if len(found) == 1 else None

    @property
    def dialect(self) -> Dialect:
        """Return what all servers understand, at any time."""
        found = {Version.of(e.version) for e in self.distinct if e.role is Role.CLICKHOUSE}
        return common_dialect(frozenset(found or {_FIRST}))

    def on(self, node: str) -> Dialect:
        """Return what one ClickHouse server understands now."""
        return self.nodes[node].dialect if node in self.nodes else self.dialect

    @staticmethod
    def stored(said: Mapping[str, Any], nodes: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
        """Return the fields of what a file says. Older files say "clickhouse", "zookeeper" and
        how they were built, the same for every node of a role."""
        if "clickhouse" not in said:
            return said
        of_role = {
            role: {"role": role, "version": said[role], "build": said.get(f"{role}_build", "")}
            for role in ("clickhouse", "zookeeper")
        }
        return {"nodes": {node["name"]: of_role[node["role"]] for node in nodes}}

    def __str__(self) -> str:
        by_role: dict[Role, dict[Engine, list[str]]] = {}
        for node, engine in self.nodes.items():
            by_role.setdefault(engine.role, {}).setdefault(engine, []).append(node)
        return ", ".join(
            f"{engine} ({' '.join(nodes)})" if len(engines) > 1 else str(engine)
            for engines in by_role.values()
            for engine, nodes in engines.items()
        )
