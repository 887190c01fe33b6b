"""Members that come back without their disk or with an old one, and members that are replaced.

Only one server is without its data at a time, and the fault ends when a replica has fetched what it
lacks: rows that a quorum of two has acknowledged are then always somewhere.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from harness.core.capabilities import CanKill, CanReplaceDisks, CanReplaceReplicas, ReportsLeader
from harness.core.dialect import Mechanism
from harness.core.disk_loss import Takes
from harness.core.protocols import Cluster
from harness.core.topology import Topology
from nemesis.cluster_state import reaches_quorum, responsive
from nemesis.node_fault import NodeFault
from nemesis.process import start
from nemesis.targets import NodeSpec

EMPTY, OLD, REPLACE = "empty-disk", "old-disk", "replace"

VARIANTS: Final[Mapping[str, str]] = {
    EMPTY: "a replica is killed, the parts of its tables are removed, then it is started",
    OLD: "a server's disk is copied; at the end it is killed and started with the copy",
    REPLACE: "a server is killed, its disk emptied and its replicas dropped by another; at the end "
    "a new one takes its place",
}
"""Descriptions by name; a role may follow the last two."""


class _MemberFault(NodeFault):
    """Base of the families that touch the disk of one server."""

    heal_rank = 2
    """Healed after links and paused processes, like everything that starts servers."""

    def __init__(self, name: str, specs: Sequence[NodeSpec], topology: Topology) -> None:
        super().__init__(
            specs, topology, CanKill, ReportsLeader, CanReplaceDisks, CanReplaceReplicas
        )
        self.f = name

    def _eligible(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        # Nothing may be taken from a cluster in which another member is away.
        if set(responsive(cluster, self._topology.names)) != set(self._topology.names):
            return []
        return [
            node
            for node in nodes
            if node in self._topology.keepers or reaches_quorum(cluster, self._topology, node)
        ]

    def _remaining(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        killable, replaceable = _killable(cluster), _replaceable(cluster)
        dead = [f"{node} does not run" for node in nodes if not killable.running(node)]
        return dead or [why for node in nodes for why in replaceable.behind(node)]


class EmptyDisk(_MemberFault):
    """Family of replicas that lose the parts of their tables and keep their names."""

    takes = Takes.ALL

    def _inject(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        _killable(cluster).kill(nodes)
        _disks(cluster).empty_disks(nodes, parts_only=True)

    def _unverified(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        left = {node: _disks(cluster).disk_files(node, parts_only=True) for node in nodes}
        return [f"{node} has {count} parts" for node, count in left.items() if count]

    def _revert(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        start(cluster, self._topology, nodes)


class OldDisk(_MemberFault):
    """Family of servers that come back with an old copy of their disks.

    The copy is taken when the fault begins, and the server runs on until the fault ends.
    """

    takes = Takes.NEWER

    def __init__(self, name: str, specs: Sequence[NodeSpec], topology: Topology) -> None:
        super().__init__(name, specs, topology)
        self._copied: dict[str, int] = {}
        """Number of files of each copy that was not yet put back."""
        self._said = ""

    def _inject(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        _killable(cluster).kill(nodes)
        for node in nodes:
            self._copied[node] = _disks(cluster).disk_files(node, parts_only=False)
        _disks(cluster).back_up_disks(nodes)
        start(cluster, self._topology, nodes)

    def _unverified(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        empty = [node for node in nodes if not self._copied.get(node)]
        stopped = [node for node in nodes if not _killable(cluster).running(node)]
        return [*(f"{n}: nothing was copied" for n in empty), *(f"{n} is down" for n in stopped)]

    def _note(self, cluster: Cluster, nodes: Sequence[str]) -> str:
        files = {node: _disks(cluster).disk_files(node, parts_only=False) for node in nodes}
        return ", " + ", ".join(
            f"{count} files were {self._copied.get(node, 0)}" for node, count in files.items()
        )

    def _revert(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        old = [node for node in nodes if node in self._copied]
        if old:
            _killable(cluster).kill(old)
            _disks(cluster).restore_disks(old)
            for node in old:
                del self._copied[node]
        start(cluster, self._topology, nodes)


class Replace(_MemberFault):
    """Family of servers that are replaced by new ones of the same name."""

    takes = Takes.ALL

    def __init__(self, name: str, specs: Sequence[NodeSpec], topology: Topology) -> None:
        super().__init__(name, specs, topology)
        if any(spec.role != "zookeeper" for spec in specs):
            self.needs = (*self.needs, Mechanism.DROP_REPLICA)

    def _inject(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        replicas = [node for node in nodes if node in self._topology.replicas]
        _replaceable(cluster).note_tables(replicas)
        _killable(cluster).kill(nodes)
        _disks(cluster).empty_disks(nodes, parts_only=False)
        _replaceable(cluster).drop_replicas(replicas)

    def _unverified(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        full = [node for node in nodes if _disks(cluster).disk_files(node, parts_only=False)]
        known = [node for node in nodes if _replaceable(cluster).registered(node)]
        return [*(f"{n}: has files" for n in full), *(f"{n}: is still a member" for n in known)]

    def _revert(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        start(cluster, self._topology, nodes)
        replicas = [node for node in nodes if node in self._topology.replicas]
        # A begin that was interrupted may have left them registered, which forbids new ones.
        empty = [node for node in replicas if _replaceable(cluster).lacks_tables(node)]
        _replaceable(cluster).drop_replicas(empty)
        _replaceable(cluster).add_replicas(replicas)

    def _remaining(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        unknown = [node for node in nodes if not _replaceable(cluster).registered(node)]
        wrong = super()._remaining(cluster, nodes)
        return wrong or [f"{node}: is not a member yet" for node in unknown]


def _killable(cluster: Cluster) -> CanKill:
    assert isinstance(cluster, CanKill), "capabilities are checked before the run"
    return cluster


def _disks(cluster: Cluster) -> CanReplaceDisks:
    assert isinstance(cluster, CanReplaceDisks), "capabilities are checked before the run"
    return cluster


def _replaceable(cluster: Cluster) -> CanReplaceReplicas:
    assert isinstance(cluster, CanReplaceReplicas), "capabilities are checked before the run"
    return cluster


FAMILIES: Final[Mapping[str, type[_MemberFault]]] = {
    EMPTY: EmptyDisk,
    OLD: OldDisk,
    REPLACE: Replace,
}
