"""What ClickHouse writes into ZooKeeper about a replicated table, read.

Formats: dbms/src/Storages/MergeTree of v18.16.1-stable: ReplicatedMergeTreeLogEntry.cpp,
ReplicatedMergeTreeQuorumEntry.h, ReplicatedMergeTreeQuorumAddedParts.h, MergeTreePartInfo.cpp.
"""

import re
from dataclasses import dataclass
from typing import Final

_PART: Final = re.compile(r"(?P<partition>.+)_(?P<low>\d+)_(?P<high>\d+)_(?P<level>\d+)(_\d+)?")


class UnreadableError(ValueError):
    """Not what this server version writes."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part by its name: a partition's blocks from `low` to `high`."""

    name: str
    partition: str
    low: int
    high: int
    level: int

    @staticmethod
    def named(name: str) -> "Part":
        """Of the name PARTITION_LOW_HIGH_LEVEL."""
        found = _PART.fullmatch(name)
        if not found:
            raise UnreadableError(f"{name!r} is no name of a part")
        numbers = (int(found[field]) for field in ("low", "high", "level"))
        return Part(name, found["partition"], *numbers)

    def covers(self, other: "Part") -> bool:
        """Whether the other's blocks are all in this one; also of itself."""
        return (
            self.partition == other.partition
            and self.low <= other.low
            and other.high <= self.high
            and self.level >= other.level
        )


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the log, or of a replica's queue."""

    kind: str
    """get, merge; any other is named and not read further."""
    source: str
    """The replica that wrote it."""
    part: Part | None
    """What it makes."""
    merged: tuple[Part, ...] = ()
    """What a merge replaces."""
    quorum: int = 0

    @staticmethod
    def read(data: bytes) -> "Entry":
        """Raises UnreadableError."""
        lines = data.decode(errors="replace").split("\n")
        try:
            start = next(i for i, line in enumerate(lines) if line.startswith("source replica: "))
            source = lines[start].removeprefix("source replica: ")
            body = [line for line in lines[start + 1 :] if not line.startswith("block_id: ")]
            kind = body[0]
            if kind == "get":
                quorum = [int(x.removeprefix("quorum: ")) for x in body if x.startswith("quorum:")]
                return Entry(kind, source, Part.named(body[1]), (), *quorum)
            if kind == "merge":
                into = body.index("into")
                merged = tuple(Part.named(name) for name in body[1:into])
                return Entry(kind, source, Part.named(body[into + 1]), merged)
        except (StopIteration, IndexError, ValueError) as error:
            raise UnreadableError(f"{data[:200]!r} is no entry of the log: {error}") from error
        return Entry(kind, source, None)


@dataclass(frozen=True, slots=True)
class Quorum:
    """/quorum/status: the quorum insert in flight."""

    part: Part
    required: int
    replicas: frozenset[str]

    @staticmethod
    def read(data: bytes) -> "Quorum":
        """Raises UnreadableError."""
        lines = data.decode(errors="replace").split("\n")
        try:
            named = dict(line.split(": ", 1) for line in lines if ": " in line)
            at = lines.index("replicas:")
            replicas = frozenset(line for line in lines[at + 1 :] if line)
            return Quorum(
                Part.named(named["part_name"]),
                int(named["required_number_of_replicas"]),
                replicas,
            )
        except (KeyError, ValueError) as error:
            raise UnreadableError(f"{data[:200]!r} is no quorum status: {error}") from error


def read_last_parts(data: bytes) -> dict[str, Part]:
    """/quorum/last_part: of each partition the last part a quorum has. Raises UnreadableError."""
    lines = [line for line in data.decode(errors="replace").split("\n") if line]
    if not lines:
        return {}
    if not lines[0].startswith("version: "):
        part = Part.named(lines[0])
        return {part.partition: part}
    pairs = [line.split("\t") for line in lines[2:]]
    try:
        return {partition: Part.named(name) for partition, name in pairs}
    except ValueError as error:
        raise UnreadableError(f"{data[:200]!r} is no list of last parts: {error}") from error
