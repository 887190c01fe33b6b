"""CREATE, DROP, RENAME and ALTER, each of which must take effect exactly once on every host. They
are ON CLUSTER, or in a database of the engine Replicated, which has a queue of its own.

Only the leader of each shard executes an ALTER of a replicated table; the other replicas follow.

Every statement has an object of its own, so that their order does not matter and a second execution
is an error. At rest the final reads list what the hosts have, and what ZooKeeper says of each task
on each host. All shards and replicas take part.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from checkers.ddl.ddl import EFFECTS, TASKS, Ddl
from checkers.ladder import Level
from checkers.stats import Stats
from harness.clients.clickhouse import (
    ClickHouse,
    DatabaseError,
    QuerySettings,
    failed_read,
    failed_write,
)
from harness.clients.connect import connect
from harness.core.dialect import Mechanism
from harness.core.errors import ClusterError, UsageError
from harness.core.op import Call, Done, Json, Kind, Op
from harness.core.protocols import Checker, Client, Cluster, Generator, Session
from harness.core.ranges import validate_numbers
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.generators.calls import numbered
from harness.generators.order import FINAL_TRIES, final_reads_on, phases, until_ok
from harness.generators.timing import rate
from workloads.options import WorkloadOptions

EACH, SHARDS = "harness_each", "harness"
"""Clusters of the same servers: each host is a shard, or shards have replicas."""
QUEUE = "/clickhouse/task_queue/ddl"
STATEMENTS: Mapping[str, str] = {
    "create": "CREATE TABLE {db}.made_{n}{each} (x UInt8) ENGINE = TinyLog",
    "drop": "DROP TABLE {db}.doomed_{n}{each}",
    "rename": "RENAME TABLE {db}.old_{n} TO {db}.new_{n}{each}",
    "alter": "ALTER TABLE {db}.wide{each} ADD COLUMN c_{n} UInt8",
    "alter-replicated": "ALTER TABLE {db}.shared{shards} ADD COLUMN r_{n} UInt8",
}
"""Statement of each kind; `each` and `shards` are ON CLUSTER unless the database replicates."""
OBJECTS = {
    "create": "made_",
    "drop": "doomed_",
    "rename": "old_",
    "alter": "c_",
    "alter-replicated": "r_",
}
FS = tuple(STATEMENTS)
REPLICATED = "replicated"
SET_UP_S = 60.0
"""Timeout of statements of the set-up, which may wait for every host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DdlOptions(WorkloadOptions):
    """Options of `ddl`: how statements reach the hosts, and how many there are."""

    engine: str = "plain"
    """The database's engine: "plain" is the server's default, with statements ON CLUSTER;
    "replicated": the database replicates them by itself."""
    statements: int = 60
    """Maximum number of drops and of renames, whose objects are created beforehand."""
    calls_per_s: float = 4.0
    """Statements per second of all workers together; hosts execute their queue one by one."""
    task_timeout_s: int = 8
    """Seconds after which a statement that some host has not finished ends as info."""
    timeout_s: float = 15.0

    def validate(self, topology: Topology) -> None:  # noqa: ARG002
        """Raise UsageError for options that are out of range or contradict each other."""
        validate_numbers(self)
        if self.engine not in ("plain", REPLICATED):
            raise UsageError(f"engine {self.engine!r}: expected plain or replicated")
        if self.timeout_s <= self.task_timeout_s:
            raise UsageError(
                f"timeout-s {self.timeout_s:g}: expected more than task-timeout-s "
                f"{self.task_timeout_s}, or no client learns how a task ended"
            )

    @property
    def needs(self) -> tuple[Mechanism, ...]:
        """Mechanisms that the servers must have."""
        return (Mechanism.REPLICATED_DATABASES,) if self.engine == REPLICATED else ()


@dataclass(frozen=True, slots=True)
class DdlWorkload:
    """Statements on every host, then their effects and the state of the queue."""

    options: DdlOptions
    seed: Seed
    promise: Level = Level.EVENTUAL
    faults_expected: bool = False
    name: str = field(default="ddl", init=False)
    live_anomalies: bool = field(default=False, init=False)

    def session(self, cluster: Cluster, token: str) -> Session:
        """Create the database and the objects of the statements on every host."""
        session = _DdlSession(cluster, token, self.options)
        session.create()
        return session

    def generator(self) -> Generator:
        """Return statements of each kind in a drawn order, each statement once."""
        calls = numbered(self._call)
        return rate(calls, self.options.calls_per_s, self.seed.child("rate"))

    def _call(self, number: int) -> Call:
        turn, at = divmod(number, len(FS))
        f = self.seed.child("turn", turn).shuffled(0, FS)[at]
        # There is nothing to drop or rename beyond the objects that were created beforehand.
        spent = turn >= self.options.statements and f in ("drop", "rename")
        return Call(f="create" if spent else f, value=turn + (1_000_000 if spent else 0))

    def final(self, keys: Sequence[int], nodes: Sequence[str]) -> Generator:  # noqa: ARG002
        """Return a look at the queue, then the effects on every host."""
        tasks = until_ok((Call(f=TASKS, node=nodes[0]),), tries=FINAL_TRIES)
        return phases(tasks, final_reads_on([Call(f=EFFECTS)], nodes))

    def checkers(self) -> Sequence[Checker]:
        """Return the checker that compares the queue with the hosts."""
        least = Stats(min_ok={}, min_ok_total=10, faults_expected=self.faults_expected)
        return (least, Ddl())


