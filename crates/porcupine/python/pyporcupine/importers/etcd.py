"""Reads the reports of etcd's robustness tests: `client-N/operations.json`, in which each line is a
request and its response (`tests/robustness/model/types.go` of etcd 3.6).

A report has many clients, and no file alone is a history, so the text of a report is that of all
files, each below a line with NUL and its name (`files.text_of`). The history is one of registers:

- A put writes its value, and a delete that of an absent key. A range reads the keys that it found,
  and the absence of other keys of the report that lie within it, unless it is limited.
- Of a transaction, what its branch did counts, and not its conditions. One that writes a key and
  reads it counts as the write.
- A request without a response, or with an error, never returned. One that is refused (ClientError)
  did not happen. A read of an old revision, a lease, a compaction and a defragmentation are left
  out; revoking a lease may delete the keys that were put with it. No lease is taken to expire by
  itself: those of the tests last two hours.
"""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from pyporcupine._pyporcupine import Operation
from pyporcupine.bounded_json import check_size, decode, refuse_surrogates
from pyporcupine.importers.edn_syntax import FORM_BYTES_MAX
from pyporcupine.importers.record import NOT_THERE, Malformed, Reading, shown

ABSENT: Final = "(absent)"
"""Value of a key that does not exist."""
REPORT_FILES: Final = "client-*/operations.json"
_FILE: Final = re.compile(r"^\0(.*)\n", re.M)
_TYPES: Final = {"range", "txn", "leaseGrant", "leaseRevoke", "defragment", "compact"}
NO_LEASE: Final = 0
_LATEST: Final = 0
"""Revision of a range that reads what is current."""


@dataclass(slots=True)
class _Request:
    """A line of a file."""

    file: str
    line: int
    client: int
    call: int
    ret: int | None
    """None if the client got no response."""
    input: dict[str, Any]
    output: dict[str, Any]


@dataclass(slots=True)
class _Effects:
    """What a request did to keys, as far as is known."""

    writes: list[tuple[str, str]] = field(default_factory=list)
    """Keys and values. A transaction that got no response may have taken either branch, and both
    may write one key."""
    reads: dict[str, str] = field(default_factory=dict)
    ranges: list[tuple[str, str]] = field(default_factory=list)
    """Ranges that were read as a whole: the keys from the first one up to the second."""
    revoked: int = NO_LEASE
    """Lease that was revoked."""
    is_certain: bool = True
    """Whether all writes happened if the request returned."""


class _FormError(ValueError):
    """A field that is not as expected: its name, what is there, and what was expected."""


def read_etcd(text: str) -> Reading:
    """Return the operations of a report in the order of their calls, a register for each key.

    Each line number is that in the file of the client, whose number is the process.
    """
    reading = Reading()
    if is_etcd(text):
        found, expected = "what one client did", f"the directory above {REPORT_FILES}"
        mend = "give the directory: a client also reads what others wrote"
        return Reading(malformed=[Malformed(1, "the file", found, expected, mend)])
    requests = list[tuple[_Request, _Effects]]()
    leased = defaultdict[int, set[str]](set)
    """Keys that were put with each lease, by any client."""
    for file, line, written in _lines(text):
        try:
            request = _request(file, line, written)
            effects = _effects(request, leased)
        except _FormError as error:
            what, found, expected = error.args
            mend = "is it a report of etcd's robustness tests?"
            reading.malformed.append(Malformed(line, f"{file}: {what}", found, expected, mend))
        else:
            requests.append((request, effects))
    requests.sort(key=lambda one: one[0].call)
    for _, effects in requests:
        effects.writes += [(key, ABSENT) for key in sorted(leased[effects.revoked])]
    keys = {key for _, of in requests for key in (*dict(of.writes), *of.reads)}
    for request, effects in requests:
        made = list(_operations(request, effects, keys))
        reading.left_out += not made
        reading.operations += made
        reading.lines += [(request.line, None if one.ret is None else request.line) for one in made]
    return reading


def is_etcd(text: str) -> bool:
    """Return whether a text begins with a request of etcd's robustness tests."""
    return text.lstrip().startswith('{"ClientId":')


def _lines(text: str) -> Iterator[tuple[str, int, str]]:
    _, *parts = _FILE.split(text)
    for file, content in zip(parts[::2], parts[1::2], strict=True):
        for line, written in enumerate(content.split("\n"), 1):
            if written.strip():
                yield file, line, written


def _request(file: str, line: int, written: str) -> _Request:
    try:
        check_size(len(written), FORM_BYTES_MAX)
        value = decode(json.loads, written)
        refuse_surrogates(written, value)
    except ValueError as error:
        raise _FormError("the line", shown(written), f"a JSON object ({error})") from None
    client, call, ret = (_int(value, name) for name in ("ClientId", "Call", "Return"))
    input_, output = _object(value, "Input"), _object(value, "Output")
    if input_.get("Type") not in _TYPES:
        raise _FormError("Type", shown(input_.get("Type")), f"one of {', '.join(sorted(_TYPES))}")
    unanswered = output.get("Error") or output.get("Persisted") or output.get("PartialResponse")
    return _Request(file, line, client, call, None if unanswered else ret, input_, output)


