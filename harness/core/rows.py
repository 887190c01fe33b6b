"""Ops of a history, stored in columns (`native.histories`) and decoded to objects on access.

A short history keeps its objects, because every checker asks for them again. A long one decodes
them block by block each time, so that its memory is that of its columns and its text.
"""

from array import array
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
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
NEVER_NS: Final = 2**63 - 1
"""Time after every other, at which a call ends that never does."""
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

    block = BLOCK
    """Number of items that are decoded at a time."""

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
            return tuple(self._some(places) if places.step == 1 else map(self._one, places))
        return self._one(places)

    def __iter__(self) -> Iterator[T]:
        return iter(self.all) if self.kept else chain.from_iterable(self._blocks())

    def _blocks(self) -> Iterator[Sequence[T]]:
        for first in range(0, len(self), self.block):
            yield self._some(range(first, min(first + self.block, len(self))))

    def _some(self, places: range) -> Sequence[T]:
        return [self._one(place) for place in places]

    def _one(self, place: int) -> T:
        raise NotImplementedError


class Rows(Decoded[Op]):
    """Ops in order of index that obey the rules of histories."""

    columns: Columns
    """Fields of the ops, without values that are objects and without texts of errors."""

    def __init__(self, ops: Sequence[Op]) -> None:
        super().__init__(kept=True)
        self.all = tuple(ops)
        self._known: dict[int, Op] = {}
        with refused():
            self.columns = Columns(b"".join([encoded(op) for op in self.all]))

    @classmethod
    def of_lines(cls, lines: bytes) -> "Rows":
        """Return the ops of whole lines, as `encoded` writes them.

        Raises `histories.FormError` for a line in another form, ValueError for an invalid object,
        and HistoryError for ops that break the rules of histories.
        """
        with refused():
            return cls.of_columns(Columns(lines))

    @classmethod
    def of_columns(cls, columns: Columns) -> "Rows":
        """Return the ops that columns have. Raises ValueError for an invalid object."""
        rows = cls.__new__(cls)
        rows.columns = columns
        rows._known = {}
        super().__init__(rows, kept=len(columns) <= KEPT_MAX)
        objects = ((row, decoded(columns.line(row))) for row in columns.objects())
        if rows.kept:
            rows._known = dict(objects)
        for _ in objects:  # those of a long history are only checked
            pass
        return rows

    def __reduce__(self) -> tuple[Callable[[bytes], "Rows"], tuple[bytes]]:
        return Rows.of_lines, (self.columns.lines(),)

    def __len__(self) -> int:
        return len(self.columns)

    @cached_property
    def pairs(self) -> "Pairs":
        """Return the clients' calls, in order of invocation."""
        return Pairs(self, range(self.columns.calls_count()))

    def calls(self, *fs: str, kinds: Collection[Kind] = ()) -> "Pairs":
        """Return the clients' calls with one of these names and, if any is given, one of these
        kinds, in order of invocation."""
        return Pairs(self, array("I", self.columns.places(fs, list(kinds))))

    def picked(self, rows: Sequence[int]) -> "Ops":
        """Return the ops at these rows, which are decoded on access."""
        return Ops(self, rows)

    def some(self, rows: Sequence[int]) -> Sequence[Op]:
        """Return the ops at these rows. Raises HistoryError."""
        if self.kept:
            return [self.all[row] for row in rows]
        return self._some(rows)

    def called(self, calls: Sequence[tuple[int, int | None]]) -> Sequence[Pair]:
        """Return the calls with these rows of invocation and end. Raises HistoryError."""
        ops = iter(self.some([row for call in calls for row in call if row is not None]))
        return [_paired(next(ops), None if end is None else next(ops)) for _, end in calls]

    def _some(self, places: Sequence[int]) -> Sequence[Op]:
        known = self._known
        left = [row for row in places if row not in known] if known else places
        try:
            ops = iter(all_decoded(self.columns.lines_at(left)))
        except ValueError:
            return [self._one(row) for row in places]
        return [known.get(row) or next(ops) for row in places]

    def _one(self, place: int) -> Op:
        # Columns accept numbers of any length, unlike Python.
        try:
            return self._known.get(place) or decoded(self.columns.line(place))
        except ValueError as error:
            raise HistoryError(f"op #{place}: is not an op ({error})") from error


class Ops(Decoded[Op]):
    """Some of the ops, in order."""

    block = 64  # the nemesis may record a whole run in one of them

    def __init__(self, rows: Rows, places: Sequence[int]) -> None:
        super().__init__(kept=rows.kept)
        self._rows = rows
        self._places = places

    def __len__(self) -> int:
        return len(self._places)

    def _some(self, places: range) -> Sequence[Op]:
        return self._rows.some(self._places[places.start : places.stop])

    def _one(self, place: int) -> Op:
        return self._rows[self._places[place]]


class Pairs(Decoded[Pair]):
    """The clients' calls of a history, all or some of them, in order of invocation."""

    def __init__(self, rows: Rows, places: Sequence[int]) -> None:
        super().__init__(kept=rows.kept)
        self._rows = rows
        self.places = places
        """Their places among all calls."""

    def __len__(self) -> int:
        return len(self.places)

    @cached_property
    def spans(self) -> tuple[Sequence[int], Sequence[int]]:
        """Return the times in ns at which the calls began, ascending, and those at which they may
        have ended: `NEVER_NS` for a call that is not ok."""
        begins, ends = self._rows.columns.spans(self.places)
        return array("q", begins), array("q", ends)

    def _some(self, places: range) -> Sequence[Pair]:
        every = self._rows.pairs
        found = self.places[places.start : places.stop]
        if self.kept and self is not every:
            return [every.all[place] for place in found]
        return self._rows.called(self._rows.columns.pairs(found))

    def _one(self, place: int) -> Pair:
        return self._some(range(place, place + 1))[0]


@contextmanager
def refused() -> Iterator[None]:
    """Raise HistoryError for ops that break the rules of histories."""
    try:
        yield
    except RuleError as error:
        raise HistoryError(str(error)) from error


def _paired(invoke: Op, end: Op | None) -> Pair:
    return Pair(invoke, end, Kind.INFO if end is None else end.kind)
