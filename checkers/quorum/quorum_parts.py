"""Collects what a history says about quorum inserts and their parts, and ZooKeeper's /quorum.

The calls "where" and "final-where" tell values' parts; "observe-quorum" ZooKeeper's state
and, with every part and the transaction that gave it to each replica, by "final-quorum". Tables of
such histories merge nothing. Every look begins with a write of the observer's own, whose
transaction number ("zxid") comes after all that had happened when the look began.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any, Final

from checkers.replication.parts import Part
from checkers.sets.key_sets import INSERT, insert_value
from harness.core.history import History, Pair
from harness.core.op import Kind, Op

OBSERVE: Final = "observe-quorum"
FINAL: Final = "final-quorum"
WHERE: Final = frozenset({"where", "final-where"})


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


@dataclass
class QuorumParts:
    """Everything that a history says about parts."""

    history: History
    where: dict[int, dict[str, Op]] = field(default_factory=dict)
    """The parts in which each value was ever seen, each with the first op that says so."""
    looks: list[Look] = field(default_factory=list)
    """All looks, in order."""

    def __post_init__(self) -> None:
        for pair in self.history.pairs:
            if pair.kind is not Kind.OK or pair.end is None:
                continue
            value: Mapping[str, Any] = pair.end.value if isinstance(pair.end.value, Mapping) else {}
            if pair.invoke.f in WHERE:
                for number, part in value.get("where") or ():
                    self.where.setdefault(int(number), {}).setdefault(str(part), pair.end)
            elif pair.invoke.f in (OBSERVE, FINAL):
                self.looks.append(Look(pair.invoke, pair.end, value))

    @cached_property
    def acknowledged(self) -> list[Pair]:
        """Return the acknowledged inserts."""
        return [
            pair
            for pair in self.history.pairs
            if pair.invoke.f == INSERT and pair.kind is Kind.OK and pair.end is not None
        ]

    @cached_property
    def final(self) -> Look | None:
        """Return the last look at every part."""
        return next((look for look in reversed(self.looks) if "parts" in look.value), None)

    def look_after(self, time_ns: int) -> Look | None:
        """Return the first look that began later."""
        at = bisect_right(self.looks, time_ns, key=lambda look: look.invoke.time_ns)
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
    def failed(self) -> dict[str, Look]:
        """Return the failed parts, each with the first look that says so."""
        out: dict[str, Look] = {}
        for look in self.looks:
            for part in look.failed:
                out.setdefault(part, look)
        return out

    def parts_of(self, insert: Pair) -> dict[str, Op]:
        """Return the parts in which the insert's value was seen."""
        return self.where.get(insert_value(insert.invoke), {})

    def reached(self, part: str, quorum: int) -> int | None:
        """Return the transaction by which `quorum` replicas had the part; None if they never
        had."""
        transactions = sorted(self.replicas_of.get(part, {}).values())
        return transactions[quorum - 1] if len(transactions) >= quorum else None
