"""Sizes of red runs on simulated servers before and after `harness shrink`.

    python -m benches.shrink [--runs 4] [--candidates 3000] [KIND …]

For each kind of run, whose options are those of `harness run --cluster sim`, the first seeds that
are INVALID are shrunk. Prints a line of Markdown for each run: the anomaly that is kept;
operations, faults, simulated seconds and servers before and after; candidates; seconds of the
processor; and whether it is minimal, so that no call and no fault can be left out alone.
"""

import argparse
import contextlib
import io
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from benches.sim_bugs import TRIALS
from harness.cli.run import request_for
from harness.core.seed import Seed
from harness.core.verdict import Status
from harness.run.stop import Stop
from harness.search.candidates import red_run
from harness.search.script_edits import Sizes
from harness.search.shrinking import CANDIDATES_MAX, ShrinkBudget
from harness.search.shrunk_run import shrink_run
from harness.store.store import Store

PLANTED = (
    "dedup-forgotten", "keeper-minority", "last-part-back", "lost-unmarked", "merge-drops",
    "mutation-late", "quorum-uncounted",
)  # fmt: skip
KINDS: Mapping[str, str] = {
    "stale-follower": "--read server --nemesis partition-keeper-follower --rate 100 "
    "--time-limit 20",
    **{bug: f"{TRIALS[bug]} --bug {bug}" for bug in PLANTED},
}
"""Options of a kind of run."""
SEEDS_MAX = 200


def red_runs(options: str, runs: int, store: Store) -> Iterator[Path]:
    """Yield the directories of the first runs that are INVALID."""
    found = 0
    for seed in range(1, SEEDS_MAX + 1):
        if found == runs:
            return
        words = [*options.split(), "--cluster", "sim", "--report", "none"]
        request = request_for([*words, "--store", str(store.root)])
        with contextlib.redirect_stderr(io.StringIO()):
            run = request.campaign(None, Stop()).run_once(request.spec(Seed(seed)))
        if run.outcome.judgement.status is Status.INVALID:
            found += 1
            yield run.directory.path


def shown(sizes: Sizes) -> str:
    return f"{sizes.calls:,} | {sizes.faults} | {sizes.seconds:.3g} | {sizes.nodes}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--candidates", type=int, default=CANDIDATES_MAX)
    parser.add_argument("kinds", nargs="*", default=list(KINDS))
    given = parser.parse_args()
    print(
        "| kind | seed | keeps | operations | faults | s | servers | → operations | faults | s | "
        "servers | candidates | CPU s | minimal |"
    )
    print("|---" * 14 + "|")
    for kind in given.kinds:
        with tempfile.TemporaryDirectory() as root:
            store = Store(Path(root))
            for path in red_runs(KINDS[kind], given.runs, store):
                red = red_run(str(path), store)
                budget = ShrinkBudget(given.candidates)
                began_s = time.process_time()
                result = shrink_run(red, budget, Stop())
                print(
                    f"| {kind} | {red.info.spec.seed} | {red.kind} | {shown(result.before)} | "
                    f"{shown(result.after)} | {budget.candidates:,} | "
                    f"{time.process_time() - began_s:.1f} | {'yes' if result.minimal else 'no'} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
