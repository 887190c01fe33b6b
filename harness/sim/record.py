"""What was agreed on in ZooKeeper, as facts for the checkers: every committed write is seen here.

A fact is a list, its name first, then the time in nanoseconds:
  ended    quorum of PART ended, so many NEEDED, HOLDERS had it
  last     last_part of PARTITION became block NUMBER
  places   the log's FIRST entry, {replica: [pointer, active, lost]}
  pointer  of REPLICA, FROM, TO, entries COPIED to its queue, whether it was LOST
  part     REPLICA announced NAME with a HASH of its rows
  merge    NAME was chosen BY a replica while LEADER was first in line
  session  ended after so many ms SILENT of so many ALLOWED
"""

from typing import TYPE_CHECKING
from zlib import crc32

from harness.core.op import Json
from harness.sim.keeper.tree import GONE, Change, Tree
from harness.sim.table.entries import MERGE, Entry
from harness.sim.table.parts import Info

if TYPE_CHECKING:
    from harness.sim.keeper.messages import Txn

Fact = list[Json]


class Record:
    """Of all tables of one cluster."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []
        self.seen = 0
        """How many entries of ZooKeeper's log."""

    def saw(self, now_ns: int, txn: "Txn", before: Tree) -> None:
        """A committed entry of the log, and the tree that it has yet to change."""
        for change in txn.changes:
            path, data, _ = change
            if data is GONE:
                if path.endswith("/quorum/status"):
                    self._quorum_over(now_ns, path, txn.changes, before)
                continue
            if "/parts/" in path and path.count("/") > 4 and "/replicas/" in path:
                replica, _, name = path.rpartition("/replicas/")[2].partition("/parts/")
                self.facts.append(["part", now_ns, replica, name, crc32(repr(data).encode())])
            elif path.endswith("/log_pointer") and path in before.nodes:
                self._pointer(now_ns, path, data, txn.changes, before)
            elif path.endswith("/quorum/last_part"):
                self._last(now_ns, path, data, before)
            elif isinstance(data, Entry) and data.kind == MERGE and "/log/log-" in path:
                self._merge(now_ns, path, data, before)

    def saw_after(self, now_ns: int, txn: "Txn", after: Tree) -> None:
        """The same entry, and the tree that it has changed."""
        for path, data, _ in txn.changes:
            truncated = data is GONE and "/log/log-" in path
            if truncated or path.endswith(("/is_lost", "/is_active")):
                root = path.partition("/log/log-" if truncated else "/replicas/")[0]
                self._places(now_ns, root, after)
                return

    def session_ended(self, now_ns: int, silent_ns: int, allowed_ns: int) -> None:
        """A session expired that was silent for so long while its leader ran."""
        self.facts.append(["session", now_ns, silent_ns // 1_000_000, allowed_ns // 1_000_000])

    def _quorum_over(
        self, now_ns: int, path: str, changes: tuple[Change, ...], before: Tree
    ) -> None:
        if any("/quorum/failed_parts/" in other for other, _, _ in changes):
            return
        status = before.nodes[path].data
        replicas = f"{path.removesuffix('/quorum/status')}/replicas"
        holders: list[Json] = [
            replica
            for replica in sorted(before.nodes[replicas].children)
            if f"{replicas}/{replica}/parts/{status.part.name}" in before.nodes
        ]
        self.facts.append(["ended", now_ns, status.part.name, status.needed, holders])

    def _last(self, now_ns: int, path: str, data: dict[str, Info], before: Tree) -> None:
        old = before.nodes[path].data if path in before.nodes else {}
        for partition, part in data.items():
            if old.get(partition) != part:
                self.facts.append(["last", now_ns, partition, part.max])

    def _pointer(
        self, now_ns: int, path: str, to: int, changes: tuple[Change, ...], before: Tree
    ) -> None:
        own = path.removesuffix("/log_pointer")
        copied = sum(
            p.startswith(f"{own}/queue/queue-") for p, data, _ in changes if data is not GONE
        )
        lost = before.nodes[f"{own}/is_lost"].data == "1"
        replica = own.rpartition("/")[2]
        came = before.nodes[path].data
        self.facts.append(["pointer", now_ns, replica, came, to, copied, lost])

    def _merge(self, now_ns: int, path: str, entry: Entry, before: Tree) -> None:
        election = f"{path.partition('/log/log-')[0]}/leader_election"
        line = sorted(before.nodes[election].children)
        leader = before.nodes[f"{election}/{line[0]}"].data if line else ""
        self.facts.append(["merge", now_ns, entry.new.name, entry.source, leader])

    def _places(self, now_ns: int, root: str, tree: Tree) -> None:
        log = sorted(tree.nodes[f"{root}/log"].children)
        if not log:
            return
        places: dict[str, Json] = {}
        for replica in sorted(tree.nodes[f"{root}/replicas"].children):
            own = f"{root}/replicas/{replica}"
            places[replica] = [
                tree.nodes[f"{own}/log_pointer"].data,
                f"{own}/is_active" in tree.nodes,
                tree.nodes[f"{own}/is_lost"].data == "1",
            ]
        self.facts.append(["places", now_ns, int(log[0].removeprefix("log-")), places])
