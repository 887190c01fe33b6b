"""An op as a line of text: a JSON object with the fields of Op: index, process (a number or
"nemesis"), kind, f, time_ns, value (a number, an array of numbers, an object or null), key, node,
error.

Two things go beyond strict JSON: the numbers of a value may have up to `MAX_DIGITS` digits, and a
number that is not finite, inside an object, is written NaN, Infinity or -Infinity, as Python's json
module does. Nesting is bounded as in all JSON that is read (`bounded_json`).
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

import msgspec
from msgspec.structs import replace

from harness.core.bounded_json import MAX_DEPTH, decode, is_shallow, loads
from harness.core.op import Json, Op, Written
from harness.core.ranges import shortened

_ENCODER: Final = msgspec.json.Encoder()
_OBJECT_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)
_DECODER: Final = msgspec.json.Decoder(Op)
_ALL_DECODER: Final = msgspec.json.Decoder(tuple[Op, ...])
EXPECTED: Final = (
    "None, a whole number, a list of whole numbers, or a dict of JSON (see Value in "
    "harness/core/op.py)"
)
_NOT_OPENING: Final = bytes(set(range(256)) - set(b"[{\n"))


class OpValueError(TypeError):
    """Value that no op may have."""


def check_value(value: object, what: Callable[[], str]) -> None:
    """Raise OpValueError, which begins with `what`, if an op may not have this value: its line
    could be written, and not be read again."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return
    if isinstance(value, list | tuple):
        odd = [kind for kind in set(map(type, value)) if kind is bool or not issubclass(kind, int)]
        why = f"a {type(value).__name__} of {odd[0].__name__}" if odd else ""
    elif isinstance(value, Mapping):
        why = _why_not_json(value)
    else:
        why = f"of type {type(value).__name__}"
    if why:
        raise OpValueError(f"{what()}: {shortened(repr(value))} is {why}; expected {EXPECTED}")


def _why_not_json(value: Mapping[str, Json]) -> str:
    try:
        text = _object(value).encode()
    except (TypeError, ValueError, RecursionError) as error:
        return f"not JSON ({error})"
    if is_shallow(text):
        return ""
    try:
        loads(text)  # it may have brackets within texts, and be shallow nevertheless
    except ValueError:
        return f"nested more than {MAX_DEPTH} levels deep"
    return ""


def encoded(op: Op) -> bytes:
    """Return an op as a line, newline included."""
    if op.value is None or isinstance(op.value, int | tuple):
        return _ENCODER.encode(op) + b"\n"
    # The fast encoder writes a number that is not finite as null, which would be another op.
    return _ENCODER.encode(replace(op, value=msgspec.Raw(_object(op.value)))) + b"\n"


def _object(value: Mapping[str, Json]) -> str:
    if not isinstance(value, Mapping):
        return _OBJECT_ENCODER.encode(value)
    if not any(isinstance(entry, Written) for entry in value.values()):
        return _OBJECT_ENCODER.encode(dict(value))
    entries = [
        f"{_OBJECT_ENCODER.encode(name)}:"
        f"{entry if isinstance(entry, Written) else _OBJECT_ENCODER.encode(entry)}"
        for name, entry in value.items()
    ]
    return f"{{{','.join(entries)}}}"


def decoded(line: bytes) -> Op:
    """Return the op in a line of a journal, with every value as it was when it was written. Raises
    ValueError for a line that is no op."""
    return decode(_decoded, line)


def _decoded(line: bytes) -> Op:
    try:
        return _DECODER.decode(line)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        return msgspec.convert(loads(line), Op)


def all_decoded(lines: bytes) -> tuple[Op, ...]:
    """Return the ops of whole lines. Raises ValueError."""
    ops: tuple[Op, ...] = ()
    opening = lines.translate(None, _NOT_OPENING).split(b"\n")
    if max(map(len, opening)) <= MAX_DEPTH or _are_shallow(lines, opening):
        with suppress(ValueError):
            ops = _ALL_DECODER.decode(b"[" + lines[:-1].replace(b"\n", b",") + b"]")
    # An op on two lines would be one op here.
    if len(ops) == lines.count(b"\n"):
        return ops
    return tuple([decoded(line) for line in lines.split(b"\n")[:-1]])


def _are_shallow(lines: bytes, opening: list[bytes]) -> bool:
    """Return whether it is plain that no line is nested too deeply, given the brackets of each."""
    suspect = (
        line
        for line, found in zip(lines.split(b"\n"), opening, strict=True)
        if len(found) > MAX_DEPTH
    )
    return all(map(is_shallow, suspect))
