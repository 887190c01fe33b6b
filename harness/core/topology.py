"""Which nodes there are, and who talks to whom. A value: it renders, it does nothing."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

import msgspec

from harness.core.errors import UsageError
from harness.core.ranges import NODES_MAX, RANGES


class Role(StrEnum):
    """What a node runs."""

    CLICKHOUSE = "clickhouse"
    ZOOKEEPER = "zookeeper"


class LinkClass(StrEnum):
    """What a link carries, by the roles of its ends."""

    PEER = "peer"
    """ZooKeeper to ZooKeeper: elections and broadcasts."""
    KEEPER = "keeper"
    """Replica to ZooKeeper: sessions, reads, multis."""
    INTERSERVER = "interserver"
    """Replica to replica: fetches of parts, distributed queries."""


@dataclass(frozen=True, slots=True, order=True)
class Node:
    """One database server: a pod of its own."""

    name: str
    role: Role
    shard: int = 1
    """Of a replica, from 1."""
    replica: int = 1
    """Of a replica, its number in its shard; of a ZooKeeper server, its `myid`; from 1."""
    keepers: tuple[str, ...] = ()
    """Of a replica: the ZooKeeper servers that it may connect to."""
    version: str = ""
    """What the server runs, as the user named it, such as "25.8"; "" is the only one that there
    is."""


class Link(msgspec.Struct, frozen=True, order=True, cache_hash=True, gc=False):
    """One direction: packets from `source` to `target`."""

    source: str
    target: str


@dataclass(frozen=True)
class Topology:
    """The shape of a cluster."""

    nodes: tuple[Node, ...]

    @staticmethod
    def of(
        *,
        shards: int = 1,
        replicas: int = 3,
        keepers: int = 3,
        route: str = "own",
        clickhouse: str = "",
        zookeeper: str = "",
    ) -> "Topology":
        """`shards` x `replicas` ClickHouse servers ch1, ch2, … and `keepers` ZooKeeper servers
        zk1, zk2, …

        `route` says which ZooKeeper servers a replica may read through: "own" (replica i
        through server i, so that each replica has one known server), "all", or a list such as
        "ch1=zk1,ch2=zk1+zk2" (replicas not named: own).

        `clickhouse` and `zookeeper` say which versions the servers run: "24.8,25.8" in turn, or
        "ch1=24.8,25.8", where servers that are not named have the others in turn.

        Raises UsageError on numbers out of range and on unknown names.
        """
        for what, count in (("shards", shards), ("replicas", replicas), ("keepers", keepers)):
            try:
                RANGES[what].parse(count)
            except ValueError as error:
                raise UsageError(f"{what} {error}") from None
        if shards * replicas + keepers > NODES_MAX:
            raise UsageError(
                f"{shards} shards of {replicas} replicas and {keepers} keepers are "
                f"{shards * replicas + keepers} servers: expected at most {NODES_MAX}; ask for "
                "fewer shards, replicas or keepers"
            )
        zk = tuple(f"zk{i + 1}" for i in range(keepers))
        names = tuple(f"ch{i + 1}" for i in range(shards * replicas))
        routes = _routes(route, names, zk)
        versions = {
            **_versions(Role.CLICKHOUSE, clickhouse, names),
            **_versions(Role.ZOOKEEPER, zookeeper, zk),
        }
        return Topology(
            tuple(
                Node(
                    name,
                    Role.CLICKHOUSE,
                    i // replicas + 1,
                    i % replicas + 1,
                    routes[name],
                    versions[name],
                )
                for i, name in enumerate(names)
            )
            + tuple(
                Node(name, Role.ZOOKEEPER, 1, i + 1, version=versions[name])
                for i, name in enumerate(zk)
            )
        )

    def with_version(self, name: str, version: str) -> "Topology":
        """Return the topology in which this server runs another version."""
        self.node(name)
        return Topology(
            tuple(replace(n, version=version) if n.name == name else n for n in self.nodes)
        )

    @property
    def unversioned(self) -> "Topology":
        """Return the topology without what its servers run."""
        return Topology(tuple(replace(node, version="") for node in self.nodes))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Every node: replicas first."""
        return tuple(node.name for node in self.nodes)

    @cached_property
    def replicas(self) -> tuple[str, ...]:
        """The ClickHouse servers."""
        return tuple(node.name for node in self.nodes if node.role is Role.CLICKHOUSE)

    @cached_property
    def keepers(self) -> tuple[str, ...]:
        """The ZooKeeper servers."""
        return tuple(node.name for node in self.nodes if node.role is Role.ZOOKEEPER)

    @cached_property
    def shards(self) -> tuple[tuple[str, ...], ...]:
        """The replicas of each shard."""
        last = max(node.shard for node in self.nodes)
        return tuple(
            tuple(n.name for n in self.nodes if n.role is Role.CLICKHOUSE and n.shard == s)
            for s in range(1, last + 1)
        )

    def node(self, name: str) -> Node:
        """By name; raises UsageError for a name that is none."""
        found = self._by_name.get(name)
        if found is None:
            known = " ".join(self.names)
            raise UsageError(f"node {name!r}: not of this cluster, which has {known}")
        return found

    @cached_property
    def _by_name(self) -> Mapping[str, Node]:
        return {node.name: node for node in self.nodes}

    def link_class(self, link: Link) -> LinkClass:
        """What the link carries."""
        role = self.node(link.source).role
        if role is not self.node(link.target).role:
            return LinkClass.KEEPER
        return LinkClass.PEER if role is Role.ZOOKEEPER else LinkClass.INTERSERVER

    def links(self, classes: Iterable[LinkClass] = tuple(LinkClass)) -> tuple[Link, ...]:
        """Every directed link of the given classes."""
        wanted = frozenset(classes)
        found = self._links_of.get(wanted)
        if found is None:
            every = [Link(a, b) for a in self.names for b in self.names if a != b]
            found = tuple([link for link in every if self.link_class(link) in wanted])
            self._links_of[wanted] = found
        return found

    @cached_property
    def _links_of(self) -> dict[frozenset[LinkClass], tuple[Link, ...]]:
        """Those asked for so far."""
        return {}


