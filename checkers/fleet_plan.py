"""Shares out runs among tasks: few tasks of many small runs, the big ones by ranges of keys.

One task reads whole files by their paths, instead of Spark's own scan and a shuffle by object: a
run's history is one file already, so that a shuffle would move every op over the wire only to
bring together what lies together; and pyarrow prunes columns and row groups just as well.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heapreplace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from checkers.fleet_columns import key_ranges

BIG_BYTES: Final = 32_000_000
"""A history beyond this is looked into, and shared out by keys."""
TASKS_A_CORE: Final = 4
"""So that no core is idle for long at the end."""
TASK_BYTES_MAX: Final = 256_000_000
"""A task that dies is done again: not too much at a time."""


@dataclass(frozen=True, slots=True)
class Item:
    """A run that is to be judged, or a range of its keys."""

    run: str
    path: str
    """Its directory."""
    bytes: int
    """Its size, which its cost goes by."""
    keys: tuple[int, int] | None = None
    """These alone, ends included, and only by the checkers that judge key by key."""
    digest: str = ""
    """Of its history, where that is known."""
    rest: bool = False
    """The other checkers of a run that is shared out."""

    @property
    def name(self) -> str:
        """No other item has it."""
        part = "" if self.keys is None else f"#{self.keys[0]}..{self.keys[1]}"
        return f"{self.run}{part}{'#rest' if self.rest else ''}"


def shared_out(item: Item, file: Path) -> list[Item]:
    """A big run by ranges of keys, along the row groups of its file; as it is where the file
    does not allow that."""
    try:
        ranges = key_ranges(pq.ParquetFile(file))
    except (OSError, pa.ArrowException):
        return [item]
    lows = sorted({low for low, _ in ranges if low is not None})
    last = max((high for _, high in ranges if high is not None), default=0)
    if len(lows) == 1:  # Every row group has all keys.
        first, count = lows[0], min(len(ranges), last - lows[0] + 1)
        lows = [first + (last + 1 - first) * part // count for part in range(count)]
    if len(lows) < 2:
        return [item]
    part = item.bytes // len(lows)
    ends = [*(low - 1 for low in lows[1:]), last]
    keyed = [replace(item, bytes=part, keys=ends_of) for ends_of in zip(lows, ends, strict=True)]
    return [*keyed, replace(item, bytes=0, rest=True)]


def binned(items: Sequence[Item], cores: int) -> list[list[Item]]:
    """The items of each task, the heaviest task first. Greedy: the next largest item goes to
    the lightest task, which is at worst 4/3 of the best (Graham 1969)."""
    total = sum(item.bytes for item in items)
    count = max(TASKS_A_CORE * cores, -(-total // TASK_BYTES_MAX))
    tasks: list[list[Item]] = [[] for _ in range(min(count, len(items)))]
    loads = [(0, at) for at in range(len(tasks))]
    heapify(loads)
    for item in sorted(items, key=lambda one: (-one.bytes, one.name)):
        load, at = loads[0]
        tasks[at].append(item)
        # Each has a fixed cost too, which is that of some kilobytes.
        heapreplace(loads, (load + item.bytes + 20_000, at))
    tasks.sort(key=lambda task: -sum(item.bytes for item in task))
    return tasks
