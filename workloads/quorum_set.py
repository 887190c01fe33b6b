"""Inserts of unique values with a quorum, and sequentially consistent selects of the whole set of a
key.

A key is a partition of one replicated table. Each insert adds a value that no other insert adds;
each read returns every value of its key, in the order and as often as the server returns it. The
promise under test is that of `select_sequential_consistency`: a read sees every insert that a
quorum acknowledged before the read began.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from checkers.availability.answers import Answers
from checkers.ladder import Level
from checkers.sets.hidden import PLAIN, Hidden
from checkers.suite import set_checkers
from harness.clients.cancelling import Cancel, Killed, hurried
from harness.clients.clickhouse import ClickHouse, QuerySettings, SettingName, connect
from harness.clients.insert_modes import InsertMode, mechanisms_of, modes_of, settings_of
from harness.clients.replicated_table import ReplicatedTable
from harness.clients.set_calls import SEQUENTIAL, SET_SCHEMA, inserts, reads, synced_reads
from harness.clients.several_tables import SpreadSession
from harness.clients.statement import TimedStatement, statements
from harness.clients.table_client import Call as Write
from harness.clients.table_client import TableClient
from harness.clients.table_session import OneTable
from harness.core.connections import ZooKeeper, ZooKeeperError
from harness.core.dialect import Mechanism
from harness.core.errors import UsageError
from harness.core.op import Call, Done, Kind, Op
from harness.core.protocols import Checker, Client, Cluster, Generator, Session
from harness.core.ranges import AUTO, Quorum, majority, quoted, validate_numbers
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.generators.calls import numbered, repeat
from harness.generators.choose import key_rounds, mix
from harness.generators.order import FINAL_TRIES, final_reads_on, phases, until_ok
from harness.generators.timing import rest_after_fail
from harness.generators.workers import on_few_nodes
from workloads.options import WorkloadOptions

FINAL_INSERT = "final-insert"
"""Insert at rest in runs with cancelled inserts, none of which may block it."""
SYNC = "sync"
SYNCED = "synced"
SIMULATED_READINGS = ("server", "thesis", "linearizable")
"""Readings (meanings of `select_sequential_consistency`) that only simulated servers can be set
to."""
NEEDS_EVERY_PART = ("thesis", "linearizable")
"""Readings with which a replica answers only if it has every part in the log, including those of
plain inserts."""

PARALLEL_DOCUMENTED = (
    "ClickHouse documents that select_sequential_consistency does not work with "
    "insert_quorum_parallel"
)

REFUSED_PAUSE_S = 0.02
"""Pause after a refused insert: about the duration of a quorum insert, so that the next may
succeed."""

BURST = (40, 0.0)
"""Inserts of a turn as fast as they can: it shows how far a replica lags. It takes some three
seconds, as a paced turn does."""
PACED = (6, 0.4)
"""Inserts of a turn with pauses in seconds: most of the time no session has a write in flight, so
that sessions become idle."""

HANGING_S = 0.5
"""Duration after which an insert counts as hanging, some ten times that of a normal one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumSetOptions(WorkloadOptions):
    """Options of `quorum-set`: how values are inserted and read, and by how many replicas."""

    insert: str = "quorum"
    """Mode of inserts (`InsertMode`): "quorum"; "plain": acknowledged by one replica; "parallel",
    "async", "async-no-wait"; several separated by commas, of which each insert draws one; or
    "mixed": all of them."""
    read: str = "sequential"
    """"sequential": with `select_sequential_consistency`; "sync": the same after a `sync` on the
    ZooKeeper server through which the replica reads; "plain": what the replica has; "synced": the
    same after SYSTEM SYNC REPLICA. Simulated servers also offer "server", which is "sequential"
    there, and "thesis" and "linearizable", other meanings that the setting might have."""
    quorum: Quorum = 2
    """Number of replicas that must have a part before its insert is acknowledged; "auto": a
    majority."""
    quorum_timeout_ms: int = 10_000
    """Time after which an insert without a quorum ends as info, in milliseconds."""
    keys: int = 1
    """Number of keys in use at a time. A table has one quorum insert in flight, so that with more
    keys fewer reads hit the one that has just changed."""
    tables: int = 1
    """Number of tables, each of which has a quorum insert in flight, and as many keys."""
    ops_per_key: int = 1_000
    """Number of calls on a key before a new one takes its place."""
    writers: int = 3
    """Maximum number of replicas that insert at a time, one insert each; all other calls read."""
    share: float = 0.0
    """Share of the calls that insert, drawn by the seed for any replica, in place of `writers`; 0:
    as many as `writers` allows."""
    cancel: str = "never"
    """Way in which inserts are cancelled: "kill", by KILL QUERY from another connection; "time", by
    a small `max_execution_time`; "both"; or "never"."""
    cancel_one_in: int = 3
    """One insert in this many is cancelled in each way."""

    @property
    def promise(self) -> Level:
        """Level that the servers promise for these inserts and reads.
        `select_sequential_consistency` covers quorum inserts only, and does not work with parallel
        ones. A plain select is only promised to see every insert eventually."""
        serial = self.modes == (InsertMode.QUORUM,)
        if self.read in ("plain", SYNCED) or not (serial or self.read in NEEDS_EVERY_PART):
            return Level.EVENTUAL
        return Level.LINEARIZABLE

    @property
    def fresh(self) -> bool:
        """Return whether a read has every value that was acknowledged before it began, although the
        promise is eventual. SYSTEM SYNC REPLICA and a plain read promise no more.

        They are not linearizable: replica A has synced, then B acknowledges 1 and A acknowledges 2,
        and the read that follows on A, which began before, has 2 and not 1.
        """
        return self.read == SYNCED

    @property
    def modes(self) -> tuple[InsertMode, ...]:
        """Modes of the inserts. Raises UsageError."""
        return modes_of(self.insert)

    @property
    def copies(self) -> Quorum:
        """Number of replicas that have a value which was acknowledged."""
        return self.quorum if all(mode.is_quorum for mode in self.modes) else 1

    @property
    def needs(self) -> tuple[Mechanism, ...]:
        """Mechanisms that the servers must have."""
        return (*mechanisms_of(self.modes, self.quorum), *self.cancels.needs)

    @property
    def cancels(self) -> Cancel:
        """Ways in which inserts are cancelled. Raises UsageError."""
        try:
            return Cancel(self.cancel)
        except ValueError:
            raise UsageError(
                f"cancel {quoted(self.cancel)}: expected one of {' '.join(Cancel)}"
            ) from None

    @property
    def unsimulated(self) -> str:
        """Option that simulated servers do not understand; "" if there is none."""
        if self.read == SYNCED:
            return f"--read {SYNCED}"
        return f"-o cancel={self.cancel}" if self.cancels is not Cancel.NEVER else ""

    @property
    def documented(self) -> str:
        """Reason that ClickHouse's documentation gives why no level above eventual holds; "" if
        none."""
        if InsertMode.PARALLEL in self.modes and self.read not in ("plain", SYNCED):
            return PARALLEL_DOCUMENTED
        return ""

    @property
    def may_hide(self) -> bool:
        """Return whether sequential reads may hide inserts that no serial quorum acknowledged."""
        serial = InsertMode.QUORUM in self.modes
        return serial and len(self.modes) > 1 and self.read in ("sequential", SYNC)

    def validate(self, topology: Topology) -> None:
        """Raise UsageError for options that are out of range or do not fit the topology."""
        validate_numbers(self)
        replicas = len(topology.shards[0])
        _ = self.cancels
        readings = ("sequential", SYNC, "plain", *SIMULATED_READINGS, SYNCED)
        if self.read not in readings:
            raise UsageError(f"--read {quoted(self.read)}: expected one of {' '.join(readings)}")
        if InsertMode.PARALLEL in self.modes and self.read in NEEDS_EVERY_PART:
            raise UsageError(
                f"--insert {self.insert} --read {self.read}: a merged part may have rows whose "
                "parallel quorum is pending; expected --read server, sync or plain"
            )
        size = majority(replicas) if self.quorum == AUTO else self.quorum
        if any(mode.is_quorum for mode in self.modes) and not 2 <= size <= replicas:
            raise UsageError(
                f"--quorum {self.quorum}: expected 2 to {replicas}, the replicas of a shard "
                "(the server takes 0 and 1 as no quorum: say --insert plain)"
            )


