"""Statements that change, move and remove rows of two replicated tables, from any replica, beside
inserts.

Every row has a number of its own, and a list of the value with which it was inserted and of the
updates that it has seen; what a replica shows at rest is judged row by row, by the statements that
may have touched it (`statement_table`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

from msgspec import structs

from checkers.ladder import Level
from checkers.look import encode
from checkers.statements.calls import (
    EXPIRED_ROWS,
    FINAL_ROWS,
    MERGE_EXPIRED,
    READ_ROWS,
    Effect,
    StatementCall,
)
from checkers.statements.endings import MutationEnds
from checkers.statements.reads import StatementReads
from checkers.statements.rows import StatementRows
from checkers.statements.steps import REFRESHING, Sees
from checkers.stats import Stats
from harness.clients.clickhouse import (
    DatabaseError,
    connect,
)
from harness.clients.several_tables import SeveralTables
from harness.clients.table_session import ClientWithFunctions
from harness.core.dialect import Mechanism
from harness.core.errors import UsageError
from harness.core.op import Call, Json, Op
from harness.core.protocols import Cluster, Context, Generator, Step, Workload
from harness.core.ranges import unknown_name, validate_numbers
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.generators.calls import numbered, sequence
from harness.generators.choose import mix
from harness.generators.order import final_reads_on, phases
from workloads.options import PacedOptions
from workloads.statement_client import StatementsClient
from workloads.statement_kinds import StatementKind
from workloads.statement_table import STATEMENTS, statement_named
from workloads.statement_tables import (
    ENGINES,
    EXPIRED,
    EXPIRES_S,
    SCRIPTED,
    STAGING,
    TABLES,
    VIEW,
    TableShape,
    names_of,
    tables_of,
)
from workloads.table import TableWorkload

PARTITIONS: Final = 3
"""Number of partitions in use at a time."""
CALLS: Final = 100
"""Number of calls after which others take their place, so that few statements touch a row."""
READS: Final = 0.25
"""Number of reads for each statement."""
SELECTED: Final = 4
"""A condition on rows selects one in this many."""
ENDLESS_NS: Final = 10_000_000_000
"""Time after which nobody waits any more for the end of a mutation that has nothing left to change.
Servers try to end one every second, or every five if they have nothing else to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementsOptions(PacedOptions):
    """Options of `statements`: which statements are drawn, and what they promise."""

    ops_per_s: float = 12.0
    """Calls per second of all workers together."""
    statements: str = "all"
    """Names of statements, separated by commas, or "all" (see `harness list statements`);
    MODULE:NAME is one of your own."""
    inserts: float = 1.0
    """How often rows are inserted, beside the other statements: 0.5 is half as often as the table
    of statements says."""
    tables: int = 2
    """Number of replicated tables."""
    sync: bool = False
    """Whether SYSTEM SYNC REPLICA precedes each statement that takes rows from a table, on the same
    replica."""
    view: bool = False
    """Whether the first table has a materialized view, whose table is judged, too."""
    reads: bool = False
    """Whether a fifth of the calls read the rows of a partition during the run, which are judged,
    too."""
    ttl: bool = False
    """Whether the tables have a TTL, by which one in eight of the rows has expired when it is
    inserted, and one in eight expires 1 to 600 seconds later; all others have to stay. At rest all
    parts are merged, which has to leave none that has expired."""
    engine: str = "merge"
    """Engine of the tables: "merge" for MergeTree; "replacing" and "collapsing", whose merges leave
    one of a row's copies in a partition; "summing" and "aggregating", whose merges count them."""
    projection: bool = False
    """Whether the tables have a projection, whose rows are compared with those of its table."""
    replicated: bool = False
    """Whether the tables are in one Replicated database, on whose log statements are that change
    what a table is."""
    sees: str = Sees.ACKNOWLEDGED.value
    """What a statement sees of a table from which it takes rows: "acknowledged": all that was
    acknowledged; "local": what its replica has, which is all that the manual says."""

    @property
    def chosen(self) -> Mapping[str, StatementKind]:
        """Return the statements. Raises UsageError."""
        if self.statements == "all":
            return {name: kind for name, kind in STATEMENTS.items() if not kind.by_name}
        names = [name.strip() for name in self.statements.split(",")]
        return {name: statement_named(name) for name in dict.fromkeys(["insert-row", *names])}

    def weight_of(self, kind: StatementKind) -> float:
        """Return how often a statement is drawn, beside the others."""
        return kind.weight * (self.inserts if kind.inserts_row else 1)

    @property
    def shape(self) -> TableShape:
        """Return what there is beside the two replicated tables."""
        staging = any("staging" in kind.placeholders for kind in self.chosen.values())
        return TableShape(
            view=self.view,
            staging=staging,
            ttl=self.ttl,
            engine=self.engine,
            tables=self.tables,
            projection=self.projection,
            replicated=self.replicated,
            exchanged=self.exchanged,
            refreshed=self.refreshed,
        )

    @property
    def exchanged(self) -> bool:
        """Return whether some statement gives tables each other's names."""
        return any(kind.effect is Effect.EXCHANGE for kind in self.chosen.values())

    @property
    def forgets(self) -> bool:
        """Return whether partitions are forgotten, which may keep mutations from their end. It
        looks at the name, as whoever judges a run needs no module of its user."""
        return "forget" in [name.strip() for name in self.statements.split(",")]

    @property
    def refreshed(self) -> frozenset[Effect]:
        """Return the effects of statements that refresh views of the tables."""
        return frozenset(kind.effect for kind in self.chosen.values()) & {*REFRESHING}

    @property
    def needs(self) -> tuple[Mechanism, ...]:
        """Mechanisms that the servers must have."""
        needs = [need for kind in self.chosen.values() for need in kind.needs]
        needs += [Mechanism.PROJECTIONS] * self.projection
        needs += [Mechanism.VIEWS] * self.view + [Mechanism.ROW_TTL] * self.ttl
        needs += [Mechanism.REPLICATED_DATABASES] * self.replicated
        return tuple(dict.fromkeys(needs))

    @property
    def unsimulated(self) -> str:
        """Option that simulated servers do not understand; "" if there is none."""
        if self.replicated:
            return "-o replicated=true"
        return f"-o engine={self.engine}" if self.engine != "merge" else ""

    def validate(self, topology: Topology) -> None:  # noqa: ARG002
        """Raise UsageError if a number is out of range, or a name is unknown."""
        validate_numbers(self)
        least = 1 + any("to" in kind.placeholders for kind in self.chosen.values())
        if self.tables < least:
            raise UsageError(f"tables {self.tables}: expected at least {least}")
        if self.engine not in ENGINES:
            raise UsageError(f"engine {unknown_name(self.engine, ENGINES)}")
        if self.projection and self.engine != "merge":
            raise UsageError(f"projection with engine {self.engine}: expected engine merge")
        if self.sees not in list(Sees):
            raise UsageError(f"sees {unknown_name(self.sees, [sees.value for sees in Sees])}")
        others = {"ttl": self.ttl, f"engine={self.engine}": self.engine != "merge"}
        others |= {"replicated": self.replicated, "an exchange": self.exchanged}
        for name, is_chosen in others.items() if self.refreshed else ():
            if is_chosen:
                raise UsageError(f"{name} beside views that are refreshed: expected none of it")
        self._validate_names()

    def _validate_names(self) -> None:
        """Raise UsageError if tables get each other's names beside what looks for its tables more
        than once."""
        if not self.exchanged:
            return
        parts = [name for name, kind in self.chosen.items() if kind.has_part]
        others = {f"tables={self.tables}": self.tables != len(TABLES), "view": self.view}
        others |= {"reads": self.reads} | dict.fromkeys(parts, True)
        for name, is_chosen in others.items():
            if is_chosen:
                raise UsageError(
                    f"{name} beside tables that are exchanged: expected tables=2, no view, no "
                    "reads, and no statement on a part"
                )


