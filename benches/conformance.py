"""Operations a second of runs that replay ZooKeeper's log while they go on, beside runs that replay
it at rest only.

    python -m benches.conformance [pairs]

The two take turns with the same seeds, each on a cluster of its own, so that the ratio holds when
the machine's speed drifts. The processor time is that of the harness alone, not of the servers.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from harness.core.op import Kind
from harness.store.store import Store

SECONDS = 20
AT_REST = """
import harness.run.conformance
harness.run.conformance.INTERVAL_S = 1e6
"""
MAIN = """
import sys
from harness.cli.main import main
sys.exit(main())
"""


def rates(code: str, seed: int) -> tuple[float, float]:
    """Return the operations a second of one run, and the processor seconds of the harness."""
    with tempfile.TemporaryDirectory() as directory:
        words = ["run", "--time-limit", str(SECONDS), "--seed", str(seed), "--report", "none"]
        before = os.times()
        subprocess.run(
            [sys.executable, "-c", code, *words, "--store", directory],
            stdout=subprocess.DEVNULL,
            check=False,  # a verdict is no failure
        )
        after = os.times()
        history = Store(Path(directory)).find("latest").history()
        made = [
            pair
            for pair in history.pairs
            if pair.kind is Kind.OK and pair.invoke.time_ns < SECONDS * 1e9
        ]
    spent = (after.children_user + after.children_system) - (
        before.children_user + before.children_system
    )
    return len(made) / SECONDS, spent


def main() -> None:
    """Run the pairs and print a table."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    ratios: list[float] = []
    print("seed  followed ops/s  at rest ops/s  ratio  followed CPU s  at rest CPU s")
    for seed in range(1, pairs + 1):
        followed, at_rest = rates(MAIN, seed), rates(AT_REST + MAIN, seed)
        ratios.append(followed[0] / at_rest[0])
        print(
            f"{seed:4}  {followed[0]:14.1f}  {at_rest[0]:13.1f}  {ratios[-1]:5.3f}  "
            f"{followed[1]:14.2f}  {at_rest[1]:13.2f}"
        )
    print(f"median ratio {median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})")


if __name__ == "__main__":
    main()
