"""The calls of a key that constrain it, as `pyporcupine` takes them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol

import pyhistories
import pyporcupine

from checkers.key_sets import READS, refused
from harness.core.history import History, Pair
from harness.core.op import Process
from harness.core.rows import Rows

Consistency = Literal["linearizable", "sequential"]


class Calls(Protocol):
    """Those of one key, in order of invocation."""

    @property
    def key(self) -> int | None:
        """None: of no key."""
        ...

    @property
    def pairs(self) -> Sequence[Pair]:
        """As the history has them."""
        ...

    @property
    def operations(self) -> Any:
        """As pyporcupine takes them: objects, or what gives Arrow columns."""
        ...

    @property
    def reads(self) -> int:
        """How many of them are reads."""
        ...

    @property
    def ties(self) -> bool:
        """Whether a process called at the very time at which its last call ended, and `operations`
        do not say that it did so afterwards."""
        ...

    def __len__(self) -> int: ...


@dataclass(frozen=True)
class SetCalls:
    """On a set, in columns: an insert is an add, of unknown outcome one that never returned; a
    refused insert is left out, and so is an unanswered read. Multiplicity is kept: a set never
    returns a value twice."""

    rows: Rows
    found: pyhistories.Calls

    def __len__(self) -> int:
        return len(self.found)

    @property
    def key(self) -> int | None:
        """None: of no key."""
        return self.found.key

    @cached_property
    def pairs(self) -> Sequence[Pair]:
        """As the history has them."""
        return [self.rows.pair(*rows) for rows in self.found.rows()]

    @property
    def operations(self) -> pyhistories.Calls:
        """As Arrow columns."""
        return self.found

    @property
    def reads(self) -> int:
        """How many of them are reads."""
        return self.found.reads()

    @cached_property
    def ties(self) -> bool:
        """Whether a process called at the very time at which its last call ended, and another call
        ended then."""
        return self.found.ties()


def set_calls(history: History) -> tuple[SetCalls, ...]:
    """By key. Raises HistoryError for an insert of no number, and a read that returned none."""
    try:
        return tuple([SetCalls(history.rows, found) for found in history.columns.calls()])
    except pyhistories.OddValue as error:
        raise refused(history, error) from error


@dataclass(frozen=True)
class ObjectCalls:
    """As objects, of any kind."""

    key: int | None
    pairs: Sequence[Pair]
    operations: Sequence[pyporcupine.Operation]

    def __len__(self) -> int:
        return len(self.pairs)

    @cached_property
    def reads(self) -> int:
        """How many of them are reads."""
        return sum([pair.invoke.f in READS for pair in self.pairs])

    @cached_property
    def ties(self) -> bool:
        """Whether a process called at the very time at which its last call ended."""
        ended: dict[Process, int] = {}
        for pair in self.pairs:
            if ended.get(pair.invoke.process) == pair.invoke.time_ns:
                return True
            if pair.end is not None:
                ended[pair.invoke.process] = pair.end.time_ns
        return False
