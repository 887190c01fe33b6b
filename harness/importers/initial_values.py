"""Finds out whether a violation rests on an initial value that nobody stated.

A file rarely says what its objects held before the test. A value that an operation found and that
may have been there from the start accuses nobody: the history is INVALID only if no such value
explains it.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

from pyporcupine import Operation
from pyporcupine.importers.calls import CAS, READ_LIKE, TXN
from pyporcupine.importers.formats import Model
from pyporcupine.importers.record import shown

Status: TypeAlias = str
_DEFAULTS: Final[dict[Model, Any]] = {
    "register": None,
    "cas-register": None,
    "key-value": "",
    "counter": 0,
    "multi-register": 0,
}
"""Initial values of the models that have one; other models begin empty or free by definition."""
_TRIED_MAX: Final = 8
"""Maximum number of values that are tried for one object."""


def doubt(
    operations: Sequence[Operation],
    model: Model,
    check: Callable[[Sequence[Operation], Any], Status],
) -> str:
    """Return why an object that is INVALID with the model's own initial value is UNKNOWN; "" if it
    is INVALID whatever it began with.

    `check` returns the status of operations with an initial value.
    """
    if model == "multi-register":
        return _doubt_of_registers(operations, check)
    if model not in _DEFAULTS:
        return ""
    default = _key(_DEFAULTS[model])
    values = [value for value in _early(operations) if _key(value) != default]
    for value in values[:_TRIED_MAX]:
        text = json.dumps(value)
        if (status := check(operations, value)) == "VALID":
            return (
                f"explained if the object began with {text}, and nothing says what it began with: "
                f"give that with --initial, such as --initial {text}"
            )
        if status == "UNKNOWN":
            return (
                f"not explained, but whether it would be if the object had begun with {text} was "
                "not decided: give its initial value with --initial"
            )
    return ""


def _early(operations: Iterable[Operation]) -> list[Any]:
    """Return the values that operations found which may have taken effect before every update, each
    once. Only these can be the initial value."""
    operations = list(operations)
    until = min(
        (one.ret for one in operations if one.ret is not None and _updates(one)), default=None
    )
    found = dict[Any, Any]()
    for one in operations:
        if one.ret is not None and (until is None or one.call <= until):
            found.update((_key(value), value) for value in _found(one))
    return list(found.values())


def _updates(one: Operation) -> bool:
    return one.f not in READ_LIKE and not (one.f == CAS and not one.output)


def _found(one: Operation) -> list[Any]:
    """Return the value that the operation found, in a list; none if it does not say."""
    if one.f in READ_LIKE:
        return [one.output]
    if one.f == CAS and one.output:
        return [one.value[0]]
    if one.f == "add" and one.output is not None:
        return [one.output - one.value]
    return []


def _doubt_of_registers(
    operations: Sequence[Operation], check: Callable[[Sequence[Operation], Any], Status]
) -> str:
    written = {(name, _key(value)) for one in operations for name, value in _written(one)}
    unwritten, early = dict[Any, Any](), dict[Any, Any]()
    for one in operations:
        for name, value in _read(one):
            early.setdefault(name, value)
            if (name, _key(value)) not in written:
                unwritten.setdefault(name, value)
    for began in (unwritten, early | unwritten):
        began = {name: value for name, value in began.items() if _key(value) != _key(0)}
        if not began:
            continue
        status = check([_renamed(one, began) for one in operations], ...)
        if status == "INVALID":
            continue
        names = ", ".join(f"{shown(name)} with {json.dumps(began[name])}" for name in [*began][:3])
        more = ", …" if len(began) > 3 else ""
        values = {json.dumps(value) for value in began.values()}
        give = f"give that with --initial, such as --initial {values.pop()}"
        return (
            f"{'explained' if status == 'VALID' else 'perhaps explained'} if registers began with "
            f"values that were there before the test ({names}{more}), and nothing says what they "
            f"began with{'' if values else ': ' + give}"
        )
    return ""


def _steps(one: Operation) -> list[Any]:
    steps = one.output if one.ret is not None and one.output is not None else one.value
    return steps if one.f == TXN and isinstance(steps, list) else []


def _written(one: Operation) -> list[tuple[Any, Any]]:
    return [(name, value) for f, name, value in _steps(one) if f == "write"]


def _read(one: Operation) -> list[tuple[Any, Any]]:
    """Return the registers and values that a transaction found, but for its own writes."""
    if one.ret is None:
        return []
    steps = _steps(one)
    return [
        (name, value)
        for at, (f, name, value) in enumerate(steps)
        if f == "read"
        and value is not None
        and all(before[:2] != ["write", name] for before in steps[:at])
    ]


def _renamed(one: Operation, began: dict[Any, Any]) -> Operation:
    """Return the operation with the value that a register began with and 0, the model's own initial
    value, exchanged. What is explained stays so."""

    def exchange(name: Any, value: Any) -> Any:
        if name not in began:
            return value
        pair = {_key(began[name]): 0, _key(0): began[name]}
        return pair.get(_key(value), value)

    def renamed(steps: Any) -> Any:
        if not isinstance(steps, list):
            return steps
        return [[f, name, exchange(name, value)] for f, name, value in steps]

    return Operation(
        one.process,
        one.f,
        one.key,
        renamed(one.value),
        call=one.call,
        ret=one.ret,
        output=renamed(one.output),
    )


def _key(value: Any) -> Any:
    """Return what tells values apart as the checker does: True is not 1."""
    return type(value), json.dumps(value) if isinstance(value, list) else value
