"""The record: one line of a history. Operations and faults alike are ops."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, Literal, TypeAlias

import msgspec

UNREADABLE: Final = "unreadable-line"
"""The f of a call that stands for lines of the journal that could not be read; its value has the
"text"."""
NEMESIS: Final = "nemesis"
"""The process of every fault."""
EXTEND: Final = "extend"
"""The f of a note of the nemesis that calls go on beyond the time limit; it is no fault."""

Process: TypeAlias = int | Literal["nemesis"]
Json: TypeAlias = bool | int | float | str | list[Any] | dict[str, Any] | None
Value: TypeAlias = int | tuple[int, ...] | Mapping[str, Json] | None
"""A number (one written value), a tuple of numbers (what a read returned, in the order it
came, duplicates kept), or a JSON object (a fault, an observation)."""


class Written(str):
    """JSON, as text that stands for what it says: an entry of an op's object that is long, and of
    which nobody asks anything before the op is a line."""

    __slots__ = ()


class Kind(StrEnum):
    """Type of an entry: invoke, or the outcome of an operation."""

    INVOKE = "invoke"
    OK = "ok"
    """The operation happened."""
    FAIL = "fail"
    """The operation certainly did not happen."""
    INFO = "info"
    """Nobody knows: it may take effect at any time after its call, or never."""


for _kind in Kind:
    # As plain attributes: Python 3.11 looks members up through a descriptor, 70 ns each time.
    type.__setattr__(Kind, _kind.name, _kind)


class Op(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One event of a history. (A Struct, as all is that is made for every op: it takes a tenth
    of the time of a frozen dataclass to make. Without `gc`, for none is ever part of a cycle.)"""

    index: int
    """Position in the history, from 0."""
    process: Process
    """A process has one call in flight; an info retires it."""
    kind: Kind
    f: str
    """Function of the operation: "insert", "read", "partition"."""
    time_ns: int
    """Monotonic nanoseconds since the run began, never wall time."""
    value: Value = None
    key: int | None = None
    """The object that is read or written; None: not of one object."""
    node: str | None = None
    """The database node that was asked, such as "ch2"."""
    error: str | None = None
    """The error of a fail or info, as "CODE NAME: text"."""


class Call(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Request of a generator: an op that has no place in a history yet."""

    f: str
    value: Value = None
    key: int | None = None
    node: str | None = None
    """Must be done on this node; None: on the node of whichever worker takes it."""
    nemesis: bool = False
    """A fault: goes to the nemesis, not to a client."""


class Done(msgspec.Struct, frozen=True, gc=False):
    """End of a call, as reported by a client or a nemesis."""

    kind: Kind
    value: Value = None
    error: str | None = None
