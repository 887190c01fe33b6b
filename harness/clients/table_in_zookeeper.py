"""What ZooKeeper has of one replicated table, read while clients and faults go on."""

from collections.abc import Callable, Mapping, Sequence

from kazoo.exceptions import KazooException, NoNodeError

from harness.clients.zookeeper import ZooKeeper, ZooKeeperError
from harness.core.op import Done, Json, Kind, Op
from harness.core.protocols import Cluster


class TableInZooKeeper:
    """Reads below one table's path. Every look begins with `barrier`: a write of its own, after
    which this session reads nothing older than what had been committed when the look began. (A
    `sync` would not do: a deposed leader that has not noticed answers it by itself.)"""

    def __init__(
        self, cluster: Cluster, path: str, replicas: Sequence[str], *, timeout_s: float = 3.0
    ) -> None:
        endpoints = [cluster.endpoint(keeper) for keeper in cluster.topology.keepers]
        self.zookeeper = ZooKeeper(endpoints, timeout_s=timeout_s)
        self.path = path
        self.replicas = tuple(replicas)

    def barrier(self) -> None:
        """Raises ZooKeeperError."""
        path = f"{self.path}/harness_barrier"
        try:
            self.zookeeper.ask("set", path, b"")
        except NoNodeError:
            self.zookeeper.ask("create", path, b"")

    def values(self, names: Sequence[str]) -> dict[str, tuple[str, int] | None]:
        """Of nodes below the path: text and version; None of those that do not exist."""
        found = self.zookeeper.each("get", [f"{self.path}/{name}" for name in names], NoNodeError)
        answers = [found[f"{self.path}/{name}"] for name in names]
        return {
            name: None if one is None else (one[0].decode(), one[1].version)
            for name, one in zip(names, answers, strict=True)
        }

    def children(self, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Of nodes below the path: their children, ascending; () of those that do not exist."""
        paths = [f"{self.path}/{name}" for name in names]
        found = self.zookeeper.each("get_children", paths, NoNodeError)
        return {
            name: tuple(sorted(found[path] or ())) for name, path in zip(names, paths, strict=True)
        }

    def of_replicas(self, name: str) -> dict[str, tuple[str, int] | None]:
        """A node of each replica, by replica."""
        found = self.values([f"replicas/{replica}/{name}" for replica in self.replicas])
        return dict(zip(self.replicas, found.values(), strict=True))


class Observer:
    """A client whose calls look at ZooKeeper: a function for each kind of call."""

    def __init__(
        self,
        table: TableInZooKeeper,
        looks: Mapping[str, Callable[[TableInZooKeeper], Mapping[str, Json]]],
    ) -> None:
        self._table = table
        self._looks = looks

    def takes(self, op: Op) -> bool:
        """Whether the call is an observation."""
        return op.f in self._looks

    def invoke(self, op: Op) -> Done:
        """A look that had no answer says nothing; the session ends with it."""
        try:
            self._table.barrier()
            return Done(Kind.OK, self._looks[op.f](self._table))
        except ZooKeeperError as error:
            return Done(Kind.INFO, error=str(error))
        except KazooException as error:
            return Done(Kind.FAIL, error=f"{type(error).__name__}: {error}".rstrip(": "))

    def close(self) -> None:
        """May be called twice."""
        self._table.zookeeper.close()


def places(table: TableInZooKeeper) -> dict[str, Json]:
    """Each replica's place in the log, whether it is lost, and whether it is active."""
    pointer, lost = table.of_replicas("log_pointer"), table.of_replicas("is_lost")
    active = table.of_replicas("is_active")
    return {
        "replicas": {
            replica: {
                "pointer": int(found[0]) if (found := pointer[replica]) and found[0] else None,
                "lost": (was := lost[replica]) is not None and was[0] == "1",
                "lost_version": -1 if was is None else was[1],
                "active": active[replica] is not None,
            }
            for replica in table.replicas
        }
    }
