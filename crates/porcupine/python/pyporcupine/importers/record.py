"""Contents of a file as a reader sees it: calls and their ends, or what is wrong with a line."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

from pyporcupine._pyporcupine import Operation, Transaction

Key: TypeAlias = int | str | None
SHOWN_MAX = 60
"""Maximum number of characters of a value that an error shows."""
NOT_THERE = "not there"
"""What is found of a field that is missing."""


class EventKind(StrEnum):
    """Type of an event, as in Jepsen's histories."""

    INVOKE = "invoke"
    OK = "ok"
    """The operation happened."""
    FAIL = "fail"
    """The operation certainly did not happen."""
    INFO = "info"
    """Nobody knows: it may take effect at any time after its call, or never."""


@dataclass(frozen=True, slots=True)
class Event:
    """A call or the end of a call, on one line."""

    line: int
    """Line number, from 1; for events that are not from a file their position, from 0."""
    process: int | str
    kind: EventKind
    f: str
    value: Any
    """An int, str, bool, None, or a list of these."""
    key: Key = None
    final: bool = False
    """Whether it is marked `:final? true`, as Jepsen marks reads after all else has ended."""


@dataclass(frozen=True, slots=True)
class Malformed:
    """A line that cannot be read, and how to correct it."""

    line: int
    field: str
    found: str
    expected: str
    mend: str = "correct the line, or remove it with the call that it belongs to"

    @property
    def text(self) -> str:
        """One sentence for the user, without the name of the file."""
        return f"{self.field} is {self.found}, expected {self.expected}: {self.mend}"


@dataclass(frozen=True, slots=True)
class FailedCall:
    """A call that certainly did not happen, and whose value nobody may find."""

    f: str
    key: Key
    value: Any
    line: int
    """The line of its end."""


@dataclass(slots=True)
class Reading:
    """The contents of a whole file."""

    operations: list[Operation] = field(default_factory=list)
    """The operations in the order of their invocations."""
    transactions: list[Transaction] = field(default_factory=list)
    """The transactions, if the file was read as a history of transactions, without operations."""
    lines: list[tuple[int, int | None]] = field(default_factory=list)
    """Lines of the call and of the end of each operation or transaction; None if it never
    returned."""
    malformed: list[Malformed] = field(default_factory=list)
    """The lines that cannot be read, in order. If there are any, the operations are not the whole
    history."""
    left_out: int = 0
    """Number of calls that certainly did not happen and say nothing."""
    failed: list[FailedCall] = field(default_factory=list)
    """The calls that ended as fail, among those that were left out."""
    final: set[int] = field(default_factory=set)
    """Positions of the operations whose end is marked as final."""
    broken: list[str] = field(default_factory=list)
    """Promises that the file itself shows to be broken, whatever model its operations have."""
    format: str = ""
    """Name of the format of the file."""

    @property
    def calls(self) -> Sequence[Operation | Transaction]:
        """Return the operations or the transactions."""
        return self.operations or self.transactions

    @property
    def lost(self) -> int:
        """Return the number of operations or transactions that never returned."""
        return sum(call.ret is None for call in self.calls)


def shown(value: object) -> str:
    """Return a value as an error shows it, truncated if it is long."""
    return cut(repr(value[: SHOWN_MAX + 1] if isinstance(value, str) else value))


def cut(text: str) -> str:
    """Return a text truncated to the length that an error shows."""
    return text if len(text) <= SHOWN_MAX else text[: SHOWN_MAX - 1] + "…"
