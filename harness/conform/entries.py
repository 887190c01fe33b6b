"""Parses what ClickHouse writes into ZooKeeper about a replicated table.

Formats: dbms/src/Storages/MergeTree of v18.16.1-stable, the same of 25.8 except for entries of kind
"alter": ReplicatedMergeTreeLogEntry.cpp, ReplicatedMergeTreeMutationEntry.cpp,
ReplicatedMergeTreeQuorumEntry.h, ReplicatedMergeTreeQuorumAddedParts.h, MergeTreePartInfo.cpp.
"""

import re
from dataclasses import dataclass
from typing import Final

_PART: Final = re.compile(
    r"(?P<partition>[^_]+)_(?P<low>\d+)_(?P<high>\d+)_(?P<level>\d+)(_(?P<version>\d+))?"
)

_QUOTED: Final = re.compile(r"'([^']*)'")
_COLUMN: Final = re.compile(r"^`(\w+)` ", re.MULTILINE)


class UnreadableError(ValueError):
    """A node's content that this parser does not understand."""


@dataclass(frozen=True, slots=True)
class PartName:
    """The name of a part, parsed: a partition and its blocks from `low` to `high`."""

    name: str
    partition: str
    low: int
    high: int
    level: int
    version: int = 0
    """Number of the last mutation whose effect the part contains; 0 if there is none."""

    @staticmethod
    def named(name: str) -> "PartName":
        """Parse PARTITION_LOW_HIGH_LEVEL or PARTITION_LOW_HIGH_LEVEL_VERSION. Raises
        UnreadableError."""
        found = _PART.fullmatch(name)
        if not found:
            raise UnreadableError(f"{name!r} is not the name of a part")
        numbers = (int(found[field] or 0) for field in ("low", "high", "level", "version"))
        return PartName(name, found["partition"], *numbers)

    def covers(self, other: "PartName") -> bool:
        """Return whether this part has all blocks of the other one. A part covers itself."""
        return (
            self.partition == other.partition
            and self.low <= other.low
            and other.high <= self.high
            and self.level >= other.level
            and self.version >= other.version
        )


DROPS: Final = frozenset({"drop", "detach"})
"""Kinds of the entries of DROP PARTITION and DETACH PARTITION."""
NEW_DATA: Final = frozenset({"get", "attach"})
"""Kinds of the entries that bring rows: an insert, and ATTACH of a part."""
REPLACE: Final = "REPLACE_RANGE"
"""Kind of the entries of REPLACE PARTITION, ATTACH PARTITION FROM and MOVE PARTITION TO TABLE."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """An entry of the replication log, or of a replica's queue."""

    kind: str
    """One of `NEW_DATA`, `DROPS`, `REPLACE`, "merge", "mutate" and "alter"; an entry of another
    kind has only its source."""
    source: str
    """Name of the replica that wrote the entry."""
    part: PartName | None
    """The part that the entry makes; of a drop, one that covers whatever it removes."""
    replaces: tuple[PartName, ...] = ()
    """The parts that a merge or a mutation replaces."""
    quorum: int = 0
    alter_version: int = 0
    """Version of the table's metadata that an "alter" brings about."""
    copies: tuple[PartName, ...] = ()
    """The parts that a `REPLACE` makes of those of another table."""
    copied: tuple[str, ...] = ()
    """Names of those parts of the other table, in the same order."""
    origin: str = ""
    """Database of that table."""
    range: PartName | None = None
    """A part that covers whatever a `REPLACE` removes; None if it removes nothing."""

    @property
    def made(self) -> tuple[PartName, ...]:
        """Return the parts that the entry makes."""
        return (self.part,) if self.part and self.kind not in DROPS else self.copies

    @property
    def removed(self) -> PartName | None:
        """Return a part that covers whatever the entry removes; None if it removes nothing."""
        return self.part if self.kind in DROPS else self.range

    @staticmethod
    def read(data: bytes) -> "LogEntry":
        """Parse an entry. Raises UnreadableError."""
        lines = data.decode(errors="replace").split("\n")
        try:
            start = next(i for i, line in enumerate(lines) if line.startswith("source replica: "))
            source = lines[start].removeprefix("source replica: ")
            body = [line for line in lines[start + 1 :] if not line.startswith("block_id: ")]
            kind = body[0]
            if kind in NEW_DATA:
                quorum = [int(x.removeprefix("quorum: ")) for x in body if x.startswith("quorum:")]
                return LogEntry(kind, source, PartName.named(body[1]), quorum=sum(quorum))
            if kind in DROPS:
                return LogEntry(kind, source, PartName.named(body[1]))
            if kind in ("merge", "mutate"):
                into = body.index("into" if kind == "merge" else "to")
                replaces = tuple(PartName.named(name) for name in body[1:into])
                return LogEntry(kind, source, PartName.named(body[into + 1]), replaces)
            if kind == REPLACE:
                named = dict(line.split(": ", 1) for line in body if ": " in line)
                gone = PartName.named(named["drop_range_name"])
                copies = tuple(PartName.named(one) for one in _QUOTED.findall(named["new_parts"]))
                copied = tuple(_QUOTED.findall(named["source_parts"]))
                # A range of one block says that nothing is replaced (isMovePartitionOrAttachFrom).
                range_ = gone if gone.low < gone.high else None
                return LogEntry(
                    kind, source, None, copies=copies, range=range_,
                    copied=copied, origin=named["from_database"],
                )  # fmt: skip
            if kind == "alter":
                version = int(body[body.index("alter_version") + 1])
                return LogEntry(kind, source, None, alter_version=version)
        except (StopIteration, IndexError, KeyError, ValueError) as error:
            raise UnreadableError(f"{data[:200]!r} is not a log entry: {error}") from error
        return LogEntry(kind, source, None)


