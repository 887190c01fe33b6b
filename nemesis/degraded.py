"""Servers that run, and something about them is worse: packets are lost, fetches or clocks slow."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.core.protocols import CanLosePackets, CanSkewClocks, CanSlowFetches, Cluster
from harness.core.topology import Link, Topology
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
    struck: Callable[[Any, str], Mapping[str, bool]]
    """Of a server: wherever the effect would be seen, whether it is."""


WAYS: Mapping[str, Way] = {
    "loss": Way(
        "three of ten packets from and to some server are lost",
        CanLosePackets,
        None,
        lambda cluster, nodes: cluster.lose_packets(nodes),
        lambda cluster, nodes: cluster.keep_packets(nodes),
        lambda cluster, node: _named(cluster.losing_packets(node)),
    ),
    "slow-fetches": Way(
        "parts come to a replica a hundred times slower (simulated servers only)",
        CanSlowFetches,
        "clickhouse",
        lambda cluster, nodes: cluster.slow_fetches(nodes),
        lambda cluster, nodes: cluster.speed_fetches(nodes),
        lambda cluster, node: {node: cluster.fetching_slowly(node)},
    ),
    "clock-skew": Way(
        "the clock of a ZooKeeper server goes at a third of its speed (simulated servers only)",
        CanSkewClocks,
        "zookeeper",
        lambda cluster, nodes: cluster.skew_clocks(nodes),
        lambda cluster, nodes: cluster.right_clocks(nodes),
        lambda cluster, node: {node: cluster.skewed(node)},
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
        return [f"{at}: no {self.f} is seen" for at, seen in self._seen(cluster, nodes) if not seen]

    def _release(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        self._way.release(cluster, nodes)

    def _unreleased(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        return [f"{at}: {self.f} goes on" for at, seen in self._seen(cluster, nodes) if seen]

    def _seen(self, cluster: Cluster, nodes: Sequence[str]) -> Iterator[tuple[str, bool]]:
        for node in nodes:
            yield from self._way.struck(cluster, node).items()


def _named(lossy: Mapping[Link, bool]) -> dict[str, bool]:
    return {f"link {link.source} → {link.target}": lost for link, lost in lossy.items()}
