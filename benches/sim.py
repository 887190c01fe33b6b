"""How fast the simulated cluster is.

    python -m benches.sim [--runs 5]

Prints a JSON object for each rate of operations: over so many runs of 30 s under partitions, with
linearizable reads and judged, runs, operations, events and simulated seconds per second of CPU
time, and the simulated seconds per second of wall time. CPU time, for other programs on the
machine's cores count against wall time.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

from harness.clusters.sim_cluster import SimCluster
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.run.monitor import Monitor
from harness.run.phases import Trial, conduct
from harness.run.plan import Plan
from harness.run.stop import Stop
from harness.run.store import RunDirectory
from nemesis.catalogue import parse_nemesis
from nemesis.options import FaultOptions
from workloads.quorum_set import QuorumSet, QuorumSetOptions

TIME_LIMIT_S = 30.0
RATES = (0.1, 1.0, 10.0, 60.0, None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    for rate in RATES:
        print(json.dumps(measured(rate, runs)), flush=True)


def measured(rate: float | None, runs: int) -> dict[str, float | str | None]:
    wall, cpu = time.perf_counter(), time.process_time()
    operations = events = 0
    simulated_s = 0.0
    for seed in range(1, runs + 1):
        one, cluster = run(Seed(seed), rate)
        operations += one
        events += cluster.simulation.world.events
        simulated_s += cluster.simulation.world.now_ns / 1e9
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {
        "ops_per_s_asked": rate,
        "runs": runs,
        "operations_per_run": operations // runs,
        "runs_per_cpu_s": round(runs / cpu, 2),
        "operations_per_cpu_s": round(operations / cpu),
        "events_per_cpu_s": round(events / cpu),
        "simulated_s_per_cpu_s": round(simulated_s / cpu, 1),
        "simulated_s_per_wall_s": round(simulated_s / wall, 1),
    }


def run(seed: Seed, rate: float | None) -> tuple[int, SimCluster]:
    """How many operations there were, and the cluster."""
    topology = Topology.of()
    cluster = SimCluster(topology, seed.child("cluster"), protocol="repaired")
    cluster.up()
    plan = Plan(
        workload="quorum-set",
        nemesis="partition",
        seed=seed,
        again="",
        promise="linearizable",
        time_limit_s=TIME_LIMIT_S,
        rate=rate,
    )
    workload = QuorumSet(QuorumSetOptions(read="linearizable"), seed.child("workload"))
    nemesis = parse_nemesis("partition", topology, seed, FaultOptions())
    with tempfile.TemporaryDirectory() as directory:
        monitor, place = Monitor("", TIME_LIMIT_S), RunDirectory(Path(directory))
        place.begin(plan, topology, cluster.versions())
        outcome = conduct(
            Trial(plan, cluster, workload, nemesis, place, monitor, Stop(), "bench", False)
        )
    return len(outcome.history.pairs), cluster


if __name__ == "__main__":
    main()
