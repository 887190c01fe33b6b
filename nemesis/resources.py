"""Faults of resources: memory, CPU time, file descriptors, connections, names of other servers."""

from collections.abc import Sequence
from typing import Final

from harness.core.capabilities import CanStarve
from harness.core.protocols import Cluster
from harness.core.resources import Resource
from nemesis.family import Needs
from nemesis.fault import ANY, REPLICA, FaultChoice, FaultEntry
from nemesis.node_fault import NodeFault
from nemesis.process import Kill


class Shortage(NodeFault):
    """Family of the shortage of one resource; the server goes on."""

    needs: Needs = (CanStarve,)
    heal_rank = 0

    def __init__(self, choice: FaultChoice) -> None:
        super().__init__(choice)
        self._resource = Resource(self.f)

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

    needs: Needs = (CanStarve, *Kill.needs)

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


FAULTS: Final = (
    FaultEntry(
        name=Resource.MEMORY.value,
        text="the memory limit of a server is lowered until the kernel kills it",
        seen="the engine says that the kernel's OOM killer struck in its container, and no server "
        "process is left",
        gone="the servers run without a limit and answer",
        make=MemoryLimit,
        aim=ANY,
    ),
    FaultEntry(
        name=Resource.CPU.value,
        text="a server has 2 % of a CPU",
        seen="the kernel's count of throttled periods grows",
        gone="the server has no quota, and that count does not grow",
        make=Shortage,
        aim=ANY,
    ),
    FaultEntry(
        name=Resource.FILES.value,
        text="a server can open no further file or connection",
        seen="the kernel says that the server has as many descriptors as it may, and a new "
        "connection is not served",
        gone="the kernel says that the server may have more, and a new connection is served",
        make=Shortage,
        aim=ANY,
    ),
    FaultEntry(
        name=Resource.CONNECTIONS.value,
        text="others hold all connections that a server accepts",
        seen="a new connection is not served",
        gone="a new connection is served",
        make=Shortage,
        aim=REPLICA,  # ZooKeeper soon closes connections that open no session
    ),
    FaultEntry(
        name=Resource.NAMES.value,
        text="a server cannot look up the names of others",
        seen="a lookup of another server's name in its pod fails",
        gone="a lookup of another server's name in its pod succeeds",
        make=Shortage,
        aim=ANY,
    ),
)
