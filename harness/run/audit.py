"""Turns what the servers of somebody else logged about a table into a history, by SELECTs alone."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from checkers.replication.agreed import TRANSACTIONS
from checkers.replication.audited import AUDIT, LOGGED, server_logs
from harness.clusters.parallel import on_each
from harness.clusters.replica import query
from harness.core.dialect import Dialect
from harness.core.errors import UsageError
from harness.core.history import History
from harness.core.op import NEMESIS, Json, Kind, Op, Process
from harness.core.outcomes import write_outcome
from harness.core.protocols import Cluster
from harness.run.audit_log import ZooKeeperLogs

ROWS_MAX: Final = 500_000
"""Maximum number of rows of each log of a replica that are read."""
TIMEOUT_S: Final = 120.0
"""Limit of time for the whole answer of a query of a log."""
BYTES_MAX: Final = 1 << 29
"""Limit of size for it."""
STARTED: Final = 1
FINISHED: Final = 2
"""Types of rows of query_log; others are exceptions."""
REMOVING: Final = ("Alter", "Drop", "Truncate", "Delete", "Update", "Optimize", "Undrop")
PLAIN_ENGINE: Final = "ReplicatedMergeTree"
"""Engine whose merges keep every row, unless its table has a TTL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRequest:
    """Table and period of an audit."""

    database: str
    table: str
    since: datetime
    """Begin of the period, in UTC."""
    until: datetime
    clock_error_s: float
    """Seconds by which the clocks of two servers may differ."""
    zookeeper: ZooKeeperLogs | None = None

    @property
    def period(self) -> Mapping[str, Any]:
        """Return the parameters of the queries."""
        return {
            "db": self.database,
            "tbl": self.table,
            "name": f"{self.database}.{self.table}",
            "since": int(self.since.timestamp()),
            "until": int(self.until.timestamp()),
        }


INSERTS: Final = """
SELECT query_id, toUnixTimestamp64Micro(query_start_time_microseconds),
    toUnixTimestamp64Micro(event_time_microseconds), toInt8(type), exception_code, exception,
    Settings['insert_quorum']
FROM system.query_log
WHERE event_date BETWEEN toDate(toDateTime(%(since)s)) AND toDate(toDateTime(%(until)s))
    AND event_time BETWEEN toDateTime(%(since)s) AND toDateTime(%(until)s)
    AND query_kind = 'Insert' AND has(tables, %(name)s)
ORDER BY event_time_microseconds LIMIT %(limit)s"""
REMOVALS: Final = """
SELECT toString(event_time), query_kind, substring(query, 1, 80) FROM system.query_log
WHERE event_time >= toDateTime(%(since)s) AND type = 'QueryStart' AND query_kind IN %(kinds)s
    AND has(tables, %(name)s)
    AND (query_kind != 'Optimize' OR positionCaseInsensitive(query, 'DEDUPLICATE') > 0)
ORDER BY event_time LIMIT 100"""
PARTS_MADE: Final = """
SELECT query_id, toString(event_type), toUnixTimestamp64Micro(event_time_microseconds), part_name,
    rows
FROM system.part_log
WHERE event_time >= toDateTime(%(since)s) AND database = %(db)s AND table = %(tbl)s AND error = 0
    AND event_type IN ('NewPart', 'DownloadPart', 'MergeParts', 'MutatePart')
ORDER BY event_time_microseconds LIMIT %(limit)s"""
ACTIVE: Final = """
SELECT name, rows, uncompressed_hash_of_compressed_files FROM system.parts
WHERE active AND database = %(db)s AND table = %(tbl)s LIMIT %(limit)s"""
FAILED: Final = """
SELECT name FROM system.zookeeper
WHERE path = (SELECT concat(any(zookeeper_path), '/quorum/failed_parts') FROM system.replicas
    WHERE database = %(db)s AND table = %(tbl)s)"""
