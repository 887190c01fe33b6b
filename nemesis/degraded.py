"""Faults that degrade a running server: slow fetches, a frozen store, connections that fall silent,
names that lead elsewhere."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from harness.core.capabilities import CanPause, CanSlowFetches
from harness.core.connection_capabilities import CanMisname, CanSilence
from harness.core.protocols import Cluster
from nemesis.fault import ONE, REPLICA, Aim, FaultChoice, FaultEntry
from nemesis.node_fault import NodeFault


@dataclass(frozen=True, slots=True)
class Degradation:
    """One way to degrade a server, by the part of the cluster that has the capability `need`."""

    need: type
    inject: Callable[[Any, Sequence[str]], None]
    revert: Callable[[Any, Sequence[str]], None]
    shows: Callable[[Any, str], bool]
    """Function of the part and a node: whether the degradation is seen there."""


class Degraded(NodeFault):
    """Family of one degradation. Restarting a degraded server does not end it."""

    heal_rank = 0

    def __init__(self, degradation: Degradation, choice: FaultChoice) -> None:
        self.needs = (degradation.need,)
        self._degradation = degradation
        super().__init__(choice)

    def _eligible(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:  # noqa: ARG002
        return nodes

    def _inject(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        self._degradation.inject(cluster.part(self._degradation.need), nodes)

    def _unverified(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        shown = self._shown(cluster, nodes)
        return [f"{node}: no {self.f} is seen" for node in nodes if node not in shown]

    def _revert(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        self._degradation.revert(cluster.part(self._degradation.need), nodes)

    def _remaining(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        return [f"{node}: {self.f} goes on" for node in self._shown(cluster, nodes)]

    def _shown(self, cluster: Cluster, nodes: Sequence[str]) -> list[str]:
        part: Any = cluster.part(self._degradation.need)
        return [node for node in nodes if self._degradation.shows(part, node)]


FAULTS: Final = (
    FaultEntry(
        name="slow-fetches",
        text="parts reach a replica a hundred times more slowly (simulated servers only)",
        seen="the simulated network reports that it delivers parts slowly",
        gone="the simulated network reports that it does not",
        make=partial(
            Degraded,
            Degradation(
                CanSlowFetches,
                inject=lambda fetches, nodes: fetches.slow_fetches(nodes),
                revert=lambda fetches, nodes: fetches.stop_slow_fetches(nodes),
                shows=lambda fetches, node: fetches.fetching_slowly(node),
            ),
        ),
        aim=REPLICA,
    ),
    FaultEntry(
        name="store-pause",
        text="SIGSTOP to the object store, then SIGCONT",
        seen="the kernel says that every process of the store is stopped",
        gone="the kernel says that none is stopped",
        make=partial(
            Degraded,
            Degradation(
                CanPause,
                inject=lambda servers, nodes: servers.pause(nodes),
                revert=lambda servers, nodes: servers.resume(nodes),
                shows=lambda servers, node: servers.paused(node),
            ),
        ),
        aim=Aim(role="store", target="one"),
    ),
    FaultEntry(
        name="half-open",
        text="the connections that a server has with others fall silent, and new ones work",
        seen="the packet filter of its pod has dropped a packet of such a connection",
        gone="its packet filter has no such rule any more",
        make=partial(
            Degraded,
            Degradation(
                CanSilence,
                inject=lambda connections, nodes: connections.silence(nodes),
                revert=lambda connections, nodes: connections.end_silence(nodes),
                shows=lambda connections, node: connections.silenced(node),
            ),
        ),
        aim=ONE,
    ),
    FaultEntry(
        name="misnamed-keepers",
        text="the name of each ZooKeeper server leads a replica to the next one, when it next "
        "connects",
        seen="a name resolves to the address of another server",
        gone="each name resolves to that of its own server",
        make=partial(
            Degraded,
            Degradation(
                CanMisname,
                inject=lambda names, nodes: names.misname(nodes),
                revert=lambda names, nodes: names.end_misnaming(nodes),
                shows=lambda names, node: names.misnamed(node),
            ),
        ),
        aim=REPLICA,
    ),
)
