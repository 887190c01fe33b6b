"""Puts the witness of an imported history into words: which calls, and why no order explains
them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyporcupine
from pyporcupine.importers.calls import CAS, MICRO_OPS, READ_LIKE, TXN
from pyporcupine.importers.record import FailedCall, Reading, shown


@dataclass(frozen=True, slots=True)
class WitnessLine:
    """One call of a witness."""

    where: str
    """ "12–15": the lines of the call and of its end; "12–" if it never returned."""
    process: int | str
    what: str


def witness(reading: Reading, positions: Sequence[int]) -> list[WitnessLine]:
    """Return the calls at these positions, such as those of one key's witness."""
    return [_line(reading, at) for at in positions]


def explain(reading: Reading, result: pyporcupine.ObjectResult) -> list[str]:
    """Return why no order explains the witness, one sentence for each step."""
    steps = [_step(reading, step) for step in result.explanation]
    steps += failures(reading, result.witness)
    if len(result.witness) > 1:
        steps.append("these calls suffice: the rest of the history does not matter")
    return steps


def failures(reading: Reading, positions: Sequence[int]) -> list[str]:
    """Return for each value that these calls found, and that no call brought but one that ended as
    fail, that this one did."""
    if not reading.failed:
        return []
    found = {
        (one.key, repr(value))
        for one in map(reading.operations.__getitem__, positions)
        for value in (one.output if isinstance(one.output, list) else [one.output])
        if value is not None
    }
    failed = [call for call in reading.failed if (call.key, _brought(call)) in found]
    brought = {(one.key, _brought(one)) for one in reading.operations} if failed else set()
    return [
        f"{_head(call)} ended as fail (line {call.line}): it did not happen, and no other call has "
        f"{_brought(call)}"
        for call in failed
        if (call.key, _brought(call)) not in brought
    ]


def _brought(call: FailedCall | pyporcupine.Operation) -> str:
    """Return the value that a call is to leave behind in Python's notation: 1 is not True."""
    return repr(call.value[1] if _is_cas(call) else call.value)


def _is_cas(call: FailedCall | pyporcupine.Operation) -> bool:
    return call.f == CAS and isinstance(call.value, list) and len(call.value) == 2


def _head(call: FailedCall | pyporcupine.Operation) -> str:
    """Describe a call without its end: "cas 3 → 0", "write 2", "acquire"."""
    if _is_cas(call):
        return f"cas {_value(call.value[0])} → {_value(call.value[1])}"
    return call.f if call.value is None else f"{call.f} {_value(call.value)}"


def describe(operation: pyporcupine.Operation) -> str:
    """Describe an operation: "cas 3 → 0: set", "read: 4", "write 2, never returned"."""
    f, lost = operation.f, operation.ret is None
    if f in MICRO_OPS:
        return _transaction(operation)
    if f in READ_LIKE:
        return f"{f}, never returned" if lost else f"{f}: {_value(operation.output)}"
    head = _head(operation)
    if lost:
        return f"{head}, never returned"
    if f == CAS:
        return f"{head}: {'set' if operation.output else 'found another value'}"
    return head if operation.output is None else f"{head}: {_value(operation.output)}"


def _transaction(operation: pyporcupine.Operation) -> str:
    """Describe a transaction: "txn read 'x': 1, write 'y' 2", "poll {'x': [[0, 1]]}"."""
    lost = operation.ret is None

    def text(f: str, *parts: Any) -> str:
        if f == "read":
            return f"read {shown(parts[0])}" + ("" if lost else f": {_value(parts[1])}")
        return " ".join([f, *map(_value, parts)])

    steps = ", ".join(text(*step) for step in operation.output or operation.value or [])
    return ("txn " if operation.f == TXN else "") + steps + (", never returned" if lost else "")


def _line(reading: Reading, at: int) -> WitnessLine:
    operation = reading.operations[at]
    call, end = reading.lines[at]
    where = str(call) if call == end else f"{call}–{'' if end is None else end}"
    return WitnessLine(where, operation.process, describe(operation))


def _step(reading: Reading, step: pyporcupine.Step) -> str:
    here, there = _named(reading, step.from_op), _named(reading, step.to_op)
    value = _value(step.value)
    return {
        "real-time": f"{here} had returned before {there} was called",
        "process-order": f"{here} came before {there} in its process",
        "read sees add": f"{there} has {value}, so {here} came first",
        "read misses add": f"{here} lacks {value}, so {there} came after it",
        "read sees write": f"{there} found what {here} wrote, so it came later",
        "same value": f"{here} and {there} are about one value, which was written once: nothing "
        "about another value comes between them",
        "read never-added value": f"{here} has {value}, which nothing added",
        "duplicate in read": f"{here} has {value} twice",
        "read never-written value": f"{here} found a value that nothing wrote and that is not the "
        "initial one (--initial)",
        "cannot be placed": f"no order of these calls explains {here}",
    }[step.why]


def _named(reading: Reading, at: int) -> str:
    return f"{describe(reading.operations[at])} (line {reading.lines[at][0]})"


def _value(value: Any) -> str:
    return "nil" if value is None else shown(value)
