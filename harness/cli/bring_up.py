"""The cluster that a command runs on."""

from collections.abc import Callable
from pathlib import Path

from compose.releases import ImageChoice
from compose.settings import Settings
from harness.clusters.docker_cluster import DockerCluster
from harness.clusters.images import build_images
from harness.core.dialect import Dialect
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


def met_choice(cluster: DockerCluster) -> ImageChoice:
    """Return the choice that leads to the servers of a kept cluster."""
    images, nodes = cluster.images, cluster.topology.nodes
    tags = {node.name: images.of(node).tag for node in nodes}
    return ImageChoice.met(tags, cluster.engines)


def attached(
    cluster: DockerCluster,
    note: Callable[[str], None],
    *,
    choice: ImageChoice | None = None,
    accept: Callable[[Dialect], None] = lambda _: None,
) -> Cluster:
    """Return the kept cluster, which its `up` heals. `choice` says what its servers are to be
    upgraded to, `accept` is as for a fresh one."""
    if choice is not None and choice.upgrade_to:
        cluster.offer(build_images(note, choice))
        accept(cluster.engines.dialect)
    note(f"waiting for the kept cluster {cluster.name}")
    return cluster


def fresh_cluster(
    topology: Topology,
    files: Path,
    note: Callable[[str], None],
    *,
    name: str,
    keep: bool,
    choice: ImageChoice,
    accept: Callable[[Dialect], None],
    settings: Settings | None = None,
) -> Cluster:
    """Return a cluster that its `up` creates; builds the images that it needs. `accept` raises
    UsageError where what is to be run needs more than servers of a dialect have."""
    images = build_images(note, choice)
    accept(images.engines(topology).dialect)
    note("starting servers")
    return DockerCluster(topology, files, images=images, settings=settings, name=name, keep=keep)
