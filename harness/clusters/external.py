"""Cluster of servers that somebody else runs: it reaches them by their addresses, and neither
starts nor stops nor changes them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from harness.clusters import keeper
from harness.clusters.parallel import on_each
from harness.clusters.reachable import Reachable
from harness.clusters.readiness import Readiness, read_version
from harness.clusters.replica import defined_clusters
from harness.core.connections import StoreChannel
from harness.core.dialect import Coordination, Version
from harness.core.engines import Engine, Engines
from harness.core.errors import ClusterError, UsageError
from harness.core.protocols import Endpoint
from harness.core.runtime import Runtime, WallTime
from harness.core.topology import Node, Role, Topology


class ExternalCluster(Reachable):
    """Running servers at these addresses. It keeps nothing on this machine."""

    parts: ClassVar[tuple[type, ...]] = (Readiness,)

    def __init__(self, name: str, topology: Topology, endpoints: Mapping[str, Endpoint]) -> None:
        """Ask every server for its version. Raises ClusterError with all that do not answer."""
        self.name = name
        self._topology = topology
        self.runtime: Runtime = WallTime()
        self.readings: Sequence[str] = ()
        self._endpoints = endpoints
        self._readiness = Readiness(
            name,
            topology,
            self.endpoint,
            refusal=lambda _: None,
            end=lambda _: "",
            last_lines=lambda _: "not ours to read",
        )
        super().__init__(self._readiness)
        found = on_each(topology.nodes, self._engine)
        silent = [why for why in found.values() if isinstance(why, str)]
        if silent:
            raise ClusterError(
                f"cluster {name}: {'; '.join(silent)}; expected running servers, and a user who "
                "may ask for their version"
            )
        self.engines = Engines(
            nodes={node.name: e for node, e in found.items() if isinstance(e, Engine)}
        )

    @property
    def topology(self) -> Topology:
        """Return the nodes."""
        return self._topology

    def up(self) -> None:
        """Return when all servers serve. Raises ClusterError with the reason."""
        self._readiness.await_ready()

    def down(self) -> None:
        """Leave the servers running; what a run created there is dropped at its end."""

    def close(self) -> None:
        """Do nothing: every connection belongs to whoever asked for it."""

    def ping(self) -> None:
        """Do nothing: nothing but the servers themselves runs them."""

    def endpoint(self, node: str) -> Endpoint:
        """Return a replica's native port or a ZooKeeper server's client port."""
        self.topology.node(node)
        return self._endpoints[node]

    def store_channel(self, timeout_s: float) -> StoreChannel:
        """Raise ClusterError: the harness knows no object store of these servers."""
        raise ClusterError(f"cluster {self.name}: has no object store ({timeout_s:g} s)")

    def collect(self, directory: Path) -> None:
        """Do nothing: the servers' logs stay where they are."""

    def lacking(self, clusters: Sequence[str]) -> Sequence[str]:
        """Return which of these clusters replicas do not have in their configuration, such as
        "ch1 has no cluster harness". Raises ClusterError."""
        found = on_each(self.topology.replicas, lambda node: defined_clusters(self.endpoint(node)))
        return [
            f"{node} has no cluster {name}"
            for node, names in found.items()
            for name in clusters
            if name not in names
        ]

    def _engine(self, node: Node) -> Engine | str:
        """Return the program of a server, or why it is not known."""
        own = self.endpoint(node.name)
        place = f"{own.host}:{own.port}"
        try:
            version = read_version(node, own)
            if node.role is Role.CLICKHOUSE:
                Version.of(version)
        except (ClusterError, UsageError) as error:
            return f"{node.name} at {place}: {str(error).removeprefix(f'{place}: ')}"
        state = keeper.state(own) if node.role is Role.ZOOKEEPER else None
        product = Coordination.KEEPER if state and state.clickhouse else Coordination.ZOOKEEPER
        return Engine(role=node.role, version=version, coordination=product)