class _DdlSession:
    def __init__(self, cluster: Cluster, token: str, options: DdlOptions) -> None:
        self._cluster = cluster
        self._options = options
        self._nodes = cluster.topology.replicas
        self._token = token
        self._database = f"harness_{token}"
        self._connections = {n: connect(cluster, n, timeout_s=SET_UP_S) for n in self._nodes}
        replicated = options.engine == REPLICATED
        self._queue: Queue = (
            DatabaseQueue(f"/harness/{token}/database")
            if replicated
            else ClusterQueue(self._database)
        )

    def create(self) -> None:
        if self._options.engine == REPLICATED:
            self._create_replicated()
        else:
            self._create_on_each()

    def _create_replicated(self) -> None:
        """Create the database on each host, and its objects through one of them."""
        try:
            for node, connection in self._connections.items():
                shard = self._cluster.topology.node(node).shard
                connection.command(
                    f"CREATE DATABASE {self._database} ENGINE = "
                    f"Replicated('/harness/{self._token}/database', 's{shard}', '{node}')",
                    {"allow_experimental_database_replicated": 1},
                )
            node, connection = next(iter(self._connections.items()))
            for statement in (
                *self._objects(),
                f"CREATE TABLE {self._database}.shared (d Date, x UInt8) ENGINE = "
                "ReplicatedMergeTree PARTITION BY d ORDER BY x",
            ):
                connection.command(statement)
        except DatabaseError as error:
            raise ClusterError(f"{node}: the objects were not made: {error}") from error

    def _objects(self) -> Sequence[str]:
        """Return the statements that create the objects of other statements."""
        count = self._options.statements
        engine = "(x UInt8) ENGINE = TinyLog"
        return (
            f"CREATE TABLE {self._database}.wide (d Date, x UInt8) ENGINE = MergeTree "
            "PARTITION BY d ORDER BY x",
            *(f"CREATE TABLE {self._database}.doomed_{n} {engine}" for n in range(count)),
            *(f"CREATE TABLE {self._database}.old_{n} {engine}" for n in range(count)),
        )

    def _create_on_each(self) -> None:
        statements = (f"CREATE DATABASE {self._database}", *self._objects())
        for node, connection in self._connections.items():
            shard = self._cluster.topology.node(node).shard
            shared = (
                f"CREATE TABLE {self._database}.shared (d Date, x UInt8) ENGINE = "
                f"ReplicatedMergeTree('/harness/{self._token}/ddl/{shard}', '{node}') "
                "PARTITION BY d ORDER BY x"
            )
            try:
                for statement in (*statements, shared):
                    connection.command(statement)
            except DatabaseError as error:
                raise ClusterError(f"{node}: the objects were not made: {error}") from error

    def client(self, node: str) -> Client:
        connection = connect(self._cluster, node, timeout_s=self._options.timeout_s)
        return _DdlClient(connection, self._database, self._options, self._queue)

    def pending(self) -> Sequence[str]:
        """Return how many of our tasks some host has not finished."""
        node, connection = next(iter(self._connections.items()))
        try:
            tasks = self._queue.tasks(connection)
        except DatabaseError as error:
            return (f"{node} does not show the queue: {error.text}",)
        hosts = len(self._nodes)
        late = [task for task, done in tasks.items() if len(done) < hosts]
        return (f"{len(late)} tasks not finished everywhere, the first {late[0]}",) if late else ()

    def observe(self) -> Mapping[str, Json]:
        return {}

    def drop(self) -> None:
        for node, connection in self._connections.items():
            statement = self._cluster.engines.on(node).drop_database(self._database)
            try:
                connection.command(statement)
            except DatabaseError:
                continue

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()


class _DdlClient:
    def __init__(
        self, connection: ClickHouse, database: str, options: DdlOptions, queue: "Queue"
    ) -> None:
        self._connection = connection
        self._queue = queue
        self._database = database
        self._settings: QuerySettings = {"distributed_ddl_task_timeout": options.task_timeout_s}

    def invoke(self, op: Op) -> Done:
        try:
            if op.f == EFFECTS:
                return Done(Kind.OK, {"effects": effects_of(self._connection, self._database)})
            if op.f == TASKS:
                return Done(Kind.OK, {"tasks": dict(self._queue.tasks(self._connection))})
        except DatabaseError as error:
            return failed_read(error)
        sql = STATEMENTS[op.f].format(db=self._database, n=op.value, **self._queue.words)
        try:
            self._connection.command(sql, self._settings)
        except DatabaseError as error:
            return failed_write(error)
        return Done(Kind.OK, op.value)

    def close(self) -> None:
        self._connection.close()


