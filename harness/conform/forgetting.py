"""What FORGET PARTITION does to the model: the blocks and mutations of the partition are numbered
anew, so that the names of its parts come again.

Source: forgetPartition of StorageReplicatedMergeTree of 25.8, which deletes the partition's node
below block_numbers once the replica that is asked has no part of it. Other replicas may have yet to
execute the drop that emptied it. Its range spans the new numbers, too: such a replica drops what is
inserted after the FORGET, which the server allows and the model never should.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.conform.entries import PartName

if TYPE_CHECKING:
    from harness.conform.model import Model


@dataclass
class ForgottenPartition:
    """What there was of a partition when it was last forgotten."""

    mutations: int
    """Number of mutations."""
    last: PartName | None
    """Its part in last_part."""
    again: set[str]
    """Parts whose names have not come again."""
    drops: set[str]
    """Ranges of the drops, but for those that were logged again."""
    anew: set[str] = field(default_factory=set)
    """Parts that were made since."""


def forget(model: "Model", partition: str) -> None:
    """Forget a partition."""
    model.forgotten[partition] = ForgottenPartition(
        mutations=len(model.mutations),
        last=model.last.get(partition),
        again={name for name, part in model.created.items() if part.partition == partition},
        drops={name for name in model.removed if PartName.named(name).partition == partition},
    )
    for replica in model.replicas.values():
        replica.ranges.pop(partition, None)


def is_taken(model: "Model", part: PartName) -> bool:
    """Return whether a part of this name was made before, and its partition was not forgotten
    since."""
    known = model.forgotten.get(part.partition)
    return part.name in model.created and (known is None or part.name not in known.again)


def make(model: "Model", part: PartName) -> None:
    """Note a part that is made in a forgotten partition; what was known of its name is of
    another."""
    known = model.forgotten.get(part.partition)
    if known is None:
        return
    known.anew.add(part.name)
    if part.name not in known.again:
        return
    known.again.remove(part.name)
    model.replaced.pop(part.name, None)
    model.failed.discard(part.name)
    model.counted = {pair for pair in model.counted if pair[1] != part.name}
    model.removed = {range_: gone - {part.name} for range_, gone in model.removed.items()}
    for replica in model.replicas.values():
        replica.dropped.discard(part.name)


def log_drop(model: "Model", gone: PartName) -> None:
    """Note a drop that is logged."""
    if gone.partition in model.forgotten:
        model.forgotten[gone.partition].drops.discard(gone.name)


def missed(model: "Model", name: str, node: str) -> PartName | None:
    """Return the part that a replica gives up when it removes an entry from its queue, if the part
    was made after a FORGET and only drops of before that cover it."""
    replica = model.replica(name)
    entry = replica.queue.get(node)
    known = (
        None if entry is None or entry.part is None else model.forgotten.get(entry.part.partition)
    )
    if known is None or entry is None or entry.part is None or entry.removed is not None:
        return None
    part = entry.part
    covering = {range_.name for range_ in replica.ranges_of(part)}
    is_new = part.name in known.anew and not replica.lost and not replica.has(part)
    return part if is_new and covering and covering <= known.drops else None
