"""A lost replica takes another's queue and parts for its own.

Source: cloneReplicaIfNeeded, cloneReplica of 18.16.1.
"""

from typing import TYPE_CHECKING

from harness.sim.errors import ServerError
from harness.sim.keeper.session import KeeperSession
from harness.sim.keeper.tree import Check, Create, Put
from harness.sim.table.entries import GET, Entry
from harness.sim.table.select import parts_listed

if TYPE_CHECKING:
    from harness.sim.table.replica import Table


def clone_if_lost(table: "Table", zk: KeeperSession) -> None:
    """Raises ServerError and KeeperError; the replica is then still lost, and tries again."""
    if zk.data(f"{table.own}/is_lost") == "0":
        return
    for replica in zk.children(f"{table.path}/replicas"):
        if replica == table.me:
            continue
        found = zk.get(f"{table.path}/replicas/{replica}/is_lost")
        if found is not None and (found[0] == "0" or "clone-lost" in table.bugs):
            _clone(table, zk, f"{table.path}/replicas/{replica}", found[1])
            zk.put(f"{table.own}/is_lost", "0")
            return
    raise ServerError(415, "All replicas are lost")


def _clone(table: "Table", zk: KeeperSession, source: str, lost_version: int) -> None:
    """Entries may come twice by this order, and none is left out."""
    pointer = zk.data(f"{source}/log_pointer")
    # The source must not become lost meanwhile.
    zk.multi((Put(f"{table.own}/log_pointer", pointer), Check(f"{source}/is_lost", lost_version)))
    queue = zk.read(("values", f"{source}/queue"))[0] or {}
    listed = zk.read(("listed", f"{source}/parts"))[0]
    names = {} if listed is None or "clone-no-parts" in table.bugs else listed[1]
    for info, _ in parts_listed(names).pairs():
        _queue(table, zk, Entry(GET, info))
    for name in sorted(queue):
        _queue(table, zk, queue[name])


def _queue(table: "Table", zk: KeeperSession, entry: Entry) -> None:
    zk.multi((Create(f"{table.own}/queue/queue-", entry, sequential=True),))
