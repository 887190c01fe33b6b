"""Reads one JSON object a line, each an operation: client, f, key, value, ok, call, return.

`ok` null means that the operation never returned; `return` is null too. `ok` false means that a cas
found another value (ignored on request) and that any other operation did not happen. The value of a
read is what it found. All times, ints or floats, are on one clock.
"""

import json
import math
import re
from collections.abc import Collection, Mapping
from types import NoneType
from typing import Any, Final, NamedTuple, NoReturn

from pyporcupine._pyporcupine import Operation
from pyporcupine.bounded_json import OutOfBoundsError, check_size, decode, refuse_surrogates
from pyporcupine.importers.calls import CAS, NUMBER_MAX, READ_LIKE, TXN, FailedCas, transaction
from pyporcupine.importers.edn_syntax import FORM_BYTES_MAX
from pyporcupine.importers.record import NOT_THERE, FailedCall, Malformed, Reading, shown

_FIELDS: Final[Mapping[str, tuple[type, ...]]] = {
    "client": (int,),
    "f": (str,),
    "ok": (bool, NoneType),
    "call": (int, float),
    "return": (int, float, NoneType),
    "key": (int, str, NoneType),
}
_BOUNDED: Final = ("client", "call", "return")
_OPTIONAL: Final = ("key",)


class JsonOperation(NamedTuple):
    """One operation as written in the file."""

    client: int
    f: str
    ok: bool | None
    call: int | float
    return_: int | float | None
    key: int | str | None
    value: Any


class _TooLargeError(ValueError):
    """A number that 64 bits cannot hold."""


def read_rows(
    text: str, failed_cas: FailedCas = "observe", reads: Collection[str] = READ_LIKE
) -> Reading:
    """Return the operations of a file, in the order of their invocations. The value of `reads` is
    what they found."""
    reading = Reading()
    rows: list[tuple[int | float, int, JsonOperation]] = []
    for line, written in enumerate(text.split("\n"), 1):
        if not written.strip():
            continue
        row = _row(line, written)
        if isinstance(row, Malformed):
            reading.malformed.append(row)
        else:
            rows.append((row.call, line, row))
    rows.sort(key=lambda one: one[:2])
    for _, line, row in rows:
        if row.ok is False and (row.f != CAS or failed_cas == "ignore"):
            reading.left_out += 1
            reading.failed.append(FailedCall(row.f, row.key, row.value, line))
            continue
        reading.operations.append(_operation(row, reads))
        reading.lines.append((line, None if row.return_ is None else line))
    return reading


def _row(line: int, written: str) -> JsonOperation | Malformed:
    try:
        check_size(len(written), FORM_BYTES_MAX)
        value = decode(DECODER.decode, written)
        refuse_surrogates(written, value)
    except ValueError as error:
        return refused(line, written, error)
    if not isinstance(value, dict):
        return Malformed(line, "the line", shown(written), "an object")
    for name, types in _FIELDS.items():
        if name not in value and name not in _OPTIONAL:
            return Malformed(line, name, NOT_THERE, "it in every line")
        expected = _unmet(name, types, value.get(name))
        if expected:
            return Malformed(line, name, shown(value.get(name)), expected)
    row = JsonOperation._make(map(value.get, (*_FIELDS, "value")))
    if (row.ok is None) != (row.return_ is None):
        expected = "null, for ok is null" if row.ok is None else "a time, for ok is not null"
        return Malformed(line, "return", repr(row.return_), expected)
    return row


def _unmet(name: str, types: tuple[type, ...], value: object) -> str:
    """Return what was expected of a field; "" if its value is that."""
    if type(value) not in types:  # a bool is no int here
        return " | ".join("null" if one is NoneType else one.__name__ for one in types)
    if name in _BOUNDED and isinstance(value, int) and abs(value) > NUMBER_MAX:
        return f"int <= {NUMBER_MAX}" if value > 0 else f"int >= {-NUMBER_MAX}"
    return ""


def _operation(row: JsonOperation, reads: Collection[str]) -> Operation:
    finds = row.f in reads
    output = row.value if finds else row.ok if row.f == CAS else None
    value = None if finds else transaction(row.value) if row.f == TXN else row.value
    return Operation(
        row.client, row.f, row.key, value, call=row.call, ret=row.return_, output=output
    )


def refused(line: int, written: str, error: ValueError) -> Malformed:
    """Return what is wrong with a line that is not JSON."""
    if isinstance(error, OutOfBoundsError):
        message = re.sub("^line 1 ", "", str(error))
        return Malformed(line, "the line", shown(written), f"JSON within bounds ({message})")
    if isinstance(error, _TooLargeError):
        return Malformed(line, "the line", shown(written), "numbers of at most 64 bits")
    message = re.sub(r": line 1 (column \d+) \(char \d+\)$", r", \1", str(error))
    return Malformed(line, "the line", shown(written), f"a JSON object ({message})")


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise _TooLargeError
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


DECODER: Final = json.JSONDecoder(parse_float=_finite, parse_constant=_no_constant)