def _effects(request: _Request, leased: dict[int, set[str]]) -> _Effects:
    """Return what a request did. Notes in `leased` which keys were put with a lease."""
    made = _Effects()
    kind = request.input["Type"]
    if request.output.get("ClientError"):
        return made
    if kind == "range" and request.ret is not None:
        asked = _object(request.input, "Range")
        if asked.get("Revision", _LATEST) == _LATEST:
            _read(asked, _object(request.output, "Range"), made)
    elif kind == "leaseRevoke":
        made.revoked = _int(_object(request.input, "LeaseRevoke"), "LeaseID")
        made.is_certain = False
    elif kind == "txn":
        _transaction(request, made, leased)
    return made


def _transaction(request: _Request, made: _Effects, leased: dict[int, set[str]]) -> None:
    asked = _object(request.input, "Txn")
    branches = ["OperationsOnSuccess", "OperationsOnFailure"]
    results: list[dict[str, Any]] = []
    if request.ret is not None:
        answer = _object(request.output, "Txn")
        branches = branches[1:] if answer.get("Failure") else branches[:1]
        results = _objects(answer, "Results")
    for name in branches:
        for at, step in enumerate(_objects(asked, name)):
            kind = step.get("Type")
            if kind == "put-operation":
                put = _object(step, "Put")
                made.writes.append((_key(put, "Key"), _value(put)))
                if put.get("LeaseID"):
                    leased[_int(put, "LeaseID")].add(put["Key"])
            elif kind == "delete-operation":
                made.writes.append((_key(_object(step, "Delete"), "Key"), ABSENT))
            elif kind != "range-operation":
                expected = "put-operation, delete-operation or range-operation"
                raise _FormError("Type", shown(kind), expected)
            elif at < len(results):
                _read(_object(step, "Range"), results[at], made)


def _read(asked: dict[str, Any], found: dict[str, Any], made: _Effects) -> None:
    start, end = _key(asked, "Start"), asked.get("End") or ""
    made.reads |= {_key(one, "Key"): _value(one) for one in _objects(found, "KVs")}
    if not end:
        made.reads.setdefault(start, ABSENT)
    elif not asked.get("Limit"):
        made.ranges.append((start, end))


def _operations(request: _Request, effects: _Effects, keys: Collection[str]) -> Iterator[Operation]:
    """Yield an operation for each key. A client that operates on several keys at once gets a
    process for each, because a process has one call in flight."""
    reads = {
        key: ABSENT for key in sorted(keys) if any(_within(key, span) for span in effects.ranges)
    } | effects.reads
    written_keys = dict(effects.writes)
    steps = [("write", key, value) for key, value in effects.writes]
    steps += [("read", key, found) for key, found in reads.items() if key not in written_keys]
    for at, (f, key, value) in enumerate(steps):
        process = request.client if len(steps) == 1 else f"{request.client}, key {key}"
        written, output = (value, None) if f == "write" else (None, value)
        ret = request.ret if effects.is_certain else None
        if ret is None:
            process = f"{process}, line {request.line}, operation {at + 1}"
        yield Operation(process, f, key, written, call=request.call, ret=ret, output=output)


def _within(key: str, span: tuple[str, str]) -> bool:
    start, end = span
    return start <= key and (end == "\0" or key < end)


def _value(holder: dict[str, Any]) -> str:
    """Return the value of a put or of a key that was found; of a long one its hash."""
    value = holder.get("Value") or {}
    if not isinstance(value, dict):
        raise _FormError("Value", shown(value), "an object with Value or Hash")
    return f"hash {value['Hash']}" if value.get("Hash") else str(value.get("Value", ""))


def _key(holder: dict[str, Any], name: str) -> str:
    if not isinstance(key := holder.get(name), str):
        raise _FormError(name, shown(key), "the name of a key")
    return key


def _object(holder: Any, name: str) -> dict[str, Any]:
    found = holder.get(name, NOT_THERE) if isinstance(holder, dict) else NOT_THERE
    if not isinstance(found, dict):
        raise _FormError(name, shown(found), "an object")
    return found


def _objects(holder: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return a list of objects, which Go writes as null if it is empty."""
    found = holder.get(name) or []
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise _FormError(name, shown(found), "a list of objects")
    return found


def _int(holder: Any, name: str) -> int:
    found = holder.get(name, NOT_THERE) if isinstance(holder, dict) else NOT_THERE
    if not isinstance(found, int) or isinstance(found, bool):
        raise _FormError(name, shown(found), "a whole number")
    return found
