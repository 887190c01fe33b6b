"""State of a replicated table in ZooKeeper, read while clients and faults go on."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from kazoo.exceptions import KazooException, NodeExistsError

from harness.core.connections import ZooKeeperError
from harness.core.op import Done, Json, Kind, Op
from harness.core.protocols import Cluster


class TableInZooKeeper:
    """Reads below the path of one table. Every look begins with `barrier`, a write of its own:
    afterwards the session reads nothing older than what was committed when the look began. (A
    `sync` is not enough: a deposed leader that has not noticed answers it by itself.)"""

    def __init__(
        self, cluster: Cluster, path: str, replicas: Sequence[str], *, timeout_s: float = 3.0
    ) -> None:
        self.zookeeper = cluster.zookeeper(cluster.topology.keepers, timeout_s)
        self.path = path
        self.replicas = tuple(replicas)
        self.zxid = 0
        """Transaction of the last barrier."""

    def barrier(self) -> None:
        """Write the barrier. Raises ZooKeeperError."""
        path = f"{self.path}/harness_barrier"
        if not self.zookeeper.each("exists", [path])[path]:
            with suppress(NodeExistsError):
                self.zookeeper.ask("create", path, b"")
        self.zxid = self.zookeeper.ask("set", path, b"").mzxid

    def values(self, names: Sequence[str]) -> dict[str, tuple[str, int] | None]:
        """Return text and version of each of these nodes below the path; None for one that does not
        exist."""
        found = self.zookeeper.each("get", [f"{self.path}/{name}" for name in names])
        answers = [found[f"{self.path}/{name}"] for name in names]
        return {
            name: None if one is None else (one[0].decode(), one[1].version)
            for name, one in zip(names, answers, strict=True)
        }

    def children(self, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return the children of each of these nodes below the path, ascending; () for one that
        does not exist."""
        paths = [f"{self.path}/{name}" for name in names]
        found = self.zookeeper.each("get_children", paths)
        return {
            name: tuple(sorted(found[path] or ())) for name, path in zip(names, paths, strict=True)
        }

    def of_replicas(self, name: str) -> dict[str, tuple[str, int] | None]:
        """Return text and version of a node that every replica has, by replica."""
        found = self.values([f"replicas/{replica}/{name}" for replica in self.replicas])
        return dict(zip(self.replicas, found.values(), strict=True))

    def activations(self) -> dict[str, int | None]:
        """Return the transaction that made each replica active; None for one that is not active."""
        paths = [f"{self.path}/replicas/{replica}/is_active" for replica in self.replicas]
        found = self.zookeeper.each("exists", paths)
        stats = [found[path] for path in paths]
        return {
            replica: None if stat is None else stat.czxid
            for replica, stat in zip(self.replicas, stats, strict=True)
        }


class Observer:
    """Client whose calls look at ZooKeeper, with a function for each kind of call."""

    def __init__(
        self,
        table: TableInZooKeeper,
        looks: Mapping[str, Callable[[TableInZooKeeper], Mapping[str, Json]]],
    ) -> None:
        self._table = table
        self._looks = looks

    def takes(self, op: Op) -> bool:
        """Return whether the call is an observation."""
        return op.f in self._looks

    def invoke(self, op: Op) -> Done:
        """Return what the call saw. A look without an answer says nothing, and the session ends
        with it."""
        try:
            self._table.barrier()
            return Done(Kind.OK, self._looks[op.f](self._table))
        except ZooKeeperError as error:
            return Done(Kind.INFO, error=str(error))
        except (ValueError, LookupError, StopIteration) as error:
            # What nodes have is the servers' word.
            return Done(Kind.INFO, error=f"cannot be read: {type(error).__name__}: {error}")
        except KazooException as error:
            return Done(Kind.FAIL, error=f"{type(error).__name__}: {error}".rstrip(": "))

    def function_of(self, f: str) -> Callable[..., object]:
        """Return the function that makes the calls of this name."""
        return self._looks[f]

    def close(self) -> None:
        """Close the session; idempotent."""
        self._table.zookeeper.close()
