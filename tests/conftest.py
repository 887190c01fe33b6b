"""Shared by all tests: the cluster of real servers."""

from collections.abc import Iterator

import pytest
from real_servers import THREE

from harness.clusters.docker_cluster import DockerCluster
from harness.clusters.images import build_images


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerCluster]:
    """Three replicas and three ZooKeeper servers, as another test of the module left them."""
    directory = tmp_path_factory.mktemp("cluster")
    cluster = DockerCluster(THREE, directory, images=build_images(lambda text: None))
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down()
