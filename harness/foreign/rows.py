"""One JSON object a line, each an operation: client, f, key, value, ok, call, return.

`ok` null: it never returned, and `return` is null too. `ok` false: a cas found another value, and
anything else did not happen. The value of a read is what it found. Times are on one clock.
"""

import re
from typing import Any, Final

import msgspec
from pyporcupine import Operation

from harness.foreign.calls import CAS, FINDS
from harness.foreign.record import Malformed, Reading, shown

_WHERE: Final = re.compile(r"^(.*?)(?: - at `\$\.?(.*)`)?$", re.S)


class Row(msgspec.Struct, frozen=True):
    """As it stands in the file."""

    client: int
    f: str
    ok: bool | None
    call: int
    return_: int | None = msgspec.field(name="return")
    key: int | str | None = None
    value: Any = None


def read_rows(text: str) -> Reading:
    """The operations of a file, in order of call."""
    reading, decode = Reading(), msgspec.json.Decoder(Row).decode
    rows: list[tuple[int, int, Row]] = []
    for line, written in enumerate(text.splitlines(), 1):
        if not written.strip():
            continue
        try:
            row = decode(written)
        except msgspec.DecodeError as error:
            reading.malformed.append(_refused(line, written, error))
            continue
        if (row.ok is None) != (row.return_ is None):
            expected = "null, for ok is null" if row.ok is None else "a time, for ok is not null"
            reading.malformed.append(Malformed(line, "return", repr(row.return_), expected))
            continue
        rows.append((row.call, line, row))
    rows.sort(key=lambda one: one[:2])
    for _, line, row in rows:
        if row.ok is False and row.f != CAS:
            reading.left_out += 1
            continue
        reading.operations.append(_operation(row))
        reading.lines.append((line, None if row.return_ is None else line))
    return reading


def _operation(row: Row) -> Operation:
    finds = row.f in FINDS
    output = row.value if finds else row.ok if row.f == CAS else None
    value = None if finds else row.value
    return Operation(
        row.client, row.f, row.key, value, call=row.call, ret=row.return_, output=output
    )


def _refused(line: int, written: str, error: msgspec.DecodeError) -> Malformed:
    found = _WHERE.match(str(error))
    said, field = (found[1], found[2] or "") if found else (str(error), "")
    if not isinstance(error, msgspec.ValidationError):
        return Malformed(line, "the line", shown(written), f"a JSON object ({said})")
    if missing := re.search(r"missing required field `(.*)`", said):
        return Malformed(line, missing[1], "not there", "it in every line")
    if not field:
        return Malformed(line, "the line", shown(written), f"an object ({said})")
    expected = re.sub(r"Expected (.*), got .*", r"\1", said).replace("`", "")
    value = msgspec.json.decode(written).get(field)
    return Malformed(line, field, shown(value), expected)
