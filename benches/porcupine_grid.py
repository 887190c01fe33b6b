"""Time and memory of pyporcupine over a grid of histories of its own making.

    python -m benches.porcupine_grid [--quick] [--limit-s 120] [--into rows.jsonl]

A row for each model, concurrency, length and share of lost calls: valid, and with one violation.
Single-threaded; milliseconds are CPU time of the check alone, megabytes are by how much it raised
the peak of the process. Each row is measured in a process of its own: past --limit-s a check is
UNKNOWN, and past the limit of the process the row is empty; so that no row stalls the others.
--into keeps each row in a file as soon as it is known, short histories first; rows that are there
already are not measured again. At the end: the rows without an answer, and by how much the time
grows with the length.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyporcupine

from benches import porcupine_made as made
from benches.porcupine_made import Model

MODELS: tuple[Model, ...] = ("register", "cas-register", "key-value", "queue", "set")
CONCURRENCY = (5, 10, 20, 50)
LENGTHS = (1_000, 10_000, 100_000, 1_000_000)
INFOS = (0, 10)
"""Lost updates per mille."""
QUICK = {"concurrency": (5, 20), "lengths": (1_000, 10_000)}
MAKING_S = 600
"""Seconds that a process may take besides its checks."""


Cell = tuple[Model, int, int, int]
"""Model, clients, operations, per mille of lost updates."""
Rows = dict[Cell, list[dict[str, Any]]]
EXPECTED = ("VALID", "INVALID")


def forget_peak() -> None:
    """Reset the peak of this process' memory to what it uses now."""
    Path("/proc/self/clear_refs").write_text("5")


def status_mb(field: str) -> float:
    """Return VmRSS (memory now) or VmHWM (its peak) in megabytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    raise LookupError(field)


def checked(model: Model, history: Any, limit_s: float | None, initial: Any) -> dict[str, Any]:
    """Return the status, CPU time and memory of one check."""
    forget_peak()
    before, began = status_mb("VmRSS"), time.process_time()
    result = pyporcupine.check(
        history, model, initial=initial, threads=1, witness=False, time_s=limit_s
    )
    took_ms = (time.process_time() - began) * 1e3
    return {"status": result.status, "ms": took_ms, "mb": status_mb("VmHWM") - before}


def measure(model: Model, c: int, n: int, info: int, limit_s: float) -> list[dict[str, Any]]:
    """Measure the valid history and the violated one, and print each result at once."""
    history = made.make(model, n, c, info=info)
    initial = 0 if model == "register" else ...
    results = [checked(model, history.table(), limit_s, initial)]
    print(json.dumps(results[0]), flush=True)
    made.spoil(history)
    results.append(checked(model, history.table(), limit_s, initial))
    print(json.dumps(results[1]), flush=True)
    return results


def child(cell: Cell, limit_s: float) -> list[dict[str, Any]]:
    """Return the results that a child process printed before it ended."""
    command = [
        sys.executable,
        "-m",
        "benches.porcupine_grid",
        "--cell",
        json.dumps([*cell, limit_s]),
    ]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=MAKING_S + 2 * limit_s, check=False
        )
        output, why = done.stdout, done.stderr.strip().splitlines()[-1:] if done.returncode else []
    except subprocess.TimeoutExpired as late:
        output, why = bytes(late.stdout or b"").decode(), ["no time left"]
    results = [json.loads(line) for line in output.splitlines()]
    return results + [{"status": text[:30], "ms": None, "mb": None} for text in why]


def row(cell: Cell, results: list[dict[str, Any]]) -> str:
    model, c, n, info = cell
    text = f"{model:13} {c:3} {n:10,} {info:5}"
    for one, expected in zip(results, EXPECTED, strict=False):
        status = one["status"]
        wrong = " !" if status in EXPECTED and status != expected else ""
        if one["ms"] is None:
            text += f"   {status}"
        else:
            text += f"   {status + wrong:8} {one['ms']:9.2f} ms {one['mb']:7.1f} MB"
    return text


def known(into: Path | None) -> Rows:
    """Return the rows in the file."""
    if into is None or not into.exists():
        return {}
    lines = (json.loads(line) for line in into.read_text().splitlines())
    return {(cell[0], cell[1], cell[2], cell[3]): results for cell, results in lines}


def summary(rows: Rows) -> list[str]:
    """Return which rows have no answer, and by what factor the time grows for ten times the
    operations."""
    lines = []
    for cell, results in rows.items():
        if [one["status"] for one in results] != list(EXPECTED):
            lines.append(f"no answer or a wrong one: {row(cell, results)}")
    lines.append(f"{len(rows)} rows, {len(rows) - len(lines)} of them with both answers")
    for model in MODELS:
        for info in INFOS:
            times = {
                (c, n): results[0]["ms"]
                for (m, c, n, i), results in rows.items()
                if (m, i) == (model, info) and results[0]["status"] == "VALID"
            }
            for n in LENGTHS[:-1]:
                ratios = [
                    times[c, 10 * n] / times[c, n]
                    for c in CONCURRENCY
                    if (c, n) in times and (c, 10 * n) in times
                ]
                if ratios:
                    lines.append(
                        f"{model:13} lost {info:2}‰  {n:9,} → {10 * n:9,}: time x "
                        f"{statistics.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})"
                    )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description="The grid of pyporcupine's times and memory.")
    parser.add_argument("--quick", action="store_true", help="few lengths, few concurrencies")
    parser.add_argument("--limit-s", type=float, default=120.0, help="for each check")
    parser.add_argument("--into", type=Path, help="keep the rows there, and go on from there")
    parser.add_argument("--cell", type=json.loads, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.cell:
        measure(*given.cell)
        return
    concurrency = QUICK["concurrency"] if given.quick else CONCURRENCY
    lengths = QUICK["lengths"] if given.quick else LENGTHS
    print(
        f"{'model':13} {'c':>3} {'operations':>10} {'lost‰':>5}   valid{' ' * 27}   one violation"
    )
    rows = known(given.into)
    for cell in ((m, c, n, i) for n in lengths for m in MODELS for i in INFOS for c in concurrency):
        if cell not in rows:
            rows[cell] = child(cell, given.limit_s)
            if given.into:
                with given.into.open("a") as file:
                    print(json.dumps([cell, rows[cell]]), file=file)
        print(row(cell, rows[cell]), flush=True)
    print(*summary(rows), sep="\n")


if __name__ == "__main__":
    main()
