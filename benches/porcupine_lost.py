"""Queues, stacks and counters with calls that never returned: verdict and CPU seconds.

    python -m benches.porcupine_lost [--quick] [--time-s 4] [--than DIRECTORY]

A row is a model, its lost calls per mille, clients and operations; valid and spoiled histories are
columns. `--than` names a directory with another build of pyporcupine, which judges the same
histories in the same run.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pyporcupine

from benches.porcupine_wild import Draft, Maker, Wild, history

Shape = tuple[str, Wild]


def _ones(state: int, one: Draft) -> tuple[int, Any]:
    return (state, state) if one.f == "read" else (state + 1, None)


def _tickets(state: int, one: Draft) -> tuple[int, Any]:
    return (state, state) if one.f == "read" else (state + 1, state + 1)


def _draw(random: Any, _value: int) -> tuple[str, Any]:
    return ("read", None) if random.random() < 0.5 else ("add", 1)


COUNTERS = {
    "counter, adds of 1": Maker(int, _draw, _ones, frozenset({"read"})),
    "counter, tickets": Maker(int, _draw, _tickets, frozenset({"read"})),
}
MODELS = ("fifo-queue", "queue", *COUNTERS, "stack", "priority-queue", "deque")
LOST = (0, 10)
CLIENTS = (5, 20, 50)
OPERATIONS = (1_000, 10_000, 100_000)


def shapes(*, quick: bool) -> Iterator[Shape]:
    """Yield what is judged: a valid history and a spoiled one for each."""
    for name in MODELS:
        for lost in LOST:
            for clients in CLIENTS[1:2] if quick else CLIENTS:
                for operations in OPERATIONS[:2] if quick else OPERATIONS:
                    for spoiled in ("", "late"):
                        model: Any = name.partition(",")[0]
                        yield name, Wild(model, clients, operations, lost=lost, spoiled=spoiled)


def judged(name: str, wild: Wild, time_s: float) -> tuple[str, float]:
    """Return the status and the CPU seconds of a check on one thread."""
    made = history(wild, COUNTERS.get(name))
    began = time.process_time()
    try:
        status = pyporcupine.check(made, wild.model, time_s=time_s, threads=1).status
    except ValueError:  # a build that lacks the model
        return "none", 0.0
    return status, time.process_time() - began


def answers(rows: list[Shape], time_s: float, than: str) -> Iterator[tuple[str, float]]:
    """Yield what the build of a directory says of each, from a process of its own."""
    question = json.dumps([time_s, [(name, asdict(wild)) for name, wild in rows]])
    path = os.pathsep.join([than, os.getcwd()])
    with subprocess.Popen(
        [sys.executable, "-m", "benches.porcupine_lost", "--rows", question],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        for line in process.stdout:
            status, cpu_s = json.loads(line)
            yield status, cpu_s


def main() -> None:
    parser = argparse.ArgumentParser(description="Containers and counters with lost calls.")
    parser.add_argument("--quick", action="store_true", help="one concurrency, two lengths")
    parser.add_argument("--time-s", type=float, default=4.0, help="the budget of each check")
    parser.add_argument("--than", metavar="DIRECTORY", help="another build of pyporcupine")
    parser.add_argument("--rows", type=json.loads, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.rows:
        time_s, rows = given.rows
        for name, wild in rows:
            print(json.dumps(judged(name, Wild(**wild), time_s)), flush=True)
        return
    rows = list(shapes(quick=given.quick))
    others = answers(rows, given.time_s, given.than) if given.than else None
    print(f"{'model':20} {'lost':>4} {'c':>3} {'n':>7}  {'valid':16} {'spoiled':16} of before")
    cells: list[str] = []
    for name, wild in rows:
        found = [judged(name, wild, given.time_s)]
        found += [] if others is None else [next(others)]
        cells += [f"{status:7} {cpu_s:8.4f}" for status, cpu_s in found]
        if wild.spoiled:
            step = len(cells) // 2
            ordered = cells[::step] + [cell for at, cell in enumerate(cells) if at % step]
            head = f"{name:20} {wild.lost:4} {wild.clients:3} {wild.operations:7}"
            print(head, "", " ".join(ordered), flush=True)
            cells.clear()


if __name__ == "__main__":
    main()
