"""Plan of a cluster on Docker: one network, and for each node a pod, a server and volumes.

A plan is a value. The compose file is rendered from it, and the cluster on Docker is created from
it, so that both are the same cluster.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from compose.settings import Fsync, PartFormat, Settings, Storage
from harness.core.bucket import OWN_BUCKET, Bucket
from harness.core.dialect import Coordination, Version
from harness.core.engines import Engine, Engines
from harness.core.topology import Node, Role, Topology

RUN: Final = "harness.run"
"""Label with the name of the cluster that an object belongs to."""
OWNER: Final = "harness.owner"
"""Label with the identity of the process that created it."""
KEEP: Final = "harness.keep"
"""Label that is "1" if the cluster outlives its owner."""
DIRECTORY: Final = "harness.directory"
"""Label with the directory of the cluster's files."""
BUCKET: Final = "harness.bucket"
"""Label with the part of a user's bucket that the cluster writes to, as JSON."""
DISK_FILE: Final = "faulty-disk"
"""Name of the program of the faulty disk beside the compose file."""
DISK_PROGRAM: Final = "/harness/faulty-disk"
"""Path of that program in containers."""
ID_VARIABLE: Final = "AWS_ACCESS_KEY_ID"
SECRET_VARIABLE: Final = "AWS_SECRET_ACCESS_KEY"  # noqa: S105 # it names where the secret is
"""Environment variables with the keys of an object store, for the harness and for the servers."""

CLOCKS: Final = "clocks"
"""Directory, beside the compose file, of what makes the servers' clocks wrong."""
PRELOAD: Final = "ld.so.preload"
"""File there that names the library to load first."""

PORTS: Final[Mapping[Role, int]] = {
    Role.CLICKHOUSE: 9000,
    Role.ZOOKEEPER: 2181,
    Role.STORE: 5000,
}
"""Ports that the harness connects to: ClickHouse's native protocol, ZooKeeper's clients, S3."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths of a program's files, the same in our images and in the official ones."""

    config_at: str
    files: tuple[str, ...]
    """Names of its configuration files, each of which has a template."""
    volumes: Mapping[str, str]
    """Paths of the volumes, by their content; "log" is never in memory."""


_LAYOUTS: Final[Mapping[str, Layout]] = {
    "ClickHouse": Layout(
        "/etc/clickhouse-server",
        ("config.xml", "users.xml"),
        {"data": "/var/lib/clickhouse", "log": "/var/log/clickhouse-server"},
    ),
    Coordination.ZOOKEEPER: Layout(
        "/conf",
        ("zoo.cfg", "zoo.cfg.dynamic", "log4j.properties", "logback.xml"),
        {"data": "/data", "datalog": "/datalog", "log": "/logs"},
    ),
    Coordination.KEEPER: Layout(
        "/etc/clickhouse-keeper", ("keeper_config.xml",), {"data": "/var/lib/clickhouse"}
    ),
    "moto": Layout("/etc/object-store", (), {}),
}
"""Layouts by the engine's product."""


_LENIENT: Final[Mapping[str, int]] = {
    "replicated_max_ratio_of_wrong_parts": 1,
    "max_suspicious_broken_parts": 1000,
}
"""Settings with which a replica accepts what a power cut left of its table. By default it stays
read-only (231) if more than half of the rows or 100 parts, in 18.16 ten, are suspicious. The tables
of a run have so few rows that three parts of inserts that failed are too many."""


@dataclass(frozen=True, slots=True)
class Image:
    """Image of a server's container."""

    tag: str
    engine: Engine
    """Engine in the image, which decides the configuration."""
    command: tuple[str, ...] = ()
    """Program that the image starts, with its arguments."""


