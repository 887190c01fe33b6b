"""CREATE, DROP, RENAME and ALTER, each of which must take effect exactly once on every host. They
are ON CLUSTER, or in a database of the engine Replicated, which has a queue of its own.

Only the leader of each shard executes an ALTER of a replicated table; the other replicas follow.

Every statement has an object of its own, so that their order does not matter and a second execution
is an error. Distributed tables are created over tables that do not exist, and dropped without the
local tables below them. At rest the final reads list what the hosts have, and what ZooKeeper says
of each task on each host; a select from a Distributed table fails until its local tables are
created. All shards and replicas take part.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from checkers.ddl.active import ACTIVE, ActiveTasks, TasksUnderWay
from checkers.ddl.ddl import EFFECTS, TASKS, Ddl, EffectsOfHost, TaskResults
from checkers.ddl.macros import INSERT, ROWS, CreatedTables, InsertedRow, Macros
from checkers.ddl.missing_local import MAKE, USE, MissingLocal
from checkers.ladder import Level
from checkers.look import encode
from checkers.stats import Stats
from harness.clients.clickhouse import (
    ClickHouse,
    DatabaseError,
    QuerySettings,
    connect,
    failed_read,
    failed_write,
)
from harness.clients.replicated_table import create_replicated_database, drop_database
from harness.core.dialect import Mechanism
from harness.core.errors import ClusterError, UsageError
from harness.core.op import Call, Done, Json, Kind, Op
from harness.core.protocols import Checker, Client, Cluster, Generator, Session
from harness.core.ranges import quoted, validate_numbers
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.generators.calls import numbered
from harness.generators.order import FINAL_TRIES, final_reads_on, phases, until_ok
from harness.generators.timing import rate
from harness.generators.workers import with_observer
from workloads.ddl_queue import (
    EACH,
    OVER,
    SHARDS,
    SOME,
    STATEMENTS,
    ClusterQueue,
    DatabaseQueue,
    DdlQueue,
    distributed_tables,
    effects_of,
    replicated_tables,
    use_distributed,
)
from workloads.options import WorkloadOptions

ON_CLUSTER = frozenset(
    {"create-replicated", "create-some", "create-slow", "create-distributed", "drop-distributed"}
)
"""Statements that a database which replicates does not take, or that have no meaning there."""
SLOW_TURNS = 4
"""One turn in this many has a slow statement, for which the other statements wait."""
LOOKS_PER_S = 6.0
"""Looks at the tasks under way, per second."""
SLOW_TIMEOUT_S = 1
"""Timeout of a slow statement, whose client is told so while the hosts go on. 18.16.1 counts whole
seconds, and gives up after two."""
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
            raise UsageError(f"engine {quoted(self.engine)}: expected plain or replicated")
        if self.timeout_s <= self.task_timeout_s:
            raise UsageError(
                f"timeout-s {self.timeout_s:g}: expected more than task-timeout-s "
                f"{self.task_timeout_s}, or no client learns how a task ended"
            )

    @property
    def needs(self) -> tuple[Mechanism, ...]:
        """Mechanisms that the servers must have."""
        return (Mechanism.REPLICATED_DATABASES,) if self.engine == REPLICATED else ()

    @property
    def clusters(self) -> tuple[str, ...]:
        """Clusters that its statements name, which the servers' configuration must define."""
        return () if self.engine == REPLICATED else (EACH, SHARDS, SOME)


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
        """Return statements of each kind in a drawn order, each statement once, and looks at the
        tasks under way."""
        calls = rate(numbered(self._call), self.options.calls_per_s, self.seed.child("rate"))
        if self.options.engine == REPLICATED:
            return calls
        return with_observer(calls, ACTIVE, LOOKS_PER_S, self.seed)

    def _call(self, number: int) -> Call:
        replicated = self.options.engine == REPLICATED
        fs = [f for f in STATEMENTS if not (replicated and f in ON_CLUSTER)]
        turn, at = divmod(number, len(fs))
        f = self.seed.child("turn", turn).shuffled(0, fs)[at]
        # There is nothing to drop or rename beyond the objects that were created beforehand.
        spent = turn >= self.options.statements and f in ("drop", "rename")
        spent = spent or (turn >= OVER and f == "drop-distributed")
        spent = spent or (f == "create-slow" and turn % SLOW_TURNS > 0)
        return Call(
            f="create" if spent else f, value=turn + (1_000_000 * (1 + fs.index(f)) if spent else 0)
        )

    def final(self, keys: Sequence[int], nodes: Sequence[str]) -> Generator:  # noqa: ARG002
        """Return a look at the queue, then the effects on every host."""
        tasks = until_ok((Call(f=TASKS, node=nodes[0]),), tries=FINAL_TRIES)
        effects = final_reads_on([Call(f=EFFECTS)], nodes)
        if self.options.engine == REPLICATED:
            return phases(tasks, effects)
        inserts, made = (final_reads_on([Call(f=f)], nodes) for f in (INSERT, MAKE))
        rows, used = (final_reads_on([Call(f=f)], nodes) for f in (ROWS, USE))
        return phases(tasks, effects, inserts, rows, used, made, used)

    def checkers(self) -> Sequence[Checker]:
        """Return the checkers that compare the queue with the hosts, and the hosts' replicated
        tables with each other."""
        least = Stats(min_ok={}, min_ok_total=10, faults_expected=self.faults_expected)
        replicated = self.options.engine == REPLICATED
        if replicated:
            return (least, Ddl())
        return (least, Ddl(), ActiveTasks(), Macros(), MissingLocal())


