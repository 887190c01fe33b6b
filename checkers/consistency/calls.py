"""The calls that constrain a key, as `pyporcupine` takes them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from harness.core.history import Pair
from harness.core.rows import Rows
from harness.native import histories

Consistency = Literal["linearizable", "sequential"]


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
