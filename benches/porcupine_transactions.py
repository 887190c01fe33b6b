"""Times the check of transactions that append to lists, from Arrow columns.

    python -m benches.porcupine_transactions [--count 1000000] [--consistency strict-serializable]

Makes a history as Jepsen's generator for Elle does: transactions of one to four micro-operations
over ten keys at a time, each of which is replaced by a new one after 100 appends, by 20 processes,
executed one after the other at some moment between call and return. Each row of the output is a
process of its own; memory is by how much the check raised what the process holds.
"""

import argparse
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather as feather

KEYS = 10
APPENDS_MAX = 100
PROCESSES = 20


def history(count: int, seed: int, stale: float) -> tuple[pa.Table, pa.Table]:
    """Return the tables of transactions and micro-operations. `stale` of all transactions read what
    was there some transactions before."""
    draw = random.Random(seed)
    keys, following = list(range(KEYS)), KEYS
    lists: dict[int, list[int]] = {key: [] for key in keys}
    calls: dict[str, list[Any]] = {"process": [], "call": [], "ret": []}
    ops: dict[str, list[Any]] = {name: [] for name in ("txn", "f", "key", "value")}
    offsets, elements = [0], list[int]()
    free, moment = [0] * PROCESSES, 0
    for txn in range(count):
        process = draw.randrange(PROCESSES)
        moment = max(moment, free[process] + 1) + draw.randrange(1, 1000)
        call = max(free[process] + 1, moment - draw.randrange(1, 20_000))
        free[process] = moment + draw.randrange(1, 20_000)
        calls["process"].append(process)
        calls["call"].append(call)
        calls["ret"].append(free[process])
        late = draw.random() < stale
        for _ in range(draw.randint(1, 4)):
            place = draw.randrange(KEYS)
            key = keys[place]
            ops["txn"].append(txn)
            ops["key"].append(key)
            if draw.random() < 0.5:
                ops["f"].append("r")
                ops["value"].append(None)
                found = lists[key]
                elements += found[:-2] if late else found
            else:
                ops["f"].append("append")
                ops["value"].append(len(lists[key]) + 1)
                lists[key].append(len(lists[key]) + 1)
                if len(lists[key]) == APPENDS_MAX:
                    del lists[key]
                    keys[place], following = following, following + 1
                    lists[keys[place]] = []
            offsets.append(len(elements))
    read = pa.LargeListArray.from_arrays(
        pa.array(offsets, pa.int64()), pa.array(elements, pa.int64())
    )
    names = pa.array(ops["f"]).dictionary_encode()
    micro_ops = pa.table({**ops, "f": names, "read": read})
    return pa.table(calls), micro_ops


def _peak_mb() -> float:
    match = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text("utf-8"))
    assert match is not None, "the kernel says so of every process"
    return int(match[1]) / 1000


def timed(path: Path, consistency: str) -> None:
    """Check the tables in a directory and print a row."""
    import pyporcupine

    calls = feather.read_table(path / "calls", memory_map=False)
    micro_ops = feather.read_table(path / "micro_ops", memory_map=False)
    Path("/proc/self/clear_refs").write_text("5")  # the peak becomes what is held now
    before = _peak_mb()
    began, cpu = time.perf_counter(), time.process_time()
    result = pyporcupine.check_transactions(
        calls, "list-append", micro_ops=micro_ops, consistency=consistency, time_s=None
    )
    took, cpu = time.perf_counter() - began, time.process_time() - cpu
    grown = _peak_mb() - before
    table = (calls.nbytes + micro_ops.nbytes) / 1e6
    print(
        f"{calls.num_rows:>9,} {micro_ops.num_rows:>10,} {table:>6.0f} MB  {took:6.2f} s "
        f"({cpu:5.2f} s of CPU) {grown:>6.0f} MB  {result.status} "
        f"{', '.join(f'{one.name} {one.count:,}' for one in result.anomalies)}"
    )


def main() -> None:
    """Print a row for each history."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--stale", type=float, nargs="*", default=[0.0, 0.00001, 0.01])
    parser.add_argument("--consistency", default="strict-serializable")
    parser.add_argument("--timed", type=Path)
    arguments = parser.parse_args()
    if arguments.timed:
        timed(arguments.timed, arguments.consistency)
        return
    print("transactions  micro-ops  table      check                 memory  verdict")
    for stale in arguments.stale:
        with tempfile.TemporaryDirectory() as directory:
            tables = history(arguments.count, arguments.seed, stale)
            for name, table in zip(("calls", "micro_ops"), tables, strict=True):
                feather.write_feather(table, f"{directory}/{name}", compression="uncompressed")
            del tables
            consistency = ["--consistency", arguments.consistency]
            own = [sys.executable, "-m", "benches.porcupine_transactions"]
            subprocess.run([*own, "--timed", directory, *consistency], check=True)


if __name__ == "__main__":
    main()
