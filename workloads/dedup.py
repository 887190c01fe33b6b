"""Retries of identical blocks until one is acknowledged, and sometimes once more.

Retries go to any replica. The server drops a block whose hash is in ZooKeeper's /blocks, so each
value is in the table at most once, and exactly once if some attempt was acknowledged. A connection
lost at the commit and a failover to another replica may break this (partition, kill).
"""

from dataclasses import dataclass, replace

from checkers.ladder import Level
from checkers.sets.convergence import Convergence
from checkers.sets.dedup import Dedup
from checkers.sets.set_full import SetFull
from checkers.stats import Stats
from harness.clients.clickhouse import ClickHouse, QuerySettings, SettingName
from harness.clients.insert_modes import InsertMode, mechanisms_of, modes_of
from harness.clients.set_calls import COLUMNS, SET_SCHEMA, inserts, quorum, reads
from harness.clients.table_session import TableSession
from harness.core.dialect import Mechanism
from harness.core.errors import UsageError
from harness.core.op import Call, Kind, Op, Process, Value
from harness.core.protocols import (
    Cluster,
    Context,
    Generator,
    Pending,
    Ready,
    Session,
    Step,
    Workload,
)
from harness.core.ranges import quoted, validate_numbers
from harness.core.seed import Seed
from harness.core.topology import Topology
from workloads.options import PacedOptions
from workloads.table import TableWorkload