def statements(
    options: StatementsOptions, seed: Seed, promise: Level, faults_expected: bool
) -> Workload:
    """Return the workload `statements`."""
    return drawn_statements("statements", options, seed, promise, faults_expected)


def drawn_statements(
    name: str, options: StatementsOptions, seed: Seed, promise: Level, faults_expected: bool
) -> TableWorkload:
    """Return the workload of this name whose calls are drawn from the table of statements."""
    stats = Stats(min_ok={"insert-row": 10}, faults_expected=faults_expected)
    return replace(
        scripted_statements(name, options),
        seed=seed,
        promise=promise,
        calls=_DrawnCalls(options, seed),
        judges=(
            stats,
            StatementRows(Sees(options.sees)),
            *([MutationEnds()] if options.forgets else []),
            *([StatementReads()] if options.reads else []),
        ),
    )


def scripted_statements(
    name: str, options: StatementsOptions, shape: TableShape | None = None
) -> TableWorkload:
    """Return the workload without calls, which a script makes; `shape` has the tables that it needs
    beside those of the options."""
    return TableWorkload(
        name=name,
        seed=Seed(1),
        promise=Level.EVENTUAL,
        create=lambda cluster, token: StatementsSession(
            cluster, token, options, shape or options.shape
        ),
        calls=sequence(()),
        per_s=options.ops_per_s,
        final_reads=(FINAL_ROWS,),
        after=_merges_of([*names_of(options.tables), *[VIEW] * options.view])
        if options.ttl
        else None,
        judges=(Stats(min_ok={}, min_ok_total=1), StatementRows(Sees(options.sees))),
    )


