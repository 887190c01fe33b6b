"""Faults of server processes: kill, pause, graceful restart."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from harness.core.capabilities import CanKill, CanPause, CanRestart, ReportsLeader
from harness.core.errors import ClusterError, FaultError
from harness.core.op import Json
from harness.core.protocols import Cluster
from harness.core.topology import Topology
from nemesis.cluster_state import reaches_quorum, responsive, running
from nemesis.family import Needs, Watch, names
from nemesis.fault import ANY, FaultChoice, FaultEntry
from nemesis.node_fault import NodeFault

ELECTION_S = 3.0
"""Time that a start waits for ZooKeeper to have a quorum. An election takes about a second; if
other faults prevent one the call must return, or the nemesis could never end those faults."""


class StoppedServers(NodeFault):
    """Fault of servers that are started again.

    With `answers` false in the plan a start does not wait until replicas answer, because what they
    send before may be held back.
    """

    heal_rank = 2
    """Healed after links and paused processes: a start waits until the server answers."""

    def __init__(self, choice: FaultChoice) -> None:
        super().__init__(choice)
        self._answers = True

    def begin(self, cluster: Cluster, plan: Mapping[str, Json], watch: Watch) -> dict[str, Json]:
        """Stop the planned nodes, and verify what becomes of them."""
        self._answers = plan.get("answers") is not False
        return super().begin(cluster, plan, watch)

    def _remaining(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        return not_running(cluster, nodes)


class Kill(StoppedServers):
    """Family of kills: SIGKILL, and start when the fault ends."""

    needs: Needs = (CanKill, ReportsLeader)

    def end(self, cluster: Cluster, watch: Watch) -> dict[str, Json]:
        """Start what was killed, and verify that it runs."""
        try:
            return super().end(cluster, watch)
        finally:
            self._answers = True  # whoever heals later waits

    def _eligible(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        # SIGKILL ends a paused process too.
        return running(cluster, nodes)

    def _inject(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        cluster.part(CanKill).kill(nodes)

    def _unverified(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        killable = cluster.part(CanKill)
        return [f"{node} still runs after SIGKILL" for node in nodes if killable.running(node)]

    def _revert(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        start(cluster, self._topology, nodes, self._answers)


class Pause(NodeFault):
    """Family of pauses: SIGSTOP, and SIGCONT when the fault ends. Connections stay open."""

    needs: Needs = (CanPause,)
    heal_rank = 1
    """Healed before anything is started: a quorum may need a paused server."""

    def _inject(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        cluster.part(CanPause).pause(nodes)

    def _unverified(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        pausable = cluster.part(CanPause)
        return [f"{node} is not stopped by SIGSTOP" for node in nodes if not pausable.paused(node)]

    def _revert(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        cluster.part(CanPause).resume(nodes)

    def _remaining(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        pausable = cluster.part(CanPause)
        return [f"{node} is still paused" for node in nodes if pausable.paused(node)]


class Restart(StoppedServers):
    """Family of graceful restarts: SIGTERM, wait and start in one call."""

    # CanKill, for `running` and to start what an interrupted restart has stopped.
    needs: Needs = (CanRestart, CanKill, ReportsLeader)
    once = True

    def _eligible(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        # A replica without ZooKeeper would not come back.
        return [
            node
            for node in responsive(cluster, nodes)
            if node in self._topology.keepers or reaches_quorum(cluster, self._topology, node)
        ]

    def _inject(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        try:
            cluster.part(CanRestart).restart(nodes, self._answers)
        except ClusterError:
            # All were stopped, and some did not start again, such as a replica whose ZooKeeper
            # server was stopped with it. Started in the right order they do.
            start(cluster, self._topology, nodes)

    def _unverified(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        return not_running(cluster, nodes)

    def _revert(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        start(cluster, self._topology, nodes)


def start(cluster: Cluster, topology: Topology, nodes: Sequence[str], answers: bool = True) -> None:
    """Start ZooKeeper servers, then the replicas that reach one with a quorum.

    A replica of 18.16.1 that has tables and reaches no ZooKeeper when it starts exits or hangs.
    Raises FaultError, which names such replicas, after a short wait: while the nemesis is busy with
    them it cannot end the fault that holds their ZooKeeper.
    """
    killable = cluster.part(CanKill)
    keepers = [node for node in nodes if node in topology.keepers]
    if keepers:
        killable.start(keepers)
    replicas = [node for node in nodes if node in topology.replicas]
    dead = [node for node in replicas if not killable.running(node)]
    unserved = Watch(ELECTION_S, clock=cluster.runtime.clock).until_none(
        lambda: [node for node in dead if not reaches_quorum(cluster, topology, node)]
    )
    ready = [node for node in replicas if node not in unserved]
    if ready:
        killable.start(ready, answers)
    if unserved:
        raise FaultError(
            f"{names(unserved)}: not started, no ZooKeeper server that it knows has a quorum now"
        )


def not_running(cluster: Cluster, nodes: Iterable[str]) -> list[str]:
    """Return the nodes whose server does not run, a reason each."""
    servers = cluster.part(CanKill)
    return [f"{node} does not run" for node in nodes if not servers.running(node)]


FAULTS: Final = (
    FaultEntry(
        name="kill",
        text="SIGKILL, then start",
        seen="no server process is left",
        gone="the servers run and answer",
        make=Kill,
        aim=ANY,
    ),
    FaultEntry(
        name="pause",
        text="SIGSTOP, then SIGCONT",
        seen="the kernel says that every process of the server is stopped",
        gone="the kernel says that none is stopped",
        make=Pause,
        aim=ANY,
    ),
    FaultEntry(
        name="restart",
        text="SIGTERM, wait, start",
        seen="the processes ended, new ones run and answer",
        gone="over when the call returned",
        make=Restart,
        aim=ANY,
    ),
)
