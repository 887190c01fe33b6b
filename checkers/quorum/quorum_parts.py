"""Collects what a history says about quorum inserts and their parts, and ZooKeeper's /quorum.

The calls "where" and "final-where" tell values' parts; "observe-quorum" ZooKeeper's state
and, with every part and the transaction that gave it to each replica, by "final-quorum". Tables of
such histories merge nothing. Every look begins with a write of the observer's own, whose
transaction number ("zxid") comes after all that had happened when the look began.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from checkers.look import decode
from checkers.replication.parts import Part
from checkers.sets.key_sets import INSERT, insert_value
from harness.core.history import History, Pair, memoize_per_history
from harness.core.op import Kind, Op
from harness.core.rows import Decoded, Pairs

OBSERVE: Final = "observe-quorum"
FINAL: Final = "final-quorum"
WHERE: Final = ("where", "final-where")


class PartsOfValues(msgspec.Struct, frozen=True):
    """Answer to "where": the values of a key, each with a part that has it."""

    where: list[tuple[int, str]] = []


class QuorumState(msgspec.Struct, frozen=True):
    """What is below /quorum."""

    zxid: int
    """A transaction number after everything that happened before the look began."""
    pending: str | None = None
    """Part of the quorum insert in flight."""
    last: dict[str, str] = {}
    """/quorum/last_part: a part by partition."""
    failed: list[str] = []
    """Parts in /quorum/failed_parts."""
    kept: dict[str, list[str]] = {}
    """The failed parts that each active replica still has."""
    parts: dict[str, dict[str, int]] | UnsetType = UNSET
    """Every part, with the transaction that gave it to each replica."""


@dataclass(frozen=True, slots=True)
class QuorumLook:
    """One look at /quorum."""

    invoke: Op
    end: Op
    state: QuorumState

    @property
    def zxid(self) -> int:
        """A transaction number after everything that happened before the look began."""
        return self.state.zxid

    @property
    def last(self) -> dict[str, Part]:
        """/quorum/last_part, by partition."""
        return {partition: Part.of(name) for partition, name in self.state.last.items()}


class Looks(Decoded[QuorumLook]):
    """Looks at /quorum, in order."""

    block = 64  # a look may name every part

    def __init__(self, calls: Pairs) -> None:
        super().__init__(kept=calls.kept)
        self.calls = calls

    def __len__(self) -> int:
        return len(self.calls)

    def _some(self, places: range) -> Sequence[QuorumLook]:
        return [_look(pair) for pair in self.calls[places.start : places.stop]]

    def _one(self, place: int) -> QuorumLook:
        return _look(self.calls[place])


def _look(pair: Pair) -> QuorumLook:
    assert pair.end is not None, "an ok has an end"
    return QuorumLook(pair.invoke, pair.end, decode(pair.end, QuorumState))


class QuorumParts:
    """Everything that a history says about parts."""

    def __init__(self, history: History) -> None:
        self.where: dict[int, dict[str, int]] = {}
        """The parts in which each value was ever seen, each with the first op that says so."""
        for _, end in history.answered(*WHERE):
            for value, part in decode(end, PartsOfValues).where:
                if part not in self.where.get(value, ()):  # each answer repeats the earlier ones
                    self.where.setdefault(value, {}).setdefault(part, end.index)
        self.looks = Looks(history.calls(OBSERVE, FINAL, kinds=(Kind.OK,)))
        """All looks, in order."""
        self.acknowledged = history.calls(INSERT, kinds=(Kind.OK,))

    @cached_property
    def final(self) -> QuorumLook | None:
        """Return the last look at every part."""
        looks = reversed(self.looks)
        return next((look for look in looks if look.state.parts is not UNSET), None)

    def first_look_since(self, time_ns: int) -> QuorumLook | None:
        """Return the first look at ZooKeeper that began after a time; None if none did."""
        at = bisect_right(self.looks.calls.spans[0], time_ns)
        return self.looks[at] if at < len(self.looks) else None

    def latest_before(self, time_ns: int) -> int | None:
        """Return the largest transaction of the looks that ended before a time; None if none
        did."""
        ends, latest = self._latest
        at = bisect_left(ends, time_ns)
        return latest[at - 1] if at else None

    @cached_property
    def _latest(self) -> tuple[list[int], list[int]]:
        """Return the ends of looks, ascending, and the largest transaction of all up to each."""
        ended = sorted((look.end.time_ns, look.zxid) for look in self.looks)
        return [end for end, _ in ended], list(accumulate((zxid for _, zxid in ended), max))

    @cached_property
    def replicas_of(self) -> dict[str, dict[str, int]]:
        """Return the replicas of each part at the final look, with their transactions."""
        return (self.final.state.parts or {}) if self.final else {}

    @cached_property
    def failed(self) -> dict[str, int]:
        """Return the failed parts, each with the place of the first look that says so."""
        out: dict[str, int] = {}
        for place, look in enumerate(self.looks):
            for part in look.state.failed:
                out.setdefault(part, place)
        return out

    def parts_of(self, insert: Pair) -> dict[str, int]:
        """Return the parts in which the insert's value was seen, each with the first op that says
        so."""
        return self.where.get(insert_value(insert.invoke), {})

    def reached(self, part: str, quorum: int) -> int | None:
        """Return the transaction by which `quorum` replicas had the part; None if they never
        had."""
        transactions = sorted(self.replicas_of.get(part, {}).values())
        return transactions[quorum - 1] if len(transactions) >= quorum else None


@memoize_per_history
def quorum_parts_of(history: History) -> QuorumParts:
    """Return everything that a history says about parts."""
    return QuorumParts(history)
