"""History: everything that happened in a run, in order, validated before it is judged.

Its ops are stored in columns (`harness.native.histories`) and decoded to objects on access.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, wraps
from typing import TypeVar, overload
from weakref import WeakKeyDictionary

import msgspec
from msgspec.structs import replace

from harness.core.op import Kind, Op
from harness.core.rows import Pair, Rows
from harness.native.histories import Columns

__all__ = ["Fault", "History", "Pair"]


class Fault(msgspec.Struct, frozen=True):
    """Period of one fault.

    The nemesis is invoked, the fault takes effect at an unknown moment, and then its effect is
    verified: from `invoked_ns` on it may be in force, from `begin_ns` on it is.
    """

    name: str
    """Name of the nemesis, such as "partition-ring" or "kill"."""
    text: str
    """Description of the effect, such as "{ch1 zk1 | ch2 ch3 zk2 zk3}"."""
    invoked_ns: int
    """Time at which the nemesis was invoked."""
    begin_ns: int
    """Time at which the effect was verified."""
    end_ns: int | None
    """Time at which the fault was over; None if it lasted until the end of the history."""
    op: int
    """Index of the op that began the fault."""


class History(Sequence[Op]):
    """Immutable sequence of ops in order of index, validated when it is made.

    Raises HistoryError, which names the op and the field, unless: indices count from 0; times do
    not go back; a process invokes only after its last call has ended, and never after an info; an
    end has the f, key and node of its call; and all numbers except values have at most 64 bits.
    """

    def __init__(self, ops: Sequence[Op] | Rows) -> None:
        self.rows = ops if isinstance(ops, Rows) else Rows(ops)

    @property
    def columns(self) -> Columns:
        """Return the fields of the ops as columns."""
        return self.rows.columns

    @overload
    def __getitem__(self, at: int) -> Op: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Op]: ...
    def __getitem__(self, at: int | slice) -> Op | Sequence[Op]:
        return self.rows[at]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Op]:
        return iter(self.rows)

    @property
    def pairs(self) -> Sequence[Pair]:
        """Return the clients' calls, in order of invocation."""
        return self.rows.pairs

    @cached_property
    def nemesis(self) -> tuple[Op, ...]:
        """Return the ops of the nemesis."""
        return tuple([self[row] for row in self.columns.nemesis()])

    @cached_property
    def keys(self) -> tuple[int, ...]:
        """Return every key of the clients' ops, ascending."""
        return tuple(self.columns.keys())

    @cached_property
    def faults(self) -> tuple[Fault, ...]:
        """Return the periods of faults, from the nemesis ops that succeeded.

        Such an op's value is an object with "fault" (a number that its begin and its end
        share), "edge" ("begin", "end" or "once"), "name" and "text". The edge "heal" ends all.
        A fault with the edge "once" lasts as long as its call: a restart is an outage until it
        returns.
        """
        open_: dict[object, Fault] = {}
        invoked_ns = 0
        out: list[Fault] = []
        for op in self.nemesis:
            if op.kind is Kind.INVOKE:  # the nemesis has one call in flight
                invoked_ns = op.time_ns
            if op.kind is not Kind.OK or not isinstance(op.value, dict) or "edge" not in op.value:
                continue
            edge, number = op.value["edge"], op.value.get("fault")
            if edge == "heal":
                out += [replace(fault, end_ns=op.time_ns) for fault in open_.values()]
                open_.clear()
                continue
            if edge == "end":
                fault = open_.pop(number, None)
                if fault:
                    out.append(replace(fault, end_ns=op.time_ns))
                continue
            fault = Fault(
                str(op.value.get("name", op.f)),
                str(op.value.get("text", "")),
                invoked_ns,
                op.time_ns,
                None,
                op.index,
            )
            if edge == "once":
                out.append(replace(fault, begin_ns=invoked_ns, end_ns=op.time_ns))
            else:
                open_[number] = fault
        return tuple(sorted((*out, *open_.values()), key=lambda f: (f.begin_ns, f.op)))

    def faults_at(self, time_ns: int) -> tuple[Fault, ...]:
        """Return the faults in force at a time."""
        return tuple(
            f
            for f in self.faults
            if f.begin_ns <= time_ns and (f.end_ns is None or time_ns <= f.end_ns)
        )

    def faults_unverified_at(self, time_ns: int) -> tuple[Fault, ...]:
        """Return the faults that may be in force at a time: invoked by then, verified later."""
        return tuple(f for f in self.faults if f.invoked_ns <= time_ns < f.begin_ns)


T = TypeVar("T")


def memoize_per_history(find: Callable[[History], T]) -> Callable[[History], T]:
    """Return the same function, with results cached as long as their history lives."""
    known: WeakKeyDictionary[History, T] = WeakKeyDictionary()

    @wraps(find)
    def found(history: History) -> T:
        if history not in known:
            known[history] = find(history)
        return known[history]

    return found
