"""What the calls of a history mean to `pyporcupine`, and how its witness is put into words."""

from collections.abc import Sequence
from typing import Literal, Protocol

import pyporcupine

from checkers.calls import Calls, ObjectCalls, set_calls
from checkers.key_sets import INSERT, READS, insert_value
from checkers.words import during, insert_acknowledged, insert_began, read_answered, seconds, where
from harness.core.history import History, Pair
from harness.core.op import Kind, Op

_ORDERS = frozenset({"real-time", "process-order"})
CAS = "cas"
WRITE = "write"


class ObjectModel(Protocol):
    """A kind of object, and how histories speak of it."""

    name: Literal["set", "register", "cas-register"]
    """As pyporcupine calls it."""

    def calls(self, history: History) -> Sequence[Calls]:
        """Those that say anything about an object, by key, in order of its first."""
        ...

    def told(self, history: History, pair: Pair, steps: Sequence[pyporcupine.Step], at: int) -> str:
        """A call of a witness in words; `at` is its position in `steps`."""
        ...


def is_read(pair: Pair) -> bool:
    """By name."""
    return pair.invoke.f in READS


class SetObject:
    """Values are added, and all of them are read."""

    name: Literal["set", "register", "cas-register"] = "set"

    def calls(self, history: History) -> Sequence[Calls]:
        """Inserts that were not refused, and answered reads."""
        return set_calls(history)

    def told(self, history: History, pair: Pair, steps: Sequence[pyporcupine.Step], at: int) -> str:
        """With what a read found, and an insert's end where that matters."""
        if pair.invoke.f == INSERT:
            value = insert_value(pair.invoke)
            ends = any(step.from_op == at and step.why in _ORDERS for step in steps)
            if ends and pair.end is not None:
                return insert_acknowledged(history, value, pair.end)
            return insert_began(history, value, pair.invoke)
        assert pair.end is not None, "a read in a witness was answered"
        found = [_found(step, at) for step in steps if step.value is not None]
        return read_answered(history, pair.invoke, pair.end, " and ".join(filter(None, found)))


class RegisterObject:
    """Calls "write" (a number), "cas" (a pair: expected, new) and "read" (a number, or None of a
    register that was never written). A cas that failed is left out: it may have compared with an
    old value, which constrains nothing."""

    name: Literal["set", "register", "cas-register"] = "cas-register"

    def constrains(self, pair: Pair) -> bool:
        """Writes that were not refused, and answered reads."""
        write = pair.invoke.f in (WRITE, CAS) and pair.kind is not Kind.FAIL
        return write or (is_read(pair) and pair.kind is Kind.OK)

    def calls(self, history: History) -> Sequence[Calls]:
        """Writes that were not refused, and answered reads."""
        by_key: dict[int | None, list[Pair]] = {}
        for pair in filter(self.constrains, history.pairs):
            by_key.setdefault(pair.invoke.key, []).append(pair)
        return [
            ObjectCalls(key, pairs, [self.operation(key, pair) for pair in pairs])
            for key, pairs in by_key.items()
        ]

    def operation(self, key: int | None, pair: Pair) -> pyporcupine.Operation:
        """As it is called."""
        end, f = _answer(pair), pair.invoke.f
        read = is_read(pair)
        output = end.value if read and end is not None else f == CAS if end is not None else None
        return pyporcupine.Operation(
            _process(pair.invoke),
            "read" if read else f,
            key,
            None if read else pair.invoke.value,
            call=pair.invoke.time_ns,
            ret=None if end is None else end.time_ns,
            output=None if f == WRITE else output,
        )

    def told(self, history: History, pair: Pair, steps: Sequence[pyporcupine.Step], at: int) -> str:  # noqa: ARG002
        """With the value, when it began and how it ended."""
        invoke, end = pair.invoke, pair.end
        said = f"op #{invoke.index} {invoke.f}{_argument(pair)}{where(invoke)}"
        began = f"{said} began at {seconds(invoke.time_ns)}{during(history, invoke.time_ns)}"
        if end is None or pair.kind is not Kind.OK:
            return f"{began} and has no known end"
        found = f"and returned {end.value}" if is_read(pair) else "and ended"
        return f"{began} {found} at {seconds(end.time_ns)} (op #{end.index})"


def _argument(pair: Pair) -> str:
    value = pair.invoke.value
    if isinstance(value, tuple):
        return " " + " to ".join(map(str, value))
    return "" if value is None else f" {value}"


def _process(invoke: Op) -> int:
    process = invoke.process
    assert isinstance(process, int), "a client's process is a number"
    return process


def _answer(pair: Pair) -> Op | None:
    return pair.end if pair.kind is Kind.OK else None


def _found(step: pyporcupine.Step, at: int) -> str:
    """What a step says of the read at a position; "" when it speaks of others."""
    if step.why == "read sees add" and step.to_op == at:
        return f"with {step.value}"
    if step.why == "read misses add" and step.from_op == at:
        return f"without {step.value}"
    if step.from_op == step.to_op == at:
        return f"with {step.value}{' twice' if step.why == 'duplicate in read' else ''}"
    return ""
