"""Faults of server processes: kill, pause, graceful restart."""

from collections.abc import Iterable, Sequence

from harness.core.errors import ClusterError
from harness.core.protocols import CanKill, CanPause, CanRestart, Cluster
from harness.core.topology import Topology
from nemesis.family import running
from nemesis.node_fault import NodeFault
from nemesis.targets import Aim


class Kill(NodeFault):
    """SIGKILL, and start when the fault ends."""

    f = "kill"
    heal_rank = 2
    """After the links and the frozen: a start waits until the server answers."""

    def __init__(self, aims: Sequence[Aim], topology: Topology) -> None:
        super().__init__(aims, topology, CanKill)

    def _able(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        # SIGKILL ends a stopped process too.
        return running(cluster, nodes)

    def _strike(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        _killable(cluster).kill(nodes)

    def _unstruck(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        killable = _killable(cluster)
        return [f"{node} still runs after SIGKILL" for node in nodes if killable.running(node)]

    def _release(self, cluster: Cluster, nodes: Sequence[str]) -> str:
        return _start(_killable(cluster), nodes)

    def _unreleased(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        return _not_running(_killable(cluster), nodes)

    def _undo(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        _killable(cluster).start(nodes)


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

    def _release(self, cluster: Cluster, nodes: Sequence[str]) -> str:
        _pausable(cluster).resume(nodes)
        return ""

    def _unreleased(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        pausable = _pausable(cluster)
        return [f"{node} is still paused" for node in nodes if pausable.paused(node)]

    def _undo(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        _pausable(cluster).resume(nodes)


class Restart(NodeFault):
    """SIGTERM, wait, start: one call, over when it returns."""

    f = "restart"
    once = True
    heal_rank = 2

    def __init__(self, aims: Sequence[Aim], topology: Topology) -> None:
        # CanKill, for its `running` and for the start of a restart that was cut short.
        super().__init__(aims, topology, CanRestart, CanKill)

    def _strike(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        assert isinstance(cluster, CanRestart), "capabilities are checked before the run"
        cluster.restart(nodes)

    def _unstruck(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        return _not_running(_killable(cluster), nodes)

    def _release(self, cluster: Cluster, nodes: Sequence[str]) -> str:
        return _start(_killable(cluster), nodes)

    def _unreleased(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        return _not_running(_killable(cluster), nodes)

    def _undo(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        _killable(cluster).start(nodes)


def _start(cluster: CanKill, nodes: Sequence[str]) -> str:
    """Started is what ends a kill. A server that runs but cannot answer yet, since another fault
    keeps its quorum from it, is remarked on; the heal waits for its answer."""
    try:
        cluster.start(nodes)
    except ClusterError as error:
        if _not_running(cluster, nodes):
            raise
        return f", started but without an answer yet: {error}"
    return ""


def _not_running(cluster: CanKill, nodes: Iterable[str]) -> list[str]:
    return [f"{node} does not run" for node in nodes if not cluster.running(node)]


def _killable(cluster: Cluster) -> CanKill:
    assert isinstance(cluster, CanKill), "capabilities are checked before the run"
    return cluster


def _pausable(cluster: Cluster) -> CanPause:
    assert isinstance(cluster, CanPause), "capabilities are checked before the run"
    return cluster
