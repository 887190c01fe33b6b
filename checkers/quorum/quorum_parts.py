"""Collects what a history says about quorum inserts and their parts, and ZooKeeper's /quorum.

The calls "where" and "final-where" tell values' parts; "observe-quorum" ZooKeeper's state
and, with every part and the transaction that gave it to each replica, by "final-quorum". Tables of
such histories merge nothing. Every look begins with a write of the observer's own, whose
transaction number ("zxid") comes after all that had happened when the look began.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, Final

from checkers.conclusion import mapping_of
from checkers.replication.parts import Part
from checkers.sets.key_sets import INSERT, insert_value
from harness.core.history import History, Pair, memoize_per_history
from harness.core.op import Kind, Op
from harness.core.rows import Decoded, Pairs

OBSERVE: Final = "observe-quorum"
FINAL: Final = "final-quorum"
WHERE: Final = ("where", "final-where")


@dataclass(frozen=True, slots=True)
class Look:
    """One look at /quorum."""

    invoke: Op
    end: Op
    value: Mapping[str, Any]

    @property
    def zxid(self) -> int:
        """A transaction number after everything that happened before the look began."""
        return int(self.value["zxid"])

    @property
    def failed(self) -> frozenset[str]:
        """Parts in /quorum/failed_parts."""
        return frozenset(self.value.get("failed") or ())

    @property
    def kept(self) -> dict[str, list[str]]:
        """The failed parts that each active replica still has."""
        kept = self.value.get("kept") or {}
        return {str(replica): [str(part) for part in own] for replica, own in kept.items()}

    @property
    def last(self) -> dict[str, Part]:
        """/quorum/last_part, by partition."""
        return {str(p): Part.of(str(name)) for p, name in (self.value.get("last") or {}).items()}


class Looks(Decoded[Look]):
    """Looks at /quorum, in order."""

    block = 64  # a look may name every part

    def __init__(self, calls: Pairs) -> None:
        super().__init__(kept=calls.kept)
        self.calls = calls

    def __len__(self) -> int:
        return len(self.calls)

    def _some(self, places: range) -> Sequence[Look]:
        return [_look(pair) for pair in self.calls[places.start : places.stop]]

    def _one(self, place: int) -> Look:
        return _look(self.calls[place])


def _look(pair: Pair) -> Look:
    assert pair.end is not None, "an ok has an end"
    return Look(pair.invoke, pair.end, mapping_of(pair.end))


class QuorumParts:
    """Everything that a history says about parts."""

    def __init__(self, history: History) -> None:
        self.where: dict[int, dict[str, int]] = {}
        """The parts in which each value was ever seen, each with the first op that says so."""
        for _, end in history.answered(*WHERE):
            for number, part in mapping_of(end).get("where") or ():
                if part not in self.where.get(number, ()):  # each answer repeats the earlier ones
                    self.where.setdefault(int(number), {}).setdefault(str(part), end.index)
        self.looks = Looks(history.calls(OBSERVE, FINAL, kinds=(Kind.OK,)))
        """All looks, in order."""
        self.acknowledged = history.calls(INSERT, kinds=(Kind.OK,))

    @cached_property
    def final(self) -> Look | None:
        """Return the last look at every part."""
        return next((look for look in reversed(self.looks) if "parts" in look.value), None)

    def look_after(self, time_ns: int) -> Look | None:
        """Return the first look that began later."""
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
        found = self.final.value["parts"] if self.final else {}
        return {str(p): {str(r): int(z) for r, z in own.items()} for p, own in found.items()}

    @cached_property
    def failed(self) -> dict[str, int]:
        """Return the failed parts, each with the place of the first look that says so."""
        out: dict[str, int] = {}
        for place, look in enumerate(self.looks):
            for part in look.failed:
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
