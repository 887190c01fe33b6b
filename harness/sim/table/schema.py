"""Columns of a table, and the few expressions over them that a simulated server understands."""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.sim.errors import ServerError
from harness.sim.table.parts import Row, Rows

_CONDITION = re.compile(r"\s*(\w+)\s*(=|!=|<=|>=|<|>|IN)\s*(.+?)\s*$", re.DOTALL)
_CHANGE = re.compile(r"(?:UPDATE\s+(?P<what>.+?)|DELETE)\s+WHERE\s+(?P<where>.+)", re.DOTALL)
_ASSIGNMENT = re.compile(r"(\w+)\s*=\s*(?:(\w+)\s*\+\s*)?(?:toUInt64\()?(-?\d+)\)?\s*$")


@dataclass(frozen=True, slots=True)
class Schema:
    """Of one table."""

    columns: tuple[str, ...]
    partition_by: str | None
    """A column; None: one partition."""
    order_by: tuple[str, ...]

    def partition(self, row: Row) -> str:
        """Whose part a row belongs to."""
        return "all" if self.partition_by is None else str(row[self.at(self.partition_by)])

    def order(self, row: Row) -> Any:
        """The sorting key."""
        return tuple(row[self.at(column)] for column in self.order_by)

    def at(self, column: str) -> int:
        """A column's place. Raises ServerError 47."""
        if column not in self.columns:
            raise ServerError(47, f"Unknown identifier: {column}")
        return self.columns.index(column)

    def matching(self, where: str | None, rows: Sequence[Row]) -> Sequence[Row]:
        """The rows for which every condition, with AND between them, holds."""
        for text in re.split(r"\bAND\b", where) if where else ():
            if text.strip() == "1":
                continue
            found = _CONDITION.match(text)
            if found is None:
                raise ServerError(62, f"Syntax error: {text!r} is not simulated")
            rows = _passing(rows, self.at(found[1]), found[2], numbers(found[3]))
        return rows

    def apply(self, change: str, rows: Rows) -> Rows:
        """What UPDATE … WHERE … or DELETE WHERE … makes of rows."""
        found = _CHANGE.match(change)
        if found is None:
            raise ServerError(62, f"Syntax error: {change!r} is not simulated")
        struck = dict.fromkeys(self.matching(found["where"], rows))
        if found["what"] is None:
            return tuple(row for row in rows if row not in struck)
        assigned = _ASSIGNMENT.match(found["what"].strip())
        if assigned is None:
            raise ServerError(62, f"Syntax error: {found['what']!r} is not simulated")
        at, by = self.at(assigned[1]), int(assigned[3])
        source = None if assigned[2] is None else self.at(assigned[2])
        return tuple(
            (*row[:at], by + (0 if source is None else row[source]), *row[at + 1 :])
            if row in struck
            else row
            for row in rows
        )


def numbers(text: str) -> tuple[int | str, ...]:
    """Of "7", "(7, 8)" or "'word'"."""
    words = [word.strip() for word in text.strip("() \n").split(",")]
    return tuple(word.strip("'") if word.startswith("'") else int(word) for word in words)


_TESTS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


def _passing(rows: Sequence[Row], at: int, test: str, values: tuple[Any, ...]) -> Sequence[Row]:
    if test == "IN":
        return [row for row in rows if row[at] in values]
    holds, value = _TESTS[test], values[0]
    return [row for row in rows if holds(row[at], value)]
