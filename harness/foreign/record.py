"""What a reader makes of a file: calls and ends, or what is wrong with a line."""

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pyporcupine import Operation

from harness.core.op import Kind

Key: TypeAlias = int | str | None
SHOWN_MAX = 60
"""Characters of a value that an error shows."""


@dataclass(frozen=True, slots=True)
class Event:
    """A call or its end, on one line."""

    line: int
    """From 1."""
    process: int
    kind: Kind
    f: str
    value: Any
    """int, str, bool, None, or a list of these."""
    key: Key = None


@dataclass(frozen=True, slots=True)
class Malformed:
    """A line that cannot be read, and what to do about it."""

    line: int
    field: str
    found: str
    expected: str
    mend: str = "correct the line, or remove it with the call that it belongs to"

    @property
    def text(self) -> str:
        """One sentence for people, without the file."""
        return f"{self.field} is {self.found}, expected {self.expected}: {self.mend}"


@dataclass(slots=True)
class Reading:
    """A whole file."""

    operations: list[Operation] = field(default_factory=list)
    """In order of call."""
    lines: list[tuple[int, int | None]] = field(default_factory=list)
    """By operation: the lines of its call and of its end; None: it never returned."""
    malformed: list[Malformed] = field(default_factory=list)
    """In order of line; when there are any, the operations are not the whole history."""
    left_out: int = 0
    """Calls that certainly did not happen and say nothing."""

    @property
    def lost(self) -> int:
        """Operations that never returned."""
        return sum(operation.ret is None for operation in self.operations)


def shown(value: object) -> str:
    """Return a value as an error shows it, cut where it is long."""
    return cut(repr(value[: SHOWN_MAX + 1] if isinstance(value, str) else value))


def cut(text: str) -> str:
    """Return a text as far as an error shows it."""
    return text if len(text) <= SHOWN_MAX else text[: SHOWN_MAX - 1] + "…"
