"""Faults of resources: memory, CPU time, file descriptors, connections, names of other servers."""

from collections.abc import Mapping, Sequence
from typing import Final

from harness.core.capabilities import CanStarve
from harness.core.protocols import Cluster
from harness.core.resources import Resource
from harness.core.topology import Topology
from nemesis.node_fault import NodeFault
from nemesis.process import Kill
from nemesis.targets import NodeSpec

TEXTS: Final[Mapping[str, str]] = {
    Resource.MEMORY: "the memory limit of a server is lowered until the kernel kills it",
    Resource.CPU: "a server has 2 % of a CPU",
    Resource.FILES: "a server can open no further file or connection",
    Resource.CONNECTIONS: "others hold all connections that a server accepts",
    Resource.NAMES: "a server cannot look up the names of others",
}
"""Description of each nemesis."""

EVIDENCE: Final[Mapping[str, tuple[str, str]]] = {
    Resource.MEMORY: (
        "the engine says that the kernel's OOM killer struck in its container, and no server "
        "process is left",
        "the servers run without a limit and answer",
    ),
    Resource.CPU: (
        "the kernel's count of throttled periods grows",
        "the server has no quota, and that count does not grow",
    ),
    Resource.FILES: (
        "the kernel says that the server has as many descriptors as it may, and a new connection "
        "is not served",
        "the kernel says that the server may have more, and a new connection is served",
    ),
    Resource.CONNECTIONS: ("a new connection is not served", "a new connection is served"),
    Resource.NAMES: (
        "a lookup of another server's name in its pod fails",
        "a lookup of another server's name in its pod succeeds",
    ),
}
"""Sentences about what was seen when a fault began and when it ended."""


class Shortage(NodeFault):
    """Family of the shortage of one resource; the server goes on."""

    heal_rank = 0

    def __init__(self, resource: Resource, specs: Sequence[NodeSpec], topology: Topology) -> None:
        super().__init__(specs, topology, CanStarve)
        self.f = resource.value
        self._resource = resource

    def _inject(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        cluster.part(CanStarve).starve(nodes, self._resource)

    def _unverified(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        found = cluster.part(CanStarve).shortages(nodes, self._resource)
        return [f"{node}: no {self.f} is seen" for node, short in found.items() if short is None]

    def _revert(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        cluster.part(CanStarve).feed(nodes, self._resource)

    def _remaining(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        found = cluster.part(CanStarve).shortages(nodes, self._resource)
        return [f"{node}: {short}" for node, short in found.items() if short is not None]


class MemoryLimit(Kill):
    """Family of kills by the kernel's OOM killer; the server is started when the fault ends."""

    f = Resource.MEMORY.value

    def __init__(self, specs: Sequence[NodeSpec], topology: Topology) -> None:
        super().__init__(specs, topology)
        self.needs = (CanStarve, *self.needs)

    def _inject(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        cluster.part(CanStarve).starve(nodes, Resource.MEMORY)

    def _unverified(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        found = cluster.part(CanStarve).shortages(nodes, Resource.MEMORY)
        unseen = [
            f"{node}: the OOM killer has not struck" for node, s in found.items() if s is None
        ]
        return [*super()._unverified(cluster, nodes), *unseen]

    def _revert(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        cluster.part(CanStarve).feed(nodes, Resource.MEMORY)
        super()._revert(cluster, nodes)
