"""Time and memory of pyporcupine beside Porcupine (Go), each row in a process of its own.

`python -m benches.porcupine` prints the table; `python -m benches.porcupine ROW` prints one row of
it as JSON. Single-threaded; the time is the median CPU time of calls of `check`, from a list of
Python objects and from Arrow columns, so that both include reading, validating and grouping the
history. "alone" is the median wall time of the check alone, from operations in memory
(crates/porcupine/examples/check_alone.rs): so is what is quoted, and it is compared with the
lesser of the first two, and with this. The memory is by how much the first check raised the peak
of the process; what is quoted includes the Go runtime and the history. HISTORIES=DIR adds
published logs, with truth.json.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyporcupine

from benches import porcupine_histories as histories
from benches.porcupine_grid import forget_peak, status_mb

# name: (kind, n, c, other arguments, what Porcupine (Go) needs on two cores of the same machine for
# histories of these parameters: time, memory; the least where it varies)
ROWS: dict[str, tuple[str, int, int, dict[str, Any], str, str]] = {
    "rw n=1,000 c=5": ("rw", 1000, 5, {}, "1.0 ms", "26 MB"),
    "rw n=1,000 c=10": ("rw", 1000, 10, {}, "35 ms", "26 MB"),
    "rw n=10,000 c=5": ("rw", 10_000, 5, {}, "59 ms", "60 MB"),
    "rw n=10,000 c=10": ("rw", 10_000, 10, {}, "1.25 s", "1.1 GB"),
    "rw n=100,000 c=5": ("rw", 100_000, 5, {}, "1.9 s", "4.5 GB"),
    "rw n=1,000 c=20": ("rw", 1000, 20, {}, "60 s", "5.8 GB"),
    "rw n=10,000 c=10 --bad": ("rw", 10_000, 10, {"bad": True}, "2.9 s", "2.1 GB"),
    "cas5 n=1,000 c=5": ("cas5", 1000, 5, {}, "0.6 ms", "14 MB"),
    "cas5 n=1,000 c=10": ("cas5", 1000, 10, {}, "6 ms", "14 MB"),
    "cas5 n=1,000 c=20": ("cas5", 1000, 20, {}, "8 s", "1.1 GB"),
    "cas5 n=10,000 c=10": ("cas5", 10_000, 10, {}, "0.4 s", "0.33 GB"),
    "cas5 n=10,000 c=10 --bad": ("cas5", 10_000, 10, {"bad": True}, "5.0 s", "3.1 GB"),
    "cas5 n=1,000 c=5 --info 20 --bad": (
        "cas5",
        1000,
        5,
        {"info": 20, "bad": True},
        "64 ms",
        "80 MB",
    ),
    "cas5 n=1,000 c=5 --info 40 --bad": (
        "cas5",
        1000,
        5,
        {"info": 40, "bad": True},
        "8 s",
        "0.7 GB",
    ),
    "kv keys=10 n=100,000 c=10": ("kv", 100_000, 10, {"keys": 10}, "157 ms", "0.1 GB"),
    "kv keys=100 n=100,000 c=10": ("kv", 100_000, 10, {"keys": 100}, "76 ms", "0.1 GB"),
    "kv keys=1000 n=100,000 c=10": ("kv", 100_000, 10, {"keys": 1000}, "85 ms", "0.1 GB"),
    "cas5 n=1,000 c=50": ("cas5", 1000, 50, {}, "-", "-"),
    "cas5 n=10,000 c=10 --info 20": ("cas5", 10_000, 10, {"info": 20}, "-", "-"),
}
MODELS: dict[str, tuple[Any, Any]] = {
    "rw": ("register", 0),
    "cas5": ("cas-register", None),
    "kv": ("key-value", ""),
}


def as_arrow(history: list[pyporcupine.Operation]) -> pa.Table:
    """Return the history as Arrow columns."""
    pairs = [op.value if op.f == "cas" else (None, op.value) for op in history]
    fields = {
        "process": [op.process for op in history],
        "f": [op.f for op in history],
        "key": [op.key for op in history],
        "value": [new for _, new in pairs],
        "expected": [expected for expected, _ in pairs],
        "output": [int(op.output) if op.f == "cas" and op.ret else op.output for op in history],
        "call": [op.call for op in history],
        "ret": [op.ret for op in history],
    }
    return pa.table(fields)


CRATE = Path(__file__).parent.parent / "crates" / "porcupine" / "Cargo.toml"


def cargo(command: str) -> list[str]:
    """Return the command that builds check_alone, or that runs it."""
    which = ["--release", "--quiet", "--example", "check_alone"]
    return ["cargo", command, *which, "--manifest-path", str(CRATE)]


def check_alone(logs: list[list[pyporcupine.Operation]], model: str, initial: Any) -> list[str]:
    """Return the milliseconds of the bare checks of all logs, and the status of each."""
    with tempfile.TemporaryDirectory() as directory:
        paths = [Path(directory) / str(number) for number in range(len(logs))]
        for path, log in zip(paths, logs, strict=True):
            path.write_text("".join(map(line, log)))
        command = [*cargo("run"), "--", model, cell(initial), *map(str, paths)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def line(op: pyporcupine.Operation) -> str:
    """Return the operation in the format that check_alone.rs reads."""
    expected, value = op.value if op.f == "cas" else (None, op.value)
    fields = (op.key, value, expected, op.output, op.call, op.ret)
    return "\t".join([str(op.process), op.f, *map(cell, fields)]) + "\n"


def cell(value: Any) -> str:
    if value is None:
        return ""
    return f"'{value}" if isinstance(value, str) else str(int(value))


def timed(run: Callable[[], str], expected: str) -> tuple[float, float]:
    """Return the median milliseconds of five runs, or of as many as fit in half a second, and the
    memory of the first."""
    forget_peak()
    before, peak = status_mb("VmRSS"), 0.0
    times: list[float] = []
    while len(times) < 5 or (len(times) < 2000 and sum(times) < 500):
        start = time.process_time()
        status = run()
        times.append((time.process_time() - start) * 1e3)
        peak = peak or status_mb("VmHWM")
        assert status == expected, (status, expected)
    return statistics.median(times), peak - before


def measure(row: str) -> dict[str, Any]:
    if row == "etcd":
        return etcd()
    kind, n, c, more, _, _ = ROWS[row]
    history = histories.synthetic(kind, n, c, **more)
    model, initial = MODELS[kind]
    expected = "INVALID" if more.get("bad") else "VALID"

    def run(history: Any) -> str:
        return pyporcupine.check(history, model, initial=initial, threads=1, witness=False).status

    ms, mb = timed(lambda: run(history), expected)
    table = as_arrow(history)
    table_ms, _ = timed(lambda: run(table), expected)
    alone_ms, status = check_alone([history], model, initial)
    assert status == expected, (status, expected)
    more_ms = {"arrow_ms": table_ms, "alone_ms": float(alone_ms)}
    return {"ms": ms, **more_ms, "mb": mb, "is": expected}


def etcd() -> dict[str, Any]:
    directory = Path(os.environ["HISTORIES"])
    verdicts = histories.truth(directory)
    truth = {name: ok for name, ok in verdicts.items() if name.startswith("etcd")}
    logs = [histories.etcd(directory / name) for name in truth]
    expected = str(["VALID" if ok else "INVALID" for ok in truth.values()])

    def run() -> str:
        found = [pyporcupine.check(log, "cas-register", threads=1, witness=False) for log in logs]
        return str([result.status for result in found])

    ms, mb = timed(run, expected)
    alone_ms, *found = check_alone(logs, "cas-register", None)
    assert str(found) == expected, (found, expected)
    more_ms = {"arrow_ms": None, "alone_ms": float(alone_ms)}
    return {"ms": ms, **more_ms, "mb": mb, "is": f"{len(logs)} logs"}


UNITS = {"ms": 1.0, "s": 1e3, "MB": 1.0, "GB": 1e3}


def ratio(quoted: str, ours: float) -> str:
    """Return the factor by which this is smaller: "12×", or "-" if nothing is quoted."""
    if quoted == "-":
        return "-"
    number, unit = quoted.split()
    return f"{float(number) * UNITS[unit] / max(ours, 0.1 if unit.endswith('B') else 0.0):,.0f}×"


def main() -> None:
    if len(sys.argv) > 1:
        print(json.dumps(measure(sys.argv[1])))
        return
    subprocess.run(cargo("build"), check=True)
    print(
        f"{'history':34} {'verdict':8} {'ms':>8} {'Arrow ms':>8} {'alone ms':>8} {'MB':>6}"
        "   Porcupine, how often, alone; memory"
    )
    for row in [*(["etcd"] if "HISTORIES" in os.environ else []), *ROWS]:
        command = [sys.executable, "-m", "benches.porcupine", row]
        try:
            done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
        except subprocess.TimeoutExpired:
            print(f"{row:34} no answer in 120 s", flush=True)
            continue
        got = json.loads(done.stdout)
        ms, mb = ("-", "-") if row == "etcd" else ROWS[row][4:]
        least = min(got["ms"], got["arrow_ms"] or got["ms"])
        arrow = "-" if got["arrow_ms"] is None else f"{got['arrow_ms']:.2f}"
        figures = f"{got['ms']:8.2f} {arrow:>8} {got['alone_ms']:8.3f} {got['mb']:6.1f}"
        times = f"{ms:>6} {ratio(ms, least):>7} {ratio(ms, got['alone_ms']):>7}"
        theirs = f"{times}  {mb:>7} {ratio(mb, got['mb']):>6}"
        print(f"{row:34} {got['is']:8} {figures}   {theirs}", flush=True)


if __name__ == "__main__":
    main()
