"""Unique values inserted with a quorum, the whole set of a key selected sequentially consistently.

A key is a partition of one replicated table. Each insert adds one value that no other insert adds;
each read returns every value of its key, in the order and as often as the server returned it. The
promise under test is that of `select_sequential_consistency`: a read sees every insert that a
quorum acknowledged before the read began.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from checkers.answers import Answers
from checkers.hidden import PLAIN, Hidden
from checkers.ladder import Level
from checkers.suite import set_checkers
from harness.clients.cancelling import Cancel, Killed, hurried
from harness.clients.clickhouse import ClickHouse
from harness.clients.connect import connect
from harness.clients.insert_modes import InsertMode, mechanisms_of, modes_of, settings_of
from harness.clients.replicated_table import ReplicatedTable, TableSchema
from harness.clients.set_calls import COLUMNS, SEQUENTIAL, inserts, reads, synced_reads
from harness.clients.statement import Statement, statements
from harness.clients.table_client import Call as Write
from harness.clients.table_client import TableClient
from harness.clients.table_session import OneTable
from harness.clients.zookeeper import ZooKeeper, ZooKeeperError
from harness.core.dialect import Mechanism
from harness.core.errors import UsageError
from harness.core.op import Call, Done, Kind, Op, Process
from harness.core.protocols import (
    Checker,
    Client,
    Cluster,
    Context,
    Endpoint,
    Generator,
    KeepsTime,
    Pending,
    Ready,
    Session,
    Step,
    clock_of,
)
from harness.core.ranges import AUTO, Quorum, majority, settle_numbers
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.generators.order import phases, until_ok
from harness.generators.steps import Compiled
from harness.generators.workers import each_node

SCHEMA = TableSchema(
    columns=COLUMNS,
    partition_by="key",
    order_by="value",
    # Partitions are many and small: one thread of merges is enough, and old parts go quickly.
    settings={"old_parts_lifetime": 10},
)

FINAL_INSERT = "final-insert"
"""Made at rest, where inserts were cancelled: none of those may stop it."""
SYNC = "sync"
SYNCED = "synced"
SIMULATED_READINGS = ("server", "thesis", "linearizable")
"""What `select_sequential_consistency` means is a setting of simulated servers only."""
OF_EVERY_INSERT = ("thesis", "linearizable")
"""Readings that demand every part of the log, also those of plain inserts."""

PARALLEL_DOCUMENTED = (
    "ClickHouse documents that select_sequential_consistency does not work with "
    "insert_quorum_parallel"
)

REFUSED_PAUSE_NS = 20_000_000
"""About as long as a quorum insert takes: the next try may succeed."""

PAUSE_NS = 400_000_000
"""Between inserts, in turns that have pauses: most of the time no session has a write under way."""

BURST_INSERTS, PACED_INSERTS = 40, 6
"""A turn without and with pauses: both take some three seconds."""

HANGING_NS = 500_000_000
"""An insert that takes longer hangs: some ten times as long as one takes."""

FINAL_TRIES = 20
"""Half a second apart; a replica that answers none of them is not at rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumSetOptions:
    """What may be chosen of it."""

    insert: str = "quorum"
    """A mode of inserts (`InsertMode`): "quorum"; "plain": acknowledged by one replica;
    "parallel", "async", "async-no-wait"; several with commas between them, of which each insert
    draws one; or "mixed": all of them."""
    read: str = "sequential"
    """"sequential", as the server reads with `select_sequential_consistency`; "sync": the same
    after a `sync` on the ZooKeeper server through which the replica reads; "plain": whatever the
    replica has; "synced": the same after SYSTEM SYNC REPLICA. On the simulated cluster also
    "server", which is "sequential" there, "thesis" and "linearizable": other readings that a
    server might have."""
    quorum: Quorum = 2
    """Replicas that must have a part before its insert is acknowledged; "auto": a majority."""
    quorum_timeout_ms: int = 10_000
    """After this an insert that has no quorum ends as info."""
    keys: int = 1
    """How many keys are used at a time. The server has one quorum insert in flight for the whole
    table, so that more keys mean fewer reads of the one that has just changed."""
    ops_per_key: int = 1_000
    """Then fresh keys are taken."""
    writers: int = 3
    """Replicas that insert at a time at most, one insert each; all other calls read."""
    cancel: str = "never"
    """"kill": inserts are cancelled by KILL QUERY from another connection; "time": by a small
    max_execution_time; "both"."""
    cancel_one_in: int = 3
    """How many inserts there are for one that is cancelled in each way."""
    timeout_s: float = 10.0
    """A call without an answer ends as info after this."""

    @property
    def promise(self) -> Level:
        """What is promised of such inserts and reads. `select_sequential_consistency` speaks of
        quorum inserts only, and of a plain select the server promises nothing but that it sees
        every insert in the end. With parallel quorum inserts the setting does not work."""
        serial = self.modes == (InsertMode.QUORUM,)
        if self.read in ("plain", SYNCED) or not (serial or self.read in OF_EVERY_INSERT):
            return Level.EVENTUAL
        return Level.LINEARIZABLE

    @property
    def fresh(self) -> bool:
        """Whether a read has every value that was acknowledged before it began, though the promise
        is eventual: all that SYSTEM SYNC REPLICA and a plain read promise.

        It is not linearizable: replica A has synced, then B acknowledges 1 and A acknowledges 2,
        and the read that follows on A, which began before, has 2 and not 1.
        """
        return self.read == SYNCED

    @property
    def modes(self) -> tuple[InsertMode, ...]:
        """In which inserts are made. Raises UsageError."""
        return modes_of(self.insert)

    @property
    def needs(self) -> tuple[Mechanism, ...]:
        """What servers must have."""
        return (*mechanisms_of(self.modes, self.quorum), *self.cancels.needs)

    @property
    def cancels(self) -> Cancel:
        """How inserts are cancelled. Raises UsageError."""
        try:
            return Cancel(self.cancel)
        except ValueError:
            raise UsageError(
                f"cancel {self.cancel!r}: expected one of {' '.join(Cancel)}"
            ) from None

    @property
    def unsimulated(self) -> str:
        """The option, if any, that simulated servers do not understand."""
        if self.read == SYNCED:
            return f"--read {SYNCED}"
        return f"-o cancel={self.cancel}" if self.cancels is not Cancel.NEVER else ""

    @property
    def documented(self) -> str:
        """Why no level above eventual holds, if the documents say so."""
        if InsertMode.PARALLEL in self.modes and self.read not in ("plain", SYNCED):
            return PARALLEL_DOCUMENTED
        return ""

    @property
    def may_hide(self) -> bool:
        """Whether inserts that no serial quorum acknowledges are read as if they were."""
        serial = InsertMode.QUORUM in self.modes
        return serial and len(self.modes) > 1 and self.read in ("sequential", SYNC)

    def settle(self, topology: Topology) -> None:
        """Raises UsageError for what cannot be asked of this topology."""
        settle_numbers(self)
        replicas = len(topology.shards[0])
        _ = self.cancels
        readings = ("sequential", SYNC, "plain", *SIMULATED_READINGS, SYNCED)
        if self.read not in readings:
            raise UsageError(f"--read {self.read!r}: expected one of {' '.join(readings)}")
        size = majority(replicas) if self.quorum == AUTO else self.quorum
        if any(mode.is_quorum for mode in self.modes) and not 2 <= size <= replicas:
            raise UsageError(
                f"--quorum {self.quorum}: expected 2 to {replicas}, the replicas of a shard "
                "(the server takes 0 and 1 as no quorum: say --insert plain)"
            )