def effects_of(connection: ClickHouse, database: str) -> list[str]:
    """Return the statements whose effect a host has, such as "alter:7"."""
    tables = connection.rows(f"SELECT name FROM system.tables WHERE database = '{database}'")
    columns = connection.rows(
        f"SELECT name FROM system.columns WHERE database = '{database}' AND "
        "table IN ('wide', 'shared')"
    )
    names = {str(row[0]) for row in tables}
    made = [f"create:{n}" for n in _numbers(names, "made_")]
    renamed = [f"rename:{n}" for n in _numbers(names, "new_")]
    fields = {str(row[0]) for row in columns}
    altered = [
        f"{f}:{n}" for f in ("alter", "alter-replicated") for n in _numbers(fields, OBJECTS[f])
    ]
    before = _numbers(names, "doomed_")
    last = max((*before, *_numbers(names, "old_"), *_numbers(names, "new_")), default=-1)
    dropped = [f"drop:{n}" for n in range(last + 1) if n not in before]
    return sorted((*made, *renamed, *altered, *dropped))


class Queue(Protocol):
    """Queue of statements for the hosts."""

    words: Mapping[str, str]
    """Clauses that queue a statement, by their name in `STATEMENTS`."""

    def tasks(self, connection: ClickHouse) -> dict[str, dict[str, str]]:
        """Return, by statement, what each host that finished it wrote. Raises DatabaseError."""
        ...


class ClusterQueue:
    """Queue of statements ON CLUSTER; ours are those that name our database."""

    words: Mapping[str, str] = {"each": f" ON CLUSTER {EACH}", "shards": f" ON CLUSTER {SHARDS}"}

    def __init__(self, database: str) -> None:
        self._database = database

    def tasks(self, connection: ClickHouse) -> dict[str, dict[str, str]]:
        """Return all tasks of our database."""
        queued = connection.rows(
            f"SELECT name, value FROM system.zookeeper WHERE path = '{QUEUE}' AND "
            f"value LIKE '%{self._database}%'"
        )
        return {
            _statement(str(text)): _finished(connection, f"{QUEUE}/{name}", _host)
            for name, text in queued
        }


class DatabaseQueue:
    """Log of a database of the engine Replicated."""

    words: Mapping[str, str] = {"each": "", "shards": ""}

    def __init__(self, path: str) -> None:
        self._log = f"{path}/log"

    def tasks(self, connection: ClickHouse) -> dict[str, dict[str, str]]:
        """Return the clients' statements that were committed: no host executes or finishes an entry
        whose initiator failed (DatabaseReplicatedWorker.cpp)."""
        queued = connection.rows(
            f"SELECT name, value FROM system.zookeeper WHERE path = '{self._log}'"
        )
        tasks: dict[str, dict[str, str]] = {}
        for name, text in queued:
            statement, path = _statement(str(text)), f"{self._log}/{name}"
            if statement == text:  # a statement of the set-up
                continue
            nodes = connection.rows(f"SELECT name FROM system.zookeeper WHERE path = '{path}'")
            if ("committed",) in nodes:
                tasks[statement] = _finished(connection, path, _replica)
        return tasks


def _finished(connection: ClickHouse, task: str, name: Callable[[str], str]) -> dict[str, str]:
    """Return what each host that finished the task wrote."""
    done = connection.rows(
        f"SELECT name, value FROM system.zookeeper WHERE path = '{task}/finished'"
    )
    return {name(str(host)): _status(str(value)) for host, value in done}


def _replica(host: str) -> str:
    """Return the replica of a host such as "s1|ch1", which is shard and replica."""
    return host.partition("|")[2]


def _statement(text: str) -> str:
    """Return the name of a task's statement, such as "alter:7"; the text itself if it has none."""
    for f, prefix in OBJECTS.items():
        found = re.search(rf"\b{prefix}(\d+)\b", text)
        if found and STATEMENTS[f].split()[0] in text:
            return f"{f}:{found[1]}"
    return text


def _host(address: str) -> str:
    """Return the host of an escaped address with a port, such as "ch1%2D..:9000"."""
    return address.partition(":")[0].partition("%3A")[0]


def _status(text: str) -> str:
    """Return the status that a host wrote: "0" for no error, otherwise the code and the message."""
    lines = text.split("\n", 1)
    return lines[0] if lines[0] == "0" else " ".join(text.split())


def _numbers(names: set[str], prefix: str) -> list[int]:
    found = (name.removeprefix(prefix) for name in names if name.startswith(prefix))
    return sorted(int(rest) for rest in found if rest.isdigit())
