"""States a second of the explorer, on one core, by scope: python -m benches.explorer.

Of wall time and of the process's own, which on a busy machine is the fairer figure. One line of
JSON; each scope is explored whole, RUNS times, and the best counts.
"""

import json
import sys
import time
from collections.abc import Mapping
from typing import Any

from harness.native.explorer import Exploration

RUNS = 3
SCOPES: Mapping[str, tuple[str, dict[str, Any]]] = {
    "quorum_3_3_3": ("quorum", {"records": 3, "reads": 3}),
    "truncation_4_7": ("truncation", {"replicas": 4, "records": 7}),
    "truncation_5_7": ("truncation", {"replicas": 5, "records": 7}),
    "truncation_5_7_symmetry": ("truncation", {"replicas": 5, "records": 7, "symmetry": True}),
    "replication_3_3": ("replication", {"records": 3}),
    "zero_copy_2_2": ("zero-copy", {"replicas": 2, "records": 2}),
}


def explored(model: str, scope: dict[str, Any]) -> tuple[int, float, float]:
    """Return the number of states, and of states per second of wall and of processor time."""
    wall_s, own_s = time.perf_counter(), time.process_time()
    search = Exploration(model, **scope)
    while not search.advance(1):
        pass
    own_s = time.process_time() - own_s
    wall_s = time.perf_counter() - wall_s
    return search.states, search.states / wall_s, search.states / own_s


def main() -> None:
    figures = {}
    for name, (model, scope) in SCOPES.items():
        runs = [explored(model, scope) for _ in range(RUNS)]
        figures[name] = {
            "states": runs[0][0],
            "states_per_wall_s": round(max(run[1] for run in runs)),
            "states_per_cpu_s": round(max(run[2] for run in runs)),
        }
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
