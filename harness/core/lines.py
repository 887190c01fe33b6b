"""An op as a line of text: a JSON object with the fields of Op: index, process (a number or
"nemesis"), kind, f, time_ns, value (a number, an array of numbers, an object or null), key, node,
error.

Two things go beyond strict JSON: numbers may have any number of digits, and a number that is not
finite, inside an object, is written NaN, Infinity or -Infinity, as Python's json module does.
"""

import json
from collections.abc import Mapping
from typing import Final

import msgspec

from harness.core.op import Op

_ENCODER: Final = msgspec.json.Encoder()
_OBJECT_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)
_DECODER: Final = msgspec.json.Decoder(Op)
_ALL_DECODER: Final = msgspec.json.Decoder(tuple[Op, ...])


def encoded(op: Op) -> bytes:
    """An op as a line, newline included."""
    if op.value is None or isinstance(op.value, int | tuple):
        return _ENCODER.encode(op) + b"\n"
    # The fast encoder writes a number that is not finite as null, which would be another op.
    fields = {
        "index": op.index,
        "process": op.process,
        "kind": op.kind,
        "f": op.f,
        "time_ns": op.time_ns,
        "value": dict(op.value) if isinstance(op.value, Mapping) else op.value,
        "key": op.key,
        "node": op.node,
        "error": op.error,
    }
    return _OBJECT_ENCODER.encode(fields).encode() + b"\n"


def decoded(line: bytes) -> Op:
    """A line as an op, exactly as it was written. Raises ValueError."""
    try:
        return _DECODER.decode(line)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        return msgspec.convert(json.loads(line), Op)


def all_decoded(lines: bytes) -> tuple[Op, ...]:
    """Whole lines, each an op. Raises ValueError."""
    try:
        ops = _ALL_DECODER.decode(b"[" + lines[:-1].replace(b"\n", b",") + b"]")
    except ValueError:
        ops = ()
    # An op on two lines would be one op here.
    if len(ops) == lines.count(b"\n"):
        return ops
    return tuple([decoded(line) for line in lines.split(b"\n")[:-1]])
