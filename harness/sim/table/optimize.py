"""OPTIMIZE, where the table's leader is: assigns a merge, and waits until every replica did it.

Source: optimize, waitForReplicaToProcessLogEntry of StorageReplicatedMergeTree, and
selectAllPartsToMergeWithinPartition, of 18.16.1.
"""

from typing import TYPE_CHECKING

from harness.sim.table import merge
from harness.sim.world import Future

if TYPE_CHECKING:
    from harness.sim.table.replica import Table


def optimize(table: "Table", partition: str | None, *, final: bool, wait: bool) -> None:
    """Merges the partition's parts into one, or every partition's, if it is to be `final`; else
    some neighbours. Where that may not be now, nothing happens. Raises ServerError, KeeperError."""
    zk = table.writable()
    every = final and partition is None
    partitions = sorted(table.active.partitions) if every else [partition]
    with table.choosing:
        logged = [merge.assign(table, zk, one, final=final) for one in partitions]
    last = next((one for one in reversed(logged) if one is not None), None)
    if wait and last is not None:
        for replica in zk.children(f"{table.path}/replicas"):
            _await(table, replica, last)


def _await(table: "Table", replica: str, logged: merge.Logged) -> None:
    """Until a replica has copied the entry to its queue, and removed it from there."""
    own = f"{table.path}/replicas/{replica}"
    while True:
        changed = Future()
        pointer = table.connected().get(f"{own}/log_pointer", watch=changed)
        if pointer is not None and pointer[0] > logged.number:
            break
        table.world.wait(changed)
    queue = table.connected().read(("values", f"{own}/queue"))[0] or {}
    # Their numbers differ from replica to replica.
    name = next((name for name, entry in queue.items() if entry == logged.entry), None)
    while name is not None:
        changed = Future()
        found = table.connected().read(("exists", f"{own}/queue/{name}"), watch=changed)
        if found[0] is None:
            break
        table.world.wait(changed)
