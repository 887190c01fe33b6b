"""Topology of a cluster: its nodes and the links between them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Final

import msgspec

from harness.core.bucket import Bucket
from harness.core.errors import UsageError
from harness.core.ranges import NODES_MAX, RANGES, quoted


class Role(StrEnum):
    """Role of a node."""

    CLICKHOUSE = "clickhouse"
    ZOOKEEPER = "zookeeper"
    STORE = "store"
    """Object store, which speaks S3."""


class LinkClass(StrEnum):
    """Class of a link, by the roles of its ends."""

    PEER = "peer"
    """Link between ZooKeeper servers: elections and broadcasts."""
    KEEPER = "keeper"
    """Link between a replica and a ZooKeeper server: sessions, reads, multis."""
    INTERSERVER = "interserver"
    """Link between replicas: fetches of parts, distributed queries."""
    STORE = "store"
    """Link between the object store and another node, where a cluster has one."""


@dataclass(frozen=True, slots=True, order=True)
class Node:
    """Database server with its pod."""

    name: str
    role: Role
    shard: int = 1
    """Shard of a replica, from 1."""
    replica: int = 1
    """Number of a replica in its shard, or `myid` of a ZooKeeper server; from 1."""
    keepers: tuple[str, ...] = ()
    """ZooKeeper servers that a replica may connect to."""
    version: str = ""
    """Version of the server as the user named it, such as "25.8"; "" if there is only one."""


STORE: Final = "store"
"""Name of the object store."""


class Link(msgspec.Struct, frozen=True, order=True, cache_hash=True, gc=False):
    """Directed link for packets from `source` to `target`."""

    source: str
    target: str


@dataclass(frozen=True)
class Topology:
    """Shape of a cluster: its nodes and their connections."""

    nodes: tuple[Node, ...]
    bucket: Bucket | None = None
    """Bucket of an object store that is not part of the cluster, so it has no node and no links."""

    @staticmethod
    def of(
        *,
        shards: int = 1,
        replicas: int = 3,
        keepers: int = 3,
        route: str = "own",
        clickhouse: str = "",
        zookeeper: str = "",
        store: bool = False,
        bucket: Bucket | None = None,
    ) -> "Topology":
        """Return a topology of ClickHouse servers ch1, ch2, … and ZooKeeper servers zk1, zk2, …

        There are `shards` x `replicas` ClickHouse servers and `keepers` ZooKeeper servers. `route`
        decides which ZooKeeper servers a replica may read through: "own" (replica i through server
        i, so that each replica has one known server), "all", or a list such as
        "ch1=zk1,ch2=zk1+zk2" ("own" for replicas that are not named).

        `clickhouse` and `zookeeper` are the servers' versions: "24.8,25.8" in turn, or
        "ch1=24.8,25.8", in which servers that are not named get the others in turn. With `store`
        there is an object store: STORE, or the one of `bucket`.

        Raises UsageError for numbers out of range and for unknown names.
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
            + ((Node(STORE, Role.STORE),) if store and bucket is None else ()),
            bucket if store else None,
        )

    def with_version(self, name: str, version: str) -> "Topology":
        """Return the topology in which this server runs another version."""
        self.node(name)
        nodes = (replace(n, version=version) if n.name == name else n for n in self.nodes)
        return replace(self, nodes=tuple(nodes))

    @property
    def unversioned(self) -> "Topology":
        """Return the topology without versions."""
        return replace(self, nodes=tuple(replace(node, version="") for node in self.nodes))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Return the names of all nodes, replicas first."""
        return tuple(node.name for node in self.nodes)

    @cached_property
    def replicas(self) -> tuple[str, ...]:
        """Return the names of the ClickHouse servers."""
        return tuple(node.name for node in self.nodes if node.role is Role.CLICKHOUSE)

    @cached_property
    def keepers(self) -> tuple[str, ...]:
        """Return the names of the ZooKeeper servers."""
        return tuple(node.name for node in self.nodes if node.role is Role.ZOOKEEPER)

    @cached_property
    def stores(self) -> tuple[str, ...]:
        """Return the names of the nodes that are object stores: one or none."""
        return tuple(node.name for node in self.nodes if node.role is Role.STORE)

    @property
    def has_store(self) -> bool:
        """Return whether replicas have an object store, in the cluster or outside of it."""
        return bool(self.stores) or self.bucket is not None

    @cached_property
    def shards(self) -> tuple[tuple[str, ...], ...]:
        """Return the names of the replicas of each shard."""
        last = max(node.shard for node in self.nodes)
        return tuple(
            tuple(n.name for n in self.nodes if n.role is Role.CLICKHOUSE and n.shard == s)
            for s in range(1, last + 1)
        )

    def node(self, name: str) -> Node:
        """Return a node by name. Raises UsageError for an unknown name."""
        found = self._by_name.get(name)
        if found is None:
            known = " ".join(self.names)
            raise UsageError(f"node {quoted(name)}: not in this cluster, which has {known}")
        return found

    @cached_property
    def _by_name(self) -> Mapping[str, Node]:
        return {node.name: node for node in self.nodes}

    def link_class(self, link: Link) -> LinkClass:
        """Return the class of a link."""
        role, other = self.node(link.source).role, self.node(link.target).role
        if Role.STORE in (role, other):
            return LinkClass.STORE
        if role is not other:
            return LinkClass.KEEPER
        return LinkClass.PEER if role is Role.ZOOKEEPER else LinkClass.INTERSERVER

    def links(self, classes: Iterable[LinkClass] = tuple(LinkClass)) -> tuple[Link, ...]:
        """Return every directed link of the given classes. ZooKeeper and an object store have
        none."""
        wanted = frozenset(classes)
        found = self._links_of.get(wanted)
        if found is None:
            apart = {Role.ZOOKEEPER, Role.STORE}
            every = [
                Link(a.name, b.name)
                for a in self.nodes
                for b in self.nodes
                if a != b and {a.role, b.role} != apart
            ]
            found = tuple([link for link in every if self.link_class(link) in wanted])
            self._links_of[wanted] = found
        return found

    @cached_property
    def _links_of(self) -> dict[frozenset[LinkClass], tuple[Link, ...]]:
        """Return the cache of `links`."""
        return {}


def version_entries(text: str) -> tuple[tuple[str, str], ...]:
    """Return the entries (server, version) of a list of versions such as "ch1=24.8,25.8".

    The server is "" if none is named.
    """
    found = (entry.strip().rpartition("=") for entry in text.split(","))
    return tuple((name if equals else "", version) for name, equals, version in found)


def _versions(role: Role, text: str, names: tuple[str, ...]) -> Mapping[str, str]:
    """Return the version of every server.

    Raises UsageError unless each version has a server and each server a version.
    """
    if not text:
        return dict.fromkeys(names, "")
    flag = f"--{role} {text}"
    entries = version_entries(text)
    own: dict[str, str] = {}
    for name, version in entries:
        if not version or (name and name not in names):
            entry = f"{name}={version}" if name else version
            raise UsageError(
                f"{flag}: {quoted(entry)}: expected VERSION or SERVER=VERSION with a server out of "
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
    named: set[str] = set()
    for entry in route.split(","):
        name, equals, servers = entry.partition("=")
        chosen = tuple(servers.split("+"))
        if name in named or len(set(chosen)) < len(chosen):
            raise UsageError(
                f"keeper route {quoted(entry)}: a server is named twice; once is enough"
            )
        named.add(name)
        if not equals or name not in own or not set(chosen) <= set(keepers):
            raise UsageError(
                f"keeper route {quoted(entry)}: expected own, all or REPLICA=ZK[+ZK…] with "
                f"replicas {' '.join(replicas)} and servers {' '.join(keepers)}"
            )
        own[name] = chosen
    return own
