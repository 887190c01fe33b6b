"""Speed of the simulated cluster.

    python -m benches.sim [--runs 20]

Prints a JSON object for each rate of operations: over so many runs of 30 s under partitions, with
linearizable reads and judged, runs, operations, events and simulated seconds per second of CPU
time, and the simulated seconds per second of wall time. CPU time, for other programs on the
machine's cores count against wall time.

"servers_alone": simulated seconds per second of CPU time where the servers are asked the calls of
the same runs at the same times, and the same links are cut, with no harness around them: no
generator, no history, no judgement. About as fast would be a harness that cost nothing.
"reading_us_per_operation": CPU time of reading a run's history from its file, which is in the
others too.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from checkers.sets.key_sets import insert_value
from harness.clients.clickhouse import QuerySettings
from harness.clients.replicated_table import ReplicatedTable
from harness.clients.set_calls import SEQUENTIAL, SET_SCHEMA, quorum
from harness.clusters.sim_cluster import SimCluster
from harness.core.capabilities import CanPartition
from harness.core.history import History
from harness.core.op import NEMESIS, Kind
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.run.phases import execute
from harness.run.run_context import RunContext
from harness.sim.world import MS
from harness.spec.run_spec import RunSpec
from harness.store.journal import read_history
from harness.store.store import RunDirectory
from nemesis.grudge import from_json
from workloads.quorum_set import QuorumSet, QuorumSetOptions

TIME_LIMIT_S = 30.0
TIMEOUT_MS = 10_000
RATES = (0.1, 1.0, 10.0, 60.0, None)
NUMBERS = 1_000_000
"""First number of this file's requests; the cluster's own world uses smaller ones."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    runs = parser.parse_args().runs
    run(Seed(0), 1.0)  # what a process does once is not counted
    for rate in RATES:
        print(json.dumps(measured(rate, runs)), flush=True)


def measured(rate: float | None, runs: int) -> dict[str, float | str | None]:
    wall, cpu = time.perf_counter(), time.process_time()
    operations = events = 0
    simulated_s = reading = reading_wall = 0.0
    histories = []
    for seed in range(1, runs + 1):
        history, cluster, (again_wall, again) = run(Seed(seed), rate)
        reading_wall, reading = reading_wall + again_wall, reading + again
        histories.append(history)
        operations += history.columns.calls_count()
        events += cluster.simulation.world.events
        simulated_s += cluster.simulation.world.now_ns / 1e9
    wall, cpu = time.perf_counter() - wall - reading_wall, time.process_time() - cpu - reading
    alone = [servers_alone(Seed(seed), history) for seed, history in enumerate(histories, 1)]
    return {
        "ops_per_s_asked": rate,
        "runs": runs,
        "operations_per_run": operations // runs,
        "runs_per_cpu_s": round(runs / cpu, 2),
        "operations_per_cpu_s": round(operations / cpu),
        "events_per_cpu_s": round(events / cpu),
        "simulated_s_per_cpu_s": round(simulated_s / cpu, 1),
        "simulated_s_per_wall_s": round(simulated_s / wall, 1),
        "reading_us_per_operation": round(reading / operations * 1e6, 2),
        "servers_alone": round(sum(s for s, _ in alone) / sum(cpu for _, cpu in alone), 1),
    }


def run(seed: Seed, rate: float | None) -> tuple[History, SimCluster, tuple[float, float]]:
    """Return the history, the cluster, and the wall and CPU seconds to read the history again."""
    topology = Topology.of()
    cluster = SimCluster(topology, seed.child("cluster"), protocol="repaired")
    cluster.up()
    spec = RunSpec(
        workload="quorum-set",
        nemesis="partition",
        seed=seed,
        extend=1,
        promise="linearizable",
        time_limit_s=TIME_LIMIT_S,
        rate=rate,
    )
    workload = QuorumSet(QuorumSetOptions(read="linearizable"), seed.child("workload"))
    with tempfile.TemporaryDirectory() as directory:
        place = RunDirectory(Path(directory), durable=False)
        place.begin(spec, cluster.engines, topology, cluster.versions())
        outcome = execute(RunContext.of(spec, cluster, directory=place, workload=workload))
        wall, cpu = time.perf_counter(), time.process_time()
        read_history(place.journal)
        reading = time.perf_counter() - wall, time.process_time() - cpu
    return outcome.history, cluster, reading


def _plain(settings: QuerySettings) -> dict[str, int | str]:
    return {str(name): value for name, value in settings.items()}


def servers_alone(seed: Seed, history: History) -> tuple[float, float]:
    """Return the simulated seconds and the CPU seconds."""
    cluster = SimCluster(Topology.of(), seed.child("cluster"), protocol="repaired")
    cluster.up()
    table = ReplicatedTable(cluster, "bench", SET_SCHEMA)
    table.create()
    servers = cluster.simulation.servers
    into = f"INSERT INTO {table.name} VALUES"
    acknowledged = _plain(quorum(2, TIMEOUT_MS))
    linearizable = _plain(SEQUENTIAL) | {"sequential_reading": "linearizable"}
    called = [pair.invoke for pair in history.pairs if pair.invoke.f in ("insert", "read")]
    cuts = [op for op in history.nemesis if op.f in ("partition", "heal") and op.kind is Kind.OK]
    ops = sorted((*called, *cuts), key=lambda op: op.index)
    zero_ns, cpu = servers.now_ns, time.process_time()

    def go_on(until_ns: int) -> None:
        while (ended := servers.step(zero_ns + until_ns)) is not None:
            servers.answer(ended)

    for number, call in enumerate(ops, NUMBERS):
        go_on(call.time_ns)
        if call.process == NEMESIS:
            assert isinstance(call.value, Mapping), "a fault says what it does"
            if call.value["edge"] == "begin":
                grudge = call.value["grudge"]
                assert isinstance(grudge, Mapping), "a partition has its links"
                cluster.part(CanPartition).cut(from_json(grudge))
            else:
                cluster.part(CanPartition).mend()
            continue
        assert call.node is not None, "a call of one server"
        assert call.key is not None, "a call on one set"
        if call.f == "insert":
            rows = [(call.key, insert_value(call))]
            servers.ask(number, call.node, into, rows, acknowledged, TIMEOUT_MS * MS)
        else:
            sql = f"SELECT value FROM {table.name} WHERE key = {call.key}"
            servers.ask(number, call.node, sql, None, linearizable, TIMEOUT_MS * MS)
    go_on(history[-1].time_ns)
    return (servers.now_ns - zero_ns) / 1e9, time.process_time() - cpu


if __name__ == "__main__":
    main()
