"""Servers that run, and something about them is worse: packets are lost, fetches or clocks slow."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.core.protocols import CanLosePackets, CanSkewClocks, CanSlowFetches, Cluster
from harness.core.topology import Topology
from nemesis.node_fault import NodeFault
from nemesis.targets import Aim


@dataclass(frozen=True, slots=True)
class Way:
    """One of the ways in which a server gets worse."""

    text: str
    need: type
    role: str | None
    """Whose servers; None: as the user's options have it."""
    strike: Callable[[Any, Sequence[str]], None]
    release: Callable[[Any, Sequence[str]], None]
    struck: Callable[[Any, str], bool]


WAYS: Mapping[str, Way] = {
    "loss": Way(
        "three of ten packets from and to some server are lost",
        CanLosePackets,
        None,
        lambda cluster, nodes: cluster.lose_packets(nodes),
        lambda cluster, nodes: cluster.keep_packets(nodes),
        lambda cluster, node: bool(cluster.losing_packets(node)),
    ),
    "slow-fetches": Way(
        "parts come to a replica a hundred times slower",
        CanSlowFetches,
        "clickhouse",
        lambda cluster, nodes: cluster.slow_fetches(nodes),
        lambda cluster, nodes: cluster.speed_fetches(nodes),
        lambda cluster, node: bool(cluster.fetching_slowly(node)),
    ),
    "clock-skew": Way(
        "the clock of a ZooKeeper server goes at a third of its speed",
        CanSkewClocks,
        "zookeeper",
        lambda cluster, nodes: cluster.skew_clocks(nodes),
        lambda cluster, nodes: cluster.right_clocks(nodes),
        lambda cluster, node: bool(cluster.skewed(node)),
    ),
}
"""By name."""


class Degraded(NodeFault):
    """One of the ways, on some nodes; a restart of theirs does not end it."""

    heal_rank = 0

    def __init__(self, name: str, aims: Sequence[Aim], topology: Topology) -> None:
        self.f = name
        self._way = WAYS[name]
        super().__init__(aims, topology, self._way.need)

    def _able(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:  # noqa: ARG002
        return nodes

    def _strike(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        self._way.strike(cluster, nodes)

    def _unstruck(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        return [f"{n}: no {self.f} is seen" for n in nodes if not self._way.struck(cluster, n)]

    def _release(self, cluster: Cluster, nodes: Sequence[str]) -> str:
        self._way.release(cluster, nodes)
        return ""

    def _unreleased(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        return [f"{n}: {self.f} goes on" for n in nodes if self._way.struck(cluster, n)]

    def _undo(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        self._way.release(cluster, nodes)
