"""Puts the witness of an imported history into words: which calls, and why no order explains
them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyporcupine
from pyporcupine.importers.calls import CAS, READ_LIKE, TXN
from pyporcupine.importers.record import Reading, shown


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
    if len(result.witness) > 1:
        steps.append("these calls suffice: the rest of the history does not matter")
    return steps


def describe(operation: pyporcupine.Operation) -> str:
    """Describe an operation: "cas 3 → 0: set", "read: 4", "write 2, never returned"."""
    f, lost = operation.f, operation.ret is None
    if f == TXN:
        return _transaction(operation)
    if f in READ_LIKE:
        return f"{f}, never returned" if lost else f"{f}: {_value(operation.output)}"
    if f == CAS:
        expected, new = operation.value
        head = f"cas {_value(expected)} → {_value(new)}"
        return (
            f"{head}, never returned"
            if lost
            else (f"{head}: {'set' if operation.output else 'found another value'}")
        )
    head = f if operation.value is None else f"{f} {_value(operation.value)}"
    if operation.output is not None:
        head += f": {_value(operation.output)}"
    return f"{head}, never returned" if lost else head


def _transaction(operation: pyporcupine.Operation) -> str:
    """Describe a transaction: "txn read 'x': 1, write 'y' 2"."""
    lost = operation.ret is None
    steps = [
        f"write {shown(name)} {_value(value)}"
        if f == "write"
        else f"read {shown(name)}" + ("" if lost else f": {_value(value)}")
        for f, name, value in operation.output or operation.value or []
    ]
    return f"txn {', '.join(steps)}" + (", never returned" if lost else "")


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
