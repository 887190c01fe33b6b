"""Histories of any length for the grid, in columns.

Valid by construction: each operation takes effect at a random point between its call and its
return. `info`: per mille of updates that never return; half of them take effect. `spoil` breaks
one operation in the middle so that no explanation is left, whatever the lost ones did.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Model = Literal["register", "cas-register", "key-value", "queue", "set"]
NAMES: dict[Model, tuple[str, ...]] = {
    "register": ("read", "write"),
    "cas-register": ("read", "write", "cas"),
    "key-value": ("get", "put"),
    "queue": ("dequeue", "enqueue"),
    "set": ("read", "add"),
}
READ, WRITE, CAS = 0, 1, 2
"""Operations, as positions in `NAMES`; a dequeue is a read."""
NONE = -1
READS_OF_A_SET = 20
"""Number of reads of a set, fixed so that the total of values read is linear in the length."""
OPS_A_KEY = 1000
LATE = 5
"""Value of a compare-and-set register at the end; before that it is 0 to 4."""


@dataclass(slots=True, kw_only=True)
class Made:
    """Columns by name; a row an operation, in order of call. `NONE` is none."""

    model: Model
    process: Ints
    call: Ints
    ret: Ints
    f: Ints
    """Operations as positions in `NAMES`."""
    key: Ints
    value: Ints
    expected: Ints
    output: Ints
    seen: dict[int, Ints] = field(default_factory=dict)
    """Values of each read of a set, by its row."""

    def table(self) -> pa.Table:
        """Return the history as pyporcupine takes it. The values of a key-value store are texts,
        initially ""."""
        names = NAMES[self.model]
        columns = {"process": self.process, "call": self.call, "ret": _nullable(self.ret)}
        f = pa.DictionaryArray.from_arrays(pa.array(self.f, pa.int8()), names)
        columns |= {"f": f.cast(pa.string()), "value": _nullable(self.value)}
        if self.model == "set":
            sizes = [len(self.seen.get(row, ())) for row in range(len(self.f))]
            offsets = np.concatenate([[0], np.cumsum(sizes)])
            values = np.concatenate([self.seen[row] for row in sorted(self.seen)])
            columns["output"] = pa.LargeListArray.from_arrays(offsets, values)
            return pa.table(columns)
        columns["output"] = _nullable(self.output)
        if self.model == "cas-register":
            columns["expected"] = _nullable(self.expected)
        if self.model == "key-value":
            columns["key"] = pa.array(self.key).cast(pa.string())
            columns["value"] = columns["value"].cast(pa.string())
            found = columns["output"].cast(pa.string()).fill_null("")
            columns["output"] = pa.compute.if_else(pa.array(self.f == READ), found, None)
        return pa.table(columns)


def _nullable(column: Ints) -> pa.Array:
    return pa.array(column, mask=column == NONE)


def make(model: Model, n: int, c: int, *, info: int, seed: int = 1) -> Made:
    """Return a valid history of n operations of c clients; c must divide n."""
    draw = np.random.default_rng(seed)
    client, call, ret, effect = timed(draw, n, c)
    nothing = np.full(n, NONE)
    f = draw.integers(0, len(NAMES[model]), n)
    if model == "set":
        f[:] = WRITE
        f[n // READS_OF_A_SET - 1 :: max(1, n // READS_OF_A_SET)] = READ
    key, value, expected = np.zeros(n, dtype=np.int64), np.arange(1, n + 1), nothing
    if model == "key-value":
        key = draw.integers(0, max(10, n // OPS_A_KEY), n)
    if model == "cas-register":
        value = draw.integers(0, LATE, n)
        expected = np.where(f == CAS, draw.integers(0, LATE, n), NONE)
    # Doubled: a return comes after the calls of its tick.
    lost = (f != READ) & (draw.integers(0, 1000, n) < info)
    made = Made(
        model=model, process=_retired(client, lost, c), call=2 * call,
        ret=np.where(lost, NONE, 2 * ret + 1), f=f, key=key, value=value, expected=expected,
        output=nothing.copy(),
    )  # fmt: skip
    never = lost & (draw.integers(0, 2, n) == 1)
    _take_effect(made, effect, never)
    made.value = np.where(made.f == READ, NONE, made.value)
    return made


def timed(draw: np.random.Generator, n: int, c: int) -> tuple[Ints, Ints, Ints, Ints]:
    """Return the clients, calls, returns and times at which the operations take effect."""
    of_client = (c, n // c)
    gap, length = draw.integers(0, 100, of_client), draw.integers(1, 1001, of_client)
    ret = np.cumsum(gap + length + 1, axis=1) + draw.integers(0, 1000, (c, 1))
    call = (ret - length).ravel()
    effect = call + draw.integers(0, length.ravel() + 1)
    order = np.argsort(call, kind="stable")
    client = np.repeat(np.arange(c), n // c)
    return client[order], call[order], ret.ravel()[order], effect[order]


def _retired(client: Ints, lost: Bools, c: int) -> Ints:
    """Give a client a new number after a call that never returned."""
    process = client.copy()
    for one in range(c):
        own = np.flatnonzero(client == one)
        process[own] += c * (np.cumsum(lost[own]) - lost[own])
    return process


def _take_effect(made: Made, effect: Ints, never: Bools) -> None:
    """Compute what each operation finds, leaving out those of `never`."""
    if made.model == "set":
        order = np.argsort(effect, kind="stable")
        adds = (made.f[order] == WRITE) & ~never[order]
        added, there = made.value[order[adds]], np.cumsum(adds)
        for place in np.flatnonzero(made.f[order] == READ):
            made.seen[int(order[place])] = added[: there[place]]
    elif made.model == "queue":
        _queue_up(made, np.argsort(effect, kind="stable"), never)
    elif made.model == "cas-register":
        _compare_and_set(made, np.argsort(effect, kind="stable"), never)
    else:
        order = np.lexsort((effect, made.key))
        writes = (made.f[order] == WRITE) & ~never[order]
        begins = np.flatnonzero(np.diff(made.key[order], prepend=-1))
        latest = np.zeros(len(order), dtype=np.int64)
        latest[begins] = begins
        latest = np.maximum.accumulate(np.where(writes, np.arange(len(order)), latest))
        initial = 0 if made.model == "register" else NONE
        found = np.where(writes[latest], made.value[order[latest]], initial)
        made.output[order] = np.where(made.f[order] == READ, found, NONE)


def _queue_up(made: Made, order: Ints, never: Bools) -> None:
    """Replace each dequeue that would find nothing by an enqueue."""
    f, value, output = made.f.tolist(), made.value.tolist(), made.output.tolist()
    gone = never.tolist()
    queue: deque[int] = deque()
    for at in order.tolist():
        if f[at] == READ and queue:
            output[at] = queue.popleft()
            continue
        f[at] = WRITE
        if not gone[at]:
            queue.append(value[at])
    made.f, made.output = np.array(f), np.array(output)


def _compare_and_set(made: Made, order: Ints, never: Bools) -> None:
    columns = (made.f, made.value, made.expected, never, made.ret == NONE)
    rows = zip(*(column[order].tolist() for column in columns), strict=True)
    state, outputs = NONE, []
    for f, value, expected, gone, lost in rows:
        fits = f == WRITE or (f == CAS and state == expected)
        output = NONE
        if f == READ:
            output = state
        elif f == CAS and not lost:
            output = int(fits)
        outputs.append(output)
        if fits and not gone:
            state = value
    made.output[order] = outputs


def spoil(made: Made) -> None:
    """Change one operation in the middle, so that the history is violated."""
    half = len(made.f) // 2
    reads = half + np.flatnonzero(made.f[half:] == READ)
    if made.model == "cas-register":
        made.output[reads[0]] = LATE
        end = 1 + max(made.call.max(), made.ret.max())
        row = {"process": made.process.max() + 1, "call": end, "ret": end + 1, "f": WRITE}
        row |= {"key": 0, "value": LATE, "expected": NONE, "output": NONE}
        for name, last in row.items():
            setattr(made, name, np.append(getattr(made, name), last))
    elif made.model == "queue":
        made.output[reads[1]] = made.output[reads[0]]
    elif made.model == "set":
        missed = made.value[_before(made, 0, reads[0])[-1]]
        values = made.seen[int(reads[0])]
        made.seen[int(reads[0])] = values[values != missed]
    else:
        _read_the_past(made, reads)


def _before(made: Made, first: int, at: int) -> Ints:
    """Return the updates from one row on of the same object that returned before the operation was
    called."""
    rows = slice(first, at)
    returned = (made.ret[rows] != NONE) & (made.ret[rows] < made.call[at])
    same = (made.f[rows] == WRITE) & (made.key[rows] == made.key[at])
    return first + np.flatnonzero(returned & same)


def _read_the_past(made: Made, reads: Ints) -> None:
    """Change a read to a value that was overwritten before the read began."""
    for at in reads.tolist():
        writes = _before(made, max(0, at - 100_000), at)
        if len(writes) == 0:
            continue
        older = writes[made.ret[writes] < made.call[writes[-1]]]
        if len(older):
            made.output[at] = made.value[older[-1]]
            return
    raise AssertionError("no read to spoil")
