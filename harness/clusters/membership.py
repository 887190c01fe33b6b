"""Disks that are emptied, backed up and restored, and replicas that are dropped and added.

A pod sees the disks of its server if they are in memory. A copy of them is kept in the pod, so that
it vanishes with the cluster.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.clusters import keeper, replica
from harness.clusters.parallel import on_each
from harness.clusters.pods import PodAgent
from harness.core.capabilities import (
    CanReplaceDisks,
    CanReplaceReplicas,
    CanRestoreReplicas,
    CanRewindKeepers,
)
from harness.core.errors import ClusterError
from harness.core.protocols import Endpoint
from harness.core.topology import Topology

_BACKUP: Final = "/var/tmp/harness-backup"  # noqa: S108 # in the pod
_COPY_S: Final = 60.0
_EXPIRED_S: Final = 30.0
"""Time for the session of a killed replica to end; until then it counts as active and cannot be
dropped. Normally it takes 6 s."""
_STATEMENT_S: Final = 20.0
_RETRY_S: Final = 0.5
_PARTS: Final = ("-mindepth", "3", "-maxdepth", "3", "-type", "d", "!", "-name", "detached")
"""Parts of tables: data/DATABASE/TABLE/PART, and store/PREFIX/UUID/PART of Atomic databases."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a replica, as it is created anew."""

    database: str
    name: str
    statement: str
    path: str
    """Its path in ZooKeeper; "" if it is not replicated."""


class NodeStorage(CanReplaceDisks, CanRewindKeepers):
    """Disks of the servers of one cluster.

    `disks` are the directories under which a pod sees its server's data.
    """

    def __init__(self, pods: Mapping[str, PodAgent], disks: Mapping[str, Sequence[str]]) -> None:
        self._pods = pods
        self._disks = disks

    def why_unavailable(self) -> str | None:
        unseen = [node for node in self._pods if not self._disks[node]]
        return f"the pods do not see the data of {' '.join(unseen)}" if unseen else None

    def empty_disks(self, nodes: Iterable[str], parts_only: bool) -> None:
        on_each(nodes, lambda node: self._empty(node, parts_only))

    def _empty(self, node: str, parts_only: bool) -> None:
        pod = self._pods[node]
        if not parts_only:
            pod.run("find", *self._disks[node], "-mindepth", "1", "-delete", wait_s=_COPY_S)
            return
        for directory in self._part_roots(node):
            pod.run("find", directory, *_PARTS, "-exec", "rm", "-rf", "{}", "+", wait_s=_COPY_S)

    def disk_files(self, node: str, parts_only: bool) -> int:
        pod, out = self._pods[node], ""
        if not parts_only:
            out = pod.run("find", *self._disks[node], "-type", "f")
        else:
            out = "".join(pod.run("find", d, *_PARTS) for d in self._part_roots(node))
        return len(out.splitlines())

    def back_up_disks(self, nodes: Iterable[str]) -> None:
        on_each(nodes, self._back_up)

    def _back_up(self, node: str) -> None:
        pod = self._pods[node]
        pod.run("rm", "-rf", _BACKUP)
        for number, disk in enumerate(self._disks[node]):
            pod.run("mkdir", "-p", f"{_BACKUP}/{number}")
            pod.run("cp", "-a", f"{disk}/.", f"{_BACKUP}/{number}", wait_s=_COPY_S)

    def restore_disks(self, nodes: Iterable[str]) -> None:
        on_each(nodes, self._restore)

    def rewind_keepers(self, nodes: Iterable[str]) -> None:
        self.restore_disks(nodes)

    def _restore(self, node: str) -> None:
        self._empty(node, parts_only=False)
        for number, disk in enumerate(self._disks[node]):
            self._pods[node].run("cp", "-a", f"{_BACKUP}/{number}/.", disk, wait_s=_COPY_S)

    def _part_roots(self, node: str) -> list[str]:
        pod = self._pods[node]
        roots = [f"{disk}/{name}" for disk in self._disks[node] for name in ("data", "store")]
        there = (pod.call("run", wait_s=5, argv=["test", "-d", root], text="") for root in roots)
        return [root for root, found in zip(roots, there, strict=True) if found["status"] == 0]


