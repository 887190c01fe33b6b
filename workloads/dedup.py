"""Identical blocks inserted again and again until one is acknowledged, and now and then once more.

Retries go to any replica. The server drops a block whose hash is in ZooKeeper's /blocks, so each
value is there at most once, and once when some try was acknowledged. That could break: a
connection lost at the commit, and a fail-over to another replica (partition, kill).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from checkers.convergence import Convergence
from checkers.dedup import Dedup
from checkers.ladder import Level
from checkers.set_full import SetFull
from checkers.stats import Stats
from harness.clients.clickhouse import ClickHouse
from harness.clients.replicated_table import TableSchema
from harness.clients.set_calls import COLUMNS, inserts, quorum, reads
from harness.clients.table_session import TableSession
from harness.core.dialect import Mechanism
from harness.core.errors import UsageError
from harness.core.op import Call, Kind, Op, Process, Value
from harness.core.protocols import (
    Checker,
    Cluster,
    Context,
    Generator,
    Pending,
    Ready,
    Session,
    Step,
)
from harness.core.ranges import settle_numbers
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.generators.finals import everywhere
from harness.generators.timing import rate

SCHEMA = TableSchema(
    columns=COLUMNS,
    partition_by="key",
    order_by="value",
    settings={"old_parts_lifetime": 10},
)
WIDE = 1_000_000
"""A window that is wide enough for all that a run inserts: outside of it, blocks may come twice."""
RETRY_NS = 100_000_000
LATE_NS = 3_000_000_000
"""By then the cleanup thread, which looks every second, has removed what a small window lacks."""
OPEN_MAX = 20
"""Values that wait for a retry; with more of them no new one is inserted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DedupOptions:
    """What may be chosen of it."""

    insert: str = "plain"
    """"plain", or "quorum": acknowledged by two replicas."""
    quorum_timeout_ms: int = 2_000
    """After this an insert that has no quorum ends as info."""
    token: bool = False
    """Blocks that differ from try to try, under an `insert_deduplication_token` that does not."""
    window: int = WIDE
    """How many blocks the table remembers. A retry within it must not double its value, and one
    beyond it may; with a small window some retries come at once, and some late."""
    deduplicate: bool = True
    """False: the server is told not to, and every retry that succeeds doubles its value."""
    ops_per_s: float = 120.0
    """Of all workers together."""
    values_per_key: int = 200
    """Then a fresh key, which is a partition, is taken."""
    timeout_s: float = 5.0
    """A call without an answer ends as info after this."""

    def settle(self, topology: Topology) -> None:
        """Raises UsageError for what cannot be asked of this topology."""
        settle_numbers(self)
        if self.insert not in ("plain", "quorum"):
            raise UsageError(f"--insert {self.insert!r}: expected one of plain quorum")
        if self.insert == "quorum" and len(topology.shards[0]) < 2:
            raise UsageError("--insert quorum: expected at least 2 replicas in a shard")

    @property
    def needs(self) -> tuple[Mechanism, ...]:
        """What servers must have."""
        return (Mechanism.DEDUPLICATION_TOKEN,) if self.token else ()