@dataclass(frozen=True, slots=True)
class QuorumSet:
    """The workload."""

    options: QuorumSetOptions
    seed: Seed
    promise: Level = Level.LINEARIZABLE
    faults_expected: bool = False
    """Whether a run without one fault that took effect says nothing."""
    name: str = field(default="quorum-set", init=False)

    @property
    def live_anomalies(self) -> bool:
        """A read that misses an acknowledged value breaks no weaker promise."""
        return self.promise is Level.LINEARIZABLE or self.options.fresh

    def session(self, cluster: Cluster, token: str) -> Session:
        """Creates the table on every replica of the first shard."""
        self.options.settle(cluster.topology)
        simulated = isinstance(cluster, KeepsTime)
        if self.options.read in SIMULATED_READINGS and not simulated:
            raise UsageError(
                f"--read {self.options.read}: only simulated servers have this reading; expected "
                "sequential, sync, plain or synced, or --cluster sim"
            )
        for node in cluster.topology.shards[0]:
            if self.options.read == SYNC and len(cluster.topology.node(node).keepers) != 1:
                raise UsageError(
                    f"--read sync: {node} may read through several ZooKeeper servers, so that "
                    "nobody knows on which to sync; expected --keeper-route own"
                )
        table = ReplicatedTable(cluster, token, SCHEMA)
        table.create()
        return _Session(cluster, table, self.options, self.seed)

    def generator(self) -> Generator:
        """A few inserts at a time, and reads."""
        return SetCalls(self.options, self.seed)

    def final(self, keys: Sequence[int], nodes: Sequence[str]) -> Generator:
        """Each key, on each replica, until it answers, twice: what replicas show differently at
        rest may be explained by an order of concurrent reads, but not when all read again."""
        calls = tuple(Call(f="final-read", key=key) for key in keys)
        everywhere = each_node(until_ok(calls, tries=FINAL_TRIES), nodes)
        more: list[Generator] = []
        if self.options.may_hide:
            plain = tuple(Call(f=PLAIN, key=key) for key in keys)
            more.append(each_node(until_ok(plain, tries=FINAL_TRIES), nodes))
        if self.options.cancels is not Cancel.NEVER:
            more += [
                until_ok((Call(f=FINAL_INSERT, key=0, value=-1 - n, node=node),), tries=FINAL_TRIES)
                for n, node in enumerate(nodes)
            ]
        return phases(everywhere, everywhere, *more)

    def checkers(self) -> Sequence[Checker]:
        """Sets, at every level of consistency, and whether enough was seen to judge."""
        more: list[Checker] = [Hidden()] if self.options.may_hide else []
        if self.options.cancels is not Cancel.NEVER:
            more.append(Answers())
        return set_checkers(
            self.promise,
            faults_expected=self.faults_expected,
            fresh=self.options.fresh,
            documented=self.options.documented,
            more=more,
        )


