r"""Seconds from the start of a run of `statements` to its first violation, for each run of a store.

    harness run --workload statements --time-limit 40 --concurrency 9 -o ops-per-s=40 \
        --count 10 --seed 101 --store DIRECTORY
    python -m benches.first_violation DIRECTORY

A row has gone wrong at the latest when the last statement had ended of the fewest which no order
explains; the first violation is that of the row for which this was first.
"""

import json
import sys
from pathlib import Path
from statistics import median

from checkers.phrasing import seconds
from checkers.statements.rows import RowViolation, fewest_of, violations_of
from harness.core.history import History
from harness.store.journal import read_history


def done_ns(history: History, violation: RowViolation) -> int:
    """Return when the last of the fewest statements had ended that no order explains."""
    pairs = [history.pairs[step.place] for step in fewest_of(violation)]
    return max((pair.end or pair.invoke).time_ns for pair in pairs)


def main() -> None:
    """Print the seed, the verdict of the rows and the first violation of each run."""
    found: list[int] = []
    for journal in sorted(Path(sys.argv[1]).glob("*/2*/history.jsonl")):
        history = read_history(journal)
        results = json.loads((journal.parent / "results.json").read_text())
        status = next(v["status"] for v in results["verdicts"] if v["checker"] == "statement-rows")
        violations = [(done_ns(history, one), one) for one in violations_of(history)]
        seed = int(journal.parent.name.rpartition("x")[2], 16)
        if not violations:
            print(f"{seed}: {status}")
            continue
        at_ns, first = min(violations, key=lambda one: one[0])
        found.append(at_ns)
        print(f"{seed}: {status}, {first.kind} of row {first.row} by {seconds(at_ns)}")
    if found:
        every = f"{seconds(min(found))} to {seconds(max(found))}"
        print(f"{len(found)} runs with a violation: {every}, median {seconds(int(median(found)))}")


if __name__ == "__main__":
    main()
