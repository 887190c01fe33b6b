"""The steps of statements that copy a partition from another table: REPLACE PARTITION, ATTACH
PARTITION FROM and MOVE PARTITION TO TABLE, in the table that receives the copies.

Source: replacePartitionFrom, movePartitionToTable and executeReplaceRange of
StorageReplicatedMergeTree of 25.8. What a MOVE does to its source is a drop.
"""

from typing import TYPE_CHECKING

from harness.conform import forgetting
from harness.conform.entries import LogEntry
from harness.conform.replica import Replica
from harness.conform.rules import names_of, require

if TYPE_CHECKING:
    from harness.conform.model import Model


def log(model: "Model", entry: LogEntry) -> None:
    """Log an entry: remove what it replaces, and make its parts. Raises Departure."""
    if entry.range is not None:
        model.remove_range(entry.range)
    for part in entry.copies:
        require(not forgetting.is_taken(model, part), f"{part.name} was created before")
        gone = entry.range is not None and part.low <= entry.range.high
        require(not gone, f"{part.name} is in the range that it replaces")
        forgetting.make(model, part)
        model.created[part.name] = part


def receive(model: "Model", entry: LogEntry, parts: set[str], session: int) -> None:
    """Add the parts to the replica that has made them, which come in the same transaction as their
    entry. Raises Departure."""
    source = model.replica(entry.source)
    require(parts == {part.name for part in entry.copies}, f"it comes with {names_of(parts)}")
    source.parts |= {part.name: part for part in entry.copies}
    source.inserted |= {part.name: session for part in entry.copies}


def finish(model: "Model", replica: Replica, entry: LogEntry, session: int) -> tuple[str, ...]:
    """Finish an entry of a replica's queue. Return the parts that it has missed, as for a drop.
    Raises Departure."""
    gone = entry.range
    if (gone is None or replica.drops(gone)) and all(map(replica.drops, entry.copies)):
        return ()  # a drop removes the entries of which nothing would be left
    for part in entry.copies:
        there = replica.has(part) or replica.drops(part)
        require(there, f"{replica.name} does not have {part.name} after it")
    return () if gone is None else model.finish_drop(replica, gone, session)