class TableReplicas(CanReplaceReplicas, CanRestoreReplicas):
    """Replicas of the tables of one cluster."""

    def __init__(self, topology: Topology, endpoint: Callable[[str], Endpoint]) -> None:
        self._topology = topology
        self._endpoint = endpoint
        self._tables: dict[str, list[Table]] = {}
        """Noted tables of each server."""

    def note_tables(self, nodes: Iterable[str]) -> None:
        on_each(nodes, self._note)

    def _note(self, node: str) -> None:
        replicated = {
            (database, name): path
            for database, name, path in replica.query(
                self._endpoint(node),
                "SELECT database, table, zookeeper_path FROM system.replicas",
                (str, str, str),
            )
        }
        rows = replica.query(
            self._endpoint(node),
            "SELECT database, name, create_table_query FROM system.tables WHERE database NOT IN "
            "('system', 'INFORMATION_SCHEMA', 'information_schema') AND create_table_query != ''",
            (str, str, str),
        )
        tables = [Table(d, n, text, replicated.get((d, n), "")) for d, n, text in rows]
        # Tables that are no replicas may read those that are.
        self._tables[node] = sorted(tables, key=lambda table: not table.path)

    def drop_replicas(self, nodes: Iterable[str]) -> None:
        for node in nodes:
            self._drop(node)

    def _drop(self, node: str) -> None:
        """Have another replica drop all replicas of a server. Raises ClusterError."""
        by = self._other(node)
        deadline = time.monotonic() + _EXPIRED_S
        for table in self._tables.get(node, []):
            if not table.path:
                continue
            # 24.8 refuses FROM ZKPATH where a table of this path exists.
            statement = f"SYSTEM DROP REPLICA '{node}' FROM TABLE {table.database}.{table.name}"
            while self._knows(by, node, table):
                try:
                    replica.execute(self._endpoint(by), statement, timeout_s=_STATEMENT_S)
                except ClusterError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(_RETRY_S)

    def add_replicas(self, nodes: Iterable[str]) -> None:
        """Create the noted tables as they are now."""
        for node in nodes:
            self._add(node)

    def _add(self, node: str) -> None:
        endpoint = self._endpoint(node)
        for table in self._missing(node):
            replica.execute(endpoint, f"CREATE DATABASE IF NOT EXISTS {table.database}")
            replica.execute(endpoint, self._statement(node, table), timeout_s=_STATEMENT_S)

    def _statement(self, node: str, table: Table) -> str:
        """Return the statement that makes a server a replica of a table again: the noted one, or
        that of another replica, whose columns an ALTER may have changed since."""
        if not table.path:
            return table.statement
        by = self._other(node)
        rows = replica.query(
            self._endpoint(by),
            "SELECT create_table_query FROM system.tables "
            f"WHERE database = '{table.database}' AND name = '{table.name}'",
            (str,),
        )
        theirs = f"'{table.path}', '{by}'"
        found = [text for (text,) in rows if theirs in text]
        return found[0].replace(theirs, f"'{table.path}', '{node}'") if found else table.statement

    def restore_replicas(self, nodes: Iterable[str]) -> None:
        for node in nodes:
            for table in self._read_only(node):
                for what in ("RESTART", "RESTORE"):
                    statement = f"SYSTEM {what} REPLICA {table}"
                    replica.execute(self._endpoint(node), statement, timeout_s=_STATEMENT_S)

    def read_only(self, node: str) -> list[str]:
        try:
            return [f"{node}: {table} is read-only" for table in self._read_only(node)]
        except ClusterError as error:
            return [f"{node}: {error}"]

    def _read_only(self, node: str) -> list[str]:
        text = (
            "SELECT concat(database, '.', table) FROM system.replicas "
            "WHERE is_readonly OR is_session_expired OR total_replicas = 0"
        )
        return [table for (table,) in replica.query(self._endpoint(node), text, (str,))]

    def lacks_tables(self, node: str) -> bool:
        noted = self._tables.get(node, [])
        return bool(noted) and len(self._missing(node)) == len(noted)

    def _missing(self, node: str) -> list[Table]:
        text = "SELECT database, name FROM system.tables"
        have = set(replica.query(self._endpoint(node), text, (str, str)))
        return [t for t in self._tables.get(node, []) if (t.database, t.name) not in have]

    def registered(self, node: str) -> bool:
        if node in self._topology.keepers:
            return self._followers() == len(self._topology.keepers) - 1
        by = self._other(node)
        tables = [table for table in self._tables.get(node, []) if table.path]
        return any(self._knows(by, node, table) for table in tables)

    def behind(self, node: str) -> list[str]:
        if node in self._topology.keepers:
            return []
        text = (
            "SELECT database, table, count() FROM system.replication_queue "
            "WHERE type IN ('GET_PART', 'MERGE_PARTS') GROUP BY database, table"
        )
        try:
            rows = replica.query(self._endpoint(node), text, (str, str, int))
            inactive = replica.inactive_tables(self._endpoint(node))
        except ClusterError as error:
            return [f"{node}: {error}"]
        waits = [f"{node}: {d}.{t} waits for {count} parts" for d, t, count in rows]
        return [*(f"{node}: {table} is not active" for table in inactive), *waits]

    def _followers(self) -> int:
        """Return how many followers the ZooKeeper leader has; -1 if none leads."""
        for node in self._topology.keepers:
            try:
                lines = keeper.request(self._endpoint(node), "mntr").splitlines()
            except OSError:
                continue
            for line in lines:
                name, _, value = line.partition("\t")
                if name == "zk_synced_followers":
                    return int(float(value))
        return -1

    def _knows(self, by: str, node: str, table: Table) -> bool:
        text = (
            f"SELECT count() FROM system.zookeeper WHERE path = '{table.path}/replicas' "
            f"AND name = '{node}'"
        )
        return bool(replica.query_value(self._endpoint(by), text, int))

    def _other(self, node: str) -> str:
        """Return a replica of the same shard that answers. Raises ClusterError."""
        shard = next(shard for shard in self._topology.shards if node in shard)
        for other in shard:
            if other != node and replica.is_alive(self._endpoint(other)) is None:
                return other
        raise ClusterError(f"{node}: no other replica of its shard answers")