@dataclass(frozen=True, slots=True)
class Images:
    """Images of a cluster's containers, those of later upgrades included."""

    pod: str
    servers: Mapping[Role, Mapping[str, Image]]
    """Images by the version as a user names it, such as "25.8"; "" is a user's own image."""

    def of(self, node: Node) -> Image:
        """Return the image of a node's version; the first image if the topology has no version."""
        images = self.servers[node.role]
        if node.version in images:
            return images[node.version]
        assert not node.version, f"{node.name}: there is no image of {node.version}"
        return next(iter(images.values()))

    def engines(self, topology: Topology) -> Engines:
        """Return the engines of the nodes, and those that upgrades start from or lead to."""
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
    """Named volume of a server."""

    name: str
    at: str
    """Path in the server's container."""
    options: Mapping[str, str]
    """Options of Docker's local driver."""


@dataclass(frozen=True, slots=True)
class Pod:
    """Container that holds a node's network and processes."""

    container: str
    image: str
    node: Node
    port: int
    """Port of the server, published on a free port of 127.0.0.1."""
    volumes: tuple[Volume, ...]
    """Volumes that the pod holds open under /volumes; those in memory would otherwise vanish when
    the server is killed."""
    disk: tuple[str, ...] = ()
    """Paths of the server's data on a faulty disk, which is a program in this container and needs
    more privileges than others."""

    @property
    def data(self) -> tuple[str, ...]:
        """Return where the pod sees the server's data; nothing if it does not."""
        volumes = (volume.at for volume in self.volumes if not volume.name.endswith("-log"))
        return tuple(f"/volumes{at}" for at in (*volumes, *self.disk))


@dataclass(frozen=True, slots=True)
class Server:
    """Container of the database, which joins its pod."""

    container: str
    image: str
    engine: Engine
    node: Node
    merge_tree: Mapping[str, int]
    """Defaults of every MergeTree table; empty for ZooKeeper."""
    config: str
    """Directory of the node's configuration, relative to the compose file."""
    config_at: str
    """Path where the server reads it."""
    files: tuple[str, ...]
    """Names of the configuration files."""
    volumes: tuple[Volume, ...]
    environment: Mapping[str, str | None]
    """Environment variables; None: the value that the compose tool's own environment has, so that
    no file has it."""
    data: str
    """Path of the data; "" for the object store."""
    entrypoint: tuple[str, ...] = ()
    """What runs in place of the image's program; empty: that program."""
    clocked: bool = False
    """True if it loads the library that makes its clock wrong on command."""


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """Plan of a whole cluster."""

    name: str
    topology: Topology
    settings: Settings
    labels: Mapping[str, str]
    """Labels of all its objects."""
    pods: tuple[Pod, ...]
    servers: tuple[Server, ...]

    @property
    def network(self) -> str:
        """Return the name of the network."""
        return self.name

    @property
    def bucket(self) -> Bucket | None:
        """Return where the replicas store objects, as they reach it; None without an object store.

        In a user's bucket each cluster has a prefix of its own.
        """
        if self.topology.bucket is not None:
            return self.topology.bucket.below(self.name)
        for store in self.topology.stores:
            return Bucket(f"http://{store}:{PORTS[Role.STORE]}").below("data")
        return None

    def server(self, node: str) -> Server:
        """Return the server of a node."""
        return next(server for server in self.servers if server.node.name == node)

    @property
    def volumes(self) -> tuple[Volume, ...]:
        """Return the volumes of every node."""
        return tuple(volume for server in self.servers for volume in server.volumes)


def plan_cluster(
    topology: Topology,
    settings: Settings,
    images: Images,
    *,
    name: str,
    labels: Mapping[str, str],
) -> ClusterPlan:
    """Return the plan of a cluster called `name`, which begins the name of all its objects."""
    nodes = topology.nodes
    engines = {node.name: images.of(node).engine for node in nodes}
    layouts = {node: _LAYOUTS[engine.product] for node, engine in engines.items()}
    volumes = {n: _volumes(f"{name}-{n}", layout, settings) for n, layout in layouts.items()}
    disks = {node: disk_paths(engine, settings) for node, engine in engines.items()}
    oldest = images.engines(topology).dialect.versions[0]
    if topology.bucket is not None:
        labels = {**labels, BUCKET: msgspec.json.encode(topology.bucket.below(name)).decode()}
    return ClusterPlan(
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
                volumes=volumes[node.name],
                disk=disks[node.name],
            )
            for node in nodes
        ),
        servers=tuple(
            Server(
                container=f"{name}-{node.name}",
                image=images.of(node).tag,
                engine=engines[node.name],
                node=node,
                merge_tree=_merge_tree(engines[node.name], oldest, settings),
                config=f"config/{node.name}",
                config_at=layouts[node.name].config_at,
                files=_files(layouts[node.name], settings),
                volumes=volumes[node.name],
                environment=_environment(topology, node, engines[node.name], settings),
                data=layouts[node.name].volumes.get("data", ""),
                entrypoint=entrypoint(images.of(node), settings),
                clocked=settings.wrong_clocks and node.role is not Role.STORE,
            )
            for node in nodes
        ),
    )


