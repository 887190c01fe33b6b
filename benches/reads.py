"""Reads a second through the harness, beside a bare clickhouse-driver loop on the same cluster.

    python -m benches.reads [rounds]

Both use the same number of threads, the same query and settings, and take turns of SECONDS each,
so that the ratio holds when the machine's speed drifts.
"""

import sys
import tempfile
import threading
from pathlib import Path
from statistics import median

from clickhouse_driver import Client

from harness.clusters.docker_cluster import DockerCluster
from harness.clusters.images import build_images
from harness.core.clock import WallClock
from harness.core.op import Call, Kind, Op
from harness.core.protocols import Cluster, Session
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.generators import numbered, time_limit
from harness.native.generators import Scheduler
from harness.run.interpreter import run_threads, workers_on
from harness.run.monitor import Monitor
from harness.store.journal import Journal
from workloads.quorum_set import QuorumSet, QuorumSetOptions

SECONDS = 4.0
CONCURRENCY = 6
VALUES = 100
TOKEN = "bench"  # part of a table's name


def bare(cluster: Cluster) -> float:
    """Return the reads per second of plain threads, each with its own connection."""
    counts = [0] * CONCURRENCY
    clock = WallClock()

    def loop(number: int) -> None:
        node = cluster.topology.replicas[number % len(cluster.topology.replicas)]
        endpoint = cluster.endpoint(node)
        client = Client(endpoint.host, port=endpoint.port)
        settings = {"select_sequential_consistency": 1}
        while clock.now_ns() < SECONDS * 1e9:
            client.execute(
                f"SELECT value FROM harness_{TOKEN}.t WHERE key = 0",
                settings=settings,
                columnar=True,
            )
            counts[number] += 1
        client.disconnect()

    threads = [threading.Thread(target=loop, args=(i,)) for i in range(CONCURRENCY)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (clock.now_ns() / 1e9)


def through_harness(session: Session, nodes: tuple[str, ...], directory: Path) -> float:
    """Return the reads per second through generator, interpreter, client, journal and live
    counters."""
    monitor = Monitor("bench", SECONDS)
    with tempfile.TemporaryDirectory(dir=directory) as fresh:
        journal = Journal(Path(fresh) / "history.jsonl")

        def sink(op: Op) -> None:
            journal.append(op)
            monitor.saw(op)

        scheduler = Scheduler(workers_on(nodes, CONCURRENCY), sink)
        clock = WallClock()
        run_threads(
            scheduler,
            time_limit(numbered(lambda _: Call(f="read", key=0)), SECONDS),
            client=session.client,
            nemesis=None,
            clock=clock,
            stop=threading.Event(),
        )
        journal.close()
    figures = monitor.live.read()
    assert figures.kind(Kind.OK) == figures.total, f"reads were refused: {figures.ended}"
    return figures.total / (clock.now_ns() / 1e9)


def filled(cluster: Cluster) -> Session:
    """Return a session whose table has VALUES rows of one key."""
    session = QuorumSet(QuorumSetOptions(), Seed(1)).session(cluster, TOKEN)
    client = session.client(cluster.topology.replicas[0])
    value = 0
    while value < VALUES:
        op = Op(index=0, process=0, kind=Kind.INVOKE, f="insert", time_ns=0, value=value, key=0)
        value += client.invoke(op).kind is Kind.OK
    client.close()
    while session.pending():
        pass
    return session


def main(rounds: int = 5) -> None:
    """Print both rates of every round and the median ratio."""
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        cluster = DockerCluster(Topology.of(), directory / "cluster", images=build_images(print))
        try:
            cluster.up()
            session = filled(cluster)
            ratios = []
            bare(cluster)  # caches warm
            for at in range(rounds):
                # The first of a pair is not always the same one.
                if at % 2:
                    plain = bare(cluster)
                    ours = through_harness(session, cluster.topology.replicas, directory)
                else:
                    ours = through_harness(session, cluster.topology.replicas, directory)
                    plain = bare(cluster)
                ratios.append(ours / plain)
                print(
                    f"bare {plain:8.1f} reads/s   harness {ours:8.1f} reads/s   {ours / plain:.3f}"
                )
            print(f"median ratio {median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})")
            session.close()
        finally:
            cluster.down()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