def _merges_of(tables: Sequence[str]) -> Callable[[Sequence[int], Sequence[str]], Generator]:
    """Return the function that returns the merges of these tables at rest, and then looks at the
    rows that they have left on every replica."""

    def make(keys: Sequence[int], nodes: Sequence[str]) -> Generator:
        merges = [
            Call(f=MERGE_EXPIRED, key=key, value=encode(StatementCall(Effect.NONE, table)))
            for key in keys
            for table in tables
        ]
        looks = [Call(f=EXPIRED_ROWS, key=key) for key in keys]
        return phases(final_reads_on(merges, nodes[:1]), final_reads_on(looks, nodes))

    return make


@dataclass(frozen=True, slots=True)
class _DrawnCalls:
    """Generator of the calls. It looks for the statements when the first call is made, so that
    whoever judges a run needs no module of its user."""

    options: StatementsOptions
    seed: Seed

    def op(self, context: Context) -> tuple[Step, Generator]:
        """Return the first call."""
        weights = {name: self.options.weight_of(kind) for name, kind in self.options.chosen.items()}
        total = sum(weights.values())
        parts = [
            (weight, _calls(name, at, self.seed.child(name), self.options, total))
            for at, (name, weight) in enumerate(weights.items())
        ]
        if self.options.reads:
            reads = (READS * total, _reads(self.seed.child(READ_ROWS)))
            parts.append(reads)
        return mix(self.seed.child("calls"), parts).op(context)

    def update(self, context: Context, event: Op) -> Generator:  # noqa: ARG002
        """Return the generator: no call is its own yet."""
        return self


