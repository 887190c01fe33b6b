"""Clusters of containers for the commands."""

import os
from collections.abc import Callable
from pathlib import Path

from compose.releases import ImageChoice
from compose.settings import Settings, Storage
from harness.clusters.disks import require_faulty_storage
from harness.clusters.docker_cluster import DockerCluster
from harness.clusters.images import build_images
from harness.clusters.store_http import StoreKeys
from harness.clusters.user_store import check_bucket
from harness.core.dialect import Dialect
from harness.core.errors import ClusterError, UsageError
from harness.core.protocols import Cluster
from harness.core.topology import Topology
from harness.store.store import Store


def kept_cluster(store: Store, name: str) -> DockerCluster:
    """Return a kept cluster. Raises UsageError if there is none of that name."""
    try:
        return DockerCluster.attach(store.cluster(name))
    except ClusterError as error:
        raise UsageError(f"--reuse {name}: {error}") from error


def met_choice(cluster: DockerCluster) -> ImageChoice:
    """Return the choice that leads to the servers of a kept cluster."""
    images, nodes = cluster.images, cluster.topology.nodes
    tags = {node.name: images.of(node).tag for node in nodes}
    return ImageChoice.of_run(tags, cluster.engines)


def attached(
    cluster: DockerCluster,
    note: Callable[[str], None],
    *,
    choice: ImageChoice | None = None,
    accept: Callable[[Dialect], None] = lambda _: None,
) -> Cluster:
    """Return a kept cluster, which its `up` heals. `choice` has the versions to upgrade to;
    `accept` is as for `fresh_cluster`."""
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
    """Build the images and return a cluster that its `up` creates. `accept` raises UsageError if
    the run needs a mechanism that servers of the dialect lack; so does a bucket of the topology
    that cannot be used with the keys in the environment. Raises ClusterError if this machine can
    have no faulty disk and the settings want one."""
    if topology.bucket is not None:
        note("looking at the bucket")
        check_bucket(topology.bucket, StoreKeys.of(os.environ))
    images = build_images(note, choice)
    accept(images.engines(topology).dialect)
    if settings is not None and settings.storage is Storage.FAULTY:
        require_faulty_storage()
    note("starting servers")
    return DockerCluster(topology, files, images=images, settings=settings, name=name, keep=keep)