def version_entries(text: str) -> tuple[tuple[str, str], ...]:
    """Return the entries of a list of versions such as "ch1=24.8,25.8": a server and its version;
    the server is "" where none is named."""
    found = (entry.strip().rpartition("=") for entry in text.split(","))
    return tuple((name if equals else "", version) for name, equals, version in found)


def _versions(role: Role, text: str, names: tuple[str, ...]) -> Mapping[str, str]:
    """Return the version of every server. Raises UsageError unless each version has a server and
    each server a version."""
    if not text:
        return dict.fromkeys(names, "")
    flag = f"--{role} {text}"
    entries = version_entries(text)
    own: dict[str, str] = {}
    for name, version in entries:
        if not version or (name and name not in names):
            entry = f"{name}={version}" if name else version
            raise UsageError(
                f"{flag}: {entry!r}: expected VERSION or SERVER=VERSION with a server out of "
                f"{' '.join(names)}"
            )
        if name in own:
            raise UsageError(f"{flag}: {name} is named twice; expected one version for a server")
        if name:
            own[name] = version
    in_turn = [version for name, version in entries if not name]
    others = [name for name in names if name not in own]
    if len(in_turn) > len(others):
        raise UsageError(
            f"{flag}: {len(in_turn)} versions for {len(others)} servers ({' '.join(others)}); "
            "expected at most one for each"
        )
    if others and not in_turn:
        raise UsageError(
            f"{flag}: {' '.join(others)} has no version; expected one for every server, as in "
            f"{text},VERSION"
        )
    return own | {name: in_turn[i % len(in_turn)] for i, name in enumerate(others)}


def _routes(
    route: str, replicas: tuple[str, ...], keepers: tuple[str, ...]
) -> Mapping[str, tuple[str, ...]]:
    own: dict[str, tuple[str, ...]] = {
        name: (keepers[i % len(keepers)],) for i, name in enumerate(replicas)
    }
    if route == "own":
        return own
    if route == "all":
        return dict.fromkeys(replicas, keepers)
    for entry in route.split(","):
        name, equals, servers = entry.partition("=")
        chosen = tuple(servers.split("+"))
        if not equals or name not in own or not set(chosen) <= set(keepers):
            raise UsageError(
                f"keeper route {entry!r}: expected own, all or REPLICA=ZK[+ZK…] with replicas "
                f"{' '.join(replicas)} and servers {' '.join(keepers)}"
            )
        own[name] = chosen
    return own