TABLE: Final = """
SELECT engine, create_table_query, (
    SELECT max(total_replicas) FROM system.replicas WHERE database = %(db)s AND table = %(tbl)s
), (
    SELECT any(zookeeper_path) FROM system.replicas WHERE database = %(db)s AND table = %(tbl)s
) FROM system.tables
WHERE database = %(db)s AND name = %(tbl)s"""
LOGS: Final = "SELECT name FROM system.tables WHERE database = 'system' AND name LIKE '%%_log'"


@dataclass(frozen=True, slots=True)
class _ReplicaLogs:
    """What one replica logged."""

    node: str
    inserts: Sequence[tuple[Any, ...]]
    removals: Sequence[tuple[Any, ...]]
    made: Sequence[tuple[Any, ...]] | None
    """None if the replica has no part_log."""
    active: Sequence[tuple[Any, ...]]
    failed: Sequence[tuple[Any, ...]]
    plain: bool
    replicas: int
    zookeeper_path: str


def audited(cluster: Cluster, request: AuditRequest) -> History:
    """Read the logs of every replica, and return the history. Raises UsageError for a table that
    cannot be audited, and ClusterError."""
    read = on_each(cluster.topology.replicas, lambda node: _read(cluster, node, request))
    path, *others = sorted({own.zookeeper_path for own in read.values()})
    if others:
        raise UsageError(
            f"table {request.period['name']} is at {path} and {others[0]} in ZooKeeper; expected "
            "the servers of one shard in the file"
        )
    facts = None
    if request.zookeeper is not None:
        facts = request.zookeeper.facts(path, request.period["since"] * 1_000)
    return history_of(list(read.values()), request, cluster.engines.dialect, facts)


def _read(cluster: Cluster, node: str, request: AuditRequest) -> _ReplicaLogs:
    endpoint = cluster.endpoint(node)
    period = {**request.period, "limit": ROWS_MAX + 1, "kinds": REMOVING}

    def rows(text: str, *shape: type) -> list[tuple[Any, ...]]:
        text %= _quoted(period)
        found = query(endpoint, text, shape, timeout_s=TIMEOUT_S, bytes_max=BYTES_MAX)
        if len(found) > ROWS_MAX:
            raise UsageError(
                f"{node}: more than {ROWS_MAX:,} rows of a log in this period; expected a shorter "
                "one, with --since and --until"
            )
        return found

    table = rows(TABLE, str, str, int, str)
    if not table or not table[0][0].startswith("Replicated"):
        engine = table[0][0] if table else "no such table"
        name = request.period["name"]
        raise UsageError(f"table {name} on {node}: {engine}; expected a replicated table")
    logs = {name for (name,) in rows(LOGS, str)}
    if "query_log" not in logs:
        raise UsageError(f"{node}: has no system.query_log; expected its configuration to have one")
    has_parts = "part_log" in logs
    return _ReplicaLogs(
        node,
        rows(INSERTS, str, int, int, int, int, str, str),
        rows(REMOVALS, str, str, str),
        rows(PARTS_MADE, str, str, int, str, int) if has_parts else None,
        rows(ACTIVE, str, int, str),
        rows(FAILED, str),
        table[0][0] == PLAIN_ENGINE and " TTL " not in table[0][1],
        table[0][2],
        table[0][3],
    )


def _quoted(period: Mapping[str, Any]) -> dict[str, str]:
    def literal(value: Any) -> str:
        if isinstance(value, tuple):
            return f"({', '.join(map(literal, value))})"
        if isinstance(value, int):
            return str(value)
        text = str(value).replace("\\", "\\\\").replace("'", "\\'")
        return f"'{text}'"

    return {name: literal(value) for name, value in period.items()}


