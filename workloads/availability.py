"""Plain inserts, plain reads and sequential reads on every replica, to see which servers answer
while others are down.

A plain select should need only its replica, an insert and a sequentially consistent select a
majority of ZooKeeper; no ClickHouse server is special, so any may die. Useful faults are
kill-clickhouse-one, kill-zookeeper-majority, and kill-zookeeper-one with --keeper-route all, each
long enough (--duration 25).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from checkers.availability.availability import Availability
from checkers.ladder import Level
from checkers.look import encode
from checkers.quiescence import ReplicaAtRest
from checkers.sets.convergence import Convergence
from checkers.sets.set_full import SetFull
from checkers.stats import Stats
from harness.clients.clickhouse import (
    NO_SETTINGS,
    ClickHouse,
    DatabaseError,
    connect,
    failed_read,
    failed_write,
)
from harness.clients.replicated_table import ReplicatedTable
from harness.clients.set_calls import SEQUENTIAL, SET_SCHEMA
from harness.clients.table_session import OneTable, TableSession
from harness.core.op import Call, Done, Json, Kind, Op
from harness.core.protocols import Client, Cluster, Session, Workload
from harness.core.seed import Seed
from harness.generators.calls import numbered, repeat
from harness.generators.choose import mix
from workloads.options import WorkloadOptions
from workloads.table import TableWorkload


@dataclass(frozen=True, slots=True, kw_only=True)
class AvailabilityOptions(WorkloadOptions):
    """Options of `availability`: how often the servers are asked."""

    calls_per_s: float = 60.0
    """Calls per second of all workers together. A refusal takes no time, so that without a limit
    refusals would crowd out all other calls."""


def availability(
    options: AvailabilityOptions, seed: Seed, promise: Level, faults_expected: bool
) -> Workload:
    """Return the workload `availability`."""

    def create(cluster: Cluster, token: str) -> Session:
        table = TableSession.table(cluster, token, SET_SCHEMA)
        return _AvailabilitySession(cluster, table, options)

    calls = (
        (2.0, numbered(lambda n: Call(f="insert", value=n, key=0))),
        (2.0, repeat(Call(f="read", key=0))),
        (1.0, repeat(Call(f="read-sequential", key=0))),
    )
    return TableWorkload(
        name="availability",
        seed=seed,
        promise=promise,
        create=create,
        calls=mix(seed.child("mix"), calls),
        per_s=options.calls_per_s,
        rounds=2,
        judges=(
            Stats(faults_expected=faults_expected),
            Availability(),
            SetFull(linearizable=False),
            Convergence(),
        ),
    )


class _AvailabilitySession(OneTable):
    def __init__(
        self, cluster: Cluster, table: ReplicatedTable, options: AvailabilityOptions
    ) -> None:
        super().__init__(cluster, table)
        self._options = options

    def client(self, node: str) -> Client:
        connection = connect(self._cluster, node, timeout_s=self._options.timeout_s)
        return _AvailabilityClient(connection, self._table.name)

    def observe(self) -> Mapping[str, Json]:
        """Return the state of each replica and the ZooKeeper servers that it connects to."""
        topology = self._cluster.topology
        return {
            node: {
                **(state if isinstance(state, dict) else {}),
                **encode(
                    ReplicaAtRest(
                        keepers=[*topology.node(node).keepers], ensemble=len(topology.keepers)
                    )
                ),
            }
            for node, state in self._table.observe().items()
        }


class _AvailabilityClient:
    def __init__(self, connection: ClickHouse, table: str) -> None:
        self._connection = connection
        self._table = table

    def invoke(self, op: Op) -> Done:
        return self._insert(op) if op.f == "insert" else self._read(op)

    def _insert(self, op: Op) -> Done:
        try:
            self._connection.insert(self._table, [(op.key, op.value)])
        except DatabaseError as error:
            return failed_write(error)
        return Done(Kind.OK, op.value)

    def _read(self, op: Op) -> Done:
        settings = SEQUENTIAL if op.f == "read-sequential" else NO_SETTINGS
        try:
            values = self._connection.numbers(f"SELECT value FROM {self._table}", settings)
        except DatabaseError as error:
            return failed_read(error)
        # Only the number of rows is kept: the rows of sequential reads would double the history.
        return Done(Kind.OK, len(values) if op.f == "read-sequential" else values)

    def close(self) -> None:
        self._connection.close()
