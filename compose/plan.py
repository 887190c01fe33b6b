"""What there is to create: one network, and for each node a pod, a server and volumes.

A plan is a value. The compose file is its text, and the cluster on Docker is made from it, so
that both are the same cluster.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from compose.settings import Parts, Settings, Storage
from harness.core.dialect import Engine, Engines
from harness.core.topology import Node, Role, Topology
from harness.core.version import Version

RUN: Final = "harness.run"
"""Label: the name of the cluster that a thing belongs to."""
OWNER: Final = "harness.owner"
"""Label: the process that made it."""
KEEP: Final = "harness.keep"
"""Label, "1": made to outlive its owner."""
DIRECTORY: Final = "harness.directory"
"""Label: where the cluster's files are."""

PORTS: Final[Mapping[Role, int]] = {Role.CLICKHOUSE: 9000, Role.ZOOKEEPER: 2181}
"""What the harness connects to: ClickHouse's native protocol, ZooKeeper's clients."""

_CONFIG_AT: Final = {Role.CLICKHOUSE: "/etc/clickhouse-server", Role.ZOOKEEPER: "/conf"}
_VOLUMES: Final[Mapping[Role, Mapping[str, str]]] = {
    Role.CLICKHOUSE: {"data": "/var/lib/clickhouse", "log": "/var/log/clickhouse-server"},
    Role.ZOOKEEPER: {"data": "/data", "datalog": "/datalog", "log": "/logs"},
}


@dataclass(frozen=True, slots=True)
class Image:
    """What a server's container is made from."""

    tag: str
    engine: Engine
    """What is in it: the configuration follows."""


@dataclass(frozen=True, slots=True)
class Images:
    """What the containers of a cluster are made from, and may be made from later."""

    pod: str
    servers: Mapping[Role, Mapping[str, Image]]
    """By the version as a user names it, such as "25.8"; "" is an image of the user's own."""

    def of(self, node: Node) -> Image:
        """Return the image of the version that the node is to run; the first one, if the topology
        names none."""
        images = self.servers[node.role]
        if node.version in images:
            return images[node.version]
        assert not node.version, f"{node.name}: there is no image of {node.version}"
        return next(iter(images.values()))

    def engines(self, topology: Topology) -> Engines:
        """Return what the nodes run, and what else they may be upgraded to or were before."""
        nodes = {node.name: self.of(node).engine for node in topology.nodes}
        every = [image.engine for images in self.servers.values() for image in images.values()]
        others = dict.fromkeys(engine for engine in every if engine not in nodes.values())
        return Engines(nodes=nodes, others=tuple(others))

    def with_servers(self, more: "Images") -> "Images":
        """Return these images and the others of `more`."""
        return replace(
            self,
            servers={role: {**more.servers[role], **own} for role, own in self.servers.items()},
        )


@dataclass(frozen=True, slots=True)
class Volume:
    """One named volume."""

    name: str
    at: str
    """The path in the server's container."""
    options: Mapping[str, str]
    """Of Docker's local driver."""


@dataclass(frozen=True, slots=True)
class Pod:
    """The container that holds a node's network and processes."""

    container: str
    image: str
    node: Node
    port: int
    """Published on a free port of 127.0.0.1."""
    volumes: tuple[Volume, ...]
    """Held open under /volumes, or those in memory would vanish when the server is killed."""


@dataclass(frozen=True, slots=True)
class Server:
    """The container of the database; it joins its pod."""

    container: str
    image: str
    engine: Engine
    node: Node
    merge_tree: Mapping[str, int]
    """Defaults of every MergeTree table; of ClickHouse."""
    config: str
    """The node's configuration, a directory relative to the compose file."""
    config_at: str
    """Where the server reads it."""
    volumes: tuple[Volume, ...]
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole cluster."""

    name: str
    topology: Topology
    settings: Settings
    labels: Mapping[str, str]
    """On everything."""
    pods: tuple[Pod, ...]
    servers: tuple[Server, ...]

    @property
    def network(self) -> str:
        """Its name."""
        return self.name

    def server(self, node: str) -> Server:
        """Return the server of a node."""
        return next(server for server in self.servers if server.node.name == node)

    @property
    def volumes(self) -> tuple[Volume, ...]:
        """Of every node."""
        return tuple(volume for server in self.servers for volume in server.volumes)


def plan(
    topology: Topology,
    settings: Settings,
    images: Images,
    *,
    name: str,
    labels: Mapping[str, str],
) -> Plan:
    """The plan of a cluster called `name`; every name in it begins with that one."""
    nodes = topology.nodes
    volumes = {node.name: _volumes(name, node, settings) for node in nodes}
    held = settings.storage is Storage.MEMORY
    oldest = images.engines(topology).dialect.versions[0]
    return Plan(
        name=name,
        topology=topology,
        settings=settings,
        labels={RUN: name, **labels},
        pods=tuple(
            Pod(
                container=f"{name}-{node.name}-pod",
                image=images.pod,
                node=node,
                port=PORTS[node.role],
                volumes=volumes[node.name] if held else (),
            )
            for node in nodes
        ),
        servers=tuple(
            Server(
                container=f"{name}-{node.name}",
                image=images.of(node).tag,
                engine=images.of(node).engine,
                node=node,
                merge_tree=_merge_tree(images.of(node).engine, oldest, settings),
                config=f"config/{node.name}",
                config_at=_CONFIG_AT[node.role],
                volumes=volumes[node.name],
                environment=_environment(node, settings),
            )
            for node in nodes
        ),
    )


def _merge_tree(engine: Engine, oldest: Version, settings: Settings) -> Mapping[str, int]:
    if engine.role is not Role.CLICKHOUSE:
        return {}
    older = engine.dialect.parts_read_by(oldest) if settings.parts is Parts.OLD else {}
    return {**engine.dialect.merge_tree, **older}


def _volumes(name: str, node: Node, settings: Settings) -> tuple[Volume, ...]:
    memory = {"type": "tmpfs", "device": "tmpfs"} if settings.storage is Storage.MEMORY else {}
    return tuple(
        Volume(f"{name}-{node.name}-{what}", at, {} if what == "log" else memory)
        for what, at in _VOLUMES[node.role].items()
    )


def _environment(node: Node, settings: Settings) -> Mapping[str, str]:
    """What our images and the official ones read. The official ClickHouse image would write a
    user's file into the read-only configuration without the first, and put a second process
    above the server without the other."""
    if node.role is Role.CLICKHOUSE:
        return {"CLICKHOUSE_SKIP_USER_SETUP": "1", "CLICKHOUSE_WATCHDOG_ENABLE": "0"}
    heap = f"{settings.heap_mb}m"
    # One collector thread and the first compiler only: a server starts in a second and leaves
    # the few cores to the others.
    flags = f"-Xms{heap} -Xmx{heap} -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    return {"ZOO_MY_ID": str(node.replica), "JVMFLAGS": flags}
