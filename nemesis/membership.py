"""Members that come back without their disk or with an old one, and members that are replaced.

Only one server is without its data at a time, and the fault ends when a replica has fetched what it
lacks: rows that a quorum of two has acknowledged are then always somewhere. Of ZooKeeper alone all
servers may lose what they have, at once.
"""

from collections.abc import Sequence
from typing import Final

from harness.core.capabilities import (
    CanKill,
    CanReplaceDisks,
    CanReplaceReplicas,
    CanRestoreReplicas,
    CanRewindKeepers,
    ReportsLeader,
)
from harness.core.dialect import Mechanism
from harness.core.disk_loss import Takes
from harness.core.errors import ClusterError, FaultError
from harness.core.protocols import Cluster
from nemesis.cluster_state import reaches_quorum, responsive
from nemesis.family import Needs, Watch
from nemesis.fault import REPLICA, Aim, FaultChoice, FaultEntry
from nemesis.node_fault import NodeFault
from nemesis.process import not_running, start

RESTORED_S: Final = 40.0
"""Time in which the replicas of all tables can be restored."""


class _MemberFault(NodeFault):
    """Base of the families that touch the disk of one server."""

    needs: Needs = (CanKill, ReportsLeader, CanReplaceDisks, CanReplaceReplicas)
    heal_rank = 2
    """Healed after links and paused processes, like everything that starts servers."""

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
        members = cluster.part(CanReplaceReplicas)
        dead = not_running(cluster, nodes)
        return dead or [why for node in nodes for why in members.behind(node)]


