"""Thousands of runs on simulated servers, spread over every nemesis that they support: the test of
the checkers against false accusations.

    python -m benches.sim_sweep [--runs 10000] [--seed 1] [--jobs 1] [--directory DIR]
        [--workload NAME] [--table]

The protocol is a repaired one, reads are linearizable, and no bug is planted, so that a run that
is INVALID accuses falsely. Only what a setting explains is right: power cuts that took every copy
of a part are counted apart. Runs are quick; those of workloads that need longer faults are longer.
DIR gets runs.jsonl, a line for each run: its command, its verdict, how many calls clients made, CPU
seconds; and what any run that is INVALID left. With --workload all runs are of that one. A sweep
that was killed goes on with the runs that have no line. In the end, or with --table at once, tables
by nemesis and by workload are printed.
"""

import argparse
import contextlib
import io
import json
import shutil
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from checkers.judge import Judgement
from checkers.triage.defects import DEFECTS
from checkers.triage.explanation import KNOWN
from harness.cli.run import request_for
from harness.clusters.sim_cluster import SimCluster
from harness.core.errors import UsageError
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.core.verdict import Status
from harness.run.jobs import side_by_side
from harness.run.stop import Stop
from harness.sim.simulation import simulated_dialect
from harness.spec.catalogue import WORKLOADS
from nemesis.catalogue import NEMESES, parse_nemesis
from nemesis.composed import check_kind, check_mechanisms
from nemesis.options import FaultOptions

ALL = "--cluster sim --report none"
PROTOCOLS = ("repaired", "repaired-25.8")
"""Protocols, of which each nemesis gets the first whose servers have what it needs."""
BY_SETTING = "INVALID by a setting"
"""Status of a run whose violation is explained by what its servers were told not to sync."""
QUICK = "--time-limit 6 --rate 40 --interval 1.5 --duration 1"
SIMULATED = "insert-retried,move,replace,attach-from,drop,delete,update,optimize"
"""Statements that simulated servers execute."""


@dataclass(frozen=True)
class Own:
    """Faults and options that a workload needs, in addition to quick faults or in their place."""

    fault: str
    options: str
    beside: tuple[str, ...] = ()
    """The nemeses that leave the fault its effect; none given: all."""
    variants: tuple[str, ...] = ("",)
    """Options of which a run has one or another, in turn."""


OWN: Mapping[str, Own] = {
    "replication": Own("none", f"{QUICK} --option big-rows=100"),
    "merges": Own("none", f"{QUICK} --option own-rows=100"),
    "statements": Own(
        "none",
        f"{QUICK} --option statements={SIMULATED} --fsync all",
        variants=(
            "--option sees=local",
            "--option sees=acknowledged",
            "--option sees=acknowledged --option tables=4",
            "--option sees=local --option reads=true",
            "--option sees=acknowledged --option sync=true",
            "--option sees=local --option tables=4 --option reads=true",
            "--option sees=acknowledged --option view=true",
            "--option sees=acknowledged --option ttl=true",
            "--option sees=local --option view=true --option ttl=true --option reads=true",
        ),
    ),
    "phantom": Own("partition", "--time-limit 8 --rate 40 --interval 1 --duration 4"),
    "liveness-nodes": Own(
        "pause-clickhouse-one", "--time-limit 70 --rate 5 --interval 1 --duration 25"
    ),
    "failed-parts": Own(
        "partition-one,kill-clickhouse-majority",
        "--time-limit 100 --rate 10 --interval 4 --duration 14 --links interserver",
        ("none", "stop-fetches", "loss", "slow-fetches", "clock-skew"),
    ),
}
MIXTURES = (
    *("partition,kill", "partition,pause", "kill,pause,stop-fetches", "loss,restart"),
    *("pause-clickhouse,stop-fetches", "slow-fetches,clock-skew,partition"),
)


@cache
def nemeses() -> dict[str, str]:
    """Return every nemesis that simulated servers support, and some combinations, with the
    protocol of their servers."""
    out = {}
    for name in (*NEMESES, *MIXTURES):
        for protocol in reversed(PROTOCOLS):
            with contextlib.suppress(UsageError):
                faults = parse_nemesis(name, Topology.of(), Seed(0), FaultOptions())
                check_kind(faults, SimCluster, "sim")
                check_mechanisms(faults, simulated_dialect(protocol))
                out[name] = protocol
    return out


@cache
def cells() -> list[tuple[str, str]]:
    """Return pairs of workload and nemesis; every other one is of quorum-set."""
    others = [n for n, entry in WORKLOADS.items() if entry.simulated and n != "quorum-set"]
    return [
        cell
        for other in others
        for nemesis in nemeses()
        if other not in OWN or nemesis in (OWN[other].beside or (nemesis,))
        for cell in (("quorum-set", nemesis), (other, _with_needed_fault(other, nemesis)))
    ]


