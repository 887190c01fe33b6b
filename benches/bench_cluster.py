"""Brings up the real cluster of a bench, which needs one ZooKeeper server, and removes it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from compose.releases import ImageChoice
from compose.settings import Settings
from harness.core.protocols import Cluster
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.run.bring_up import fresh_cluster
from harness.store.store import Store


def note(text: str) -> None:
    """Print what goes on to stderr, beside the results."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def bench_cluster(
    directory: str, clickhouse: str, *, replicas: int = 3, settings: Settings | None = None
) -> Iterator[Cluster]:
    """Yield a cluster of a version of ClickHouse whose files are in a store in `directory`. Raises
    ClusterError if it does not come up."""
    store = Store(Path(directory))
    store.prepare()
    name = f"harness-{Seed.fresh().value:08x}"
    cluster = fresh_cluster(
        Topology.of(replicas=replicas, keepers=1, clickhouse=clickhouse),
        store.cluster(name),
        note,
        name=name,
        keep=False,
        choice=ImageChoice(clickhouse=clickhouse),
        accept=lambda _: None,
        settings=settings,
    )
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down()
