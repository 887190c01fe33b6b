"""History: everything that happened in a run, in order, validated before it is judged.

Its ops are stored in columns (`harness.native.histories`) and decoded to objects on access.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property, wraps
from itertools import accumulate, islice, takewhile
from math import inf
from typing import TypeVar, overload
from weakref import WeakKeyDictionary

import msgspec
from msgspec.structs import replace

from harness.core.op import UNREADABLE, Kind, Op
from harness.core.rows import Pair, Pairs, Rows
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

    def calls(self, *fs: str, kinds: Collection[Kind] = ()) -> Pairs:
        """Return the clients' calls with one of these names and, if any is given, one of these
        kinds, in order of invocation. A long history decodes no others."""
        return self.rows.calls(*fs, kinds=kinds)

    def answered(self, *fs: str) -> Iterator[tuple[Op, Op]]:
        """Yield invocation and end of each call with one of these names that ended ok."""
        for pair in self.calls(*fs, kinds=(Kind.OK,)):
            assert pair.end is not None, "an ok has an end"
            yield pair.invoke, pair.end

    @cached_property
    def damage(self) -> str | None:
        """Return which lines of the journal could not be read (`harness.store.damaged_lines`); None
        if the history is whole."""
        for pair in self.calls(UNREADABLE):
            value = pair.invoke.value
            return str(value.get("text") if isinstance(value, dict) else value)
        return None

    @cached_property
    def nemesis(self) -> Sequence[Op]:
        """Return the ops of the nemesis."""
        found = self.rows.picked(self.columns.nemesis())
        return found.all if found.kept else found

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
        begins, ends = self._fault_times
        found = []
        for at in range(bisect_right(begins, time_ns) - 1, -1, -1):
            if ends[at] < time_ns:
                break  # so have all earlier ones ended
            fault = self.faults[at]
            if fault.end_ns is None or time_ns <= fault.end_ns:
                found.append(fault)
        return tuple(reversed(found))

    def faults_unverified_at(self, time_ns: int) -> tuple[Fault, ...]:
        """Return the faults that may be in force at a time: invoked by then, verified later."""
        later = islice(self.faults, bisect_right(self._fault_times[0], time_ns), None)
        # The nemesis has one call in flight, so that faults are invoked in the order of their
        # begins.
        return tuple(takewhile(lambda fault: fault.invoked_ns <= time_ns, later))

    @cached_property
    def _fault_times(self) -> tuple[list[int], list[float]]:
        """Return the begins of the faults, and for each the last end of all up to it."""
        ends = (inf if fault.end_ns is None else fault.end_ns for fault in self.faults)
        return [fault.begin_ns for fault in self.faults], list(accumulate(ends, max))


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