WIDE = 1_000_000
"""A window that holds every block of a run: beyond it, blocks may be inserted twice."""
RETRY_NS = 100_000_000
LATE_NS = 3_000_000_000
"""Delay after which the cleanup thread, which runs every second, has removed the blocks beyond a
small window."""
OPEN_MAX = 20
"""Maximum number of values that wait for a retry; with more, no new value is inserted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DedupOptions(PacedOptions):
    """Options of `dedup`: how blocks are inserted, and which of them the servers remember."""

    insert: str = "plain"
    """"plain"; "quorum": acknowledged by two replicas; or "parallel": the same, and inserts do not
    wait for each other."""
    quorum_timeout_ms: int = 2_000
    """Time after which an insert without a quorum ends as info, in milliseconds."""
    token: bool = False
    """True if attempts insert different blocks under the same `insert_deduplication_token`."""
    window: int = WIDE
    """Number of blocks that the table remembers. A retry within it must not double its value, and
    one beyond it may; with a small window some retries come at once, and some late."""
    window_s: int = 0
    """Age up to which the table remembers blocks, in seconds before the latest; 0: the default of
    the servers."""
    deduplicate: bool = True
    """False: servers do not deduplicate, and every retry that succeeds doubles its value."""
    limit_s: int = 0
    """`max_execution_time` of inserts, in seconds; 0: none. Since 22.11 an insert that loses its
    connection to ZooKeeper tries again for as long."""
    values_per_key: int = 200
    """Number of values that are inserted into one key, which is a partition."""
    ops_per_s: float = 120.0
    timeout_s: float = 5.0

    def validate(self, topology: Topology) -> None:
        """Raise UsageError for options that are out of range or do not fit the topology."""
        validate_numbers(self)
        if self.insert not in ("plain", "quorum", "parallel"):
            raise UsageError(
                f"--insert {quoted(self.insert)}: expected one of plain quorum parallel"
            )
        if self.insert != "plain" and len(topology.shards[0]) < 2:
            raise UsageError(f"--insert {self.insert}: expected at least 2 replicas in a shard")

    @property
    def needs(self) -> tuple[Mechanism, ...]:
        """Mechanisms that the servers must have."""
        tokens = (Mechanism.DEDUPLICATION_TOKEN,) if self.token else ()
        return (*mechanisms_of(modes_of(self.insert), 2), *tokens)


def dedup(options: DedupOptions, seed: Seed, promise: Level, faults_expected: bool) -> Workload:
    """Return the workload `dedup`."""
    wide = options.window >= WIDE and not options.window_s

    def create(cluster: Cluster, token: str) -> Session:
        columns = f"{COLUMNS}, try Int64" if options.token else COLUMNS
        kept = {**SET_SCHEMA.settings, "replicated_deduplication_window": options.window}
        if options.window_s:
            kept["replicated_deduplication_window_seconds"] = options.window_s
        if not wide:
            kept |= cluster.engines.dialect.cleanup
        schema = replace(SET_SCHEMA, columns=columns, settings=kept)
        table = TableSession.table(cluster, token, schema)
        settings: dict[SettingName, int | str] = {"insert_deduplicate": int(options.deduplicate)}
        if options.insert != "plain":
            parallel = options.insert == InsertMode.PARALLEL
            settings |= quorum(2, options.quorum_timeout_ms, parallel=parallel)
        if options.limit_s:
            settings["max_execution_time"] = options.limit_s
        insert = (TokenInsert if options.token else inserts)(table.name, settings)
        return TableSession(
            cluster,
            table,
            writes={"insert": insert},
            reads={"read": reads(table.name), "final-read": reads(table.name)},
            timeout_s=options.timeout_s,
        )

    return TableWorkload(
        name="dedup",
        seed=seed,
        promise=promise,
        create=create,
        calls=RetryCalls(
            seed.child("calls"),
            options.values_per_key,
            retries_ns=(RETRY_NS,) if wide else (0, RETRY_NS, LATE_NS),
        ),
        per_s=options.ops_per_s,
        rounds=2,
        judges=(
            Stats(faults_expected=faults_expected),
            Dedup(options.window, options.window_s or None),
            SetFull(
                linearizable=False, duplicates=wide, copies=1 if options.insert == "plain" else 2
            ),
            Convergence(),
        ),
    )


@dataclass(frozen=True, slots=True)
class TokenInsert:
    """Inserts one row, with the number of its attempt, under a token that its value determines."""

    table: str
    settings: QuerySettings

    def __call__(self, connection: ClickHouse, op: Op) -> Value:
        """Return the value. Raises DatabaseError."""
        settings = {**self.settings, "insert_deduplication_token": f"value-{op.value}"}
        connection.insert(self.table, [(op.key, op.value, op.index)], settings)
        return op.value


@dataclass(frozen=True, slots=True)
class Retry:
    """Value that is inserted again at `due_ns`."""

    value: int
    due_ns: int


@dataclass(frozen=True, slots=True)
class RetryCalls:
    """Inserts, retries and reads without end. A free worker, mostly on another replica, retries a
    value that was not acknowledged a moment later; half of the acknowledged values are retried once
    more, too."""

    seed: Seed
    values_per_key: int
    retries_ns: tuple[int, ...] = (RETRY_NS,)
    """Delays after which a value is retried; each retry draws one of them."""
    calls: int = 0
    values: int = 0
    """Number of values that were inserted; the next one to insert."""
    retries: tuple[Retry, ...] = ()
    trying: tuple[tuple[Process, int], ...] = ()
    """Values in flight, by process."""

    def op(self, context: Context) -> tuple[Step, Generator]:
        """Return a retry that is due, else a read or an insert of a new value."""
        workers = [worker for worker in context.free if worker.number >= 0]
        if not workers:
            return Pending(), self
        worker = self.seed.choice(self.calls, workers)
        after = replace(self, calls=self.calls + 1)
        due = next((one for one in self.retries if one.due_ns <= context.time_ns), None)
        if due is not None:
            value = due.value
            after = replace(after, retries=tuple(one for one in self.retries if one is not due))
        elif self.seed.below(-1 - self.calls, 3) == 0 or len(self.retries) >= OPEN_MAX:
            latest = max(0, self.values - 1) // self.values_per_key
            key = max(0, latest - self.seed.below(1 + self.calls, 2))
            return Ready(Call(f="read", key=key), worker), after
        else:
            value, after = self.values, replace(after, values=self.values + 1)
        call = Call(f="insert", value=value, key=value // self.values_per_key)
        return Ready(call, worker), replace(after, trying=(*self.trying, (worker.process, value)))

    def update(self, context: Context, event: Op) -> Generator:  # noqa: ARG002
        """Note whether the value must be retried."""
        if event.f != "insert":
            return self
        value = next((v for process, v in self.trying if process == event.process), None)
        if value is None:
            return self
        trying = tuple(one for one in self.trying if one[0] != event.process)
        once_more = self.seed.child("more", event.index).below(0, 2) == 0
        if event.kind is Kind.OK and not once_more:
            return replace(self, trying=trying)
        wait_ns = self.seed.child("wait").choice(event.index, self.retries_ns)
        retries = (*self.retries, Retry(value, event.time_ns + wait_ns))
        return replace(self, trying=trying, retries=retries)