class SetCalls(msgspec.Struct, frozen=True):
    """Calls without end: inserts on a few nodes, which take turns, and reads on all.

    Only a few, because the server has one quorum insert of a table in flight; and because a
    ZooKeeper session keeps its requests in order: a node with a write that hangs reads nothing.
    The past is read by the nodes that have none in flight. So some turns insert as fast as they
    can, which shows how far a replica lags, and some with pauses, in which sessions are idle.
    """

    options: QuorumSetOptions
    seed: Seed
    nodes: tuple[str, ...] = ()
    """Those that insert now."""
    turn: int = 0
    """How many times they were drawn."""
    turn_end: int = 0
    """They are drawn anew when so many inserts were made."""
    pause_ns: int = 0
    """In this turn, after an insert."""
    due_ns: int = 0
    """Of the next insert."""
    inserting: tuple[tuple[str, int], ...] = ()
    """Inserts in flight: node and since when."""
    resting: tuple[tuple[Process, int], ...] = ()
    """Processes whose call was refused, and until when they rest."""
    calls: int = 0
    """How many were made."""
    inserts: int = 0
    """How many of them insert; the next value."""

    def op(self, context: Context) -> tuple[Step, Generator]:
        """The next call, by whichever worker is free: each process both writes and reads."""
        now = context.time_ns
        resting = {process: until for process, until in self.resting if until > now}
        awake = [w for w in context.free if w.number >= 0 and w.process not in resting]
        if not awake:
            return Pending(min(resting.values(), default=None)), self
        waits = [node for node, since in self.inserting if now - since <= HANGING_NS]
        here = self if waits and self.nodes else self._in_turn(context)
        key, calls = here._key(), here.calls + 1
        if here.inserts < here.turn_end and now >= here.due_ns:
            idle = set(here.nodes).difference([node for node, _ in here.inserting])
            writers = [worker for worker in awake if worker.node in idle]
            if writers:
                # Drawn, or the worker whose insert has just ended would insert for ever.
                worker = self.seed.choice(-1 - here.inserts, writers)
                inserting = (*here.inserting, (worker.node, now))
                call = Call(f="insert", value=here.inserts, key=key)
                after = replace(here, calls=calls, inserts=here.inserts + 1, inserting=inserting)
                return Ready(call, worker), after
        return Ready(Call(f="read", key=key), awake[0]), replace(here, calls=calls)

    def update(self, context: Context, event: Op) -> Generator:  # noqa: ARG002
        """What was refused is tried a moment later, or refusals, which cost nothing, would crowd
        out all else."""
        after = self
        if event.f == "insert":
            still = tuple(e for e in self.inserting if e[0] != event.node)
            due_ns = event.time_ns + self.pause_ns
            after = replace(after, inserting=still, due_ns=due_ns)
        if event.kind is Kind.FAIL:
            others = tuple(entry for entry in self.resting if entry[1] > event.time_ns)
            until = event.time_ns + REFUSED_PAUSE_NS
            after = replace(after, resting=(*others, (event.process, until)))
        return after

    def compiled(self) -> Compiled | None:
        """In Rust, before its first call."""
        if self.calls:
            return None
        rules = {
            "keys": self.options.keys,
            "ops_per_key": self.options.ops_per_key,
            "writers": self.options.writers,
            "refused_pause_ns": REFUSED_PAUSE_NS,
            "pause_ns": PAUSE_NS,
            "burst_inserts": BURST_INSERTS,
            "paced_inserts": PACED_INSERTS,
            "hanging_ns": HANGING_NS,
        }
        return "set_calls", self.seed.value, rules

    def _in_turn(self, context: Context) -> "SetCalls":
        """With the nodes that insert now: some drawn anew among the idle, when the turn is over
        or the insert of each of them hangs."""
        busy = {node for node, _ in self.inserting}
        if self.inserts < self.turn_end and not busy.issuperset(self.nodes):
            return self
        every = {w.node for w in (*context.free, *context.busy) if w.number >= 0}
        idle = sorted(every - busy)
        own = self.seed.child("turn", self.turn)
        count = 1 + own.below(1, self.options.writers)
        pause_ns = own.choice(2, (0, PAUSE_NS))
        return replace(
            self,
            nodes=own.shuffled(0, idle)[:count],
            turn=self.turn + 1,
            turn_end=self.inserts + (PACED_INSERTS if pause_ns else BURST_INSERTS),
            pause_ns=pause_ns,
        )

    def _key(self) -> int:
        """Keys go by rounds of `keys` x `ops_per_key` calls; in a round each is as likely."""
        keys = self.options.keys
        turn = self.calls // (keys * self.options.ops_per_key)
        return turn * keys + self.seed.below(self.calls, keys)


