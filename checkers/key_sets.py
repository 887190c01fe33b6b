"""What a history says of sets: for each key its inserts and its reads, the reads as bitsets.

A set of values is one Python int, a bit a value. What is asked of every read is asked of the
columns (`pyhistories`), which have the same sets; inserts and reads are objects for those that few
are asked of.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Final

import msgspec
import pyhistories
from pyhistories import OddValue

from checkers.per_history import per_history
from harness.core.errors import HistoryError
from harness.core.history import History
from harness.core.op import Kind, Op
from harness.core.rows import Rows

INSERT: Final = "insert"
READS: Final = frozenset({"read", "final-read"})
FINAL_READ: Final = "final-read"


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


class KeySet:
    """Everything that was asked of one key. Inserts and reads are objects once they are asked
    for; an insert is found by its bit, a read by its place in `reads`."""

    def __init__(self, rows: Rows, found: pyhistories.Set) -> None:
        self._ops = rows
        self.found = found
        """The same in columns, and what became of it."""
        self.key = found.key

    @cached_property
    def values(self) -> tuple[int, ...]:
        """By bit position; read values that nobody tried to insert have a position too."""
        return tuple(self.found.values())

    @cached_property
    def inserts(self) -> Mapping[int, Insert]:
        """By value, in order of the first attempt."""
        ops = self._ops.ops
        return {
            value: Insert(
                value, 1 << bit, Kind(kind), ops[call], None if ack is None else ops[ack], attempts
            )
            for value, bit, kind, call, ack, attempts in self.found.inserts()
        }

    @cached_property
    def reads(self) -> tuple[Read, ...]:
        """Answered reads, final ones included, in order of invocation."""
        _ = self._ops.ops  # all of them are needed
        return tuple([self.read(place) for place in range(self.found.reads_count())])

    @cached_property
    def finals(self) -> tuple[Read, ...]:
        """Those made after the cluster had come to rest."""
        return tuple([self.read(place) for place in self.found.finals()])

    @property
    def repeated(self) -> tuple[Insert, ...]:
        """Values that were tried more than once."""
        return tuple([self.inserts[self.values[bit]] for bit in self.found.repeated()])

    def read(self, place: int) -> Read:
        """One of the reads."""
        invoke, end, duplicated = self.found.read(place)
        mask = int.from_bytes(self.found.mask(place), "little")
        return Read(self._ops[invoke], self._ops[end], mask, duplicated)


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


def refused(history: History, error: OddValue) -> HistoryError:
    """Why there are no sets: the op has a value that its kind may not have."""
    op = history[error.args[0]]
    try:
        insert_value(op) if op.f == INSERT else read_values(op)
    except HistoryError as why:
        return why
    return HistoryError(f"op #{op.index}: {op.f} of a number of more than 64 bits")


@per_history
def key_sets(history: History) -> tuple[KeySet, ...]:
    """Per key, none first, then ascending; calls other than inserts and reads are left out. Raises
    HistoryError for an insert of no number, and a read that returned none."""
    try:
        return tuple([KeySet(history.rows, found) for found in history.columns.sets()])
    except OddValue as error:
        raise refused(history, error) from error
