"""Time and memory of pyporcupine beside Porcupine (Go), each row in a process of its own.

`python benches/porcupine.py` prints the table; `python benches/porcupine.py ROW` one row of it as
JSON. Single-threaded; the time is the median of the check alone over several runs, the memory is
the peak of the whole process (Python, the history as Python objects, the check) less what it was before the check.
"""

import json
import resource
import statistics
import subprocess
import sys
import time
from typing import Any

import porcupine_histories as histories
import pyporcupine

# name: (kind, n, c, other arguments, what Porcupine needs: time, memory; from the shared README)
ROWS: dict[str, tuple[str, int, int, dict[str, Any], str, str]] = {
    "rw n=1,000 c=5": ("rw", 1000, 5, {}, "1.0 ms", "26 MB"),
    "rw n=1,000 c=10": ("rw", 1000, 10, {}, "35 ms", "26 MB"),
    "rw n=10,000 c=5": ("rw", 10_000, 5, {}, "59 ms", "60 MB"),
    "rw n=10,000 c=10": ("rw", 10_000, 10, {}, "1.25 s", "1.1 GB"),
    "rw n=100,000 c=5": ("rw", 100_000, 5, {}, "1.9 s", "4.5 GB"),
    "rw n=1,000 c=20": ("rw", 1000, 20, {}, "none in 60 s", "5.8 GB"),
    "rw n=10,000 c=10 --bad": ("rw", 10_000, 10, {"bad": True}, "2.9 s", "2.1 GB"),
    "cas5 n=1,000 c=5": ("cas5", 1000, 5, {}, "0.6 ms", "14 MB"),
    "cas5 n=1,000 c=10": ("cas5", 1000, 10, {}, "6-15 ms", "14 MB"),
    "cas5 n=1,000 c=20": ("cas5", 1000, 20, {}, "8-19 s", "1.1-2.4 GB"),
    "cas5 n=10,000 c=10": ("cas5", 10_000, 10, {}, "0.4 s", "0.33 GB"),
    "cas5 n=10,000 c=10 --bad": ("cas5", 10_000, 10, {"bad": True}, "5.0 s", "3.1 GB"),
    "cas5 n=1,000 c=5 --info 20 --bad": (
        "cas5",
        1000,
        5,
        {"info": 20, "bad": True},
        "64-430 ms",
        "80 MB",
    ),
    "cas5 n=1,000 c=5 --info 40 --bad": (
        "cas5",
        1000,
        5,
        {"info": 40, "bad": True},
        "8 s to none in 60 s",
        "0.7-3.3 GB",
    ),
    "kv keys=10 n=100,000 c=10": ("kv", 100_000, 10, {"keys": 10}, "157 ms", "0.1-0.2 GB"),
    "kv keys=100 n=100,000 c=10": ("kv", 100_000, 10, {"keys": 100}, "76 ms", "0.1-0.2 GB"),
    "kv keys=1000 n=100,000 c=10": ("kv", 100_000, 10, {"keys": 1000}, "85 ms", "0.1-0.2 GB"),
    "cas5 n=1,000 c=50": ("cas5", 1000, 50, {}, "-", "-"),
    "cas5 n=10,000 c=10 --info 20": ("cas5", 10_000, 10, {"info": 20}, "-", "-"),
}
MODELS: dict[str, tuple[Any, Any]] = {
    "rw": ("register", 0),
    "cas5": ("cas-register", None),
    "kv": ("key-value", ""),
}


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(row: str) -> dict[str, Any]:
    if row == "etcd":
        return etcd()
    kind, n, c, more, _, _ = ROWS[row]
    history = histories.synthetic(kind, n, c, **more)
    model, initial = MODELS[kind]
    before, times = peak_mb(), []
    for _ in range(5):
        start = time.perf_counter()
        result = pyporcupine.check(history, model, initial=initial, threads=1, witness=False)
        times.append(time.perf_counter() - start)
    expected = "INVALID" if more.get("bad") else "VALID"
    assert result.status == expected, (row, result)
    return {"ms": statistics.median(times) * 1e3, "mb": peak_mb() - before, "is": result.status}


def etcd() -> dict[str, Any]:
    truth = {name: ok for name, ok in histories.truth().items() if name.startswith("etcd")}
    logs = [(histories.etcd(histories.SHARED / name), ok) for name, ok in truth.items()]
    before, times = peak_mb(), []
    for _ in range(5):
        start = time.perf_counter()
        found = [
            pyporcupine.check(log, "cas-register", threads=1, witness=False).status
            for log, _ in logs
        ]
        times.append(time.perf_counter() - start)
    assert found == ["VALID" if ok else "INVALID" for _, ok in logs]
    return {
        "ms": statistics.median(times) * 1e3,
        "mb": peak_mb() - before,
        "is": f"{len(logs)} logs",
    }


def main() -> None:
    if len(sys.argv) > 1:
        print(json.dumps(measure(sys.argv[1])))
        return
    print(f"{'history':36} {'verdict':8} {'ms':>9} {'MB':>6}   Porcupine")
    for row in ["etcd", *ROWS]:
        command = [sys.executable, __file__, row]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        got = json.loads(done.stdout)
        theirs = "315 ms (102 logs), 21 MB" if row == "etcd" else ", ".join(ROWS[row][4:])
        print(f"{row:36} {got['is']:8} {got['ms']:9.2f} {got['mb']:6.1f}   {theirs}", flush=True)


if __name__ == "__main__":
    main()