class _Session(OneTable):
    def __init__(
        self, cluster: Cluster, table: ReplicatedTable, options: QuorumSetOptions, seed: Seed
    ) -> None:
        super().__init__(cluster, table)
        self._options = options
        simulated = isinstance(cluster, KeepsTime)
        read = (
            synced_reads(table.name, options.timeout_s)
            if options.read == SYNCED
            else reads(table.name, _read_settings(options, simulated=simulated))
        )
        self._killers: list[ClickHouse] = []
        """Connections of their own, by which inserts are killed."""
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
        self._syncs = options.read == SYNC and not simulated

    def client(self, node: str) -> Client:
        options = self._options
        connection = connect(self._cluster, node, timeout_s=options.timeout_s)
        writes = self._writes
        if options.cancels.by_kill:
            killer = connect(self._cluster, node, timeout_s=options.timeout_s)
            self._killers.append(killer)
            clock = clock_of(self._cluster)
            killed = Killed(self._insert, killer, clock, self._seed, options.cancel_one_in)
            writes = {**writes, "insert": killed}
        client = TableClient(connection, writes=writes, reads=self._reads)
        if not self._syncs:
            return client
        (keeper,) = self._cluster.topology.node(node).keepers
        return _Syncing(client, self._cluster.endpoint(keeper))

    def close(self) -> None:
        super().close()
        for killer in self._killers:
            killer.close()

    def statements(self) -> Mapping[str, Statement]:
        return statements(self._writes, self._reads, self._options.timeout_s)


def _read_settings(options: QuorumSetOptions, *, simulated: bool) -> Mapping[str, int | str]:
    settings = {} if options.read == "plain" else dict(SEQUENTIAL)
    if simulated and options.read in (SYNC, *SIMULATED_READINGS):
        settings["sequential_reading"] = options.read
    return settings


class _Syncing:
    """Before every read a `sync` on the replica's ZooKeeper server, so that what the replica asks
    of it next is no older than the read."""

    def __init__(self, client: TableClient, keeper: Endpoint) -> None:
        self._client = client
        self._keeper = keeper
        self._session = ZooKeeper([keeper])

    def invoke(self, op: Op) -> Done:
        if op.f == "insert":
            return self._client.invoke(op)
        try:
            self._session.ask("sync", "/")
        except ZooKeeperError as error:
            self._session.close()
            self._session = ZooKeeper([self._keeper])
            return Done(Kind.FAIL, error=f"no sync: {error}")
        return self._client.invoke(op)

    def close(self) -> None:
        self._client.close()
        self._session.close()
