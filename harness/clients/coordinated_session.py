"""Session of a workload on what servers keep in ZooKeeper alone, without a replicated table."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from kazoo.exceptions import KazooException, NoNodeError

from harness.clients.clickhouse import ClickHouse, DatabaseError, connect
from harness.clients.replicated_table import drop_database
from harness.core.connections import ZooKeeperError
from harness.core.errors import ClusterError
from harness.core.op import Json
from harness.core.protocols import Client, Cluster

MakeClient: TypeAlias = Callable[[ClickHouse], Client]
"""Function that returns a client which makes its calls over a connection, and closes it."""


class CoordinatedSession:
    """Session whose clients are made by a function, on objects that every replica created.

    `database` and `statements` are what is created on each replica, nothing by default; `series`
    is the beginning of the names of the nodes below `series_path` that the calls make, which no
    statement can remove.
    """

    def __init__(
        self,
        cluster: Cluster,
        make: MakeClient,
        *,
        timeout_s: float,
        database: str = "",
        statements: Sequence[str] = (),
        series_path: str = "",
        series: str = "",
    ) -> None:
        """Create the objects. Raises ClusterError."""
        self._cluster = cluster
        self._make = make
        self._timeout_s = timeout_s
        self._database = database
        self._series_path = series_path
        self._series = series
        self._connections = {node: connect(cluster, node) for node in cluster.topology.replicas}
        for node, connection in self._connections.items():
            try:
                for statement in statements:
                    connection.command(statement)
            except DatabaseError as error:
                self.close()
                raise ClusterError(f"{node}: the table was not made: {error}") from error

    def client(self, node: str) -> Client:
        """Return a new client of a node."""
        return self._make(connect(self._cluster, node, timeout_s=self._timeout_s))

    def pending(self) -> Sequence[str]:
        """Return which servers do not answer, or have no session with ZooKeeper."""
        return [
            f"{node} does not answer: {error.text}"
            for node, connection in self._connections.items()
            if (error := _error(connection)) is not None
        ]

    def observe(self) -> Mapping[str, Json]:
        """Return nothing: the calls see all that there is."""
        return {}

    def drop(self) -> Sequence[str]:
        """Drop the database and remove the series. Return what is left, a sentence each."""
        left: list[str] = []
        if self._database:
            left += drop_database(self._cluster, self._database, self._connections)
        return left + self._remove_series() if self._series else left

    def close(self) -> None:
        """Close the connections; idempotent."""
        for connection in self._connections.values():
            connection.close()

    def _remove_series(self) -> list[str]:
        connection = self._cluster.zookeeper(self._cluster.topology.keepers)
        try:
            names = connection.ask("get_children", self._series_path)
            for name in [one for one in names if one.startswith(self._series)]:
                connection.ask("delete", f"{self._series_path}/{name}")
        except NoNodeError:
            return []
        except (ZooKeeperError, KazooException) as error:
            return [f"{self._series_path}/{self._series}… was not removed: {error}"]
        finally:
            connection.close()
        return []


def _error(connection: ClickHouse) -> DatabaseError | None:
    try:
        connection.numbers("SELECT count() FROM system.zookeeper WHERE path = '/'")
    except DatabaseError as error:
        return error
    return None
