"""A workload set up on one replicated table: what all such workloads share."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from harness.clients.connect import connect
from harness.clients.replicated_table import ReplicatedTable, TableSchema
from harness.clients.statement import Statement, statements
from harness.clients.table_client import Call, TableClient
from harness.clients.table_in_zookeeper import Observer, TableInZooKeeper
from harness.core.op import Done, Json, Op
from harness.core.protocols import Client, Cluster, clock_of

SETTLE_S = 15.0
"""How long replicas at rest may take to show the same parts: a merge may be assigned at any time,
and one replica may have done it before another."""
POLL_NS = 300_000_000
Look: TypeAlias = Callable[[TableInZooKeeper], Mapping[str, Json]]
NO_LOOKS: Mapping[str, Look] = MappingProxyType({})


class OneTable(ABC):
    """Of a table that was made; a workload says what its clients are."""

    def __init__(self, cluster: Cluster, table: ReplicatedTable) -> None:
        self._cluster = cluster
        self._table = table

    @abstractmethod
    def client(self, node: str) -> Client:
        """A new client of a node."""

    def pending(self) -> Sequence[str]:
        """Why the table has not come to rest, a reason each."""
        return self._table.pending()

    def observe(self) -> Mapping[str, Json]:
        """For each replica its state."""
        return self._table.observe()

    def drop(self) -> None:
        """Drops the table."""
        self._table.drop()

    def close(self) -> None:
        """May be called twice."""
        self._table.close()


class TableSession(OneTable):
    """What a workload adds are its calls, and what else it waits for or observes."""

    def __init__(
        self,
        cluster: Cluster,
        table: ReplicatedTable,
        *,
        writes: Mapping[str, Call],
        reads: Mapping[str, Call],
        timeout_s: float,
        looks: Mapping[str, Look] = NO_LOOKS,
        more_pending: Callable[[], Sequence[str]] = lambda: (),
    ) -> None:
        """`looks`: calls that look at ZooKeeper. `more_pending`: what else must come to rest."""
        super().__init__(cluster, table)
        self._writes = writes
        self._reads = reads
        self._timeout_s = timeout_s
        self._looks = looks
        self._more_pending = more_pending

    @staticmethod
    def table(cluster: Cluster, token: str, schema: TableSchema) -> ReplicatedTable:
        """The table, made on every replica of the first shard. Raises ClusterError."""
        table = ReplicatedTable(cluster, token, schema)
        table.create()
        return table

    def client(self, node: str) -> Client:
        """A new client of a node."""
        connection = connect(self._cluster, node, timeout_s=self._timeout_s)
        client = TableClient(connection, writes=self._writes, reads=self._reads)
        if not self._looks:
            return client
        table = TableInZooKeeper(self._cluster, self._table.path, self._table.replicas)
        return _Both(client, Observer(table, self._looks))

    def statements(self) -> Mapping[str, Statement]:
        """Of its clients, but for those that look at ZooKeeper."""
        found = statements(self._writes, self._reads, self._timeout_s)
        return {name: one for name, one in found.items() if name not in self._looks}

    def pending(self) -> Sequence[str]:
        """Of the table, then the rest."""
        return (*self._table.pending(), *self._more_pending())

    def observe(self) -> Mapping[str, Json]:
        """For each replica its state, and under "active" its parts: name to rows and a hash of
        their content. Looked at until all replicas show the same, for `SETTLE_S` at most."""
        clock = clock_of(self._cluster)
        while True:
            state = self._table.observe(parts=True)
            active = [s.get("active") for s in state.values() if isinstance(s, dict)]
            same = len(active) == len(state) and all(one == active[0] for one in active)
            if same or clock.now_ns() > SETTLE_S * 1e9:
                return state
            clock.sleep_until(clock.now_ns() + POLL_NS)


class _Both:
    """Asks ClickHouse or looks at ZooKeeper; a session with either is opened on first use."""

    def __init__(self, client: TableClient, observer: Observer) -> None:
        self._client = client
        self._observer = observer

    def invoke(self, op: Op) -> Done:
        return (self._observer if self._observer.takes(op) else self._client).invoke(op)

    def close(self) -> None:
        self._client.close()
        self._observer.close()
