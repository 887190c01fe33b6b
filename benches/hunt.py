"""Hunts for planted bugs beside blind sweeps: how many runs and CPU seconds until the first hit.

    python -m benches.hunt [--tries 10] [--runs 300] [--jobs 1] [--generic]
        [--ways blind,varied,steered] [BUG …]

Each bug is looked for in three ways, each with the same number of tries, every try with a seed of
its own and at most that many runs: *blind*, the same options and seeds that are drawn; *varied*,
options of the nemesis that are drawn as well; *steered*, as `harness hunt` does. A hit is a run
with an anomaly that the same run without the bug does not have. The options of a bug are those of
`benches.sim_bugs`; with --generic the faults, their pace and the length of a run are the same for
every bug. Prints a line of Markdown for each bug: tries that hit, and the median and the worst
number of runs and CPU seconds, where a try without a hit counts as more than all its runs.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from benches.sim_bugs import TRIALS
from harness.cli.run import request_for
from harness.core.seed import Seed
from harness.run.jobs import side_by_side
from harness.run.stop import Stop
from harness.search.hunt_runs import HuntRuns, base_options
from harness.search.hunting import AHEAD, Hunt, HuntState

GENERIC: Mapping[str, str] = {
    "--nemesis": "partition,kill,pause,stop-fetches,loss",
    "--interval": "1",
    "--duration": "2",
    "--rate": "60",
    "--time-limit": "8",
}
"""Faults, their pace and the length of a run of every bug under --generic."""
REPAIRED = ("--protocol", "repaired")
"""Protocol of a generic run that names none, so that no defect of a server is found in place of the
planted bug."""
WAYS: Mapping[str, tuple[bool, bool]] = {
    "blind": (False, False),
    "varied": (False, True),
    "steered": (True, True),
}
"""Whether inputs are mutations, and whether options are drawn."""


def options_of(bug: str, generic: bool) -> dict[str, str | tuple[str, ...]]:
    """Return the options of a bug's runs, by their long names."""
    words = TRIALS[bug].split()
    if generic:
        given = zip(words[::2], words[1::2], strict=True)
        own = [word for pair in given if pair[0] not in {*GENERIC, "--links"} for word in pair]
        protocol = () if REPAIRED[0] in own else REPAIRED
        words = [*own, *protocol, *(word for pair in GENERIC.items() for word in pair)]
    request = request_for([*words, "--cluster", "sim", "--bug", bug])
    return base_options(request.given)


def tried(bug: str, generic: bool, way: str, seed: int, runs_max: int) -> tuple[int | None, float]:
    """Return the number of runs until the first hit, and their CPU seconds."""
    base = options_of(bug, generic)
    runs = HuntRuns(base, Path("store"))
    steered, varied = WAYS[way]
    state = HuntState(Seed(seed).child(bug).value)
    hunt = Hunt(base, runs.request.topology, state, steered, varied)
    without = HuntRuns({name: value for name, value in base.items() if name != "bug"}, runs.store)
    while state.taken < runs_max:
        while state.drawn < min(runs_max, state.taken + AHEAD):
            hunt.draw()
        run = runs(state.waiting[0])
        given, _ = hunt.take(run)
        if run.kinds and not {*run.kinds} <= {*without(given).kinds}:
            return state.taken, state.cpu_s
    return None, state.cpu_s


def cell(tries: Sequence[tuple[int | None, float]], runs_max: int) -> str:
    """Return the cells of a way: hits, runs, CPU seconds."""
    counts = [runs_max + 1 if runs is None else runs for runs, _ in tries]
    hits = sum(runs is not None for runs, _ in tries)
    return " | ".join((f"{hits}", _pair(counts, runs_max), _seconds([s for _, s in tries])))


def _pair(counts: Sequence[int], runs_max: int) -> str:
    def shown(count: float) -> str:
        return f"> {runs_max}" if count > runs_max else f"{count:g}"

    return f"{shown(median(counts))} / {shown(max(counts))}"


def _seconds(seconds: Sequence[float]) -> str:
    return f"{median(seconds):.2g} / {max(seconds):.2g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tries", type=int, default=10)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--generic", action="store_true")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("bugs", nargs="*", default=list(TRIALS))
    given = parser.parse_args()
    names = given.ways.split(",")
    columns = [f"{way}: {what}" for way in names for what in ("hits", "runs", "CPU s")]
    print("| bug | " + " | ".join(columns) + " |")
    print("|---" * (1 + len(columns)) + "|", flush=True)
    cases = [(bug, way, n + 1) for bug in given.bugs for way in names for n in range(given.tries)]

    def work(case: tuple[str, str, int]) -> tuple[int | None, float]:
        return tried(case[0], given.generic, case[1], case[2], given.runs)

    results: list[tuple[int | None, float]] = []
    per_bug = len(names) * given.tries
    for result in side_by_side(work, cases, given.jobs, Stop()):
        results.append(result)
        print(cases[len(results) - 1], result, file=sys.stderr, flush=True)
        if len(results) % per_bug == 0:
            bug, own = given.bugs[len(results) // per_bug - 1], results[-per_bug:]
            ways = [own[at : at + given.tries] for at in range(0, per_bug, given.tries)]
            print(
                f"| {bug} | " + " | ".join(cell(way, given.runs) for way in ways) + " |", flush=True
            )


if __name__ == "__main__":
    main()
