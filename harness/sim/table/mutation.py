"""ALTER TABLE … UPDATE and DELETE: parts below the mutation's number are rewritten, in the end.

Source: StorageReplicatedMergeTree::mutate and ReplicatedMergeTreeQueue of 18.16.1. One departure:
a mutation says its partition's block number, taken as an insert takes one, in one multi.
"""

from typing import TYPE_CHECKING

from harness.sim.keeper.tree import Create, Remove
from harness.sim.table.entries import Mutation
from harness.sim.table.parts import Info, Part, Rows

if TYPE_CHECKING:
    from harness.sim.table.replica import Table


def order(table: "Table", change: str) -> None:
    """Writes the mutation for every partition that there is. Raises ServerError, KeeperError."""
    zk = table.writable()
    for partition in zk.children(f"{table.path}/block_numbers"):
        numbers = f"{table.path}/block_numbers/{partition}"
        (lock,) = zk.multi((Create(f"{numbers}/block-", "", True, True),))
        mutation = Mutation(int(lock[-10:]), partition, change, table.me)
        zk.multi((Create(f"{table.path}/mutations/", mutation, sequential=True), Remove(lock)))


def current_version(table: "Table", info: Info) -> int:
    """The number of the latest mutation that the part needs no more. Only parts that agree may be
    merged: of two that will both be brought to 25, one may lack 18 and one have come after it."""
    numbers = [
        mutation.number
        for mutation in table.mutations.values()
        if mutation.partition == info.partition and mutation.number <= info.version
    ]
    return max(numbers, default=0)


def desired_version(table: "Table", info: Info) -> int | None:
    """The number of the latest mutation that the part lacks."""
    numbers = [
        mutation.number
        for mutation in table.mutations.values()
        if mutation.partition == info.partition
        and (mutation.number > info.version or "mutation-late" in table.bugs)
        and mutation.number > info.mutation
    ]
    return max(numbers, default=None)


def changed(table: "Table", part: Part, version: int) -> Rows:
    """The part's rows after every mutation up to `version` that it lacks."""
    rows = part.rows
    for name in sorted(table.mutations):
        mutation = table.mutations[name]
        late = "mutation-late" in table.bugs
        lacks = mutation.number > part.info.version or (late and part.info.mutation == 0)
        if mutation.partition == part.info.partition and mutation.number <= version and lacks:
            rows = table.schema.apply(mutation.change, rows)
    return rows
