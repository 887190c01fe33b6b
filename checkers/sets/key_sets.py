"""Collects the inserts and reads of each key of a history, with the reads as bitsets.

A set of values is one Python int with a bit for each value. Whatever concerns every read is
computed from columns (`harness.native.histories`), which have the same sets. Inserts and reads
become Python objects only where a verdict needs a few of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

import msgspec

from harness.core.errors import HistoryError
from harness.core.history import History, memoize_per_history
from harness.core.op import Kind, Op
from harness.core.rows import Decoded, Rows
from harness.native import histories
from harness.native.histories import OddValue

INSERT: Final = "insert"
READS: Final = frozenset({"read", "final-read"})
FINAL_READ: Final = "final-read"


class InsertOutcome(msgspec.Struct, frozen=True, gc=False):
    """An inserted value and its outcome. Several attempts at one value count as one insert."""

    value: int
    bit: int
    kind: Kind
    """OK if some attempt was acknowledged; FAIL if every attempt was refused; else INFO."""
    invoke: Op
    """The first attempt that was not refused, or the first one if all were."""
    ack: Op | None
    """The first acknowledgement."""
    attempts: int


class AnsweredRead(msgspec.Struct, frozen=True, gc=False):
    """An answered read. A read without an answer says nothing."""

    invoke: Op
    end: Op
    duplicated: bool
    """True if some value was returned more than once."""
    found: histories.Set
    place: int

    @property
    def mask(self) -> int:
        """The values as a set, a bit for each."""
        return int.from_bytes(self.found.mask(self.place), "little")

    @property
    def values(self) -> tuple[int, ...]:
        """The values as returned, duplicates included."""
        return read_values(self.end)


class Inserts(Mapping[int, InsertOutcome]):
    """The inserts of a key by value, in order of the first attempt."""

    def __init__(self, rows: Rows, found: histories.Set) -> None:
        self._rows = rows
        self._found = found
        self._known: dict[int, InsertOutcome] = {}

    def __len__(self) -> int:
        return sum(self._found.ends())

    def __iter__(self) -> Iterator[int]:
        return (self._found.insert(place)[0] for place in range(len(self)))

    def __getitem__(self, value: int) -> InsertOutcome:
        known = self._known.get(value)
        if known is None:
            place = self._found.place(value)
            if place is None:
                raise KeyError(value)
            known = self._made(*self._found.insert(place))
            if self._rows.kept:
                self._known[value] = known
        return known

    def _made(
        self, value: int, bit: int, kind: str, call: int, ack: int | None, attempts: int
    ) -> InsertOutcome:
        ended = None if ack is None else self._rows[ack]
        return InsertOutcome(value, 1 << bit, Kind(kind), self._rows[call], ended, attempts)


class AnsweredReads(Decoded[AnsweredRead]):
    """The answered reads of a key, final ones included, in order of invocation."""

    def __init__(self, rows: Rows, found: histories.Set) -> None:
        super().__init__(kept=rows.kept)
        self._rows = rows
        self._found = found

    def __len__(self) -> int:
        return self._found.reads_count()

    def _one(self, place: int) -> AnsweredRead:
        invoke, end, duplicated = self._found.read(place)
        return AnsweredRead(self._rows[invoke], self._rows[end], duplicated, self._found, place)


class KeySet:
    """The inserts and reads of one key, as objects only once they are requested.

    An insert is found by its bit, a read by its place in `reads`.
    """

    def __init__(self, rows: Rows, found: histories.Set) -> None:
        self.found = found
        """The same set as columns, and its outcomes."""
        self.key = found.key
        self._time_ns = rows.columns.time_ns
        self.inserts: Mapping[int, InsertOutcome] = Inserts(rows, found)
        self.reads: Sequence[AnsweredRead] = AnsweredReads(rows, found)

    @cached_property
    def values(self) -> tuple[int, ...]:
        """The values by bit position, including values that were read though nobody tried to insert
        them."""
        return tuple(self.found.values())

    @cached_property
    def finals(self) -> tuple[AnsweredRead, ...]:
        """Reads made after the cluster had come to rest."""
        return tuple([self.reads[place] for place in self.found.finals()])

    @property
    def repeated(self) -> tuple[InsertOutcome, ...]:
        """Values that were tried more than once."""
        return tuple([self.inserts[self.values[bit]] for bit in self.found.repeated()])

    def ended(self, kind: Kind) -> Iterator[int]:
        """Yield the inserted values with this outcome, in order of the first attempt."""
        for place in range(len(self.inserts)):
            value, _, outcome, *_ = self.found.insert(place)
            if outcome == kind:
                yield value

    def read(self, place: int) -> AnsweredRead:
        """Return the read at a place."""
        return self.reads[place]

    def missed_ns(self, bit: int, read: int) -> int:
        """Return the time from the acknowledgement of a value to the invocation of the read at a
        place."""
        place = self.found.place(self.values[bit])
        ack = None if place is None else self.found.insert(place)[4]
        assert ack is not None, "only an acknowledged value can be missed"
        return self._time_ns(self.found.read(read)[0]) - self._time_ns(ack)


def read_values(end: Op) -> tuple[int, ...]:
    """Return what a read returned. Raises HistoryError unless it is a tuple of numbers."""
    if not isinstance(end.value, tuple):
        raise HistoryError(
            f"op #{end.index}: an ok {end.f} has value {end.value!r}, expected a tuple of ints"
        )
    return end.value


def insert_value(op: Op) -> int:
    """Return what an insert writes. Raises HistoryError unless it is a number."""
    if not isinstance(op.value, int):
        raise HistoryError(f"op #{op.index}: an insert of {op.value!r}, expected an int")
    return op.value


def refused(history: History, error: OddValue) -> HistoryError:
    """Return why the sets cannot be built: the op has a value that its kind may not have."""
    op = history[error.args[0]]
    try:
        insert_value(op) if op.f == INSERT else read_values(op)
    except HistoryError as why:
        return why
    return HistoryError(f"op #{op.index}: {op.f} of a number of more than 64 bits")


@memoize_per_history
def key_sets(history: History) -> tuple[KeySet, ...]:
    """Return the sets by key: first that without a key, then ascending. Calls other than inserts
    and reads are left out. Raises HistoryError for an insert without a number, and for an answered
    read without values."""
    try:
        return tuple([KeySet(history.rows, found) for found in history.columns.sets()])
    except OddValue as error:
        raise refused(history, error) from error
