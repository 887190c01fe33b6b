"""Faults that make replicas lag: they fetch no parts, and answer with the parts that they have."""

from collections.abc import Sequence
from typing import Final

from harness.core.capabilities import CanStopFetches
from harness.core.protocols import Cluster
from nemesis.cluster_state import responsive, running
from nemesis.family import Needs
from nemesis.fault import Aim, FaultEntry
from nemesis.node_fault import NodeFault
from nemesis.targets import NodeSpec


class StopFetches(NodeFault):
    """Family of stopped fetches: SYSTEM STOP FETCHES, and START FETCHES when the fault ends.

    A server forgets the command when it is restarted, so a restart ends the fault early.
    """

    needs: Needs = (CanStopFetches,)
    heal_rank = 3
    """Rank by which it is healed last: the command needs a server that answers, the probe a whole
    cluster."""

    def _name(self, spec: NodeSpec) -> str:
        return f"{self.f}-{spec.target}"

    def _inject(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        cluster.part(CanStopFetches).stop_fetches(nodes)

    def _unverified(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        fetchable = cluster.part(CanStopFetches)
        return [f"{node} still fetches parts" for node in nodes if fetchable.fetching(node)]

    def _revert(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        cluster.part(CanStopFetches).start_fetches(responsive(cluster, nodes))

    def _remaining(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        fetchable = cluster.part(CanStopFetches)
        # A server that does not run will fetch again when it is started.
        alive = running(cluster, nodes)
        ready = responsive(cluster, alive)
        paused = [f"{n} is paused, its fetches are still stopped" for n in alive if n not in ready]
        return paused + [
            f"{node} does not fetch parts" for node in ready if not fetchable.fetching(node)
        ]


FAULTS: Final = (
    FaultEntry(
        name="stop-fetches",
        text="replicas fetch no parts, so that they lag",
        seen="a probe put on another replica does not arrive",
        gone="a probe put on another replica arrives",
        make=StopFetches,
        # On a majority of the replicas it would stop every quorum insert.
        aim=Aim(role="clickhouse", target="one", targets=("one", "minority")),
    ),
)
