"""Long histories: the memory and the CPU time in which all checkers of a workload judge one.

    python -m benches.long_histories [ops [workload ...]]   # 2,000,000 ops of every workload

A run on simulated servers is repeated, each time with other keys, or with other values where calls
have no key, until it has so many ops. What the run recorded at rest is there once. A process of its
own reads it from Parquet and judges it. Times are of the CPU. Memory is the peak of that process,
beside what its code takes.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from time import process_time
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from checkers.every_run import applicable
from harness.core.protocols import check_within
from harness.fleet.stored_runs import StoredRuns
from harness.spec.catalogue import WORKLOADS
from harness.spec.workload_options import workload_of
from harness.store.parquet import SCHEMA, read_parquet

OPS: Final = 2_000_000
CHECK_S: Final = 600.0
"""Time budget of each checker that takes one."""
SECONDS: Final = 60
"""Length of the run that is repeated."""
RECORDS: Final = ["quiesce", "transactions"]
"""Calls whose answers record a whole run."""
OPTIONS: Final = {
    "replication": ["--option", "big-rows=100"],
    "merges": ["--option", "own-rows=100"],
}
"""What the manual advises for simulated servers."""


def simulated(workload: str, root: Path) -> Path:
    """Return the directory of a run of the workload under kills."""
    command = [sys.executable, "-m", "harness.cli.main", "run", "--cluster", "sim", "--seed", "1"]
    command += ["--workload", workload, "--nemesis", "kill", "--time-limit", str(SECONDS)]
    command += ["--rate", "100", "--store", str(root), *OPTIONS.get(workload, ())]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=False)  # any verdict will do
    [run] = root.glob("*/*-0x1")
    return run


def lengthen(file: Path, ops: int) -> None:
    """Repeat a history until it has so many ops."""
    table = pq.read_table(file).combine_chunks()
    metadata = {"harness.schema": "1", "harness.journal_digest": ""}
    keyed = table["key"].null_count < len(table)
    lists = table["values"].combine_chunks()
    largest = {name: pc.max(table[name]).as_py() or 0 for name in ("process", "key", "time_ns")}
    values = max(pc.max(table["value"]).as_py() or 0, pc.max(lists.values).as_py() or 0)
    steps = {
        "index": len(table),
        "process": largest["process"] + 1,
        "key": largest["key"] + 1,
        "value": 0 if keyed else values + 1,
        "time_ns": largest["time_ns"] + 1,
    }
    partial = file.with_suffix(".partial")
    with pq.ParquetWriter(partial, SCHEMA.with_metadata(metadata), compression="zstd") as writer:
        turns = -(-ops // len(table))
        for turn in range(turns):
            piece = table if turn == turns - 1 else _unrecorded(table)
            for name, step in steps.items():
                moved = _moved(piece[name], turn * step, signed=name == "process")
                piece = piece.set_column(SCHEMA.get_field_index(name), SCHEMA.field(name), moved)
            numbers = pc.add(lists.values, turn * steps["value"])
            moved = pa.ListArray.from_arrays(lists.offsets, numbers, mask=pc.is_null(lists))
            at = SCHEMA.get_field_index("values")
            piece = piece.set_column(at, SCHEMA.field("values"), moved)
            writer.write_table(piece.cast(SCHEMA.with_metadata(metadata)))
    partial.replace(file)


def _unrecorded(table: Any) -> Any:
    """Return the ops without what a run records once, at rest: everything that was agreed on."""
    at = SCHEMA.get_field_index("detail")
    records = pc.is_in(table["f"].cast(pa.string()), pa.array(RECORDS))
    return table.set_column(at, SCHEMA.field(at), pc.if_else(records, None, table["detail"]))


def _moved(column: Any, step: int, *, signed: bool) -> Any:
    if not signed:
        return pc.add(column, step)
    numbers = column.to_numpy()
    return pa.array(np.where(numbers < 0, numbers, numbers + step).astype(np.int32))


def memory_mb(field: str) -> int:
    """Return a figure of this process: VmRSS, or its peak VmHWM."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in status if line.startswith(field))


def judge(run: Path) -> None:
    """Judge a run in this process, and print a row of the table."""
    request = StoredRuns(workload_of).request(run)
    before = memory_mb("VmRSS")
    begin = process_time()
    history = read_parquet(run / "history.parquet")
    read_s, columns_mb = process_time() - begin, history.columns.size_bytes / 1e6
    took: dict[str, float] = {}
    unknown = []
    for checker in applicable(request.checkers, history):
        begin = process_time()
        verdict = check_within(checker, history, CHECK_S)
        took[checker.name] = process_time() - begin
        if verdict.status.value == "UNKNOWN":
            unknown.append(f"{checker.name}: {verdict.summary[:60]}")
    peak = memory_mb("VmHWM") - before
    slowest = sorted(took, key=lambda name: -took[name])[:3]
    row = f"{request.workload:17} {len(history):11,} {columns_mb:8.0f} {read_s:7.1f}"
    print(
        f"{row} {sum(took.values()):8.1f} {peak:8,} {peak * 1e6 / len(history):8.0f}   "
        + ", ".join(f"{name} {took[name]:.1f}" for name in slowest)
        + "".join(f"\n{'':17}   UNKNOWN {text}" for text in unknown),
        flush=True,
    )


def main(ops: int, workloads: list[str]) -> None:
    """Print a row for each workload."""
    print(
        f"{'workload':17} {'ops':>11} {'columns':>8} {'read s':>7} {'judge s':>8} {'peak MB':>8} "
        f"{'B an op':>8}   slowest checkers, s",
        flush=True,
    )
    for name in workloads:
        with tempfile.TemporaryDirectory() as directory:
            run = simulated(name, Path(directory))
            (run / "history.jsonl").unlink()
            lengthen(run / "history.parquet", ops)
            subprocess.run([sys.executable, "-m", __spec__.name, "--judge", str(run)], check=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--judge"]:
        judge(Path(sys.argv[2]))
    else:
        known = [name for name, entry in WORKLOADS.items() if entry.simulated]
        main(int(sys.argv[1]) if sys.argv[1:] else OPS, sys.argv[2:] or known)
