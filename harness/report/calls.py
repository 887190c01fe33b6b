"""All calls of a run as columns, small enough to be embedded in a page.

A read's values are kept as what changed since the last read of the same key on the same node:
sets that grow cost next to nothing, and who looks for a value follows the changes.
"""

import base64
import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any, Final

from checkers.sets.key_sets import INSERT, READS
from harness.core.history import Fault, History, Pair
from harness.core.op import Json, Kind

KINDS: Final = (Kind.OK, Kind.FAIL, Kind.INFO)
SAFE: Final = 2**53 - 1
"""Largest integer that JavaScript represents exactly; larger ones are sent as text."""
DETAIL_LENGTH_MAX: Final = 2_000
FIELDS: Final = (
    *("begin", "length", "index", "end", "process", "kind", "value"),
    *("f", "node", "key", "error"),
)
"""The lists that have an entry for each call."""


def _detail(returned: Any, given: Any) -> str | None:
    """Return what a call returned, or else what it was given, if that is neither a number nor what
    a read returned."""
    for value in (returned, given):
        if value is None or isinstance(value, int):
            continue  # most are; a Mapping is slow to tell
        if isinstance(value, Mapping) or (isinstance(value, tuple) and given is not None):
            return json.dumps(value, ensure_ascii=False)[:DETAIL_LENGTH_MAX]
    return None


def columns(history: History, witnesses: Iterable[Iterable[int]] = ()) -> dict[str, Any]:
    """Return the calls as JSON: lists of one entry a call, in order of invocation, and of names.

    "begin" is in ns, each less the one before; "length" in ns, -1 for a call that never ended;
    "index" the invoking op's, each less the one before, and "end" the ending op's less the
    invoking op's. "changes": {call: values that its read has and the last read of the same key
    and node lacks, or the other way round}. "inserts" and "reads": the f of calls on sets.
    "witnesses": for each of `witnesses`, which are ops, the calls to which they belong.
    """
    names: dict[str, dict[Any, int]] = {
        name: defaultdict(count().__next__) for name in ("f", "node", "key", "error")
    }
    f, node, key, error = names.values()
    rows: list[Any] = []
    """One after the other, which is lighter than a list or a tuple of each."""
    changes: dict[str, list[Json]] = {}
    doubles: dict[str, list[Json]] = {}
    details: dict[str, str] = {}
    before: dict[tuple[int | None, str | None], tuple[tuple[int, ...], set[int]]] = {}
    groups = [set(ops) for ops in witnesses]
    wanted, call_of = set().union(*groups), dict[int, int]()
    last_ns = last_index = 0
    for at, pair in enumerate(history.pairs):
        call, end = pair.invoke, pair.end
        rows += (
            call.time_ns - last_ns,
            -1 if end is None else end.time_ns - call.time_ns,
            call.index - last_index,
            0 if end is None else end.index - call.index,
            call.process,
            KINDS.index(pair.kind),
            _number(pair),
            f[call.f],
            node[call.node],
            key[_safe(call.key)],
            error[end.error] if end is not None and end.error else -1,
        )
        last_ns, last_index = call.time_ns, call.index
        values = end.value if end is not None else None
        # What a read returned; a tuple that was given, such as that of a cas, is a detail.
        if isinstance(values, tuple) and pair.kind is Kind.OK and call.value is None:
            old_values, old = before.get((call.key, call.node), ((), set()))
            new = old if values == old_values else set(values)
            changes[str(at)] = [_safe(v) for v in sorted(new ^ old)] if new is not old else []
            before[call.key, call.node] = values, new
            if len(new) != len(values):
                doubles[str(at)] = [_safe(v) for v, n in Counter(values).items() if n > 1]
        if (detail := _detail(values, call.value)) is not None:
            details[str(at)] = detail
        for op in (call, end):
            if op is not None and op.index in wanted:
                call_of[op.index] = at
    return {
        **{name: rows[at :: len(FIELDS)] for at, name in enumerate(FIELDS)},
        "names": {name: list(numbers) for name, numbers in names.items()},
        "kinds": [kind.value for kind in KINDS],
        "inserts": [INSERT],
        "reads": sorted(READS),
        "changes": changes,
        "doubles": doubles,
        "details": details,
        "witnesses": [sorted({call_of[op] for op in ops if op in call_of}) for ops in groups],
        "end_us": history[-1].time_ns // 1000 if len(history) else 0,
        "faults": [_fault(fault) for fault in history.faults],
    }


def _fault(fault: Fault) -> dict[str, Any]:
    """Return a fault as a band of the timeline, in µs; "to" is null if it was never over."""
    return {
        "name": fault.name,
        "text": fault.text,
        "from": fault.invoked_ns // 1000,
        "seen": fault.begin_ns // 1000,
        "to": None if fault.end_ns is None else fault.end_ns // 1000,
    }


def encoded(value: Mapping[str, Any]) -> str:
    """Return the value as compressed JSON in base64, which HTML need not escape."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return base64.b64encode(gzip.compress(text.encode(), compresslevel=6, mtime=0)).decode()


def _number(pair: Pair) -> int | str | None:
    """Return the one number that the call wrote or read."""
    for op in (pair.end, pair.invoke):
        if op is not None and isinstance(op.value, int):
            return _safe(op.value)
    return None


def _safe(value: int | None) -> int | str | None:
    """Return a number as text if it is too large for JavaScript to keep every digit."""
    return str(value) if value is not None and abs(value) > SAFE else value