class _EmptiedDisks(NodeFault):
    """Base of the families whose servers are killed and lose what is on their disks."""

    parts_only: bool
    """Whether servers lose the parts of their tables alone."""

    def _inject(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        cluster.part(CanKill).kill(nodes)
        cluster.part(CanReplaceDisks).empty_disks(nodes, parts_only=self.parts_only)

    def _unverified(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        disks, what = cluster.part(CanReplaceDisks), "parts" if self.parts_only else "files"
        left = {node: disks.disk_files(node, parts_only=self.parts_only) for node in nodes}
        return [f"{node} has {count} {what}" for node, count in left.items() if count]


class EmptyDisk(_EmptiedDisks, _MemberFault):
    """Family of replicas that lose the parts of their tables and keep their names."""

    takes = Takes.ALL
    parts_only = True

    def _revert(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        start(cluster, self._topology, nodes)


class OldDisk(_MemberFault):
    """Family of servers that come back with an old copy of their disks.

    The copy is taken when the fault begins, and the server runs on until the fault ends.
    """

    takes = Takes.NEWER

    def __init__(self, choice: FaultChoice) -> None:
        super().__init__(choice)
        self._copied: dict[str, int] = {}
        """Number of files of each copy that was not yet put back."""

    def _inject(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        disks = cluster.part(CanReplaceDisks)
        cluster.part(CanKill).kill(nodes)
        for node in nodes:
            self._copied[node] = disks.disk_files(node, parts_only=False)
        disks.back_up_disks(nodes)
        start(cluster, self._topology, nodes)

    def _unverified(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        empty = [node for node in nodes if not self._copied.get(node)]
        stopped = [node for node in nodes if not cluster.part(CanKill).running(node)]
        return [*(f"{n}: nothing was copied" for n in empty), *(f"{n} is down" for n in stopped)]

    def _note(self, cluster: Cluster, nodes: Sequence[str]) -> str:
        disks = cluster.part(CanReplaceDisks)
        files = {node: disks.disk_files(node, parts_only=False) for node in nodes}
        return ", " + ", ".join(
            f"{count} files were {self._copied.get(node, 0)}" for node, count in files.items()
        )

    def _revert(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        old = [node for node in nodes if node in self._copied]
        if old:
            cluster.part(CanKill).kill(old)
            self._put_back(cluster, old)
            for node in old:
                del self._copied[node]
        start(cluster, self._topology, nodes)

    def _put_back(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        """Put the copies in place of the disks of these servers, which do not run."""
        cluster.part(CanReplaceDisks).restore_disks(nodes)


class RewoundKeepers(OldDisk):
    """Family of ensembles of ZooKeeper that come back as they were. What they have forgotten is
    assigned anew, such as block numbers."""

    needs: Needs = (*OldDisk.needs, CanRewindKeepers)

    def _put_back(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        cluster.part(CanRewindKeepers).rewind_keepers(nodes)


class LostKeepers(_EmptiedDisks):
    """Family of ensembles of ZooKeeper that lose all that they have. At the end every replica is
    restored from its parts, as the manual says."""

    needs: Needs = (
        *(CanKill, ReportsLeader, CanReplaceDisks, CanRestoreReplicas),
        Mechanism.DROP_REPLICA,
    )
    heal_rank = 2
    parts_only = False

    def _revert(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        start(cluster, self._topology, nodes)
        # A replica that has no session yet cannot be restored.
        left = Watch(RESTORED_S, clock=cluster.runtime.clock).until_none(
            lambda: self._unrestored(cluster)
        )
        if left:
            raise FaultError("; ".join(left))

    def _unrestored(self, cluster: Cluster) -> Sequence[str]:
        """Restore every replica; return why one could not be, or takes no inserts yet."""
        replicas = cluster.part(CanRestoreReplicas)
        try:
            replicas.restore_replicas(self._topology.replicas)
        except ClusterError as error:
            return [str(error)]
        return [why for node in self._topology.replicas for why in replicas.read_only(node)]

    def _remaining(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        serving = cluster.part(ReportsLeader).serving()
        idle = [f"{node} does not serve" for node in nodes if node not in serving]
        replicas = cluster.part(CanRestoreReplicas)
        return idle or [why for node in self._topology.replicas for why in replicas.read_only(node)]


class Replace(_MemberFault):
    """Family of servers that are replaced by new ones of the same name."""

    takes = Takes.ALL

    def __init__(self, choice: FaultChoice) -> None:
        super().__init__(choice)
        if any(spec.role != "zookeeper" for spec in choice.specs):
            self.needs = (*self.needs, Mechanism.DROP_REPLICA)

    def _inject(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        members = cluster.part(CanReplaceReplicas)
        replicas = [node for node in nodes if node in self._topology.replicas]
        members.note_tables(replicas)
        cluster.part(CanKill).kill(nodes)
        cluster.part(CanReplaceDisks).empty_disks(nodes, parts_only=False)
        members.drop_replicas(replicas)

    def _unverified(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        disks, members = cluster.part(CanReplaceDisks), cluster.part(CanReplaceReplicas)
        full = [node for node in nodes if disks.disk_files(node, parts_only=False)]
        known = [node for node in nodes if members.registered(node)]
        return [*(f"{n}: has files" for n in full), *(f"{n}: is still a member" for n in known)]

    def _revert(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        start(cluster, self._topology, nodes)
        replicas = [node for node in nodes if node in self._topology.replicas]
        # A begin that was interrupted may have left them registered, which forbids new ones.
        members = cluster.part(CanReplaceReplicas)
        members.drop_replicas([node for node in replicas if members.lacks_tables(node)])
        members.add_replicas(replicas)

    def _remaining(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        members = cluster.part(CanReplaceReplicas)
        unknown = [node for node in nodes if not members.registered(node)]
        wrong = super()._remaining(cluster, nodes)
        return wrong or [f"{node}: is not a member yet" for node in unknown]


_KEEPERS: Final = Aim(role="zookeeper", target="all")
_ONE_MEMBER: Final = Aim(target="one", roles=("clickhouse", "zookeeper"))

FAULTS: Final = (
    FaultEntry(
        name="empty-disk",
        text="a replica is killed, the parts of its tables are removed, then it is started",
        seen="no server process is left, and its disk has no parts",
        gone="the server answers, its tables are active and wait for no part",
        make=EmptyDisk,
        aim=REPLICA,
    ),
    FaultEntry(
        name="old-disk",
        text="a server's disk is copied; at the end it is killed and started with the copy",
        seen="the disk of the killed server was copied, and it runs again",
        gone="the server runs on the copy, its tables are active and wait for no part",
        make=OldDisk,
        aim=_ONE_MEMBER,
    ),
    FaultEntry(
        name="keeper-rewound",
        text="the disks of all ZooKeeper servers are copied; at the end they are killed and "
        "started with the copies, as if from a backup",
        seen="the disks of the killed servers were copied, and they run again",
        gone="the servers run on the copies",
        make=RewoundKeepers,
        aim=_KEEPERS,
    ),
    FaultEntry(
        name="keeper-lost",
        text="all ZooKeeper servers are killed and their disks emptied; at the end they start, "
        "and every replica is restored from its parts",
        seen="no server process is left, and the disks have no files",
        gone="the servers serve, and no table is read-only",
        make=LostKeepers,
        aim=_KEEPERS,
    ),
    FaultEntry(
        name="replace",
        text="a server is killed, its disk emptied and its replicas dropped by another; at the end "
        "a new one takes its place",
        seen="its disk has no files, and other replicas or the ZooKeeper leader do not count it",
        gone="others count it, its tables are active and wait for no part",
        make=Replace,
        aim=_ONE_MEMBER,
    ),
)
