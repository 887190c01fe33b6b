"""Faults that degrade a running server: slow fetches, a frozen store."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.core.capabilities import CanPause, CanSlowFetches
from harness.core.protocols import Cluster
from harness.core.topology import Topology
from nemesis.node_fault import NodeFault
from nemesis.targets import NodeSpec


@dataclass(frozen=True, slots=True)
class Degradation:
    """One way to degrade a server."""

    text: str
    need: type
    role: str | None
    """Role of the servers; None: the user's options decide."""
    inject: Callable[[Any, Sequence[str]], None]
    revert: Callable[[Any, Sequence[str]], None]
    effects: Callable[[Any, str], Mapping[str, bool]]
    """Function that maps each place where a server's degradation shows to whether it does."""


DEGRADATIONS: Mapping[str, Degradation] = {
    "slow-fetches": Degradation(
        "parts reach a replica a hundred times more slowly (simulated servers only)",
        CanSlowFetches,
        "clickhouse",
        lambda fetches, nodes: fetches.slow_fetches(nodes),
        lambda fetches, nodes: fetches.stop_slow_fetches(nodes),
        lambda fetches, node: {node: fetches.fetching_slowly(node)},
    ),
    "store-pause": Degradation(
        "SIGSTOP to the object store, then SIGCONT",
        CanPause,
        "store",
        lambda servers, nodes: servers.pause(nodes),
        lambda servers, nodes: servers.resume(nodes),
        lambda servers, node: {node: servers.paused(node)},
    ),
}
"""Degradations by the name of their nemesis."""


class Degraded(NodeFault):
    """Family of one degradation. Restarting a degraded server does not end it."""

    heal_rank = 0

    def __init__(self, name: str, specs: Sequence[NodeSpec], topology: Topology) -> None:
        self.f = name
        self._degradation = DEGRADATIONS[name]
        super().__init__(specs, topology, self._degradation.need)

    def _eligible(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:  # noqa: ARG002
        return nodes

    def _inject(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        self._degradation.inject(cluster.part(self._degradation.need), nodes)

    def _unverified(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        return [f"{at}: no {self.f} is seen" for at, seen in self._seen(cluster, nodes) if not seen]

    def _revert(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        self._degradation.revert(cluster.part(self._degradation.need), nodes)

    def _remaining(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        return [f"{at}: {self.f} goes on" for at, seen in self._seen(cluster, nodes) if seen]

    def _seen(self, cluster: Cluster, nodes: Sequence[str]) -> Iterator[tuple[str, bool]]:
        part: Any = cluster.part(self._degradation.need)
        for node in nodes:
            yield from self._degradation.effects(part, node).items()