def _with_needed_fault(workload: str, nemesis: str) -> str:
    """Return the nemesis together with the fault that the workload needs."""
    own = OWN[workload].fault if workload in OWN else nemesis
    names = (*nemesis.split(","), *own.split(","))
    return ",".join(name for name in dict.fromkeys(names) if name != "none" or own == nemesis)


def arguments(workload: str, nemesis: str, turn: int = 0) -> list[str]:
    """Return the arguments of `harness run`, in the given turn of the workload's variants."""
    needed = {nemeses().get(name) for name in nemesis.split(",")}
    protocol = next((one for one in reversed(PROTOCOLS) if one in needed), PROTOCOLS[0])
    if simulated_dialect(protocol).lacks(WORKLOADS[workload].options().needs):
        protocol = PROTOCOLS[-1]
    own = OWN.get(workload, Own("none", QUICK))
    options = f"{own.options} {own.variants[turn % len(own.variants)]}"
    reading = "--read linearizable" if workload == "quorum-set" else ""
    given = f"--workload {workload} --nemesis {nemesis} {reading} --protocol {protocol}"
    return f"{given} {ALL} {options}".split()


def one(number: int, first: int, directory: Path, workload: str = "") -> dict[str, Any]:
    """Execute a run, of one workload if it is named, and return its result; delete the files of a
    good run."""
    of = [cell for cell in cells() if workload in ("", cell[0])]
    (workload, nemesis), turn = of[number % len(of)], number // len(of)
    store, cpu = directory / "store", time.process_time()
    request = request_for([*arguments(workload, nemesis, turn), "--store", str(store)])
    spec = request.spec(Seed(first + number))
    with contextlib.redirect_stderr(io.StringIO()):
        run = request.campaign(None, Stop()).run_once(spec)
    judged = run.outcome.judgement
    by_f, _ = run.outcome.history.columns.tally(())
    if judged.status is not Status.INVALID:
        shutil.rmtree(run.directory.path)
    return {
        "run": number,
        "workload": workload,
        "nemesis": nemesis,
        "status": BY_SETTING if is_due_to_settings(judged) else judged.status.value,
        "calls": sum(sum(ends) for _, ends, _, _ in by_f),
        "ok": sum(ok for _, (ok, *_), _, _ in by_f),
        "cpu_s": round(time.process_time() - cpu, 3),
        "by": [v.checker for v in judged.verdicts if v.status is not Status.VALID],
        "again": spec.command,
    }


def is_due_to_settings(judged: Judgement) -> bool:
    """Return whether a run is INVALID for nothing but the settings of its servers."""
    cause = judged.explanation
    known = cause.defects if cause is not None and cause.status == KNOWN else ()
    return bool(known) and all(DEFECTS[defect.name].setting for defect in known)


def table(rows: list[dict[str, Any]], what: str) -> Iterator[str]:
    """Yield Markdown: a line for each nemesis, or workload, and the sum."""
    by: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        by[row[what]].append(row)
    statuses = ("VALID", "UNKNOWN", BY_SETTING, "INVALID")
    yield f"| {what} | runs | {' | '.join(statuses)} | calls | answered | CPU s |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for name, some in [*sorted(by.items()), ("all", rows)]:
        counts = [sum(row["status"] == status for row in some) for status in statuses]
        sums = [round(sum(row[key] for row in some)) for key in ("calls", "ok", "cpu_s")]
        yield f"| {name} | " + " | ".join(f"{n:,}" for n in (len(some), *counts, *sums)) + " |"


def stored_rows(log: Path) -> list[dict[str, Any]]:
    """Return the runs in the file. An incomplete last line, of a sweep that was killed, is
    removed."""
    text = log.read_text() if log.exists() else ""
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        log.write_text(whole)
    return [json.loads(line) for line in whole.splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=lambda text: int(text, 0), default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--directory", type=Path, default=Path("sweep"))
    parser.add_argument("--workload", default="", choices=sorted({name for name, _ in cells()}))
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    given.directory.mkdir(parents=True, exist_ok=True)
    log, stop = given.directory / "runs.jsonl", Stop()
    rows = stored_rows(log)
    known = {row["run"] for row in rows}
    left = [number for number in range(0 if given.table else given.runs) if number not in known]

    def work(at: int) -> dict[str, Any]:
        return one(left[at], given.seed, given.directory, given.workload)

    with log.open("a") as file, stop.obeying_signals():
        for row in side_by_side(work, range(len(left)), given.jobs, stop):
            rows.append(row)
            print(json.dumps(row), file=file, flush=True)
            if row["status"] == "INVALID":
                print(row["again"], row["by"], flush=True)
    for what in ("nemesis", "workload"):
        print(*table(rows, what), sep="\n", end="\n\n")


if __name__ == "__main__":
    main()
