"""Check that budgets hold: every model, size and concurrency, in processes that are measured.

    python -m benches.porcupine_budgets [--quick] [--time-s 4] [--memory-mb 200] [--seed 1]

Each history (benches/porcupine_wild.py) is decided in a process of its own, with a thread for each
core. Its time is wall time of the check; its memory is by how much the check raised the peak of
what is resident. The last table is the worst of both by model; histories that were beyond the
budget are named above it. A valid history that is called INVALID ends the run with an error.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyporcupine

from benches.porcupine_wild import MAKERS, Wild, history

SHAPES = ((5, 400, 1), (20, 1_000, 1), (50, 2_000, 1), (50, 2_000, 10), (200, 2_000, 1))
"""Clients, operations, keys."""
QUICK = ((20, 400, 1), (50, 1_000, 5))
VALUES = (None, 3)
LOST = (0, 20, 200)
SPOILED = ("", "early", "late")
CONSISTENCIES = ("linearizable", "sequential")


def measured(wild: Wild, **options: Any) -> dict[str, Any]:
    """Check a history and return the result, time and memory; call it in a fresh process only."""
    made = history(wild)
    before = resource.getrusage(resource.RUSAGE_SELF)
    began = time.perf_counter()
    result = pyporcupine.check(made, wild.model, **options)
    wall_s = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "status": result.status,
        "reason": min((one.reason for one in result.objects), default=""),
        "wall_s": wall_s,
        "cpu_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "mb": (after.ru_maxrss - before.ru_maxrss) * 1024 / 1e6,
    }


def child(wild: Wild, **options: Any) -> dict[str, Any]:
    """Do the same in a child process."""
    command = [
        sys.executable,
        "-m",
        "benches.porcupine_budgets",
        "--one",
        json.dumps([asdict(wild), options]),
    ]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def cells(shapes: tuple[tuple[int, int, int], ...], seed: int) -> Iterator[tuple[Wild, str]]:
    """Yield every history with the consistency to check."""
    for model in MAKERS:
        for clients, operations, keys in shapes:
            for values in VALUES:
                for lost in LOST:
                    for spoiled in SPOILED:
                        for consistency in CONSISTENCIES:
                            wild = Wild(
                                model, clients, operations, keys, lost, values, spoiled, seed
                            )
                            yield wild, consistency


def main() -> None:
    parser = argparse.ArgumentParser(description="Whether the budgets of pyporcupine hold.")
    parser.add_argument("--quick", action="store_true", help="few sizes, few concurrencies")
    parser.add_argument("--time-s", type=float, default=4.0, help="the budget of each check")
    parser.add_argument("--memory-mb", type=float, default=200.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--models", nargs="*", default=list(MAKERS))
    parser.add_argument("--into", type=Path, help="keep each row there")
    parser.add_argument("--one", type=json.loads, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        wild, options = given.one
        print(json.dumps(measured(Wild(**wild), **options)))
        return
    budget = {"time_s": given.time_s, "memory_mb": given.memory_mb}
    worst: dict[str, dict[str, Any]] = {}
    for wild, consistency in cells(QUICK if given.quick else SHAPES, given.seed):
        if wild.model not in given.models:
            continue
        result = child(wild, consistency=consistency, **budget)
        if given.into:
            with given.into.open("a") as file:
                print(json.dumps([asdict(wild), consistency, result]), file=file)
        if result["status"] == "INVALID" and not wild.spoiled:
            sys.exit(f"a valid history is called INVALID: {wild}, {consistency}: {result}")
        one = worst.setdefault(wild.model, {"n": 0, "unknown": 0, "wall_s": (0,), "mb": (0,)})
        one["n"] += 1
        one["unknown"] += result["status"] == "UNKNOWN"
        for what in ("wall_s", "mb"):
            one[what] = max(one[what], (result[what], consistency, str(wild)), key=lambda w: w[0])
        over = [what for what, most in (("wall_s", given.time_s), ("mb", given.memory_mb))
                if result[what] > most]  # fmt: skip
        if over:
            print(f"beyond the budget: {wild} {consistency} {result}", flush=True)
    print(f"{'model':13} {'histories':>9} {'UNKNOWN':>8} {'most s':>8} {'most MB':>9}")
    for model, one in worst.items():
        (wall_s, *slow), (mb, *large) = one["wall_s"], one["mb"]
        print(f"{model:13} {one['n']:9} {one['unknown']:8} {wall_s:8.2f} {mb:9.1f}")
        print(f"    {slow}\n    {large}")


if __name__ == "__main__":
    main()
