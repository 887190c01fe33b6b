"""Reads one JSON object a line, each an operation: client, f, key, value, ok, call, return.

`ok` null means that the operation never returned; `return` is null too. `ok` false means that a cas
found another value (ignored on request) and that any other operation did not happen. The value of a
read is what it found. All times are on one clock.
"""

import re
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from pyporcupine import Operation

from harness.core.bounded_json import OutOfBoundsError, check_size, decode, loads
from harness.importers.calls import CAS, NUMBER_MAX, READ_LIKE, TXN, FailedCas, transaction
from harness.importers.edn_syntax import FORM_BYTES_MAX
from harness.importers.record import Malformed, Reading, shown

_Number: TypeAlias = Annotated[int, msgspec.Meta(ge=-NUMBER_MAX, le=NUMBER_MAX)]
_WHERE: Final = re.compile(r"^(.*?)(?: - at `\$\.?(.*)`)?$", re.S)


class JsonOperation(msgspec.Struct, frozen=True):
    """One operation as written in the file."""

    client: _Number
    f: str
    ok: bool | None
    call: _Number
    return_: _Number | None = msgspec.field(name="return")
    key: int | str | None = None
    value: Any = None


def read_rows(text: str, failed_cas: FailedCas = "observe") -> Reading:
    """Return the operations of a file, in the order of their invocations."""
    reading, decoder = Reading(), msgspec.json.Decoder(JsonOperation).decode
    rows: list[tuple[int, int, JsonOperation]] = []
    for line, written in enumerate(text.split("\n"), 1):
        if not written.strip():
            continue
        try:
            check_size(len(written), FORM_BYTES_MAX)
            row = decode(decoder, written)
        except ValueError as error:
            reading.malformed.append(_refused(line, written, error))
            continue
        if (row.ok is None) != (row.return_ is None):
            expected = "null, for ok is null" if row.ok is None else "a time, for ok is not null"
            reading.malformed.append(Malformed(line, "return", repr(row.return_), expected))
            continue
        rows.append((row.call, line, row))
    rows.sort(key=lambda one: one[:2])
    for _, line, row in rows:
        if row.ok is False and (row.f != CAS or failed_cas == "ignore"):
            reading.left_out += 1
            continue
        reading.operations.append(_operation(row))
        reading.lines.append((line, None if row.return_ is None else line))
    return reading


def _operation(row: JsonOperation) -> Operation:
    finds = row.f in READ_LIKE
    output = row.value if finds else row.ok if row.f == CAS else None
    value = None if finds else transaction(row.value) if row.f == TXN else row.value
    return Operation(
        row.client, row.f, row.key, value, call=row.call, ret=row.return_, output=output
    )


def _refused(line: int, written: str, error: ValueError) -> Malformed:
    if isinstance(error, OutOfBoundsError):
        message = re.sub("^line 1 ", "", str(error))
        return Malformed(line, "the line", shown(written), f"JSON within bounds ({message})")
    found = _WHERE.match(str(error))
    message, field = (found[1], found[2] or "") if found else (str(error), "")
    if not isinstance(error, msgspec.ValidationError):
        return Malformed(line, "the line", shown(written), f"a JSON object ({message})")
    if message.startswith("Number out of range"):
        return Malformed(line, "the line", shown(written), "numbers of at most 64 bits")
    if missing := re.search(r"missing required field `(.*)`", message):
        return Malformed(line, missing[1], "not there", "it in every line")
    if not field:
        return Malformed(line, "the line", shown(written), f"an object ({message})")
    expected = re.sub(r"^Expected (.*?)(, got .*)?$", r"\1", message).replace("`", "")
    return Malformed(line, field, shown(loads(written).get(field)), expected)
