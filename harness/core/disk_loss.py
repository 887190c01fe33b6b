"""What faults take from the disks of replicas, as their ops record it."""

from enum import StrEnum


class Takes(StrEnum):
    """What a fault takes from the disk of each replica that it strikes: the entry "takes" of the
    op that begins it. Beside it "fsync" says what the servers sync, see docs/storage.md."""

    UNSYNCED = "unsynced"
    """What is not durable when it begins: power was cut."""
    ALL = "all"
    """Everything that is there when it begins: another disk takes the place of the first."""
    NEWER = "newer"
    """What is written while it lasts: in the end an old copy takes the place of the disk."""
    UNREADABLE = "unreadable"
    """Parts that cannot be read while it lasts: a server that cannot read a part removes it, even
    the last copy (ReplicatedMergeTreePartCheckThread::checkPart, 18.16.1 to 25.8)."""
