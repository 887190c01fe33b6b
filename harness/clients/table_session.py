"""Session of a workload on one replicated table."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol, TypeAlias

from harness.clients.clickhouse import connect
from harness.clients.replicated_table import ReplicatedTable, TableSchema
from harness.clients.statement import TimedStatement, statements
from harness.clients.table_client import Call, TableClient
from harness.clients.table_in_zookeeper import Observer, TableInZooKeeper
from harness.core.clock import Clock
from harness.core.op import Done, Json, Op
from harness.core.protocols import Client, Cluster, HasFunctions

SETTLE_S = 15.0
"""Time that replicas at rest may take to show the same parts: a merge may be assigned at any time,
and one replica may have done it before another."""
POLL_NS = 300_000_000
Look: TypeAlias = Callable[[TableInZooKeeper], Mapping[str, Json]]
NO_LOOKS: Mapping[str, Look] = MappingProxyType({})


class OneTable(ABC):
    """Session on a table that was created; subclasses say what its clients are."""

    def __init__(self, cluster: Cluster, table: ReplicatedTable) -> None:
        self._cluster = cluster
        self._table = table

    @abstractmethod
    def client(self, node: str) -> Client:
        """Return a new client of a node."""

    def pending(self) -> Sequence[str]:
        """Return why the table is not at rest, a reason each."""
        return self._table.pending()

    def observe(self) -> Mapping[str, Json]:
        """Return the state of each replica."""
        return self._table.observe()

    def drop(self) -> Sequence[str]:
        """Drop the table. Return where it stays, a sentence each."""
        return self._table.drop()

    def close(self) -> None:
        """Close the connections; idempotent."""
        self._table.close()


class TableSession(OneTable):
    """Session whose clients make these calls, with more to wait for and to look at."""

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
        """Open no connection yet. The calls `looks` read ZooKeeper; `more_pending` returns what
        else must come to rest."""
        super().__init__(cluster, table)
        self._writes = writes
        self._reads = reads
        self._timeout_s = timeout_s
        self._looks = looks
        self._more_pending = more_pending

    @staticmethod
    def table(cluster: Cluster, token: str, schema: TableSchema) -> ReplicatedTable:
        """Create the table on every replica of the first shard. Raises ClusterError."""
        table = ReplicatedTable(cluster, token, schema)
        table.create()
        return table

    def client(self, node: str) -> Client:
        """Return a new client of a node."""
        connection = connect(self._cluster, node, timeout_s=self._timeout_s)
        client = TableClient(connection, writes=self._writes, reads=self._reads)
        if not self._looks:
            return client
        table = TableInZooKeeper(self._cluster, self._table.path, self._table.replicas)
        return ObservingClient(client, Observer(table, self._looks), self._looks)

    def statements(self) -> Mapping[str, TimedStatement]:
        """Return the statements of its clients, except those that look at ZooKeeper."""
        calls = {**self._reads, **self._writes}
        asked = {f: call for f, call in calls.items() if f not in self._looks}
        return statements(asked, self._timeout_s)

    def pending(self) -> Sequence[str]:
        """Return why the table is not at rest, then what else is pending."""
        return (*self._table.pending(), *self._more_pending())

    def observe(self) -> Mapping[str, Json]:
        """Return the state of each replica, and under "active" its parts: name to number of rows
        and a hash of their content. It is read until all replicas agree, for at most `SETTLE_S`."""
        return settled(lambda: self._table.observe(parts=True), self._cluster.runtime.clock())


def settled(observe: Callable[[], Mapping[str, Json]], clock: Clock) -> Mapping[str, Json]:
    """Return the state of each replica, which is observed until all have the same "active" parts,
    for at most `SETTLE_S`."""
    while True:
        state = observe()
        active = [s.get("active") for s in state.values() if isinstance(s, dict)]
        same = len(active) == len(state) and all(one == active[0] for one in active)
        if same or clock.now_ns() > SETTLE_S * 1e9:
            return state
        clock.sleep_until(clock.now_ns() + POLL_NS)


class ClientWithFunctions(Client, HasFunctions, Protocol):
    """Client that calls a function of the workload for each op."""


class ObservingClient:
    """Client that calls ClickHouse or looks at ZooKeeper, and opens a session with either on first
    use."""

    def __init__(
        self, client: ClientWithFunctions, observer: Observer, looks: Mapping[str, Look]
    ) -> None:
        """Take a client of the table, and the observer, which makes the calls `looks`."""
        self._client = client
        self._observer = observer
        self._looks = looks

    def invoke(self, op: Op) -> Done:
        """Make the call, or look at ZooKeeper."""
        return (self._observer if self._observer.takes(op) else self._client).invoke(op)

    def function_of(self, f: str) -> Callable[..., object]:
        """Return the function that makes the calls of this name."""
        return (self._observer if f in self._looks else self._client).function_of(f)

    def close(self) -> None:
        """Close both connections; idempotent."""
        self._client.close()
        self._observer.close()
