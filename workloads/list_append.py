"""Transactions of MergeTree tables, which are experimental: BEGIN TRANSACTION, COMMIT, ROLLBACK.

Each server has a table and a transaction log of its own, and a transaction is on one server. A list
is a row in a partition of its own, so that a mutation changes the part of one list. An UPDATE of a
part that another open transaction has changed is refused (341), and its transaction rolled back.

What commits is to satisfy snapshot isolation: a transaction reads what had committed when it began
(TransactionLog::beginTransaction), and of two at one time that change a row one is refused. Real
time is kept, because a COMMIT returns when later transactions see it
(`wait_changes_become_visible_after_commit_mode`, by default wait_unknown), so that what was
acknowledged is in the last reads. Statements outside of transactions read what has not committed,
so that reads are transactions too.

A shape is what they write. "lists": UPDATEs that append to a row. "sets": INSERTs, which never
meet, so that none is refused; each makes a part of its own, which background merges replace while
older snapshots still need it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from pyporcupine import LEVELS

from checkers.availability.answers import Answers
from checkers.conclusion import mapping_of
from checkers.consistency.isolation import FINAL_TXN, STRONG_SNAPSHOT_ISOLATION, TXN, Isolation
from checkers.consistency.snapshots import INSERT, Snapshots
from checkers.ladder import Level
from checkers.stats import Stats
from harness.clients.clickhouse import ClickHouse, DatabaseError
from harness.clients.coordinated_session import CoordinatedSession
from harness.core.dialect import Mechanism
from harness.core.errors import UsageError
from harness.core.op import Call, Done, Json, Kind, Op
from harness.core.protocols import Checker, Cluster, Session, Workload
from harness.core.ranges import unknown_name, validate_numbers
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.generators.calls import numbered
from workloads.options import PacedOptions
from workloads.table import TableWorkload

STEPS_MAX: Final = 3
"""Maximum number of steps of a transaction."""
APPEND, READ = "append", "r"
LEFT_OPEN: Final = "left_open"
"""Entry of a call whose transaction is left open: no COMMIT is sent, and the session goes on."""
Step: TypeAlias = list[Json]
"""Step of a transaction: [f, key, value]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsOptions(PacedOptions):
    """Options of `transactions`: what they write, and what they are to satisfy."""

    shape: str = "lists"
    """"lists": UPDATEs that append to a list, of which a transaction refuses another; "sets":
    INSERTs of rows, which meet nobody."""
    keys: int = 4
    """Number of lists or sets of each server."""
    isolation: str = STRONG_SNAPSHOT_ISOLATION
    """Level of isolation that transactions are to satisfy, as `harness check --consistency` names
    it; of the shape "sets" only strong-snapshot-isolation."""
    ops_per_s: float = 60.0

    @property
    def needs(self) -> tuple[Mechanism, ...]:
        """Mechanisms that the servers must have."""
        return (Mechanism.TRANSACTIONS,)

    def validate(self, topology: Topology) -> None:  # noqa: ARG002
        """Raise UsageError for options that are out of range."""
        validate_numbers(self)
        if self.shape not in SHAPES:
            raise UsageError(f"shape {unknown_name(self.shape, SHAPES)}")
        if self.isolation not in LEVELS:
            raise UsageError(f"isolation {unknown_name(self.isolation, LEVELS)}")
        if self.shape == "sets" and self.isolation != STRONG_SNAPSHOT_ISOLATION:
            raise UsageError(
                f"isolation '{self.isolation}' of shape 'sets': expected "
                f"{STRONG_SNAPSHOT_ISOLATION}; the shape 'lists' has the others"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionShape:
    """What transactions write; {table}, {key}, {value} and {keys} are filled in."""

    write: str
    """Name of a step that writes."""
    statement: str
    """Statement of a step that writes."""
    rows: str
    """Query of a step that reads."""
    columns: str
    """Columns and sort order of the table."""
    first: str = ""
    """Statement that writes what is there before the run."""


SHAPES: Final[Mapping[str, TransactionShape]] = {
    "lists": TransactionShape(
        write=APPEND,
        statement="ALTER TABLE {table} UPDATE list = arrayPushBack(list, {value}) "
        "IN PARTITION {key} WHERE key = {key}",
        rows="SELECT arrayJoin(list) FROM {table} WHERE key = {key}",
        columns="(key Int64, list Array(Int64)) ENGINE = MergeTree PARTITION BY key ORDER BY key",
        first="INSERT INTO {table} SELECT number, [] FROM numbers({keys})",
    ),
    "sets": TransactionShape(
        write=INSERT,
        statement="INSERT INTO {table} SELECT {key}, {value}",
        rows="SELECT element FROM {table} WHERE key = {key} ORDER BY element",
        columns="(key Int64, element Int64) ENGINE = MergeTree PARTITION BY key ORDER BY element",
    ),
}


class TransactionClient:
    """Makes transactions of one worker on the table of a server."""

    def __init__(
        self, connection: ClickHouse, shape: TransactionShape, table: str, keys: int
    ) -> None:
        """Create a client of the table, whose lists or sets have the keys from 0."""
        self._connection = connection
        self._connection.keep_session()
        self._shape = shape
        self._table = table
        self._keys = keys

    def invoke(self, op: Op) -> Done:
        """Make the transaction. Until its COMMIT is sent it is a failure if anything fails: all
        its steps are of one session, and the server rolls back when that ends."""
        steps = mapping_of(op).get(TXN) or [[READ, key, None] for key in range(self._keys)]
        kind, when = Kind.FAIL, "ROLLED BACK"
        try:
            self._connection.command("BEGIN TRANSACTION")
            done: list[Json] = [self._made(step) for step in steps]
            if mapping_of(op).get(LEFT_OPEN):
                return Done(Kind.FAIL, error="LEFT OPEN")
            kind, when = Kind.INFO, "COMMIT"
            self._connection.command("COMMIT")
        except DatabaseError as error:
            self._connection.close()
            return Done(kind, error=f"{error.code} {when}: {error.text}")
        return Done(Kind.OK, {TXN: done})

    def close(self) -> None:
        """Close the connection; idempotent."""
        self._connection.close()

    def _made(self, step: Step) -> Step:
        """Make a step and return it, with the list if it reads. Raises DatabaseError."""
        f, key, value = step
        template = self._shape.statement if f == self._shape.write else self._shape.rows
        sql = template.format(table=self._table, key=key, value=value)
        if f == self._shape.write:
            self._connection.command(sql)
            return step
        return [f, key, list(self._connection.numbers(sql))]


def transactions(
    options: TransactionsOptions, seed: Seed, promise: Level, faults_expected: bool
) -> Workload:
    """Return the workload `transactions`."""

    shape = SHAPES[options.shape]

    def create(cluster: Cluster, token: str) -> Session:
        database = f"harness_{token}"
        table = f"{database}.t"
        first = [shape.first.format(table=table, keys=options.keys)] if shape.first else []
        return CoordinatedSession(
            cluster,
            lambda connection: TransactionClient(connection, shape, table, options.keys),
            timeout_s=options.timeout_s,
            database=database,
            statements=(
                f"CREATE DATABASE IF NOT EXISTS {database}",
                f"CREATE TABLE {table} {shape.columns}",
                *first,
            ),
        )

    own = seed.child("call")

    def call(number: int) -> Call:
        return Call(f=TXN, value={TXN: _steps(own, number, options.keys, shape.write)})

    return TableWorkload(
        name="transactions",
        seed=seed,
        promise=promise,
        create=create,
        calls=numbered(call),
        per_s=options.ops_per_s,
        final_once=(FINAL_TXN,),
        final_reads=(),
        judges=_checkers(options, faults_expected=faults_expected),
    )


def _steps(own: Seed, number: int, keys: int, write: str = APPEND) -> list[Json]:
    """Return the steps of a transaction: reads and writes of its number, at most one of these to
    each list or set."""
    of = own.child("steps", number)
    count = 1 + of.below(0, STEPS_MAX)
    first = of.below(1, keys)
    drawn: list[Json] = []
    for at in range(count):
        key = (first + at * (1 + of.below(2, keys))) % keys
        writes = of.below(3 + at, 2) and [write, key, number] not in drawn
        drawn.append([write, key, number] if writes else [READ, key, None])
    return drawn


def _checkers(options: TransactionsOptions, *, faults_expected: bool) -> Sequence[Checker]:
    return (
        Stats(min_ok={TXN: 10}, faults_expected=faults_expected),
        Isolation(options.isolation) if options.shape == "lists" else Snapshots(),
        Answers(),
    )