@dataclass(frozen=True, slots=True)
class QuorumSet:
    """Inserts of unique values and reads of the whole set, at any replica."""

    options: QuorumSetOptions
    seed: Seed
    promise: Level = Level.LINEARIZABLE
    faults_expected: bool = False
    """True if a run in which no fault took effect is UNKNOWN."""
    name: str = field(default="quorum-set", init=False)

    @property
    def live_anomalies(self) -> bool:
        """Return whether a read that misses an acknowledged value breaks the promise."""
        return self.promise is Level.LINEARIZABLE or self.options.fresh

    def session(self, cluster: Cluster, token: str) -> Session:
        """Create the tables on every replica of the first shard."""
        self.options.validate(cluster.topology)
        if self.options.read in set(SIMULATED_READINGS).difference(cluster.readings):
            raise UsageError(
                f"--read {self.options.read}: only simulated servers have this reading; expected "
                "sequential, sync, plain or synced, or --cluster sim"
            )
        for node in cluster.topology.shards[0]:
            if self.options.read == SYNC and len(cluster.topology.node(node).keepers) != 1:
                raise UsageError(
                    f"--read sync: {node} may read through several ZooKeeper servers, so it is "
                    "unknown on which to sync; expected --keeper-route own"
                )
        sessions = [
            self._on_table(cluster, f"{token}_{number}" if number else token)
            for number in range(self.options.tables)
        ]
        return SpreadSession(sessions) if len(sessions) > 1 else sessions[0]

    def _on_table(self, cluster: Cluster, token: str) -> Session:
        table = ReplicatedTable(cluster, token, SET_SCHEMA)
        table.create()
        return _QuorumSetSession(cluster, table, self.options, self.seed)

    def generator(self) -> Generator:
        """Return a few inserts at a time, and reads."""
        return set_calls(self.options, self.seed)

    def final(self, keys: Sequence[int], nodes: Sequence[str]) -> Generator:
        """Return reads of each key on each replica, twice: an order of concurrent reads may explain
        why replicas at rest differ, but not if all of them read again."""
        reads = final_reads_on((Call(f="final-read", key=key) for key in keys), nodes, rounds=2)
        more: list[Generator] = []
        if self.options.may_hide:
            more.append(final_reads_on((Call(f=PLAIN, key=key) for key in keys), nodes))
        if self.options.cancels is not Cancel.NEVER:
            more += [
                until_ok((Call(f=FINAL_INSERT, key=0, value=-1 - n, node=node),), tries=FINAL_TRIES)
                for n, node in enumerate(nodes)
            ]
        return phases(reads, *more)

    def checkers(self) -> Sequence[Checker]:
        """Return the checkers of sets at every level of consistency."""
        more: list[Checker] = [Hidden()] if self.options.may_hide else []
        if self.options.cancels is not Cancel.NEVER:
            more.append(Answers())
        return set_checkers(
            self.promise,
            faults_expected=self.faults_expected,
            fresh=self.options.fresh,
            copies=self.options.copies,
            documented=self.options.documented,
            more=more,
        )


