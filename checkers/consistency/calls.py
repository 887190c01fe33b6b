"""The calls that constrain a key, as `pyporcupine` takes them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol

import pyporcupine

from checkers.sets.key_sets import READS, refused
from harness.core.history import History, Pair
from harness.core.op import Process
from harness.core.rows import Rows
from harness.native import histories

Consistency = Literal["linearizable", "sequential"]


class Calls(Protocol):
    """The constraining calls of one key, in order of invocation."""

    @property
    def key(self) -> int | None:
        """The key; None for calls without a key."""
        ...

    @property
    def pairs(self) -> Sequence[Pair]:
        """The calls as pairs of ops of the history."""
        ...

    @property
    def operations(self) -> Any:
        """The calls as pyporcupine takes them: objects, or a source of Arrow columns."""
        ...

    @property
    def reads(self) -> int:
        """Number of reads among the calls."""
        ...

    @property
    def ties(self) -> bool:
        """Return whether a process called at the exact time at which its last call ended, while
        `operations` do not order the two."""
        ...

    def __len__(self) -> int: ...


@dataclass(frozen=True)
class SetCalls:
    """The calls on a set, as columns.

    An insert is an add, of unknown outcome if it never returned. Refused inserts and unanswered
    reads are left out. Multiplicity counts: a set never returns a value twice.
    """

    rows: Rows
    found: histories.Calls

    def __len__(self) -> int:
        return len(self.found)

    @property
    def key(self) -> int | None:
        """The key; None for calls without a key."""
        return self.found.key

    @cached_property
    def pairs(self) -> Sequence[Pair]:
        """The calls as pairs of ops of the history."""
        return [self.rows.pair(*rows) for rows in self.found.rows()]

    @property
    def operations(self) -> histories.Calls:
        """The calls as Arrow columns."""
        return self.found

    @property
    def reads(self) -> int:
        """Number of reads among the calls."""
        return self.found.reads()

    @cached_property
    def ties(self) -> bool:
        """Return whether a process called at the exact time at which its last call ended, and
        another call ended then."""
        return self.found.ties()


def set_calls(history: History) -> tuple[SetCalls, ...]:
    """Return the calls of each key. Raises HistoryError for an insert without a number, and for an
    answered read without values."""
    try:
        return tuple([SetCalls(history.rows, found) for found in history.columns.calls()])
    except histories.OddValue as error:
        raise refused(history, error) from error


@dataclass(frozen=True)
class ObjectCalls:
    """The calls on an object of any kind, as Python objects."""

    key: int | None
    pairs: Sequence[Pair]
    operations: Sequence[pyporcupine.Operation]

    def __len__(self) -> int:
        return len(self.pairs)

    @cached_property
    def reads(self) -> int:
        """Number of reads among the calls."""
        return sum([pair.invoke.f in READS for pair in self.pairs])

    @cached_property
    def ties(self) -> bool:
        """Return whether a process called at the exact time at which its last call ended."""
        ended: dict[Process, int] = {}
        for pair in self.pairs:
            if ended.get(pair.invoke.process) == pair.invoke.time_ns:
                return True
            if pair.end is not None:
                ended[pair.invoke.process] = pair.end.time_ns
        return False
