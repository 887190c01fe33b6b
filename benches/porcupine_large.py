"""Long histories, each in a process of its own: CPU time and memory of one check.

    python -m benches.porcupine_large [--part 100]

--part makes all of them so many times shorter. Single-threaded, from Arrow columns; megabytes are
by how much the check raised the peak of the process.
Valid by construction: each operation takes effect at a random point between its call and return.
"""

import argparse
import json
import subprocess
import sys
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benches import porcupine_made as made
from benches.porcupine_grid import checked

Ints = npt.NDArray[np.int64]
Model = Literal["register", "key-value", "set", "cas-register"]
# name: (model, initial, operations, clients, keys or reads)
ROWS: dict[str, tuple[Model, Any, int, int, int]] = {
    "register, n=1,000,000 c=10": ("register", 0, 1_000_000, 10, 1),
    "key-value, n=10,000,000 c=10, 10,000 keys": ("key-value", 0, 10_000_000, 10, 10_000),
    "set, 100,000 adds and 10,000 reads, c=10": ("set", ..., 110_000, 10, 10_000),
    "cas-register, n=1,000,000 c=50, 10‰ lost": ("cas-register", None, 1_000_000, 50, 1),
}


def columns_of(draw: np.random.Generator, n: int, c: int) -> tuple[dict[str, Any], Ints]:
    """Return processes, calls and returns in order of call, and the time at which each operation
    takes effect."""
    process, call, ret, effect = made.timed(draw, n, c)
    # Doubled: a return comes after the calls of its tick.
    return {"process": process, "call": 2 * call, "ret": 2 * ret + 1}, effect


def store(model: Model, initial: int, n: int, c: int, keys: int) -> pa.Table:
    """Return a history of equally many reads and writes, whose values are all different."""
    draw = np.random.default_rng(1)
    columns, effect = columns_of(draw, n, c)
    rows = np.arange(len(effect))
    key, read = draw.integers(0, keys, len(rows)), draw.integers(0, 2, len(rows)) == 1
    order = np.lexsort((effect, key))
    of, writes = key[order], ~read[order]
    begins = np.flatnonzero(np.diff(of, prepend=-1))
    before = np.zeros(len(rows), dtype=np.int64)
    before[begins] = begins
    # What each operation finds: the latest write since its key began.
    latest = np.maximum.accumulate(np.where(writes, rows, before))
    found = np.empty(len(rows), dtype=np.int64)
    found[order] = np.where(writes[latest], order[latest] + 1, initial)
    names = ("read", "write") if model == "register" else ("get", "put")
    f = pa.DictionaryArray.from_arrays(pa.array(np.where(read, 0, 1), pa.int8()), names)
    columns["f"] = f.cast(pa.string())
    columns["value"] = pa.array(rows + 1, mask=read)
    columns["output"] = pa.array(found, mask=~read)
    if keys > 1:
        columns["key"] = key
    return pa.table(columns)


def grown_set(n: int, c: int, reads: int) -> pa.Table:
    """Return a history of adds of different values, and of reads of the whole set."""
    draw = np.random.default_rng(1)
    columns, effect = columns_of(draw, n, c)
    rows = np.arange(len(effect))
    read = np.zeros(len(rows), dtype=bool)
    read[draw.permutation(len(rows))[:reads]] = True
    order = np.argsort(effect, kind="stable")
    added = order[~read[order]]
    there = np.empty(len(rows), dtype=np.int64)
    there[order] = np.cumsum(~read[order])
    sizes = np.where(read, there, 0)
    values = np.concatenate([added[:size] for size in sizes[read]])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    columns["f"] = pa.array(np.where(read, "read", "add"))
    columns["value"] = pa.array(rows, mask=read)
    columns["output"] = pa.LargeListArray.from_arrays(offsets, values)
    return pa.table(columns)


def measure(name: str, part: int) -> dict[str, Any]:
    model, initial, n, c, more = ROWS[name]
    history: Any
    if model == "cas-register":
        history = made.make(model, n // part, c, info=10).table()
    elif model == "set":
        history = grown_set(n // part, c, more // part)
    else:
        history = store(model, initial, n // part, c, max(1, more // part))
    return checked(model, history, None, initial)


def main() -> None:
    parser = argparse.ArgumentParser(description="Time and memory of pyporcupine, long histories.")
    parser.add_argument("--part", type=int, default=1, help="make the histories so many times less")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.row:
        print(json.dumps(measure(given.row, given.part)))
        return
    for name in ROWS:
        command = [
            sys.executable,
            "-m",
            "benches.porcupine_large",
            "--row",
            name,
            "--part",
            str(given.part),
        ]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        got = json.loads(done.stdout)
        print(f"{name:44} {got['status']:8} {got['ms']:10.1f} ms {got['mb']:8.1f} MB", flush=True)


if __name__ == "__main__":
    main()
