"""Reads the reports of etcd's robustness tests: `client-N/operations.json`, in which each object is
a request and its response (`tests/robustness/model/types.go` of etcd 3.6 and 3.7), and
`client-N/watch.json`, whose watches `etcd_watches` judges.

A report has many clients, and no file alone is a history, so the text of a report is that of all
files, each below a line with NUL and its name (`files.text_of`). The history is one of registers:

- A put writes its value, and a delete that of an absent key. A range reads the keys that it found,
  and the absence of other keys of the report that lie within it, unless it is limited.
- Of a transaction, what its branch did counts, and not its conditions. One that writes a key and
  reads it counts as the write.
- A request without a response, or with an error, never returned. One that is refused (ClientError)
  did not happen. A read of an old revision or of keys without values, a lease, a compaction and a
  defragmentation are left out; revoking a lease may delete the keys that were put with it. No
  lease is taken to expire by itself: those of the tests last two hours.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from pyporcupine._pyporcupine import Operation
from pyporcupine.importers.etcd_forms import (
    ABSENT,
    FormError,
    int_of,
    key_of,
    object_of,
    objects_of,
    parse,
    texts_of,
    value_of,
)
from pyporcupine.importers.etcd_watches import AnsweredRequest, Watch, broken_promises, watch_of
from pyporcupine.importers.record import Malformed, Reading, shown

REPORT_FILES: Final = "client-*/operations.json"
WATCH_FILES: Final = "client-*/watch.json"
_START: Final = re.compile(r'\s*\{\s*"(ClientId":|Request":\s*\{\s*"Key":)')
_TYPES: Final = {"range", "txn", "leaseGrant", "leaseRevoke", "defragment", "compact"}
NO_LEASE: Final = 0
_LATEST: Final = 0
"""Revision of a range that reads what is current."""


@dataclass(slots=True)
class _Request:
    """A request in a file, and its response."""

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
    changes: dict[str, str] = field(default_factory=dict)
    """The writes that changed something: all but deletes of keys that were absent."""
    is_current: bool = False
    """Whether its response has the revision of its changes, or else the current one."""
    reads: dict[str, str] = field(default_factory=dict)
    ranges: list[tuple[str, str]] = field(default_factory=list)
    """Ranges that were read as a whole: the keys from the first one up to the second."""
    revoked: int = NO_LEASE
    """Lease that was revoked."""
    is_certain: bool = True
    """Whether all writes happened if the request returned."""


def read_etcd(text: str) -> Reading:
    """Return the operations of a report in the order of their calls, a register for each key.

    Each line number is that in the file of the client, whose number is the process.
    """
    reading = Reading()
    if is_etcd(text):
        found, expected = "what one client did", f"the directory above {REPORT_FILES}"
        mend = "give the directory: a client also reads what others wrote"
        return Reading(malformed=[Malformed(1, "the file", found, expected, mend)])
    requests, watches = list[tuple[_Request, _Effects]](), list[Watch]()
    leased = defaultdict[int, set[str]](set)
    """Keys that were put with each lease, by any client."""
    for file, line, written in texts_of(text):
        try:
            value = parse(written)
            if file.endswith("watch.json"):
                watches.append(watch_of(f"{file}, line {line}", value))
                continue
            request = _request(file, line, value)
            effects = _effects(request, leased)
        except FormError as error:
            what, found, expected = error.args
            mend = "is it a report of etcd's robustness tests?"
            reading.malformed.append(Malformed(line, f"{file}: {what}", found, expected, mend))
        else:
            requests.append((request, effects))
    requests.sort(key=lambda one: one[0].call)
    reading.broken = _broken(requests, leased, watches)
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
    """Return whether a text begins with a request or a watch of etcd's robustness tests."""
    return _START.match(text) is not None


def _request(file: str, line: int, value: Any) -> _Request:
    client, call, ret = (int_of(value, name) for name in ("ClientId", "Call", "Return"))
    input_, output = object_of(value, "Input"), object_of(value, "Output")
    if input_.get("Type") not in _TYPES:
        raise FormError("Type", shown(input_.get("Type")), f"one of {', '.join(sorted(_TYPES))}")
    unanswered = output.get("Error") or output.get("Persisted") or output.get("PartialResponse")
    return _Request(file, line, client, call, None if unanswered else ret, input_, output)


def _effects(request: _Request, leased: dict[int, set[str]]) -> _Effects:
    """Return what a request did. Notes in `leased` which keys were put with a lease."""
    made = _Effects()
    kind = request.input["Type"]
    if request.output.get("ClientError"):
        return made
    if kind == "range" and request.ret is not None:
        asked = object_of(request.input, "Range")
        made.is_current = asked.get("Revision", _LATEST) == _LATEST
        if made.is_current and not asked.get("KeysOnly"):
            _read(asked, object_of(request.output, "Range"), made)
    elif kind == "leaseRevoke":
        made.revoked = int_of(object_of(request.input, "LeaseRevoke"), "LeaseID")
        made.is_certain = False
    elif kind == "txn":
        _transaction(request, made, leased)
    return made


def _transaction(request: _Request, made: _Effects, leased: dict[int, set[str]]) -> None:
    asked = object_of(request.input, "Txn")
    branches = ["OperationsOnSuccess", "OperationsOnFailure"]
    results: list[dict[str, Any]] = []
    if request.ret is not None:
        answer = object_of(request.output, "Txn")
        branches = branches[1:] if answer.get("Failure") else branches[:1]
        results = objects_of(answer, "Results")
        made.is_current = True
    for name in branches:
        for at, step in enumerate(objects_of(asked, name)):
            kind = step.get("Type")
            if kind == "put-operation":
                put = object_of(step, "Put")
                made.writes.append((key_of(put, "Key"), value_of(put)))
                made.changes[put["Key"]] = made.writes[-1][1]
                if put.get("LeaseID"):
                    leased[int_of(put, "LeaseID")].add(put["Key"])
            elif kind == "delete-operation":
                made.writes.append((key_of(object_of(step, "Delete"), "Key"), ABSENT))
                if at < len(results) and results[at].get("Deleted"):
                    made.changes[step["Delete"]["Key"]] = ABSENT
            elif kind != "range-operation":
                expected = "put-operation, delete-operation or range-operation"
                raise FormError("Type", shown(kind), expected)
            elif at < len(results):
                _read(object_of(step, "Range"), results[at], made)


def _broken(
    requests: list[tuple[_Request, _Effects]], leased: dict[int, set[str]], watches: list[Watch]
) -> list[str]:
    answered, unanswered = list[AnsweredRequest](), list[tuple[str, str]]()
    for request, effects in requests:
        revision = int_of(request.output, "Revision", 0)
        if request.ret is None or revision <= 0:
            unanswered += effects.writes
        elif effects.is_current:
            where = f"{request.file}, line {request.line}"
            times = request.call, request.ret
            answered.append(AnsweredRequest(where, *times, revision, effects.changes))
    return broken_promises(answered, unanswered, set().union(*leased.values()), watches)


def _read(asked: dict[str, Any], found: dict[str, Any], made: _Effects) -> None:
    start, end = key_of(asked, "Start"), asked.get("End") or ""
    made.reads |= {key_of(one, "Key"): value_of(one) for one in objects_of(found, "KVs")}
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