class _DdlSession:
    def __init__(self, cluster: Cluster, token: str, options: DdlOptions) -> None:
        self._cluster = cluster
        self._options = options
        self._nodes = cluster.topology.replicas
        self._token = token
        self._database = f"harness_{token}"
        self._connections = {n: connect(cluster, n, timeout_s=SET_UP_S) for n in self._nodes}
        replicated = options.engine == REPLICATED
        self._queue: DdlQueue = (
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
                path = f"/harness/{self._token}/database"
                create_replicated_database(connection, self._database, path, node, f"s{shard}")
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
            *(f"CREATE TABLE {self._database}.under_{n} {engine}" for n in range(OVER)),
            *(
                f"CREATE TABLE {self._database}.over_{n} (x UInt8) ENGINE = "
                f"Distributed(harness, {self._database}, under_{n})"
                for n in range(OVER)
            ),
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
        shard, number = self._cluster.topology.node(node).shard, self._nodes.index(node)
        return _DdlClient(connection, self._database, self._options, self._queue, shard, number)

    def pending(self) -> Sequence[str]:
        """Return how many of our tasks some host has not finished."""
        node, connection = next(iter(self._connections.items()))
        try:
            tasks = self._queue.tasks(connection)
            wanted = self._queue.hosts(connection)
        except DatabaseError as error:
            return (f"{node} does not show the queue: {error.text}",)
        late = [
            task for task, done in tasks.items() if len(done) < len(wanted.get(task) or self._nodes)
        ]
        return (f"{len(late)} tasks not finished everywhere, the first {late[0]}",) if late else ()

    def observe(self) -> Mapping[str, Json]:
        return {}

    def drop(self) -> Sequence[str]:
        return drop_database(self._cluster, self._database, self._connections)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()


class _DdlClient:
    def __init__(
        self,
        connection: ClickHouse,
        database: str,
        options: DdlOptions,
        queue: DdlQueue,
        shard: int,
        number: int,
    ) -> None:
        """Create a client; `number` is that of its host among all, which it inserts into replicated
        tables."""
        self._connection = connection
        self._queue = queue
        self._database = database
        self._shard, self._number = shard, number
        self._settings: QuerySettings = {"distributed_ddl_task_timeout": options.task_timeout_s}
        self._slow: QuerySettings = {"distributed_ddl_task_timeout": SLOW_TIMEOUT_S}

    def invoke(self, op: Op) -> Done:
        try:
            if op.f == EFFECTS:
                effects = effects_of(self._connection, self._database)
                return Done(Kind.OK, encode(EffectsOfHost(effects)))
            if op.f == TASKS:
                tasks = self._queue.tasks(self._connection)
                hosts = self._queue.hosts(self._connection)
                return Done(Kind.OK, encode(TaskResults(tasks, hosts)))
            if op.f == ACTIVE:
                under_way = self._queue.active(self._connection)
                if not under_way:
                    return Done(Kind.FAIL, error="no host executes a task")
                return Done(Kind.OK, encode(TasksUnderWay(under_way)))
            if op.f == ROWS:
                tables = replicated_tables(self._connection, self._database)
                return Done(Kind.OK, encode(CreatedTables(self._shard, tables)))
            if op.f == USE:
                ends = use_distributed(self._connection, self._database)
                return Done(Kind.OK, encode(ends))
        except DatabaseError as error:
            return failed_read(error)
        if op.f == INSERT:
            return self._insert()
        if op.f == MAKE:
            return self._make_local()
        sql = STATEMENTS[op.f].format(db=self._database, n=op.value, **self._queue.words)
        try:
            self._connection.command(sql, self._slow if op.f == "create-slow" else self._settings)
        except DatabaseError as error:
            return failed_write(error)
        return Done(Kind.OK, op.value)

    def _insert(self) -> Done:
        """Insert the host's number into each replicated table that a statement created."""
        try:
            found = self._connection.rows(
                "SELECT table FROM system.replicas "
                f"WHERE database = '{self._database}' AND table LIKE 'rep_%' ORDER BY table",
                (str,),
            )
            for (table,) in found:
                self._connection.insert(f"{self._database}.{table}", [(self._number,)])
        except DatabaseError as error:
            return failed_write(error)
        return Done(Kind.OK, encode(InsertedRow(self._number, [table for (table,) in found])))

    def _make_local(self) -> Done:
        """Create the local table below each Distributed one that a statement created."""
        try:
            found = distributed_tables(self._connection, self._database)
            for number in found:
                self._connection.command(
                    f"CREATE TABLE IF NOT EXISTS {self._database}.none_{number} (x UInt8) "
                    "ENGINE = TinyLog"
                )
        except DatabaseError as error:
            return failed_write(error)
        return Done(Kind.OK, len(found))

    def close(self) -> None:
        self._connection.close()
