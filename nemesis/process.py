"""Faults of server processes: kill, pause, graceful restart."""

from collections.abc import Iterable, Sequence
from functools import partial

from harness.core.errors import ClusterError, FaultError
from harness.core.protocols import CanKill, CanLead, CanPause, CanRestart, Cluster, clock_of
from harness.core.topology import Topology
from nemesis.family import Watch, names, running, standing
from nemesis.node_fault import NodeFault
from nemesis.quorum import served
from nemesis.targets import Aim

ELECTION_S = 3.0
"""How long a start waits for ZooKeeper to have a quorum: elections take about a second, and
where other faults forbid one the call must come back, or those faults would never end."""


class Kill(NodeFault):
    """SIGKILL, and start when the fault ends."""

    f = "kill"
    heal_rank = 2
    """After the links and the frozen: a start waits until the server answers."""

    def __init__(self, aims: Sequence[Aim], topology: Topology) -> None:
        super().__init__(aims, topology, CanKill, CanLead)

    def _able(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        # SIGKILL ends a stopped process too.
        return running(cluster, nodes)

    def _strike(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        _killable(cluster).kill(nodes)

    def _unstruck(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        killable = _killable(cluster)
        return [f"{node} still runs after SIGKILL" for node in nodes if killable.running(node)]

    def _release(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        _start(cluster, self._topology, nodes)

    def _unreleased(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        return _not_running(_killable(cluster), nodes)


class Pause(NodeFault):
    """SIGSTOP, and SIGCONT when the fault ends. The process keeps its connections."""

    f = "pause"
    heal_rank = 1
    """Before anything is started: a quorum may need the frozen."""

    def __init__(self, aims: Sequence[Aim], topology: Topology) -> None:
        super().__init__(aims, topology, CanPause)

    def _strike(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        _pausable(cluster).pause(nodes)

    def _unstruck(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        pausable = _pausable(cluster)
        return [f"{node} is not stopped by SIGSTOP" for node in nodes if not pausable.paused(node)]

    def _release(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        _pausable(cluster).resume(nodes)

    def _unreleased(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        pausable = _pausable(cluster)
        return [f"{node} is still paused" for node in nodes if pausable.paused(node)]


class Restart(NodeFault):
    """SIGTERM, wait, start: one call, over when it returns."""

    f = "restart"
    once = True
    heal_rank = 2

    def __init__(self, aims: Sequence[Aim], topology: Topology) -> None:
        # CanKill, for its `running` and for the start of a restart that was cut short.
        super().__init__(aims, topology, CanRestart, CanKill, CanLead)

    def _able(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        # A replica without ZooKeeper would not come back.
        return [
            node
            for node in standing(cluster, nodes)
            if node in self._topology.keepers or served(cluster, self._topology, node)
        ]

    def _strike(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        assert isinstance(cluster, CanRestart), "capabilities are checked before the run"
        try:
            cluster.restart(nodes)
        except ClusterError:
            # They were stopped, and some came not back: a replica, say, whose ZooKeeper server
            # was stopped with it. In the right order they can.
            _start(cluster, self._topology, nodes)

    def _unstruck(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        return _not_running(_killable(cluster), nodes)

    def _release(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        _start(cluster, self._topology, nodes)

    def _unreleased(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        return _not_running(_killable(cluster), nodes)


def _start(cluster: Cluster, topology: Topology, nodes: Sequence[str]) -> None:
    """ZooKeeper servers first, then the replicas that have one with a quorum.

    A replica of 18.16.1 that has tables and reaches no ZooKeeper at its start exits or hangs.
    Raises FaultError, naming such replicas, soon: as long as the nemesis is busy with them it
    cannot end what holds their ZooKeeper.
    """
    killable = _killable(cluster)
    keepers = [node for node in nodes if node in topology.keepers]
    if keepers:
        killable.start(keepers)
    replicas = [node for node in nodes if node in topology.replicas]
    dead = [node for node in replicas if not killable.running(node)]
    alone = Watch(ELECTION_S, clock=partial(clock_of, cluster)).until_none(
        lambda: [node for node in dead if not served(cluster, topology, node)]
    )
    ready = [node for node in replicas if node not in alone]
    if ready:
        killable.start(ready)
    if alone:
        raise FaultError(
            f"{names(alone)}: not started, no ZooKeeper server that it knows has a quorum now"
        )


def _not_running(cluster: CanKill, nodes: Iterable[str]) -> list[str]:
    return [f"{node} does not run" for node in nodes if not cluster.running(node)]


def _killable(cluster: Cluster) -> CanKill:
    assert isinstance(cluster, CanKill), "capabilities are checked before the run"
    return cluster


def _pausable(cluster: Cluster) -> CanPause:
    assert isinstance(cluster, CanPause), "capabilities are checked before the run"
    return cluster
