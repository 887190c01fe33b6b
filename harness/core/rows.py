"""Ops of a history, stored in columns (`native.histories`) and decoded to objects on access."""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import overload

import msgspec

from harness.core.errors import HistoryError
from harness.core.lines import all_decoded, decoded, encoded
from harness.core.op import Kind, Op
from harness.native.histories import Columns, RuleError


class Pair(msgspec.Struct, frozen=True, gc=False):
    """Call and its end."""

    invoke: Op
    end: Op | None
    """End of the call; None if it never ended, which counts as info."""
    kind: Kind
    """Outcome of the call: OK, FAIL or INFO."""


class Rows(Sequence[Op]):
    """Ops in order of index that obey the rules of histories."""

    columns: Columns
    """Fields of the ops, without values that are objects and without texts of errors."""
    _known: dict[int, Op]
    """Ops whose value is an object, by row."""

    def __init__(self, ops: Sequence[Op]) -> None:
        self.ops = tuple(ops)
        self.columns = _columns(b"".join([encoded(op) for op in self.ops]))
        self._known = {}

    @classmethod
    def of_lines(cls, lines: bytes) -> "Rows":
        """Return the ops of whole lines, as `encoded` writes them.

        Raises `histories.FormError` for a line in another form, and ValueError for an invalid
        object.
        """
        rows = cls.__new__(cls)
        rows.columns = _columns(lines)
        rows._known = {row: decoded(rows.columns.line(row)) for row in rows.columns.objects()}
        return rows

    def __reduce__(self) -> tuple[Callable[[bytes], "Rows"], tuple[bytes]]:
        return Rows.of_lines, (self.columns.lines,)

    @cached_property
    def ops(self) -> tuple[Op, ...]:
        """Return all ops as objects. Raises HistoryError."""
        try:
            return all_decoded(self.columns.lines)
        except ValueError:
            return tuple([self._decoded(row) for row in range(len(self))])

    @overload
    def __getitem__(self, at: int) -> Op: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Op]: ...
    def __getitem__(self, at: int | slice) -> Op | Sequence[Op]:
        if isinstance(at, slice) or "ops" in self.__dict__:
            return self.ops[at]
        row = range(len(self))[at]
        return self._known.get(row) or self._decoded(row)

    def __len__(self) -> int:
        return len(self.columns)

    def __iter__(self) -> Iterator[Op]:
        return iter(self.ops)

    def pair(self, invoke: int, end: int | None) -> Pair:
        """Return the call with these rows."""
        ended = None if end is None else self[end]
        return Pair(self[invoke], ended, Kind.INFO if ended is None else ended.kind)

    def _decoded(self, row: int) -> Op:
        # Columns accept numbers of any length, unlike Python.
        try:
            return decoded(self.columns.line(row))
        except ValueError as error:
            raise HistoryError(f"op #{row}: is not an op ({error})") from error


def _columns(lines: bytes) -> Columns:
    try:
        return Columns(lines)
    except RuleError as error:
        raise HistoryError(str(error)) from error
