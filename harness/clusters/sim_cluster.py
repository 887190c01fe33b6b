"""The simulated cluster as a cluster: the same Protocol and capabilities as real servers."""

import tarfile
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Final

from compose.settings import Fsync
from harness.clusters.simulated_connections import (
    SimulatedChannel,
    SimulatedSession,
    SimulatedStore,
)
from harness.clusters.simulated_disks import SimulatedDisks
from harness.clusters.simulated_machines import SimulatedMachines
from harness.clusters.simulated_members import SimulatedMembers
from harness.core.connections import QueryChannel, StoreChannel, ZooKeeper
from harness.core.errors import ClusterError
from harness.core.link_quality import LinkEvidence, LinkFault, shown
from harness.core.op import Written
from harness.core.parts import HasParts
from harness.core.protocols import Endpoint
from harness.core.runtime import Runtime
from harness.core.seed import Seed
from harness.core.topology import Link, Role, Topology
from harness.native.simulator import FETCH_NS, Disks
from harness.sim.bugs import DEFAULT
from harness.sim.simulation import Simulation, TableSettings, simulated_engines
from harness.sim.world import SECOND, VirtualTime

READINGS: Final = ("sync", "server", "thesis", "linearizable")
READY_NS: Final = 60 * SECOND
START_NS: Final = 30 * SECOND
UNFORCED: Final = frozenset({"keeper-early-ack"})
"""What ZooKeeper servers without forceSync do: the log is not durable when they answer."""