@dataclass(frozen=True, slots=True)
class DedupRetries:
    """The workload."""

    options: DedupOptions
    seed: Seed
    promise: Level = Level.EVENTUAL
    faults_expected: bool = False
    name: str = field(default="dedup", init=False)
    live_anomalies: bool = field(default=False, init=False)

    def session(self, cluster: Cluster, token: str) -> Session:
        """Creates the table."""
        options = self.options
        columns = f"{COLUMNS}, try Int64" if options.token else COLUMNS
        kept = {**SCHEMA.settings, "replicated_deduplication_window": options.window}
        if options.window < WIDE:
            kept |= cluster.engines.dialect.cleanup
        schema = replace(SCHEMA, columns=columns, settings=kept)
        table = TableSession.table(cluster, token, schema)
        settings: dict[str, int | str] = {"insert_deduplicate": int(self.options.deduplicate)}
        if self.options.insert == "quorum":
            settings |= quorum(2, self.options.quorum_timeout_ms)
        return TableSession(
            cluster,
            table,
            writes={
                "insert": TokenInsert(table.name, settings)
                if options.token
                else inserts(table.name, settings)
            },
            reads={"read": reads(table.name), "final-read": reads(table.name)},
            timeout_s=self.options.timeout_s,
        )

    def generator(self) -> Generator:
        """New values, retries and reads."""
        wide = self.options.window >= WIDE
        calls = RetryCalls(
            self.seed.child("calls"),
            self.options.values_per_key,
            retries_ns=(RETRY_NS,) if wide else (0, RETRY_NS, LATE_NS),
        )
        return rate(calls, self.options.ops_per_s, self.seed.child("rate"))

    def final(self, keys: Sequence[int], nodes: Sequence[str]) -> Generator:
        """Each key, on each replica."""
        return everywhere((Call(f="final-read", key=key) for key in keys), nodes, rounds=2)

    def checkers(self) -> Sequence[Checker]:
        """Multiplicity, and what was acknowledged is there."""
        return (
            Stats(faults_expected=self.faults_expected),
            Dedup(self.options.window),
            SetFull(linearizable=False, duplicates=self.options.window >= WIDE),
            Convergence(),
        )


@dataclass(frozen=True, slots=True)
class TokenInsert:
    """Inserts one row, with the number of its try, under a token of its value."""

    table: str
    settings: Mapping[str, int | str]

    def __call__(self, connection: ClickHouse, op: Op) -> Value:
        """Return the value. Raises DatabaseError."""
        settings = {**self.settings, "insert_deduplication_token": f"value-{op.value}"}
        connection.insert(self.table, [(op.key, op.value, op.index)], settings)
        return op.value


@dataclass(frozen=True, slots=True)
class Again:
    """A value that is to be tried again."""

    value: int
    due_ns: int


@dataclass(frozen=True, slots=True)
class RetryCalls:
    """Calls without end. What was not acknowledged is tried again a moment later by whichever
    worker is free, so mostly on another replica; half of what was acknowledged is tried once
    more, too."""

    seed: Seed
    values_per_key: int
    retries_ns: tuple[int, ...] = (RETRY_NS,)
    """How long after its end a try is followed by the next: drawn for each."""
    calls: int = 0
    values: int = 0
    """The next value."""
    again: tuple[Again, ...] = ()
    trying: tuple[tuple[Process, int], ...] = ()
    """Values in flight, by process."""

    def op(self, context: Context) -> tuple[Step, Generator]:
        """A retry that is due, else a read or a new value."""
        workers = [worker for worker in context.free if worker.number >= 0]
        if not workers:
            return Pending(), self
        worker = self.seed.choice(self.calls, workers)
        after = replace(self, calls=self.calls + 1)
        due = next((one for one in self.again if one.due_ns <= context.time_ns), None)
        if due is not None:
            value = due.value
            after = replace(after, again=tuple(one for one in self.again if one is not due))
        elif self.seed.below(-1 - self.calls, 3) == 0 or len(self.again) >= OPEN_MAX:
            latest = max(0, self.values - 1) // self.values_per_key
            key = max(0, latest - self.seed.below(1 + self.calls, 2))
            return Ready(Call(f="read", key=key), worker), after
        else:
            value, after = self.values, replace(after, values=self.values + 1)
        call = Call(f="insert", value=value, key=value // self.values_per_key)
        return Ready(call, worker), replace(after, trying=(*self.trying, (worker.process, value)))

    def update(self, context: Context, event: Op) -> Generator:  # noqa: ARG002
        """Learns which values must be tried again."""
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
        again = (*self.again, Again(value, event.time_ns + wait_ns))
        return replace(self, trying=trying, again=again)
