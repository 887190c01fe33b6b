"""Simulated servers: their processes, who leads, and their fetches and transaction logs."""

import tarfile
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from typing import Final

from harness.core.capabilities import (
    CanKill,
    CanPause,
    CanRestart,
    CanSlowFetches,
    CanStopFetches,
    ReportsLeader,
    ReportsTableLeader,
)
from harness.core.errors import ClusterError
from harness.core.record_capabilities import KeepsTransactions
from harness.core.topology import Topology
from harness.native.simulator import FETCH_NS
from harness.sim.simulation import Simulation
from harness.sim.world import SECOND

START_NS: Final = 30 * SECOND


class SimulatedProcesses(CanKill, CanRestart, CanPause):
    """Processes of simulated servers. Disks and cuts outlast them."""

    def __init__(self, simulation: Simulation, topology: Topology) -> None:
        self._simulation = simulation
        self._topology = topology

    def kill(self, nodes: Iterable[str]) -> None:
        for node in nodes:
            self._simulation.servers.kill(node)

    def start(self, nodes: Iterable[str], answers: bool = True) -> None:
        started = list(nodes)
        for node in started:
            self._simulation.servers.start(node)
        if answers:
            self._wait_for_replicas(started)

    def running(self, node: str) -> bool:
        return self._simulation.servers.running(node)

    def restart(self, nodes: Iterable[str], answers: bool = True) -> None:
        restarted = list(nodes)
        for node in restarted:
            self._simulation.servers.stop(node)
        self.start(restarted, answers)

    def pause(self, nodes: Iterable[str]) -> None:
        for node in nodes:
            self._simulation.servers.pause(node)

    def resume(self, nodes: Iterable[str]) -> None:
        for node in nodes:
            self._simulation.servers.resume(node)

    def paused(self, node: str) -> bool:
        return self._simulation.servers.paused(node)

    def _wait_for_replicas(self, nodes: Sequence[str]) -> None:
        """Wait until the replicas answer. Raises ClusterError.

        ZooKeeper servers need no wait: their ports are open as soon as the process runs.
        """

        def late() -> list[str]:
            replicas = [node for node in nodes if node in self._topology.replicas]
            return [node for node in replicas if not self._simulation.servers.answers(node)]

        if not self._simulation.wait_until(lambda: not late(), START_NS):
            raise ClusterError(f"{' '.join(late())}: does not answer after its start")


class SimulatedLeaders(ReportsLeader, ReportsTableLeader):
    """Leaders among simulated servers."""

    def __init__(self, simulation: Simulation, topology: Topology) -> None:
        self._servers = simulation.servers
        self._topology = topology

    def leader(self) -> str | None:
        return self._servers.leader()

    def serving(self) -> frozenset[str]:
        return frozenset(filter(self._servers.answers, self._topology.keepers))

    def table_leader(self) -> str | None:
        led = {node: self._servers.tables_led(node) for node in self._topology.replicas}
        most = max(led, key=led.__getitem__)
        return most if led[most] else None


class SimulatedFetches(CanStopFetches, CanSlowFetches):
    """Fetches of parts by simulated replicas."""

    def __init__(self, simulation: Simulation) -> None:
        self._servers = simulation.servers

    def stop_fetches(self, nodes: Iterable[str]) -> None:
        """Stop the fetches of every table that exists, until the server ends."""
        self._servers.stop_fetches(list(nodes))

    def start_fetches(self, nodes: Iterable[str]) -> None:
        self._servers.start_fetches(list(nodes))

    def fetching(self, node: str) -> bool:
        return self._servers.fetching(node)

    def slow_fetches(self, nodes: Iterable[str]) -> None:
        """Make fetches take a hundred times as long, also after restarts."""
        for node in nodes:
            self._servers.fetch_ns(node, 100 * FETCH_NS)

    def stop_slow_fetches(self, nodes: Iterable[str]) -> None:
        for node in nodes:
            self._servers.fetch_ns(node, FETCH_NS)

    def fetching_slowly(self, node: str) -> bool:
        return self._servers.fetch_ns(node) > FETCH_NS


class SimulatedLogs(KeepsTransactions):
    """Transaction logs of simulated ZooKeeper servers, each as an archive of one file."""

    def __init__(self, simulation: Simulation, topology: Topology) -> None:
        self._servers = simulation.servers
        self._topology = topology

    def transactions(self) -> Mapping[str, bytes]:
        running = filter(self._servers.running, self._topology.keepers)
        return {node: self._archived(self._servers.transactions(node)) for node in running}

    @staticmethod
    def _archived(log: bytes) -> bytes:
        out = BytesIO()
        with tarfile.open(fileobj=out, mode="w") as archive:
            file = tarfile.TarInfo("version-2/log.1")
            file.size = len(log)
            archive.addfile(file, BytesIO(log))
        return out.getvalue()