@dataclass(frozen=True, slots=True)
class QuorumStatus:
    """The content of /quorum/status: the quorum insert in flight."""

    part: PartName
    required: int
    replicas: frozenset[str]

    @staticmethod
    def read(data: bytes) -> "QuorumStatus":
        """Parse a quorum status. Raises UnreadableError."""
        lines = data.decode(errors="replace").split("\n")
        try:
            named = dict(line.split(": ", 1) for line in lines if ": " in line)
            at = lines.index("replicas:")
            replicas = frozenset(line for line in lines[at + 1 :] if line)
            return QuorumStatus(
                PartName.named(named["part_name"]),
                int(named["required_number_of_replicas"]),
                replicas,
            )
        except (KeyError, ValueError) as error:
            raise UnreadableError(f"{data[:200]!r} is not a quorum status: {error}") from error


@dataclass(frozen=True, slots=True)
class MutationEntry:
    """The content of a node below /mutations."""

    source: str
    """Name of the replica that wrote it."""
    numbers: dict[str, int]
    """The block number that the mutation took in each partition: it applies to lower blocks."""
    commands: str = ""
    """What it does, as the server writes it."""

    @staticmethod
    def read(data: bytes) -> "MutationEntry":
        """Parse a mutation. Raises UnreadableError."""
        lines = data.decode(errors="replace").split("\n")
        try:
            named = dict(line.split(": ", 1) for line in lines if ": " in line)
            count = named["block numbers count"]
            first = lines.index(f"block numbers count: {count}") + 1
            pairs = [line.split("\t") for line in lines[first : first + int(count)]]
            numbers = {partition: int(number) for partition, number in pairs}
            return MutationEntry(named["source replica"], numbers, named.get("commands", ""))
        except (KeyError, ValueError) as error:
            raise UnreadableError(f"{data[:200]!r} is not a mutation: {error}") from error


def read_last_parts(data: bytes) -> dict[str, PartName]:
    """Parse /quorum/last_part: for each partition the last part that reached its quorum. Raises
    UnreadableError."""
    lines = [line for line in data.decode(errors="replace").split("\n") if line]
    if not lines:
        return {}
    if not lines[0].startswith("version: "):
        part = PartName.named(lines[0])
        return {part.partition: part}
    pairs = [line.split("\t") for line in lines[2:]]
    try:
        return {partition: PartName.named(name) for partition, name in pairs}
    except ValueError as error:
        raise UnreadableError(f"{data[:200]!r} is not a list of last parts: {error}") from error


def read_columns(data: bytes) -> list[str]:
    """Return the names of the columns in /columns, of a table or of a replica."""
    return _COLUMN.findall(data.decode(errors="replace"))
