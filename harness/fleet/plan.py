"""Distributes runs among tasks: few tasks of many small runs, and big runs by ranges of keys.

A task reads whole files by their paths; it does not use Spark's own scan and a shuffle by object. A
run's history is already one file, so a shuffle would move every op over the network only to bring
together what is together; and pyarrow skips columns and row groups as well as Spark does.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heapreplace
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from harness.fleet.key_ranges import key_ranges

BIG_BYTES: Final = 32_000_000
"""Histories larger than this are split by ranges of keys."""
TASKS_A_CORE: Final = 4
"""Number of tasks for each core, so that no core is idle for long at the end."""
TASK_BYTES_MIN: Final = 300_000
"""Size of the histories for which another task pays, and another process."""
TASK_BYTES_MAX: Final = 64_000_000
TASK_ITEMS_MAX: Final = 500
"""Maximum sizes of a task, because a task that dies is done again as a whole."""


@dataclass(frozen=True, slots=True)
class Item:
    """A run to judge, or a range of its keys."""

    run: str
    """Path of the run in the store."""
    bytes: int
    """Size of the history, which stands for the cost of judging it."""
    keys: tuple[int, int] | None = None
    """Keys to judge, both ends included, by the checkers that judge key by key; None for all."""
    digest: str = ""
    """Digest of what is judged, of a split run."""
    remainder: bool = False
    """True if the item stands for the checkers of a split run that no range of keys covers."""
    note: str = ""
    """What was wrong with the files of a split run."""

    @property
    def is_part(self) -> bool:
        """Return whether the item is a part of a split run."""
        return self.keys is not None or self.remainder

    @property
    def name(self) -> str:
        """Return a name that no other item has."""
        part = "" if self.keys is None else f"#{self.keys[0]}..{self.keys[1]}"
        return f"{self.run}{part}{'#remainder' if self.remainder else ''}"


def split_by_keys(item: Item, file: Any) -> list[Item]:
    """Return a big run as ranges of keys, along the row groups of its file, which is a path or an
    open file; as one item if it does not allow that."""
    try:
        ranges = key_ranges(pq.ParquetFile(file))
    except (OSError, pa.ArrowException):
        return [item]
    lows = sorted({low for low, _ in ranges if low is not None})
    last = max((high for _, high in ranges if high is not None), default=0)
    if len(lows) == 1:  # every row group has all keys
        first, count = lows[0], min(len(ranges), last - lows[0] + 1)
        lows = [first + (last + 1 - first) * part // count for part in range(count)]
    if len(lows) < 2:
        return [item]
    part = item.bytes // len(lows)
    ends = [*(low - 1 for low in lows[1:]), last]
    keyed = [replace(item, bytes=part, keys=ends_of) for ends_of in zip(lows, ends, strict=True)]
    return [*keyed, replace(item, bytes=0, remainder=True)]


def assign_to_tasks(items: Sequence[Item], cores: int) -> list[list[Item]]:
    """Return the items of each task, the heaviest task first.

    The algorithm is greedy: the next largest item goes to the lightest task, which is at worst 4/3
    of the optimum (Graham 1969).
    """
    total = sum(item.bytes for item in items)
    least = max(-(-total // TASK_BYTES_MAX), -(-len(items) // TASK_ITEMS_MAX))
    count = max(min(TASKS_A_CORE * cores, 1 + total // TASK_BYTES_MIN), least)
    tasks: list[list[Item]] = [[] for _ in range(min(count, len(items)))]
    loads = [(0, at) for at in range(len(tasks))]
    heapify(loads)
    for item in sorted(items, key=lambda one: (-one.bytes, one.name)):
        load, at = loads[0]
        tasks[at].append(item)
        # Each item also has a fixed cost, worth some kilobytes.
        heapreplace(loads, (load + item.bytes + 20_000, at))
    tasks.sort(key=lambda task: -sum(item.bytes for item in task))
    return tasks