def history_of(
    logs: Sequence[_ReplicaLogs],
    request: AuditRequest,
    dialect: Dialect,
    facts: Mapping[str, Json] | None,
) -> History:
    """Return the history of what was logged: every INSERT, the call `transactions` if there are
    facts of ZooKeeper's log, and the op `audit`."""
    calls = [call for own in logs for call in _calls(own, dialect)]
    zero_us = min((call.start_us for call in calls), default=int(request.since.timestamp()) * 10**6)
    events = [(call.start_us, 0, process) for process, call in enumerate(calls)]
    events += [
        (max(call.start_us, call.end_us), 1, process)
        for process, call in enumerate(calls)
        if call.end_us is not None
    ]
    ops: list[Op] = []
    for time_us, ends, process in sorted(events):
        call = calls[process]
        op = Op(
            index=len(ops),
            process=process,
            kind=call.kind if ends else Kind.INVOKE,
            f=LOGGED,
            time_ns=(time_us - zero_us) * 1_000,
            value=call.value if ends else None,
            node=call.node,
            error=(call.error or None) if ends else None,
        )
        ops.append(op)
    last_ns = ops[-1].time_ns if ops else 0
    looks: list[tuple[Process, str, Mapping[str, Json]]] = [
        (NEMESIS, AUDIT, _said(logs, request, dialect, zero_us))
    ]
    if facts is not None:
        looks.insert(0, (len(calls), TRANSACTIONS, facts))
    for who, f, said in looks:
        for kind, value in ((Kind.INVOKE, None), (Kind.OK, said)):
            ops.append(
                Op(index=len(ops), process=who, kind=kind, f=f, time_ns=last_ns, value=value)
            )
    return History(ops)


def zero_of(history: History) -> datetime:
    """Return the date of time 0 of an audit's history, in UTC."""
    said = server_logs(history)
    assert said is not None, "an audit has what the servers logged"
    return datetime.fromtimestamp(said.zero_ms / 1_000, UTC)


@dataclass(frozen=True, slots=True)
class LoggedInsert:
    """An INSERT as its server logged it."""

    node: str
    start_us: int
    end_us: int | None
    kind: Kind
    value: Mapping[str, Json] | None
    error: str


def _calls(own: _ReplicaLogs, dialect: Dialect) -> Iterator[LoggedInsert]:
    parts: dict[str, list[str]] = defaultdict(list)
    for query_id, what, _, name, _ in own.made or ():
        if what == "NewPart":
            parts[query_id].append(name)
    begun: dict[str, int] = {}
    for query_id, start_us, end_us, type_, code, text, quorum in own.inserts:
        if type_ == STARTED:
            begun[query_id] = start_us
            continue
        begun.pop(query_id, None)
        needed = own.replicas // 2 + 1 if quorum == "auto" else int(quorum or 0)
        value: Mapping[str, Json] = {"parts": [*parts.get(query_id, ())], "quorum": needed}
        if type_ == FINISHED:
            yield LoggedInsert(own.node, start_us, end_us, Kind.OK, value, "")
            continue
        kind = write_outcome(code, text, dialect.write_outcomes).kind
        yield LoggedInsert(own.node, start_us, end_us, kind, None, f"{code} {text[:100]}")
    for start_us in begun.values():
        yield LoggedInsert(own.node, start_us, None, Kind.INFO, None, "")


def _said(
    logs: Sequence[_ReplicaLogs], request: AuditRequest, dialect: Dialect, zero_us: int
) -> Mapping[str, Json]:
    """Return the value of the op `audit` (`checkers.replication.audited`)."""
    return {
        "created": [
            [(time_us - zero_us) * 1_000, own.node, name, rows]
            for own in logs
            for _, _, time_us, name, rows in own.made or ()
        ],
        "active": {
            own.node: {name: [rows, str(content)] for name, rows, content in own.active}
            for own in logs
        },
        "failed": sorted({name for own in logs for (name,) in own.failed}),
        "removals": [
            f"{kind} on {own.node} at {at}" for own in logs for at, kind, _ in own.removals
        ],
        "plain": all(own.plain for own in logs),
        "silent": [own.node for own in logs if own.made is None],
        "clock_error_ns": round(request.clock_error_s * 1e9),
        "zero_ms": zero_us / 1_000,
        "versions": [str(version) for version in dialect.versions],
    }
