"""A history: everything that happened, in order. Validated before anything is concluded from it."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import overload

import msgspec
from msgspec.structs import replace

from harness.core.errors import HistoryError
from harness.core.op import NEMESIS, Kind, Op, Process


class Pair(msgspec.Struct, frozen=True, gc=False):
    """A call and how it ended."""

    invoke: Op
    end: Op | None
    """None: never ended, which is as good as info."""
    kind: Kind
    """OK, FAIL or INFO."""


class Fault(msgspec.Struct, frozen=True):
    """A period in which something was broken."""

    name: str
    """As the nemesis is called: "partition-ring", "kill"."""
    text: str
    """What was done to whom: "{ch1 zk1 | ch2 ch3 zk2 zk3}"."""
    begin_ns: int
    end_ns: int | None
    """None: until the end of the history."""
    op: int
    """Index of the op that began it."""


class History(Sequence[Op]):
    """Ops in order of index. Immutable; making one validates it.

    Raises HistoryError, naming the op and the field, unless: indices count from 0; times do not
    go back; a process invokes only when its last call has ended, and never after an info; an
    end has the f, key and node of its call.
    """

    def __init__(self, ops: Sequence[Op]) -> None:
        self._ops = tuple(ops)
        self.pairs: tuple[Pair, ...] = _paired(self._ops)
        """Clients' calls, in order of invocation."""

    @overload
    def __getitem__(self, at: int) -> Op: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Op]: ...
    def __getitem__(self, at: int | slice) -> Op | Sequence[Op]:
        return self._ops[at]

    def __len__(self) -> int:
        return len(self._ops)

    def __iter__(self) -> Iterator[Op]:
        return iter(self._ops)

    @cached_property
    def nemesis(self) -> tuple[Op, ...]:
        """The ops of the nemesis."""
        return tuple(op for op in self._ops if op.process == NEMESIS)

    @cached_property
    def keys(self) -> tuple[int, ...]:
        """Every key that a client named, ascending."""
        return tuple(sorted({p.invoke.key for p in self.pairs if p.invoke.key is not None}))

    @cached_property
    def faults(self) -> tuple[Fault, ...]:
        """The periods of faults, from the nemesis ops that succeeded.

        Such an op's value is an object with "fault" (a number that its begin and its end
        share), "edge" ("begin", "end" or "once"), "name" and "text". The edge "heal" ends all.
        What happens once lasts as long as its call: a restart is an outage until it returns.
        """
        open_: dict[object, Fault] = {}
        asked_ns: dict[object, int] = {}
        out: list[Fault] = []
        for op in self.nemesis:
            if op.kind is Kind.INVOKE and isinstance(op.value, dict):
                asked_ns[op.value.get("fault")] = op.time_ns
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
                op.time_ns,
                None,
                op.index,
            )
            if edge == "once":
                begin_ns = asked_ns.get(number, op.time_ns)
                out.append(replace(fault, begin_ns=begin_ns, end_ns=op.time_ns))
            else:
                open_[number] = fault
        return tuple(sorted((*out, *open_.values()), key=lambda f: (f.begin_ns, f.op)))

    def faults_at(self, time_ns: int) -> tuple[Fault, ...]:
        """The faults in force at a time."""
        return tuple(
            f
            for f in self.faults
            if f.begin_ns <= time_ns and (f.end_ns is None or time_ns <= f.end_ns)
        )


def _paired(ops: tuple[Op, ...]) -> tuple[Pair, ...]:
    calls: list[Op] = []
    ends: list[Op | None] = [None] * len(ops)
    """By index of the call."""
    open_: dict[Process, Op] = {}
    retired: set[Process] = set()
    last_ns, invoke, info = 0, Kind.INVOKE, Kind.INFO
    for at, op in enumerate(ops):
        if op.index != at:
            raise HistoryError(f"op at row {at}: index is {op.index}, expected {at}")
        if op.time_ns < last_ns:
            raise HistoryError(
                f"op #{at}: time_ns {op.time_ns} is before its predecessor's {last_ns}"
            )
        last_ns, process, kind = op.time_ns, op.process, op.kind
        if kind is invoke:
            if process in open_:
                raise HistoryError(
                    f"op #{at}: process {process} invokes {op.f} while its op "
                    f"#{open_[process].index} is in flight"
                )
            if process in retired:
                raise HistoryError(f"op #{at}: process {process} invokes after an info retired it")
            open_[process] = op
            if process != NEMESIS:
                calls.append(op)
            continue
        call = open_.pop(process, None)
        if call is None:
            raise HistoryError(f"op #{at}: process {process} ends {op.f} that it never invoked")
        if op.f != call.f or op.key != call.key or op.node != call.node:
            raise HistoryError(
                f"op #{at}: ends {op.f} key {op.key} on {op.node}, but its call #{call.index} is "
                f"{call.f} key {call.key} on {call.node}"
            )
        ends[call.index] = op
        if kind is info and process != NEMESIS:
            retired.add(process)
    ended = [ends[call.index] for call in calls]
    return tuple(
        [
            Pair(call, end, info if end is None else end.kind)
            for call, end in zip(calls, ended, strict=True)
        ]
    )