def _calls(name: str, at: int, seed: Seed, options: StatementsOptions, weights: float) -> Generator:
    """Return the calls of the `at`th statement chosen; `weights` is the weight of all of them."""
    chosen = options.chosen
    kind = chosen[name]
    placeholders, has_partition = kind.placeholders, kind.has_partition
    tables = names_of(options.tables)
    weight = options.weight_of(kind)
    step = len(chosen) | 1  # odd, so that numbers that are so far apart leave every rest

    def make(number: int) -> Call:
        if kind.effect is Effect.AGAIN:  # two calls send the same block
            number = number // 2 * 2
        own, unique = seed.child(number), number * step + at
        table, to = [*own.shuffled(0, tables), ""][: len(TABLES)]
        if "staging" in placeholders:
            table = f"{STAGING}@"
        key = int(number * weights / weight) // CALLS * PARTITIONS + own.below(3, PARTITIONS)
        call = StatementCall(kind.effect, table)
        if kind.inserts_row:
            if "table" in placeholders and len(tables) > 1:
                others = own.below(1, 4) == 0  # most into the first of a pair
                table = tables[own.below(4, len(tables) // 2) * 2 + others]
            call = StatementCall(kind.effect, table, row=unique, update=unique)
            call = structs.replace(call, replacing=ENGINES[options.engine].replaces)
            if options.ttl and unique % EXPIRED == 0:
                call = structs.replace(call, expires=True)
            # What sends the same block again cannot ask for the time again.
            elif options.ttl and unique % EXPIRED == EXPIRED // 2 and kind.effect is Effect.INSERT:
                after_s = own.child("expires").choice(0, EXPIRES_S)
                call = structs.replace(call, expires=True, expires_s=after_s)
            if options.view and table == TABLES[0]:
                call = structs.replace(call, view=VIEW)
            if kind.spread and key >= PARTITIONS:  # one that others use, too, so that it is read
                call = structs.replace(call, also=key - PARTITIONS)
        if "to" in placeholders:
            call = structs.replace(call, to=to)
        if kind.effect is Effect.EXCHANGE and options.replicated:
            call = structs.replace(call, on_each=True)
        if kind.effect is Effect.SELECT and options.view and to == TABLES[0]:
            call = structs.replace(call, view=VIEW)
        if "update" in placeholders:
            call = structs.replace(call, update=unique)
        if "where" in placeholders:
            call = structs.replace(call, one_in=SELECTED, rest=own.below(2, SELECTED))
        if kind.reshapes:
            call = structs.replace(call, reshapes=True)
        if kind.has_part:
            call = structs.replace(call, one_part=True)
        if kind.settings:
            settings = {
                setting: value.format(row=unique) if isinstance(value, str) else value
                for setting, values in kind.settings
                for value in [own.child(setting).choice(0, values)]
            }
            call = structs.replace(call, settings=settings)
        if (kind.takes_rows and options.sync) or kind.takes_staged:
            call = structs.replace(call, synced=True)
        return Call(f=name, key=key if has_partition else None, value=encode(call))

    return numbered(make)


def _reads(seed: Seed) -> Generator:
    """Return the reads, of the partitions that statements use at the same time."""

    def make(number: int) -> Call:
        first = int(number / READS) // CALLS * PARTITIONS
        return Call(f=READ_ROWS, key=first + seed.child(number).below(0, PARTITIONS))

    return numbered(make)


class StatementsSession(SeveralTables):
    """Session on the tables, each in a database of its own."""

    def __init__(
        self, cluster: Cluster, token: str, options: StatementsOptions, shape: TableShape
    ) -> None:
        """Create the tables on every replica of the first shard. Raises ClusterError."""
        self._cluster = cluster
        self._options = options
        self._shape = shape
        self._clock = cluster.runtime.clock()
        kinds = options.chosen.values()
        settings = [kind.table_settings for kind in kinds]
        self._on_all_hosts = any("ON CLUSTER" in kind.sql for kind in kinds)
        self.tables = tables_of(cluster, token, shape.schema(settings), shape)
        self._unfinished: dict[tuple[str, str, str], tuple[int, Sequence[str]]] = {}
        """By replica, table and mutation: since when nothing was left to do but to end it, and
        those of its partitions that have no numbers in ZooKeeper."""
        super().__init__(self.tables)
        for table in self.tables.values():
            table.create()

    def client(self, node: str) -> ClientWithFunctions:
        """Return a new client of a node."""
        connection = connect(self._cluster, node, timeout_s=self._options.timeout_s)
        chosen = {**SCRIPTED, **self._options.chosen}
        dialect = self._cluster.engines.on(node)
        return StatementsClient(connection, dialect, self.tables, chosen, self._shape)

    def pending(self) -> Sequence[str]:
        """Return why the tables are not at rest, a reason each: what is queued, mutations to do,
        and statements that still run."""
        mutations = [
            f"{name}: {reason}"
            for name, table in self.tables.items()
            for reason in table.unfinished_mutations()
        ]
        unsettled = [*super().pending(), *mutations]
        return [*unsettled, *self._endless(begin_anew=bool(unsettled)), *self._running()]

    def observe(self) -> Mapping[str, Json]:
        """Return the state of each replica, with the mutations that have not ended for long."""
        states = dict(super().observe())
        now_ns = self._clock.now_ns()
        for node, state in states.items():
            if isinstance(state, dict) and self._options.forgets:
                old: dict[str, dict[str, Json]] = {}
                for (of, table, name), (since_ns, partitions) in self._unfinished.items():
                    if of == node and now_ns - since_ns >= ENDLESS_NS:
                        old.setdefault(table, {})[name] = [*partitions]
                states[node] = {**state, "unfinished": cast(Json, old)}
        return states

    def _endless(self, *, begin_anew: bool) -> list[str]:
        """Return a reason for each mutation that is not done, though no part is left to change:
        until that has been so for long, while nothing else was to do."""
        now_ns, reasons = self._clock.now_ns(), []
        before = {} if begin_anew else self._unfinished
        self._unfinished = {}
        looks = self._options.forgets and not begin_anew
        for name, table in self.tables.items() if looks else ():
            for node in table.replicas:
                try:
                    found = table.endless_mutations(node)
                except DatabaseError as error:
                    reasons.append(f"{node} does not answer: {error.text}")
                    continue
                for mutation, partitions in found.items():
                    at = (node, name, mutation)
                    since_ns, _ = before.get(at, (now_ns, partitions))
                    self._unfinished[at] = (since_ns, partitions)
                    if now_ns - since_ns < ENDLESS_NS:
                        reasons.append(f"{name}: {node} has yet to end mutation {mutation}")
        return reasons

    def _running(self) -> list[str]:
        reasons = []
        for node in self.tables[TABLES[0]].replicas:
            connection = connect(self._cluster, node)
            names = "|".join(table.database for table in self.tables.values())
            try:
                (count,) = connection.row(
                    "SELECT count() FROM system.processes WHERE query NOT LIKE '%system.%' "
                    f"AND match(query, '{names}')",
                    (int,),
                )
                if self._on_all_hosts:
                    (waiting,) = connection.row(
                        "SELECT count() FROM system.distributed_ddl_queue "
                        f"WHERE status IN ('Inactive', 'Active') AND match(query, '{names}')",
                        (int,),
                    )
                    count += waiting
            except DatabaseError as error:
                reasons.append(f"{node} does not answer: {error.text}")
                continue
            finally:
                connection.close()
            if count:
                reasons.append(f"{node} still runs {count} statements")
        return reasons
