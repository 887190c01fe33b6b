"""Ops of a history, stored in columns (`native.histories`) and decoded to objects on access.

A short history keeps its objects, because every checker asks for them again. A long one decodes
them block by block each time, so that its memory is that of its columns and its text.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Final, TypeVar, overload

import msgspec

from harness.core.errors import HistoryError
from harness.core.lines import all_decoded, decoded, encoded
from harness.core.op import Kind, Op
from harness.native.histories import Columns, RuleError

KEPT_MAX: Final = 500_000
"""Maximum number of ops that are kept as objects, at some 1 KB each."""
BLOCK: Final = 4_096
"""Number of rows that are decoded at a time."""
T = TypeVar("T")


class Pair(msgspec.Struct, frozen=True, gc=False):
    """Call and its end."""

    invoke: Op
    end: Op | None
    """End of the call; None if it never ended, which counts as info."""
    kind: Kind
    """Outcome of the call: OK, FAIL or INFO."""


class Decoded(Sequence[T]):
    """Sequence whose items are decoded in blocks, and kept if `kept`."""

    def __init__(self, *, kept: bool) -> None:
        self.kept = kept

    @cached_property
    def all(self) -> tuple[T, ...]:
        """Return all items, and keep them."""
        return tuple(chain.from_iterable(self._blocks()))

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[T]: ...
    def __getitem__(self, at: int | slice) -> T | Sequence[T]:
        if "all" in self.__dict__ or (self.kept and isinstance(at, slice)):
            return self.all[at]
        places = range(len(self))[at]
        if isinstance(places, range):
            return tuple([self._one(place) for place in places])
        return self._one(places)

    def __iter__(self) -> Iterator[T]:
        return iter(self.all) if self.kept else chain.from_iterable(self._blocks())

    def _blocks(self) -> Iterator[Sequence[T]]:
        return (self._block(first) for first in range(0, len(self), BLOCK))

    def _block(self, first: int) -> Sequence[T]:
        return [self._one(place) for place in range(first, min(first + BLOCK, len(self)))]

    def _one(self, place: int) -> T:
        raise NotImplementedError


class Rows(Decoded[Op]):
    """Ops in order of index that obey the rules of histories."""

    columns: Columns
    """Fields of the ops, without values that are objects and without texts of errors."""

    def __init__(self, ops: Sequence[Op]) -> None:
        super().__init__(kept=True)
        self.all = tuple(ops)
        self._take(b"".join([encoded(op) for op in self.all]))

    @classmethod
    def of_lines(cls, lines: bytes) -> "Rows":
        """Return the ops of whole lines, as `encoded` writes them.

        Raises `histories.FormError` for a line in another form, and ValueError for an invalid
        object.
        """
        rows = cls.__new__(cls)
        rows._take(lines)
        super().__init__(rows, kept=len(rows) <= KEPT_MAX)
        objects = ((row, decoded(rows.columns.line(row))) for row in rows.columns.objects())
        if rows.kept:
            rows._known = dict(objects)
        for _ in objects:  # those of a long history are only checked
            pass
        return rows

    def _take(self, lines: bytes) -> None:
        self._known: dict[int, Op] = {}
        try:
            self.columns = Columns(lines)
        except RuleError as error:
            raise HistoryError(str(error)) from error

    def __reduce__(self) -> tuple[Callable[[bytes], "Rows"], tuple[bytes]]:
        return Rows.of_lines, (self.columns.lines,)

    def __len__(self) -> int:
        return len(self.columns)

    @cached_property
    def pairs(self) -> "Pairs":
        """Return the clients' calls, in order of invocation."""
        return Pairs(self)

    def pair(self, invoke: int, end: int | None) -> Pair:
        """Return the call with these rows."""
        return _paired(self[invoke], None if end is None else self[end])

    def block(self, first: int, last: int) -> Sequence[Op]:
        """Return the ops from the row `first` on, up to `last`, exclusive. Raises HistoryError."""
        if self.kept:
            return self.all[first:last]
        return self._read(first, last)

    def _read(self, first: int, last: int) -> Sequence[Op]:
        try:
            return all_decoded(self.columns.lines_of(first, last))
        except ValueError:
            return [self._one(row) for row in range(first, min(last, len(self)))]

    def _block(self, first: int) -> Sequence[Op]:
        return self._read(first, first + BLOCK)

    def _one(self, place: int) -> Op:
        # Columns accept numbers of any length, unlike Python.
        try:
            return self._known.get(place) or decoded(self.columns.line(place))
        except ValueError as error:
            raise HistoryError(f"op #{place}: is not an op ({error})") from error


class Pairs(Decoded[Pair]):
    """The clients' calls of a history, in order of invocation."""

    def __init__(self, rows: Rows) -> None:
        super().__init__(kept=rows.kept)
        self._rows = rows

    def __len__(self) -> int:
        return self._rows.columns.calls_count()

    def _block(self, first: int) -> Sequence[Pair]:
        calls = self._rows.columns.pairs(first, first + BLOCK)
        low, high = calls[0][0], calls[-1][0] + 1
        ops = self._rows.block(low, high)
        return [
            _paired(
                ops[call - low],
                None if end is None else ops[end - low] if end < high else self._rows[end],
            )
            for call, end in calls
        ]

    def _one(self, place: int) -> Pair:
        return self._rows.pair(*self._rows.columns.pairs(place, place + 1)[0])


def _paired(invoke: Op, end: Op | None) -> Pair:
    return Pair(invoke, end, Kind.INFO if end is None else end.kind)
