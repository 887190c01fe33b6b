"""Lag: a replica that fetches no parts. It answers, and it answers with what it has."""

from collections.abc import Sequence

from harness.core.protocols import CanStopFetches, Cluster
from harness.core.topology import Topology
from nemesis.family import running, standing
from nemesis.node_fault import NodeFault
from nemesis.targets import Aim


class StopFetches(NodeFault):
    """SYSTEM STOP FETCHES on some replicas, START FETCHES when the fault ends.

    The server forgets the command when it is started anew, so a restart ends the fault early.
    """

    f = "stop-fetches"
    heal_rank = 3
    """Last: the command wants a server that answers, and the probe wants a whole cluster."""

    def __init__(self, aims: Sequence[Aim], topology: Topology) -> None:
        super().__init__(aims, topology, CanStopFetches)

    def _name(self, aim: Aim) -> str:
        return f"{self.f}-{aim.target}"

    def _strike(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        _fetchable(cluster).stop_fetches(nodes)

    def _unstruck(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        fetchable = _fetchable(cluster)
        return [f"{node} still fetches parts" for node in nodes if fetchable.fetching(node)]

    def _release(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        _fetchable(cluster).start_fetches(standing(cluster, nodes))

    def _unreleased(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        fetchable = _fetchable(cluster)
        # Of the dead there is nothing to say: they fetch when they are started.
        alive = running(cluster, nodes)
        awake = standing(cluster, alive)
        frozen = [f"{n} is paused, its fetches are still stopped" for n in alive if n not in awake]
        return frozen + [
            f"{node} does not fetch parts" for node in awake if not fetchable.fetching(node)
        ]


def _fetchable(cluster: Cluster) -> CanStopFetches:
    assert isinstance(cluster, CanStopFetches), "capabilities are checked before the run"
    return cluster
