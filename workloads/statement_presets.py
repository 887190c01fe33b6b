"""Workloads that are choices among the statements, with observers of their own.

Their calls are judged row by row, as those of `statements`, and any option of that one may be
given. Beside it they compare the parts of the replicas at rest.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, cast

from checkers.ddl.mutation_log import OBSERVE, MutationLog
from checkers.ladder import Level
from checkers.replication.parts import Parts
from harness.clients.several_tables import State
from harness.clients.table_in_zookeeper import Observer, TableInZooKeeper
from harness.clients.table_session import ClientWithFunctions, Look, ObservingClient, settled
from harness.core.op import Json
from harness.core.protocols import Cluster, Workload
from harness.core.seed import Seed
from workloads.statement_tables import TABLES, TableShape
from workloads.statements import StatementsOptions, StatementsSession, drawn_statements
from workloads.table import TableWorkload
from workloads.zookeeper_looks import MutationLook

LOOKS_PER_S: Final = 3.0
WHOLE_LOG: Final[Mapping[str, int]] = {"min_replicated_logs_to_keep": 10_000}
"""Settings of a table whose log is kept, so that no replica is lost while it is away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationsOptions(StatementsOptions):
    """Options of `mutations`: those of `statements`, of which it draws updates and deletes."""

    statements: str = "update,delete"
    """Names of statements, separated by commas (see `harness list statements`)."""
    inserts: float = 0.5
    tables: int = 1
    """Number of replicated tables, the first of which is observed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DropPartitionOptions(StatementsOptions):
    """Options of `drop-partition`: those of `statements`, of which it draws drops and merges, with
    reads during the run."""

    ops_per_s: float = 40.0
    statements: str = "drop,optimize-some"
    """Names of statements, separated by commas (see `harness list statements`)."""
    inserts: float = 0.2
    tables: int = 1
    """Number of replicated tables, the first of which is observed."""
    reads: bool = True


def mutations(
    options: MutationsOptions, seed: Seed, promise: Level, faults_expected: bool
) -> Workload:
    """Return the workload `mutations`: ALTER UPDATE and DELETE from any replica, beside inserts.

    Meanwhile worker 0 looks at ZooKeeper: the name of a mutated part ends in the number of the
    mutation, and no mutation_pointer goes back. A leader, which assigns mutations to parts, that is
    killed (kill-clickhouse-leader) or cut off (partition) may break this. A server of 18.16.1 dies
    when a mutation meets an insert that is not committed yet (scenario crashing-mutation).
    """
    drawn = drawn_statements("mutations", options, seed, promise, faults_expected)
    return replace(
        _observed(drawn, options, {OBSERVE: MutationLook}),
        observer=(OBSERVE, LOOKS_PER_S),
        judges=(*drawn.judges, MutationLog(), Parts()),
    )


def drop_partition(
    options: DropPartitionOptions, seed: Seed, promise: Level, faults_expected: bool
) -> Workload:
    """Return the workload `drop-partition`: DROP PARTITION from any replica, beside inserts and
    merges.

    A drop is an entry of the replication log with a range of blocks: every block number that the
    partition had given out. So what was there before it goes from every replica, for good, and what
    is inserted after it stays. On 18.16.1 the leader writes the entry; since 20.5 every replica
    does. A replica that is killed or cut off between the entry and its own removal of the parts may
    break this (kill-clickhouse, partition); one that was lost meanwhile does, see the scenario
    returned-rows.
    """
    drawn = drawn_statements("drop-partition", options, seed, promise, faults_expected)
    return replace(_observed(drawn, options, {}, WHOLE_LOG), judges=(*drawn.judges, Parts()))


def _observed(
    drawn: TableWorkload,
    options: StatementsOptions,
    looks: Mapping[str, Callable[[], Look]],
    settings: Mapping[str, int] = MappingProxyType({}),
) -> TableWorkload:
    """Return the workload with these looks, each of which is made anew for a session, and these
    settings of its tables."""

    def create(cluster: Cluster, token: str) -> ObservedStatements:
        own = {name: make() for name, make in looks.items()}
        shape = replace(options.shape, settings=settings)
        return ObservedStatements(cluster, token, options, shape, own)

    return replace(drawn, create=create)


class ObservedStatements(StatementsSession):
    """Session that also looks at the first table in ZooKeeper, and shows its parts at rest."""

    def __init__(
        self,
        cluster: Cluster,
        token: str,
        options: StatementsOptions,
        shape: TableShape,
        looks: Mapping[str, Look],
    ) -> None:
        """Create the tables. Raises ClusterError."""
        super().__init__(cluster, token, options, shape)
        self._looks = looks

    def client(self, node: str) -> ClientWithFunctions:
        """Return a new client of a node."""
        client = super().client(node)
        if not self._looks:
            return client
        first = self.tables[TABLES[0]]
        table = TableInZooKeeper(self._cluster, first.path, first.replicas)
        return ObservingClient(client, Observer(table, self._looks), self._looks)

    def observe(self) -> Mapping[str, Json]:
        """Return the state of each replica, and under "active" the parts of the first table, when
        all replicas agree on them."""
        return settled(self._state, self._cluster.runtime.clock())

    def _state(self) -> Mapping[str, Json]:
        parts = self.tables[TABLES[0]].observe(parts=True)
        return {
            node: {**cast(State, parts[node]), **cast(State, state)}
            for node, state in super().observe().items()
        }
