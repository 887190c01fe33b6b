"""What the model of trace conformance knows of one replica."""

from dataclasses import dataclass, field

from harness.conform.entries import LogEntry, PartName


@dataclass
class Replica:
    """State of one replica in ZooKeeper."""

    name: str
    session: int | None = None
    """The session of is_active; None if the replica is not active. A server that lost its session
    continues in a new one, and stays active until the old one expires."""
    closing: int | None = None
    """The session of a server that is shutting down. Such a server deletes is_active first, and
    then finishes what it has begun (StorageReplicatedMergeTree::partialShutdown)."""
    lost: bool = False
    pointer: int | None = None
    """Index of the next log entry to pull; None if none was pulled yet."""
    queue: dict[str, LogEntry] = field(default_factory=dict)
    parts: dict[str, PartName] = field(default_factory=dict)
    inserted: dict[str, int] = field(default_factory=dict)
    """Session in which the replica committed each insert of its own, by part."""
    again: set[str] = field(default_factory=set)
    """Entries of its queue that fetch a part anew which it could not read."""
    dropped: set[str] = field(default_factory=set)
    """Parts of the log that a drop which the replica has executed removed."""
    ranges: dict[str, PartName] = field(default_factory=dict)
    """Range of the furthest drop that the replica has executed, by partition."""
    mutated: str = ""
    """Node of the last mutation that the replica has finished: its mutation_pointer."""

    @property
    def may_write(self) -> bool:
        """Return whether the replica may pull entries and register parts."""
        return self.session is not None or self.closing is not None

    def has(self, part: PartName) -> bool:
        """Return whether the replica has the part or one that covers it."""
        return part.name in self.parts or any(own.covers(part) for own in self.parts.values())

    def fetches(self, node: str) -> PartName | None:
        """Return the part that an entry of the queue fetches; None for an entry of another kind."""
        entry = self.queue.get(node)
        return entry.part if entry is not None and entry.kind == "get" else None

    def covered(self, part: PartName) -> bool:
        """Return whether another part of the replica covers this one, or a part that it fetches
        anew: what an unreadable part covers goes with it."""
        queued = [entry.part for node, entry in self.queue.items() if node in self.again]
        others = [own for own in self.parts.values() if own != part]
        return any(own is not None and own.covers(part) for own in (*others, *queued))

    def drops(self, part: PartName) -> bool:
        """Return whether a drop that the replica executed, or has in its queue, covers the part. An
        insert that took its number before a drop may be logged after it, and the replica that took
        it may lose it to that drop at once, so that nobody can fetch it."""
        return bool(self.ranges_of(part))

    def ranges_of(self, part: PartName) -> list[PartName]:
        """Return the ranges of these drops."""
        queued = [entry.removed for entry in self.queue.values()]
        done = self.ranges.get(part.partition)
        return [own for own in (*queued, done) if own is not None and own.covers(part)]
