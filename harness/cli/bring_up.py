"""Brings up the cluster that a command runs on."""

from collections.abc import Callable
from pathlib import Path

from harness.clusters.docker_cluster import DockerCluster
from harness.clusters.images import build_images
from harness.core.errors import ClusterError, UsageError
from harness.core.protocols import Cluster
from harness.core.topology import Topology
from harness.run.store import Store


def kept_cluster(store: Store, name: str) -> DockerCluster:
    """One that was left running. Raises UsageError when there is none."""
    try:
        return DockerCluster.attach(store.cluster(name))
    except ClusterError as error:
        raise UsageError(f"--reuse {name}: {error}") from error


def attached(cluster: DockerCluster, note: Callable[[str], None]) -> Cluster:
    """The kept cluster, when it serves."""
    note(f"waiting for the kept cluster {cluster.name}")
    cluster.up()
    return cluster


def brought_up(
    topology: Topology,
    files: Path,
    note: Callable[[str], None],
    *,
    name: str,
    keep: bool,
    clickhouse_image: str | None,
    zookeeper_image: str | None,
) -> Cluster:
    """A fresh one, when it serves; leaves nothing when it raises."""
    images = build_images(note, clickhouse_image=clickhouse_image, zookeeper_image=zookeeper_image)
    note("starting servers")
    cluster = DockerCluster(topology, files, images=images, name=name, keep=keep)
    try:
        cluster.up()
    except BaseException:
        cluster.down()
        raise
    return cluster
