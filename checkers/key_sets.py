"""What a history says of sets: for each key its inserts and its reads, the reads as bitsets.

A set of values is one Python int, a bit a value, so that "which acknowledged values does this
read lack" is one machine operation for every 30 values.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from checkers.per_history import per_history
from harness.core.errors import HistoryError
from harness.core.history import History, Pair
from harness.core.op import Kind, Op

INSERT: Final = "insert"
READS: Final = frozenset({"read", "final-read"})
FINAL_READ: Final = "final-read"


class Positions:
    """Gives each value of one key a bit, in the order in which values are first met."""

    def __init__(self) -> None:
        self._bits: dict[int, int] = {}
        self._last: tuple[int, ...] = ()
        self._last_set: frozenset[int] = frozenset()
        self._last_mask = 0

    def bit(self, value: int) -> int:
        """The mask with this value's bit alone."""
        found = self._bits.get(value)
        if found is None:
            found = self._bits[value] = 1 << len(self._bits)
        return found

    def mask(self, values: tuple[int, ...]) -> int:
        """The mask of the set of `values`; multiplicity is dropped.

        Successive reads of a key differ little, so only what changed since the last call is
        looked up: 300 values cost some 10 us in place of 40.
        """
        if values != self._last:
            seen = frozenset(values)
            for value in sorted(seen ^ self._last_set):
                self._last_mask ^= self.bit(value)
            self._last, self._last_set = values, seen
        return self._last_mask

    @property
    def values(self) -> tuple[int, ...]:
        """By position: the value of bit i is at i."""
        return tuple(self._bits)


class Insert(msgspec.Struct, frozen=True, gc=False):
    """One value and what became of it. Several attempts at one value count as one insert."""

    value: int
    bit: int
    kind: Kind
    """OK: some attempt was acknowledged; FAIL: every attempt was refused; else INFO."""
    invoke: Op
    """The first attempt that was not refused; the first of all if every one was."""
    ack: Op | None
    """The first acknowledgement."""
    attempts: int


class Read(msgspec.Struct, frozen=True, gc=False):
    """A read that was answered; the others say nothing."""

    invoke: Op
    end: Op
    mask: int
    duplicated: bool
    """Whether some value came more than once."""

    @property
    def values(self) -> tuple[int, ...]:
        """As they came, duplicates kept."""
        return read_values(self.end)


@dataclass(frozen=True, slots=True)
class KeySet:
    """Everything that was asked of one key."""

    key: int | None
    values: tuple[int, ...]
    """By bit position; read values that nobody tried to insert have a position too."""
    inserts: Mapping[int, Insert]
    """By value, in order of the first attempt."""
    reads: tuple[Read, ...]
    """Answered reads, final ones included, in order of invocation."""
    finals: tuple[Read, ...]
    """Those made after the cluster had come to rest."""

    @property
    def repeated(self) -> tuple[Insert, ...]:
        """Values that were tried more than once."""
        return tuple(i for i in self.inserts.values() if i.attempts > 1)

    def named(self, mask: int) -> Iterator[int]:
        """The values in a mask, by position."""
        while mask:
            low = mask & -mask
            yield self.values[low.bit_length() - 1]
            mask ^= low


def read_values(end: Op) -> tuple[int, ...]:
    """What an answered read returned. Raises HistoryError when that is no tuple of numbers."""
    if not isinstance(end.value, tuple):
        raise HistoryError(
            f"op #{end.index}: an ok {end.f} has value {end.value!r}, expected a tuple of ints"
        )
    return end.value


def insert_value(op: Op) -> int:
    """What an insert writes. Raises HistoryError when that is no number."""
    if not isinstance(op.value, int):
        raise HistoryError(f"op #{op.index}: an insert of {op.value!r}, expected an int")
    return op.value


@per_history
def key_sets(history: History) -> tuple[KeySet, ...]:
    """Per key, ascending; calls other than inserts and reads are left out."""
    inserts: dict[int | None, list[Pair]] = {}
    reads: dict[int | None, list[Pair]] = {}
    for pair in history.pairs:
        invoke = pair.invoke
        if invoke.f == INSERT:
            inserts.setdefault(invoke.key, []).append(pair)
        elif invoke.f in READS:
            reads.setdefault(invoke.key, []).append(pair)
    keys = sorted(inserts.keys() | reads.keys(), key=lambda key: -1 if key is None else key)
    return tuple(_key_set(key, inserts.get(key, []), reads.get(key, [])) for key in keys)


def _key_set(key: int | None, insert_pairs: list[Pair], read_pairs: list[Pair]) -> KeySet:
    positions = Positions()
    attempts: dict[int, list[Pair]] = {}
    for pair in insert_pairs:
        attempts.setdefault(insert_value(pair.invoke), []).append(pair)
    inserts = {value: _insert(positions, value, tries) for value, tries in attempts.items()}
    reads = tuple(
        [
            _read(positions, pair.invoke, pair.end)
            for pair in read_pairs
            if pair.end is not None and pair.kind is Kind.OK
        ]
    )
    finals = tuple([read for read in reads if read.invoke.f == FINAL_READ])
    return KeySet(key, positions.values, inserts, reads, finals)


def _read(positions: Positions, invoke: Op, end: Op) -> Read:
    values = read_values(end)
    mask = positions.mask(values)
    return Read(invoke, end, mask, len(values) != mask.bit_count())


def _insert(positions: Positions, value: int, tries: list[Pair]) -> Insert:
    if len(tries) == 1:
        (only,) = tries
        ack = only.end if only.kind is Kind.OK else None
        return Insert(value, positions.bit(value), only.kind, only.invoke, ack, 1)
    acks = [pair.end for pair in tries if pair.end is not None and pair.kind is Kind.OK]
    possible = [pair for pair in tries if pair.kind is not Kind.FAIL]
    kind = Kind.OK if acks else Kind.INFO if possible else Kind.FAIL
    return Insert(
        value,
        positions.bit(value),
        kind,
        (possible or tries)[0].invoke,
        min(acks, key=lambda op: op.index) if acks else None,
        len(tries),
    )
