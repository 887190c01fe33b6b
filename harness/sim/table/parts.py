"""Parts of a table: intervals of block numbers, and sets of them in which none covers another."""

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Generic, NamedTuple, TypeVar

Row = tuple[Any, ...]
Rows = tuple[Row, ...]


class Info(NamedTuple):
    """What a part's name says."""

    partition: str
    min: int
    max: int
    level: int = 0
    mutation: int = 0

    @property
    def name(self) -> str:
        """As ClickHouse spells it."""
        end = f"_{self.mutation}" if self.mutation else ""
        return f"{self.partition}_{self.min}_{self.max}_{self.level}{end}"

    @property
    def version(self) -> int:
        """Mutations above it are yet to be applied."""
        return self.mutation or self.min

    def contains(self, other: "Info") -> bool:
        """Whether every row of the other is in this one, if both are parts of one table."""
        return (
            self.partition == other.partition
            and self.min <= other.min
            and self.max >= other.max
            and self.level >= other.level
            and self.mutation >= other.mutation
        )


@lru_cache(maxsize=1 << 14)
def info_of(name: str) -> Info:
    """The other way round."""
    partition, *numbers = name.split("_")
    return Info(partition, *map(int, numbers))


class Part:
    """A part on a disk. Its rows never change, and stand for its checksums."""

    __slots__ = ("info", "made_ns", "name", "old_ns", "rows")

    def __init__(self, info: Info, rows: Rows, made_ns: int) -> None:
        self.info = info
        self.name = info.name
        self.rows = rows
        self.made_ns = made_ns
        self.old_ns = 0
        """Since when another part covers it; 0: none does."""


T = TypeVar("T")


class Cover(Generic[T]):
    """Things by their Info, no one covered by another: the active set."""

    def __init__(self) -> None:
        self._by_partition: dict[str, list[tuple[int, Info]]] = {}
        self._things: dict[Info, T] = {}

    def __iter__(self) -> Iterator[T]:
        return iter(self._things.values())

    def __len__(self) -> int:
        return len(self._things)

    def pairs(self) -> Iterable[tuple[Info, T]]:
        """Each with its Info."""
        return self._things.items()

    def infos(self, partition: str) -> list[Info]:
        """Of a partition, by block number."""
        return [info for _, info in self._by_partition.get(partition, ())]

    @property
    def partitions(self) -> Iterable[str]:
        """Those with anything in them."""
        return [name for name, inside in self._by_partition.items() if inside]

    def get(self, info: Info) -> T | None:
        """Exactly this one."""
        return self._things.get(info)

    def containing(self, info: Info) -> Info | None:
        """The one that is or covers it."""
        if info in self._things:
            return info
        inside = self._by_partition.get(info.partition)
        if not inside:
            return None
        at = bisect_right(inside, (info.min, info)) - 1
        # Equal ends sort by the rest of the name, so the neighbour on the right may be it too.
        for found in (at, at + 1):
            if 0 <= found < len(inside) and inside[found][1].contains(info):
                return inside[found][1]
        return None

    def covered(self, info: Info) -> list[Info]:
        """Those that it covers."""
        inside = self._by_partition.get(info.partition, ())
        return [other for _, other in inside if info.contains(other)]

    def within(self, partition: str, low: int, high: int) -> list[Info]:
        """Those that lie between these block numbers, both included."""
        inside = self._by_partition.get(partition, ())
        return [info for _, info in inside if low <= info.min and info.max <= high]

    def add(self, info: Info, thing: T) -> list[T]:
        """Adds it, unless it is covered, and takes out what it covers, which is returned."""
        if self.containing(info) is not None:
            return []
        out = []
        inside = self._by_partition.get(info.partition)
        last = inside[-1][1] if inside else None
        if last is not None and last.max >= info.min:
            for other in self.covered(info):
                out.append(self._things[other])
                self.remove(other)
        insort(self._by_partition.setdefault(info.partition, []), (info.min, info))
        self._things[info] = thing
        return out

    def remove(self, info: Info) -> None:
        """Of what is not there, nothing happens."""
        if info in self._things:
            del self._things[info]
            self._by_partition[info.partition].remove((info.min, info))
