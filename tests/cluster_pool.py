"""Clusters of real servers that modules of tests share.

To bring up six servers takes ten seconds of two cores. A module therefore gets the cluster of the
module before it, healed and without its data, if both ask for servers of the same shape.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError
from real_servers import THREE, seen_on

from compose.releases import ImageChoice
from compose.settings import Settings
from harness.clients.clickhouse import DatabaseError, connect
from harness.clusters.docker_cluster import DockerCluster
from harness.clusters.images import build_images
from harness.core.capabilities import CanIntercept, CanPartition, CanStopFetches
from harness.core.errors import ClusterError
from harness.core.link_quality import LinkFault
from harness.core.topology import Link, Topology

OWN_DATABASES = {"system", "INFORMATION_SCHEMA", "information_schema", "harness_probe"}
"""Databases that a cluster has when it has come up, without `default`, which is made anew."""
LOOKS = 8
"""Number of times that a link has to show a fault."""
OWN_ZNODES = {"zookeeper", "clickhouse", "harness_probe"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Everything that the containers of a cluster depend on. A module names its own as SHAPE."""

    topology: Topology = THREE
    choice: ImageChoice = field(default_factory=ImageChoice)
    settings: Settings = field(default_factory=Settings)


class ClusterPool:
    """The cluster of one process of pytest, which is in use or waits for the next module.

    It is the only one, so that N processes have at most N clusters of this kind. `directory` makes
    the directory of a new cluster.
    """

    def __init__(self, directory: Callable[[], Path]) -> None:
        self._directory = directory
        self._up: tuple[Shape, DockerCluster] | None = None
        """Known here before it comes up, so that no interrupt can lose it."""

    def take(self, shape: Shape) -> DockerCluster:
        """Return a cluster that is whole and has no data: the one that waits, if it has this shape
        and no test has damaged it, else a new one. Raises ClusterError."""
        if self._up is not None and self._up[0] == shape:
            try:
                return self._renew(*self._up)
            except (ClusterError, DatabaseError, KazooException, KazooTimeoutError) as error:
                print(f"{self._up[1].name} is not used again: {error}")
        self.close()
        images = build_images(lambda text: None, shape.choice)
        cluster = DockerCluster(
            shape.topology, self._directory(), images=images, settings=shape.settings
        )
        self._up = (shape, cluster)
        cluster.up()
        return cluster

    def close(self) -> None:
        """Remove the cluster; idempotent."""
        if self._up is not None:
            self._up[1].down()
            self._up = None

    def _renew(self, shape: Shape, used: DockerCluster) -> DockerCluster:
        """Return a cluster healed and without data. Raises ClusterError if a test has upgraded or
        configured a server, left one that does not come up, or begun what no healing ends."""
        used.close()
        cluster = DockerCluster.attach(used.directory)
        self._up = (shape, cluster)
        if cluster.topology != shape.topology:
            raise ClusterError("its servers have changed")
        cluster.up()
        empty(cluster)
        if left := [*damage(cluster)]:
            raise ClusterError("; ".join(left))
        return cluster


def empty(cluster: DockerCluster) -> None:
    """Drop what tests have created in ClickHouse and in ZooKeeper."""
    for node in cluster.topology.replicas:
        with closing(connect(cluster, node, timeout_s=30)) as connection:
            for (name,) in connection.rows("SELECT name FROM system.databases", (str,)):
                if name not in OWN_DATABASES:
                    connection.command(cluster.engines.on(node).drop_database(name))
            connection.command("CREATE DATABASE default")
    endpoint = cluster.endpoint(cluster.topology.keepers[0])
    zookeeper = KazooClient(hosts=f"{endpoint.host}:{endpoint.port}")
    zookeeper.start(timeout=60)
    try:
        for name in set(zookeeper.get_children("/")) - OWN_ZNODES:
            zookeeper.delete(f"/{name}", recursive=True)
    finally:
        zookeeper.stop()
        zookeeper.close()


def lasting(cluster: DockerCluster, links: Iterable[Link], fault: LinkFault) -> set[Link]:
    """Return the links that show a fault each time that they are looked at. A busy machine delays
    packets, too, but not those of one link for good."""
    left = set(links)
    for _ in range(LOOKS):
        left = seen_on(cluster, left, fault) if left else left
    return left


def damage(cluster: DockerCluster) -> Iterator[str]:
    """Yield what is left of faults on a cluster whose servers serve, a sentence each."""
    replicas, links = cluster.topology.replicas, cluster.topology.links()
    yield from (f"{file} is left" for file in cluster.directory.glob("config/*/config.d/*"))
    for node in replicas:
        with suppress(ClusterError):  # nothing answers where there is no proxy
            cluster.part(CanIntercept).intercepted(node)
            yield f"{node} has a proxy"
    reached = cluster.part(CanPartition).reachable(links)
    yield from (f"{link} is cut" for link, arrived in reached.items() if not arrived)
    for fault in LinkFault:
        yield from (f"{link} has {fault}" for link in lasting(cluster, links, fault))
    if len(replicas) > 1:
        fetching = cluster.part(CanStopFetches).fetching
        yield from (f"{node} fetches nothing" for node in replicas if not fetching(node))