class SimCluster(HasParts, SimulatedDisks, SimulatedMachines, SimulatedMembers):
    """One process, one thread, no ports; its time is its own."""

    def __init__(
        self,
        topology: Topology,
        seed: Seed,
        *,
        bugs: frozenset[str] = frozenset(),
        protocol: str = DEFAULT,
        without: frozenset[str] = frozenset(),
        settings: TableSettings | None = None,
        fsync: Fsync = Fsync.DEFAULT,
    ) -> None:
        """Create a cluster that is not running; `protocol` is one of harness.sim.bugs.PROTOCOLS,
        `without` are defects of it that the servers do not have, `fsync` is what they sync."""
        self.name = "sim"
        self.engines = simulated_engines(topology, protocol)
        self.topology = topology
        self.simulation = Simulation(
            topology,
            seed,
            bugs=bugs | UNFORCED if fsync is Fsync.NEVER else bugs,
            protocol=protocol,
            without=without,
            settings=settings,
        )
        self._synced = fsync.value
        self._disks = Disks(self.simulation.servers, fsync.value)
        self.runtime: Runtime = VirtualTime(self.simulation.world)
        self.readings: Sequence[str] = READINGS

    # --- Cluster ------------------------------------------------------------------------------

    def up(self) -> None:
        """Start every server, and return when all answer."""
        if not self.simulation.begun:
            self.simulation.up()
        if not self.simulation.wait_until(lambda: not self.unready(), READY_NS):
            raise ClusterError(f"cluster sim: not ready: {'; '.join(self.unready())}")

    def down(self) -> None:
        """End every process and every call that waits for an answer: a waiting greenlet would never
        be freed, nor anything that it refers to."""
        if self.simulation.begun:
            self.kill(self.topology.names)
        self.simulation.world.sleep(0)

    def ping(self) -> None:
        """Do nothing: the simulator runs in this process."""

    def close(self) -> None:
        """Do nothing: there is no connection."""

    def endpoint(self, node: str) -> Endpoint:
        """Raise ClusterError: simulated servers have no ports."""
        self.topology.node(node)
        raise ClusterError(f"{node}: a simulated server has no port")

    def versions(self) -> Mapping[str, str]:
        """Return the version of every node."""
        version = self.engines.only(Role.CLICKHOUSE)
        assert version is not None, "all simulated servers are of one version"
        return dict.fromkeys(self.topology.names, f"simulated {version.version}")

    def unready(self) -> Sequence[str]:
        """Return the reasons why servers cannot serve now, one for each."""
        return self.simulation.servers.unready()

    def collect(self, directory: Path) -> None:
        """Do nothing: simulated servers write no logs."""

    def query_channel(self, node: str, timeout_s: float) -> QueryChannel:
        """Return a new connection to a replica."""
        return SimulatedChannel(self.simulation, node, timeout_s)

    def store_channel(self, timeout_s: float) -> StoreChannel:  # noqa: ARG002
        """Return a new connection to the object store, which answers at once."""
        return SimulatedStore(self.simulation, self.topology.stores[0])

    def zookeeper(self, keepers: Sequence[str], timeout_s: float = 3.0) -> ZooKeeper:  # noqa: ARG002
        """Return a new session; how long it waits for an answer is the session's own affair."""
        return SimulatedSession(self.simulation, keepers)

    def protocol_trace(self, now_ns: int) -> Written:
        """Return the facts, on a clock that shows `now_ns` now."""
        ahead_ns = self.simulation.world.now_ns - now_ns
        return Written(self.simulation.servers.record(ahead_ns), "utf-8")

    def transactions(self) -> Mapping[str, bytes]:
        """Return each running ZooKeeper server's transaction log, as an archive of one file."""
        running = filter(self.simulation.servers.running, self.topology.keepers)
        return {
            node: self._archived(self.simulation.servers.transactions(node)) for node in running
        }

    @staticmethod
    def _archived(log: bytes) -> bytes:
        out = BytesIO()
        with tarfile.open(fileobj=out, mode="w") as archive:
            file = tarfile.TarInfo("version-2/log.1")
            file.size = len(log)
            archive.addfile(file, BytesIO(log))
        return out.getvalue()

    # --- CanPartition -------------------------------------------------------------------------

    def cut(self, links: Iterable[Link]) -> None:
        """Drop every packet of these links; other links stay as they are."""
        self.simulation.cut(links)

    def mend(self) -> None:
        """End every cut; may be called twice."""
        self.simulation.servers.mend()

    def reachable(self, links: Iterable[Link]) -> Mapping[Link, bool]:
        """Return whether each link carries packets."""
        alive = self.simulation.servers.alive
        return {link: alive(link.source, link.target) for link in links}

    # --- CanKill, CanRestart, CanPause --------------------------------------------------------

    def kill(self, nodes: Iterable[str]) -> None:
        """Kill the servers. Disks and cuts stay."""
        for node in nodes:
            self.simulation.servers.kill(node)

    def start(self, nodes: Iterable[str], answers: bool = True) -> None:
        """Start the servers that do not run, and return when each answers, or before. Raises
        ClusterError."""
        named = list(nodes)
        for node in named:
            self.simulation.servers.start(node)
        if answers:
            self._wait_for_replicas(named)

    def running(self, node: str) -> bool:
        """Return whether the server process exists."""
        return self.simulation.servers.running(node)

    def restart(self, nodes: Iterable[str], answers: bool = True) -> None:
        """End the servers, start them, and return when each answers, or before. Raises
        ClusterError."""
        named = list(nodes)
        for node in named:
            self.simulation.servers.stop(node)
        for node in named:
            self.simulation.servers.start(node)
        if answers:
            self._wait_for_replicas(named)

    def pause(self, nodes: Iterable[str]) -> None:
        """Pause the servers."""
        for node in nodes:
            self.simulation.servers.pause(node)

    def resume(self, nodes: Iterable[str]) -> None:
        """Resume the servers; no-op for servers that are not paused."""
        for node in nodes:
            self.simulation.servers.resume(node)

    def paused(self, node: str) -> bool:
        """Return whether the server process is paused."""
        return self.simulation.servers.paused(node)

    def _wait_for_replicas(self, nodes: Sequence[str]) -> None:
        """Wait until the replicas answer. Raises ClusterError.

        ZooKeeper servers need no wait: their ports are open as soon as the process runs.
        """

        def late() -> list[str]:
            replicas = [node for node in nodes if node in self.topology.replicas]
            return [node for node in replicas if not self.simulation.servers.answers(node)]

        if not self.simulation.wait_until(lambda: not late(), START_NS):
            raise ClusterError(f"{' '.join(late())}: does not answer after its start")

    # --- ReportsLeader, ReportsTableLeader, CanStopFetches ------------------------------------

    def leader(self) -> str | None:
        """Return the ZooKeeper server that leads now, or None."""
        return self.simulation.servers.leader()

    def serving(self) -> frozenset[str]:
        """Return the ZooKeeper servers that say that they lead or follow."""
        answers = self.simulation.servers.answers
        return frozenset(node for node in self.topology.keepers if answers(node))

    def table_leader(self) -> str | None:
        """Return the replica that leads most tables; None if none leads."""
        led = {node: self.simulation.servers.tables_led(node) for node in self.topology.replicas}
        most = max(led, key=led.__getitem__)
        return most if led[most] else None

    def stop_fetches(self, nodes: Iterable[str]) -> None:
        """Stop the fetches of every table that exists, until the server ends."""
        self.simulation.servers.stop_fetches(list(nodes))

    def start_fetches(self, nodes: Iterable[str]) -> None:
        """Start the fetches again; it may be called twice."""
        self.simulation.servers.start_fetches(list(nodes))

    def fetching(self, node: str) -> bool:
        """Return whether the replica fetches parts."""
        return self.simulation.servers.fetching(node)

    # --- CanDegradeLinks, CanSlowFetches -------------------------------------------------------

    def why_no_link_faults(self) -> str | None:
        """Return None: it can degrade links."""
        return None

    def degrade_links(
        self,
        links: Iterable[Link],
        fault: LinkFault,
        amount: float,
        seed: int,  # noqa: ARG002 # the world's own seed decides
    ) -> None:
        """Give these links a fault; other links, and other faults, stay as they are."""
        self.simulation.degrade(links, fault, amount)

    def restore_links(self, faults: Iterable[LinkFault] = tuple(LinkFault)) -> None:
        """End these faults on every link; it may be called twice."""
        for fault in faults:
            self.simulation.degrade(self.topology.links(), fault, 0)

    def link_evidence(
        self,
        links: Iterable[Link],
        fault: LinkFault,
        amount: float,  # noqa: ARG002 # it is known, not measured
    ) -> Mapping[Link, LinkEvidence]:
        """Return what the simulated network reports of these links."""
        amount_of = self.simulation.servers.amount
        amounts = {link: amount_of(link.source, link.target, fault) for link in links}
        return {
            link: LinkEvidence(found > 0, shown(fault, found)) for link, found in amounts.items()
        }

    def slow_fetches(self, nodes: Iterable[str]) -> None:
        """Make fetches take a hundred times as long; disks stay slow over restarts."""
        for node in nodes:
            self.simulation.servers.fetch_ns(node, 100 * FETCH_NS)

    def stop_slow_fetches(self, nodes: Iterable[str]) -> None:
        """End what the fault began; it may be called twice."""
        for node in nodes:
            self.simulation.servers.fetch_ns(node, FETCH_NS)

    def fetching_slowly(self, node: str) -> bool:
        """Return whether the node fetches slowly."""
        return self.simulation.servers.fetch_ns(node) > FETCH_NS
