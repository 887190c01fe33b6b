"""What ZooKeeper has of one replicated table, read while clients and faults go on."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError

from harness.clients.connect import zookeeper
from harness.clients.zookeeper import ZooKeeperError
from harness.core.op import Done, Json, Kind, Op
from harness.core.protocols import Cluster


class TableInZooKeeper:
    """Reads below one table's path. Every look begins with `barrier`: a write of its own, after
    which this session reads nothing older than what had been committed when the look began. (A
    `sync` would not do: a deposed leader that has not noticed answers it by itself.)"""

    def __init__(
        self, cluster: Cluster, path: str, replicas: Sequence[str], *, timeout_s: float = 3.0
    ) -> None:
        self.zookeeper = zookeeper(cluster, cluster.topology.keepers, timeout_s=timeout_s)
        self.path = path
        self.replicas = tuple(replicas)
        self.zxid = 0
        """The transaction of the last barrier."""

    def barrier(self) -> None:
        """Raises ZooKeeperError."""
        path = f"{self.path}/harness_barrier"
        if not self.zookeeper.each("exists", [path], NoNodeError)[path]:
            with suppress(NodeExistsError):
                self.zookeeper.ask("create", path, b"")
        self.zxid = self.zookeeper.ask("set", path, b"").mzxid

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

    def activations(self) -> dict[str, int | None]:
        """By replica the transaction that made it active; None: it is not."""
        paths = [f"{self.path}/replicas/{replica}/is_active" for replica in self.replicas]
        found = self.zookeeper.each("exists", paths, NoNodeError)
        stats = [found[path] for path in paths]
        return {
            replica: None if stat is None else stat.czxid
            for replica, stat in zip(self.replicas, stats, strict=True)
        }


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


def log_and_places(table: TableInZooKeeper) -> dict[str, Json]:
    """The log's first entry, then each replica's place, read twice: "steady" when both reads are
    the same, so that all of a replica was so at one moment after the first entry was read."""
    entries = table.children(["log"])["log"]
    names = ("log_pointer", "is_lost", "is_active")
    before, after = ([table.of_replicas(name) for name in names] for _ in range(2))
    now = places(table)["replicas"]
    assert isinstance(now, dict), "a place each"
    for replica, state in now.items():
        steady = all(a[replica] == b[replica] for a, b in zip(before, after, strict=True))
        pointer, lost, active = (found[replica] for found in before)
        state |= {
            "steady": steady,
            "pointer": int(pointer[0]) if pointer and pointer[0] else None,
            "lost": lost is not None and lost[0] == "1",
            "active": active is not None,
        }
    first = int(entries[0].removeprefix("log-")) if entries else None
    return {"first": first, "entries": len(entries), "replicas": now}


def quorum_state(table: TableInZooKeeper) -> dict[str, Json]:
    """The quorum insert in flight, the last that had its quorum in each partition, and those that
    failed; "kept" of them are those that an active replica has, by replica; "zxid" is of the write
    that came before."""
    values = table.values(["quorum/status", "quorum/last_part"])
    status, last = values["quorum/status"], values["quorum/last_part"]
    fields = dict(line.split(": ", 1) for line in _lines(status) if ": " in line)
    parts = dict(line.split("\t", 1) for line in _lines(last) if "\t" in line)
    failed = table.children(["quorum/failed_parts"])["quorum/failed_parts"]
    return {
        "zxid": table.zxid,
        "pending": fields.get("part_name"),
        "last": {**parts},
        "failed": list(failed),
        "kept": {**_kept(table, frozenset(failed))} if failed else {},
    }


def _kept(table: TableInZooKeeper, failed: frozenset[str]) -> dict[str, list[Json]]:
    """A replica was active when its parts were listed, if it was so before and after by the same
    node; and a part that has failed stays one."""
    before = table.activations()
    folders = [f"replicas/{replica}/parts" for replica in table.replicas]
    listed = zip(table.replicas, table.children(folders).values(), strict=True)
    after = table.activations()
    held = {replica: failed.intersection(own) for replica, own in listed}
    return {
        replica: [*sorted(own)]
        for replica, own in held.items()
        if own and before[replica] is not None and before[replica] == after[replica]
    }


def parts_of_replicas(table: TableInZooKeeper) -> dict[str, Json]:
    """Every part that ZooKeeper knows, with the transaction that gave it to each replica."""
    folders = [f"replicas/{replica}/parts" for replica in table.replicas]
    names = [f"{folder}/{part}" for folder, own in table.children(folders).items() for part in own]
    paths = [f"{table.path}/{name}" for name in names]
    stats = table.zookeeper.each("exists", paths, NoNodeError)
    parts: dict[str, dict[str, int]] = {}
    for name, path in zip(names, paths, strict=True):
        _, replica, _, part = name.split("/")
        if stats[path] is not None:
            parts.setdefault(part, {})[replica] = stats[path].czxid
    return {**quorum_state(table), "parts": {**parts}}


def _lines(value: tuple[str, int] | None) -> list[str]:
    return value[0].splitlines() if value else []


def log_types(table: TableInZooKeeper) -> dict[str, Json]:
    """How many entries of each type the log has: the line after an entry's fields names it."""
    entries = table.children(["log"])["log"]
    types: dict[str, int] = {}
    for value in table.values([f"log/{entry}" for entry in entries]).values():
        lines = _lines(value)
        name = next((one for one in lines if one and ": " not in one), "unknown")
        types[name] = types.get(name, 0) + 1
    return {"types": {**types}}


def active(keepers: Mapping[str, Sequence[str]]) -> Callable[[TableInZooKeeper], dict[str, Json]]:
    """Whether each replica's is_active is there; `keepers` are the servers that each may read
    through, for whoever judges."""

    def look(table: TableInZooKeeper) -> dict[str, Json]:
        found = table.of_replicas("is_active")
        return {
            "active": {replica: one is not None for replica, one in found.items()},
            "keepers": {replica: list(own) for replica, own in keepers.items()},
        }

    return look
