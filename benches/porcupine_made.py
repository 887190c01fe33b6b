"""Histories of any length for the grid, in columns.

Valid by construction: each operation takes effect at a random point between its call and its
return. `info`: per mille of updates that never return; half of them take effect. `spoil` breaks
one operation in the middle so that no explanation is left, whatever the lost ones did.
"""

from collections import deque
from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from random import Random
from typing import Any

import pyarrow as pa
from pyporcupine import Operation

READS_OF_A_SET = 20
"""So that the values that are read stay linear in the length."""
OPS_A_KEY = 1000
LATE = 5
"""What a compare-and-set register holds at the end alone; before, it is 0 to 4."""


@dataclass(slots=True)
class Made:
    """Columns by name; a row an operation, in order of call."""

    process: list[int] = field(default_factory=list)
    call: list[int] = field(default_factory=list)
    ret: list[int | None] = field(default_factory=list)
    effect: list[int | None] = field(default_factory=list)
    """When it takes effect; None: never."""
    f: list[str] = field(default_factory=list)
    key: list[Any] = field(default_factory=list)
    value: list[Any] = field(default_factory=list)
    output: list[Any] = field(default_factory=list)

    def table(self) -> pa.Table:
        """For all models but those whose outputs are of several types."""
        names = ("process", "call", "ret", "f", "key", "value", "output")
        columns = {name: getattr(self, name) for name in names}
        if all(key is None for key in self.key):
            del columns["key"]
        return pa.table(columns)

    def operations(self) -> list[Operation]:
        """As objects."""
        return [
            Operation(process, f, key, value, call=call, ret=ret, output=output)
            for process, f, key, value, call, ret, output in zip(
                self.process, self.f, self.key, self.value, self.call, self.ret, self.output,
                strict=True,
            )
        ]  # fmt: skip


def make(model: str, n: int, c: int, *, info: int, seed: int = 1) -> Made:
    """A valid history of n operations of c clients."""
    draw = Random(seed)
    made = _timed(draw, n, c)
    reads = set(range(n // READS_OF_A_SET - 1, n, max(1, n // READS_OF_A_SET)))
    for at in range(n):
        f, key, value = _call(draw, model, at, n, at in reads)
        made.f.append(f)
        made.key.append(key)
        made.value.append(value)
    order = sorted(range(n), key=lambda at: made.effect[at])
    lost = _lose(draw, made, info) if info else set()
    _take_effect(model, made, order, lost)
    _retire(made, c)
    return made


def spoil(model: str, made: Made) -> None:
    """Breaks one operation in the middle."""
    half = range(len(made.f) // 2, len(made.f))
    if model == "cas-register":
        at = next(at for at in half if made.f[at] == "read")
        made.output[at] = LATE
        end = max(*made.call, *(ret or 0 for ret in made.ret)) + 1
        rows = ((made.process, max(made.process) + 1), (made.call, end), (made.ret, end + 1))
        more = ((made.f, "write"), (made.key, None), (made.value, LATE), (made.output, None))
        for column, value in (*rows, *more):
            column.append(value)
    elif model == "queue":
        first, second = [at for at in half if made.f[at] == "dequeue"][:2]
        made.output[second] = made.output[first]
    elif model == "set":
        at = next(at for at in half if made.f[at] == "read")
        before = (
            i for i in range(at) if made.f[i] == "add" and (made.ret[i] or 1 << 62) < made.call[at]
        )
        missed = made.value[max(before)]
        made.output[at] = [value for value in made.output[at] if value != missed]
    else:
        _read_the_past(made, half)


def _read_the_past(made: Made, half: range) -> None:
    """A value that was overwritten before the read began."""
    for at in (at for at in half if made.f[at] in ("read", "get")):
        writes = [
            i for i in range(max(0, at - 100_000), at)
            if made.value[i] is not None and made.key[i] == made.key[at]
            and (made.ret[i] or 1 << 62) < made.call[at]
        ]  # fmt: skip
        last = max(writes, key=lambda i: made.call[i], default=None)
        older = [i for i in writes if last is not None and (made.ret[i] or 0) < made.call[last]]
        if older:
            made.output[at] = made.value[older[-1]]
            return
    raise AssertionError("no read to spoil")


def _timed(draw: Random, n: int, c: int) -> Made:
    made = Made()
    free = [(draw.randrange(1000), client) for client in range(c)]
    heapify(free)
    rows = []
    for _ in range(n):
        at, client = free[0]
        call = at + draw.randrange(100)
        ret = call + 1 + draw.randrange(1000)
        rows.append((call, ret, draw.randrange(call, ret + 1), client))
        heapreplace(free, (ret + 1, client))
    rows.sort()
    for call, ret, effect, client in rows:
        made.process.append(client)
        made.call.append(2 * call)
        made.ret.append(2 * ret + 1)  # after the calls of its tick
        made.effect.append(effect)
    return made


def _call(draw: Random, model: str, at: int, n: int, reads: bool) -> tuple[str, Any, Any]:
    if model == "set":
        return ("read", None, None) if reads else ("add", None, at)
    if model == "queue":
        return "dequeue" if draw.randrange(2) else "enqueue", None, None
    if model == "cas-register":
        f = ("read", "write", "cas")[draw.randrange(3)]
        a, b = draw.randrange(LATE), draw.randrange(LATE)
        return f, None, {"read": None, "write": a, "cas": (a, b)}[f]
    if model == "key-value":
        key = str(draw.randrange(max(10, n // OPS_A_KEY)))
        return ("get", key, None) if draw.randrange(2) else ("put", key, str(at + 1))
    return ("read", None, None) if draw.randrange(2) else ("write", None, at + 1)


def _lose(draw: Random, made: Made, info: int) -> set[int]:
    """Operations that never return; those that never take effect either."""
    lost = set()
    for at, f in enumerate(made.f):
        if f not in ("read", "get", "dequeue") and draw.randrange(1000) < info:
            made.ret[at] = None
            if draw.randrange(2):
                lost.add(at)
    return lost


def _take_effect(model: str, made: Made, order: list[int], lost: set[int]) -> None:
    made.output = [None] * len(order)
    state: dict[Any, Any] = {}
    queue: deque[int] = deque()
    added: list[int] = []
    for at in order:
        f, value = made.f[at], made.value[at]
        if model == "queue":
            if f == "dequeue" and queue:
                made.output[at] = queue.popleft()
                continue
            made.f[at], made.value[at] = "enqueue", at
            if at not in lost:
                queue.append(at)
        elif f == "add":
            if at not in lost:
                added.append(value)
        elif model == "set":
            made.output[at] = list(added)
        elif f in ("read", "get"):
            made.output[at] = state.get(made.key[at], _initial(model))
        elif at in lost:
            continue
        elif f == "cas":
            fits = state.get(None) == value[0]
            made.output[at] = fits if made.ret[at] is not None else None
            state[None] = value[1] if fits else state.get(None)
        else:
            state[made.key[at]] = value


def _initial(model: str) -> Any:
    return {"key-value": "", "register": 0}.get(model)


def _retire(made: Made, c: int) -> None:
    """A client goes on under a new number after a call that never returned."""
    now = list(range(c))
    for at, client in enumerate(made.process):
        made.process[at] = now[client]
        if made.ret[at] is None:
            now[client] += c
