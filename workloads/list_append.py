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
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from pyporcupine import LEVELS

from checkers.availability.answers import Answers
from checkers.conclusion import mapping_of
from checkers.consistency.isolation import FINAL_TXN, STRONG_SNAPSHOT_ISOLATION, TXN, Isolation
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
    """Options of `transactions`: how many lists there are, and what they are to satisfy."""

    keys: int = 4
    """Number of lists of each server."""
    isolation: str = STRONG_SNAPSHOT_ISOLATION
    """Level of isolation that transactions are to satisfy, as `harness check --consistency` names
    it."""
    ops_per_s: float = 60.0

    @property
    def needs(self) -> tuple[Mechanism, ...]:
        """Mechanisms that the servers must have."""
        return (Mechanism.TRANSACTIONS,)

    def validate(self, topology: Topology) -> None:  # noqa: ARG002
        """Raise UsageError for options that are out of range."""
        validate_numbers(self)
        if self.isolation not in LEVELS:
            raise UsageError(f"isolation {unknown_name(self.isolation, LEVELS)}")


class ListClient:
    """Makes transactions of one worker on the lists of a server."""

    def __init__(self, connection: ClickHouse, table: str, keys: int) -> None:
        """Create a client of the table, whose lists have the keys from 0."""
        self._connection = connection
        self._connection.keep_session()
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
        if f == APPEND:
            self._connection.command(
                f"ALTER TABLE {self._table} UPDATE list = arrayPushBack(list, {value}) "
                f"IN PARTITION {key} WHERE key = {key}"
            )
            return step
        sql = f"SELECT arrayJoin(list) FROM {self._table} WHERE key = {key}"
        return [f, key, list(self._connection.numbers(sql))]


def transactions(
    options: TransactionsOptions, seed: Seed, promise: Level, faults_expected: bool
) -> Workload:
    """Return the workload `transactions`."""

    def create(cluster: Cluster, token: str) -> Session:
        database = f"harness_{token}"
        table = f"{database}.t"
        return CoordinatedSession(
            cluster,
            lambda connection: ListClient(connection, table, options.keys),
            timeout_s=options.timeout_s,
            database=database,
            statements=(
                f"CREATE DATABASE IF NOT EXISTS {database}",
                f"CREATE TABLE {table} (key Int64, list Array(Int64)) ENGINE = MergeTree "
                "PARTITION BY key ORDER BY key",
                f"INSERT INTO {table} SELECT number, [] FROM numbers({options.keys})",
            ),
        )

    own = seed.child("call")
    return TableWorkload(
        name="transactions",
        seed=seed,
        promise=promise,
        create=create,
        calls=numbered(lambda number: Call(f=TXN, value={TXN: _steps(own, number, options.keys)})),
        per_s=options.ops_per_s,
        final_once=(FINAL_TXN,),
        final_reads=(),
        judges=_checkers(options, faults_expected=faults_expected),
    )


def _steps(own: Seed, number: int, keys: int) -> list[Json]:
    """Return the steps of a transaction: reads and appends of its number, at most one of these to
    each list."""
    of = own.child("steps", number)
    count = 1 + of.below(0, STEPS_MAX)
    first = of.below(1, keys)
    drawn: list[Json] = []
    for at in range(count):
        key = (first + at * (1 + of.below(2, keys))) % keys
        appends = of.below(3 + at, 2) and [APPEND, key, number] not in drawn
        drawn.append([APPEND, key, number] if appends else [READ, key, None])
    return drawn


def _checkers(options: TransactionsOptions, *, faults_expected: bool) -> Sequence[Checker]:
    return (
        Stats(min_ok={TXN: 10}, faults_expected=faults_expected),
        Isolation(options.isolation),
        Answers(),
    )