def _files(layout: Layout, settings: Settings) -> tuple[str, ...]:
    unused = () if settings.reconfig else ("zoo.cfg.dynamic",)
    return tuple(name for name in layout.files if name not in unused)


def _merge_tree(engine: Engine, oldest: Version, settings: Settings) -> Mapping[str, int]:
    if engine.role is not Role.CLICKHOUSE:
        return {}
    dialect = engine.dialect
    older = dialect.parts_read_by(oldest) if settings.parts is PartFormat.OLD else {}
    synced = settings.fsync in (Fsync.INSERTS, Fsync.ALL)
    durable = dialect.durable_parts(settings.fsync is Fsync.ALL) if synced else {}
    lenient = _LENIENT if settings.storage is Storage.FAULTY else {}
    return {**dialect.merge_tree, **older, **durable, **lenient}


def disk_paths(engine: Engine, settings: Settings) -> tuple[str, ...]:
    """Return the paths of a server's data that are on a faulty disk."""
    volumes = _LAYOUTS[engine.product].volumes
    if settings.storage is not Storage.FAULTY:
        return ()
    return tuple(at for what, at in volumes.items() if what != "log")


def entrypoint(image: Image, settings: Settings) -> tuple[str, ...]:
    """Return what a server's container runs in place of the image's program; empty: that one.

    With a faulty disk it is a program that waits for the disk and becomes the server.
    """
    paths = disk_paths(image.engine, settings)
    return (DISK_PROGRAM, "enter", *paths, "--", *image.command) if paths else ()


def _volumes(prefix: str, layout: Layout, settings: Settings) -> tuple[Volume, ...]:
    memory = {"type": "tmpfs", "device": "tmpfs"} if settings.storage is Storage.MEMORY else {}
    return tuple(
        Volume(f"{prefix}-{what}", at, {} if what == "log" else memory)
        for what, at in layout.volumes.items()
        if what == "log" or settings.storage is not Storage.FAULTY
    )


def _environment(
    topology: Topology, node: Node, engine: Engine, settings: Settings
) -> Mapping[str, str | None]:
    """Return the environment variables of our images and the official ones.

    Without CLICKHOUSE_SKIP_USER_SETUP the official image would write a file of users into the
    read-only configuration; without CLICKHOUSE_WATCHDOG_ENABLE=0 a watchdog would run the server.
    """
    if node.role is Role.CLICKHOUSE:
        # Our own store takes any keys.
        key = OWN_BUCKET if topology.bucket is None else None
        names = (ID_VARIABLE, SECRET_VARIABLE) if topology.has_store else ()
        keys = dict.fromkeys(names, key)
        return {"CLICKHOUSE_SKIP_USER_SETUP": "1", "CLICKHOUSE_WATCHDOG_ENABLE": "0", **keys}
    if node.role is Role.STORE:
        return {"CLIENTS": " ".join(topology.replicas)}
    if engine.coordination is Coordination.KEEPER:
        return {"CLICKHOUSE_WATCHDOG_ENABLE": "0"}
    heap = f"{settings.heap_mb}m"
    # With one collector thread and only the first compiler, a server starts in a second and leaves
    # the CPU to the others.
    flags = f"-Xms{heap} -Xmx{heap} -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    if settings.reconfig:
        flags += " -Dzookeeper.skipACL=yes"  # only a superuser could change the members otherwise
    return {"ZOO_MY_ID": str(node.replica), "JVMFLAGS": flags}
