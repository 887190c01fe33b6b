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


def places(table: TableInZooKeeper) -> dict[str, Json]:
    """Return each replica's log pointer, whether it is lost, and whether it is active."""
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
    """Return the log's first entry, then the state of each replica, read twice: "steady" if both
    reads agree, so that the whole state existed at one moment after the first entry was read."""
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
    """Return the quorum insert in flight, the last part of each partition that had its quorum, and
    the failed parts; under "kept" the failed parts that each active replica has, and under "zxid"
    the transaction of the barrier."""
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
    """Return the failed parts that each active replica has. A replica was active while its parts
    were listed if the same node made it active before and after; and a failed part stays failed."""
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
    """Return the quorum state and every part in ZooKeeper, with the transaction that gave it to
    each replica."""
    folders = [f"replicas/{replica}/parts" for replica in table.replicas]
    names = [f"{folder}/{part}" for folder, own in table.children(folders).items() for part in own]
    paths = [f"{table.path}/{name}" for name in names]
    stats = table.zookeeper.each("exists", paths)
    parts: dict[str, dict[str, int]] = {}
    for name, path in zip(names, paths, strict=True):
        _, replica, _, part = name.split("/")
        if stats[path] is not None:
            parts.setdefault(part, {})[replica] = stats[path].czxid
    return {**quorum_state(table), "parts": {**parts}}


def _lines(value: tuple[str, int] | None) -> list[str]:
    return value[0].splitlines() if value else []


def log_types(table: TableInZooKeeper) -> dict[str, int]:
    """Return the number of log entries of each type, which is the line after an entry's fields."""
    entries = table.children(["log"])["log"]
    types: dict[str, int] = {}
    for value in table.values([f"log/{entry}" for entry in entries]).values():
        lines = _lines(value)
        name = next((one for one in lines if one and ": " not in one), "unknown")
        types[name] = types.get(name, 0) + 1
    return types


class MutationLook:
    """Look at mutations: their block numbers, each replica's pointer, and the entries that the log
    got since the look before."""

    def __init__(self) -> None:
        self._last = ""
        """Name of the last entry of the log that was read."""

    def __call__(self, table: TableInZooKeeper) -> dict[str, Json]:
        """Return the mutations as `checkers.ddl.mutation_log` reads them."""
        log = [name for name in table.children(["log"])["log"] if name > self._last]
        entries = [
            entry
            for text in table.values([f"log/{name}" for name in log]).values()
            if (entry := _mutate_entry(_lines(text)))
        ]
        # Read after the log: the mutation of an entry was there before the entry.
        names = table.children(["mutations"])["mutations"]
        texts = table.values([f"mutations/{name}" for name in names])
        numbers = {name: _block_numbers(_lines(texts[f"mutations/{name}"])) for name in names}
        lost = table.of_replicas("is_lost")
        pointers = table.of_replicas("mutation_pointer")
        self._last = max(log, default=self._last)
        return {
            "pointers": {node: found[0] for node, found in pointers.items() if found is not None},
            "lost": {node: -1 if found is None else found[1] for node, found in lost.items()},
            "mutations": {**numbers},
            "entries": [*entries],
        }


def _mutate_entry(lines: Sequence[str]) -> list[Json]:
    """Return source, part and mutated part of an entry of a mutation; nothing for another entry."""
    if "mutate" not in lines:
        return []
    at = lines.index("mutate")
    source = next(line.partition(": ")[2] for line in lines if line.startswith("source replica: "))
    return [source, lines[at + 1], lines[at + 3]]


def _block_numbers(lines: Sequence[str]) -> dict[str, Json]:
    """Return the block number of a mutation in each partition."""
    pairs = (line.split("\t") for line in lines if line.count("\t") == 1)
    return {partition: int(block) for partition, block in pairs if block.isdigit()}


def active(keepers: Mapping[str, Sequence[str]]) -> Callable[[TableInZooKeeper], dict[str, Json]]:
    """Return a look at whether each replica is active; checkers need `keepers`, the servers that
    each may read through."""

    def look(table: TableInZooKeeper) -> dict[str, Json]:
        found = table.of_replicas("is_active")
        return {
            "active": {replica: one is not None for replica, one in found.items()},
            "keepers": {replica: list(own) for replica, own in keepers.items()},
        }

    return look