def set_calls(options: QuorumSetOptions, seed: Seed) -> Generator:
    """Return inserts on a few nodes at a time, which take turns, and reads on all nodes, without
    end.

    Only a few nodes insert, because the server has one quorum insert of a table in flight, and
    because a ZooKeeper session keeps its requests in order: a node whose write hangs cannot read.
    Nodes without a write in flight then show old states. With a share of inserts any node makes
    any call.
    """
    writes, reads_ = numbered(lambda n: Call(f="insert", value=n)), repeat(Call(f="read"))
    calls = (
        mix(seed.child("share"), [(options.share, writes), (1 - options.share, reads_)])
        if options.share
        else on_few_nodes(
            writes,
            reads_,
            seed,
            nodes_max=options.writers,
            turns=(BURST, PACED),
            hanging_s=HANGING_S,
        )
    )
    keys = options.keys * options.tables
    keyed = key_rounds(calls, seed, keys=keys, ops_per_key=options.ops_per_key)
    return rest_after_fail(keyed, REFUSED_PAUSE_S)


class _QuorumSetSession(OneTable):
    def __init__(
        self, cluster: Cluster, table: ReplicatedTable, options: QuorumSetOptions, seed: Seed
    ) -> None:
        super().__init__(cluster, table)
        self._options = options
        chosen = options.read in cluster.readings
        """True if a setting tells the servers what a sequentially consistent read means."""
        read = (
            synced_reads(table.name, options.timeout_s)
            if options.read == SYNCED
            else reads(table.name, _read_settings(options, chosen=chosen))
        )
        self._killers: list[ClickHouse] = []
        """Connections that kill inserts."""
        self._seed = seed.child("cancel")
        modes, size, timeout_ms = options.modes, options.quorum, options.quorum_timeout_ms
        settings = settings_of(modes, size, timeout_ms, seed.child("modes"))
        waited = [mode for mode in modes if mode is not InsertMode.UNWAITED]
        (last,) = settings_of((waited or [InsertMode.PLAIN])[:1], size, timeout_ms, seed)
        if options.cancels.by_time:
            settings = hurried(settings, self._seed, options.cancel_one_in)
        self._insert = inserts(table.name, *settings)
        self._writes: dict[str, Write] = {"insert": self._insert}
        if options.cancels is not Cancel.NEVER:
            self._writes[FINAL_INSERT] = inserts(table.name, last)
        self._reads = {"read": read, "final-read": read}
        if options.may_hide:
            self._reads[PLAIN] = reads(table.name)
        self._syncs = options.read == SYNC and not chosen

    def client(self, node: str) -> Client:
        options = self._options
        connection = connect(self._cluster, node, timeout_s=options.timeout_s)
        writes = self._writes
        if options.cancels.by_kill:
            killer = connect(self._cluster, node, timeout_s=options.timeout_s)
            self._killers.append(killer)
            clock = self._cluster.runtime.clock()
            killed = Killed(self._insert, killer, clock, self._seed, options.cancel_one_in)
            writes = {**writes, "insert": killed}
        client = TableClient(connection, writes=writes, reads=self._reads)
        if not self._syncs:
            return client
        (keeper,) = self._cluster.topology.node(node).keepers
        return _Syncing(client, lambda: self._cluster.zookeeper([keeper]))

    def close(self) -> None:
        super().close()
        for killer in self._killers:
            killer.close()

    def statements(self) -> Mapping[str, TimedStatement]:
        return statements({**self._reads, **self._writes}, self._options.timeout_s)


def _read_settings(options: QuorumSetOptions, *, chosen: bool) -> QuerySettings:
    settings: dict[SettingName, int | str]
    settings = {} if options.read == "plain" else dict(SEQUENTIAL)
    if chosen:
        settings["sequential_reading"] = options.read
    return settings


class _Syncing:
    """Client that makes a `sync` on the replica's ZooKeeper server before every read, so that what
    the replica reads there next is no older than the read."""

    def __init__(self, client: TableClient, opened: Callable[[], ZooKeeper]) -> None:
        """Open no session yet; `opened` opens one with that server."""
        self._client = client
        self._opened = opened
        self._session = opened()

    def invoke(self, op: Op) -> Done:
        if op.f == "insert":
            return self._client.invoke(op)
        try:
            self._session.ask("sync", "/")
        except ZooKeeperError as error:
            self._session.close()
            self._session = self._opened()
            return Done(Kind.FAIL, error=f"no sync: {error}")
        return self._client.invoke(op)

    def close(self) -> None:
        self._client.close()
        self._session.close()
