"""Describes the outcome of every value of one key in the terms of a verdict.

`harness.native.histories` computes the outcomes: missed, lost, unaccounted, duplicated, phantom.
Times are closed intervals: an acknowledgement and the invocation of a read at the same nanosecond
are concurrent, and so are the end of a read and the invocation of an insert.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from checkers.phrasing import seconds
from checkers.quiescence import Quiescence
from checkers.sets.key_sets import AnsweredRead, InsertOutcome, KeySet
from checkers.taken import Taken
from harness.core.op import Kind
from harness.native import histories


@dataclass(frozen=True, slots=True)
class Missed:
    """An acknowledged value, and the reads invoked after its acknowledgement that lack it."""

    insert: InsertOutcome
    first: AnsweredRead
    last: AnsweredRead
    stale_ns: int
    """Time from the acknowledgement to the invocation of the last read that missed the value."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A value in a read that must not contain it, or must contain it only once."""

    value: int
    read: AnsweredRead
    why: str


@dataclass(frozen=True)
class KeyFindings:
    """The findings on one key, made by `examined`."""

    key: KeySet
    found: histories.Findings
    """Counts, and the other findings by bit and place."""
    taken: Mapping[int, str] = field(default_factory=dict)
    """The lost values that were not promised to survive the fault of a disk, whose name it is, by
    bit."""

    @property
    def lost_count(self) -> int:
        """Number of values in `lost`."""
        return len(self.found.lost) - len(self.taken)

    @cached_property
    def lost(self) -> list[tuple[InsertOutcome, tuple[AnsweredRead, ...]]]:
        """Acknowledged values that no final read has although every replica answered one, with
        those reads; without those that a fault took."""
        return [
            (self._insert(bit), tuple([self.key.read(place) for place in reads]))
            for bit, reads in self.found.lost
            if bit not in self.taken
        ]

    @cached_property
    def stale(self) -> list[Missed]:
        """The missed values that are not lost, in order of the first read that missed them."""
        return [
            Missed(self._insert(bit), self.key.read(first), self.key.read(last), stale_ns)
            for (bit, first, last), stale_ns in zip(self._stale, self.stale_ns, strict=True)
        ]

    @cached_property
    def stale_ns(self) -> list[int]:
        """How long each of them was missed, without the objects that say of which ops."""
        return [self.key.missed_ns(bit, last) for bit, _, last in self._stale]

    @cached_property
    def _stale(self) -> list[tuple[int, int, int]]:
        lost = {bit for bit, _ in self.found.lost}
        return [one for one in self.found.missed if one[0] not in lost]

    @property
    def unaccounted(self) -> list[int]:
        """Acknowledged values that no final read has, while some replica answered none after the
        acknowledgement."""
        return [self.key.values[bit] for bit in self.found.unaccounted]

    @cached_property
    def duplicates(self) -> list[Seen]:
        """Values that a read returned several times, each with the first such read."""
        return [
            Seen(self.key.values[bit], self.key.read(place), f"returned {times} times")
            for bit, place, times in self.found.duplicates
        ]

    @cached_property
    def phantoms(self) -> list[Seen]:
        """Values that nobody can have inserted before a read returned them, each with the first
        such read."""
        values = [(self.key.values[bit], place) for bit, place in self.found.phantoms]
        return [
            Seen(value, self.key.read(place), _why_phantom(self.key, value))
            for value, place in values
        ]

    def _insert(self, bit: int) -> InsertOutcome:
        return self.key.inserts[self.key.values[bit]]


def examined(key: KeySet, rest: Quiescence, taken: Taken, copies: int) -> KeyFindings:
    """Return the findings on a key, in time linear in the number of values read. An acknowledged
    value is promised to be on `copies` replicas."""
    found = key.found.examined(rest.nodes)
    if not taken or not found.lost:
        return KeyFindings(key, found)
    bits = [bit for bit, _ in found.lost]
    shown_on = _shown_on(key, bits)
    reasons = {}
    for bit in bits:
        insert = key.inserts[key.values[bit]]
        assert insert.ack is not None, "only an acknowledged value can be lost"
        # Nobody knows which of several tries made the part, see `Taken.reason`.
        writers = (
            {insert.invoke.node, insert.ack.node} if insert.attempts > 1 else {insert.ack.node}
        )
        span = insert.invoke.time_ns, insert.ack.time_ns
        reason = taken.reason(writers, *span, copies=copies, shown_on=shown_on[bit])
        if reason:
            reasons[bit] = reason
    return KeyFindings(key, found, reasons)


def _shown_on(key: KeySet, bits: Sequence[int]) -> Mapping[int, set[str]]:
    """Return the nodes that have returned each of these values."""
    nodes: dict[int, set[str]] = {bit: set() for bit in bits}
    every = sum(1 << bit for bit in bits)
    for place in range(key.found.reads_count()):
        mask = int.from_bytes(key.found.mask(place), "little") & every
        if mask:
            node = str(key.read(place).invoke.node)
            for bit in bits:
                if mask >> bit & 1:
                    nodes[bit].add(node)
    return nodes


def _why_phantom(key: KeySet, value: int) -> str:
    insert = key.inserts.get(value)
    if insert is None:
        return "nobody tried to insert it" + ("" if key.key is None else f" into key {key.key}")
    if insert.kind is Kind.FAIL:
        return f"its insert (op #{insert.invoke.index}) was refused"
    began = f"(op #{insert.invoke.index} at {seconds(insert.invoke.time_ns)})"
    return f"its insert {began} had not begun"
