"""The calls that constrain a key, as `pyporcupine` takes them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

import pyporcupine

from harness.core.history import Pair
from harness.core.rows import Rows
from harness.native import histories

Consistency = Literal["linearizable", "sequential"]


class ConstrainingCalls(Protocol):
    """The constraining calls of one key, in order of invocation."""

    def __len__(self) -> int: ...

    @property
    def key(self) -> int | None:
        """The key; None for calls without a key."""
        ...

    @property
    def pairs(self) -> Sequence[Pair]:
        """The calls as pairs of ops of the history."""
        ...

    @property
    def operations(self) -> histories.Calls | Sequence[pyporcupine.Operation]:
        """The calls as pyporcupine takes them."""
        ...

    @property
    def reads(self) -> int:
        """Number of calls whose answer says something."""
        ...

    @property
    def ties(self) -> bool:
        """Return whether a process called at the exact time at which its last call ended, so that
        `operations` may not order the two."""
        ...


@dataclass(frozen=True)
class ListedCalls:
    """The constraining calls of one key, as a list: for models of which runs have few calls."""

    key: int | None
    pairs: Sequence[Pair]
    operations: Sequence[pyporcupine.Operation]
    reads: int

    def __len__(self) -> int:
        return len(self.pairs)

    @cached_property
    def ties(self) -> bool:
        """Return whether a process called at the exact time at which its last call ended."""
        ended: dict[int | str, float | None] = {}
        tied = False
        for one in self.operations:
            tied = tied or ended.get(one.process) == one.call
            ended[one.process] = one.ret
        return tied


@dataclass(frozen=True)
class Calls:
    """The constraining calls of one key, in order of invocation, as columns."""

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
        return self.rows.called(self.found.rows())

    @property
    def operations(self) -> histories.Calls:
        """The calls as Arrow columns, which pyporcupine takes."""
        return self.found

    @property
    def reads(self) -> int:
        """Number of reads among the calls."""
        return self.found.reads()

    @cached_property
    def ties(self) -> bool:
        """Return whether a process called at the exact time at which its last call ended, and
        another call ended then, so that `operations` do not order the two."""
        return self.found.ties()
