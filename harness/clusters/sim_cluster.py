"""The simulated cluster as a cluster: the same Protocol and capabilities as real servers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

from compose.settings import Fsync
from harness.clusters.simulated_connections import (
    SimulatedChannel,
    SimulatedSession,
    SimulatedStore,
)
from harness.clusters.simulated_disks import SimulatedDisks
from harness.clusters.simulated_links import SimulatedLinkQuality, SimulatedLinks
from harness.clusters.simulated_machines import SimulatedClocks, SimulatedResources
from harness.clusters.simulated_members import (
    SimulatedEnsemble,
    SimulatedReplicas,
    SimulatedStorage,
)
from harness.clusters.simulated_servers import (
    SimulatedFetches,
    SimulatedLeaders,
    SimulatedLogs,
    SimulatedProcesses,
)
from harness.core.capabilities import CanKill
from harness.core.connections import QueryChannel, StoreChannel, ZooKeeper
from harness.core.errors import ClusterError
from harness.core.op import Written
from harness.core.parts import HasParts
from harness.core.protocols import Endpoint
from harness.core.runtime import Runtime
from harness.core.seed import Seed
from harness.core.topology import Role, Topology
from harness.native.simulator import Members
from harness.sim.bugs import DEFAULT
from harness.sim.simulation import Simulation, TableSettings, simulated_engines
from harness.sim.world import SECOND, VirtualTime

READINGS: Final = ("sync", "server", "thesis", "linearizable")
READY_NS: Final = 60 * SECOND
UNFORCED: Final = frozenset({"keeper-early-ack"})
"""What ZooKeeper servers without forceSync do: the log is not durable when they answer."""


class SimCluster(HasParts):
    """One process, one thread, no ports; its time is its own."""

    parts: ClassVar[tuple[type, ...]] = (
        SimulatedLinks,
        SimulatedLinkQuality,
        SimulatedProcesses,
        SimulatedLeaders,
        SimulatedFetches,
        SimulatedLogs,
        SimulatedDisks,
        SimulatedClocks,
        SimulatedResources,
        SimulatedStorage,
        SimulatedReplicas,
        SimulatedEnsemble,
    )

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
        simulation = self.simulation = Simulation(
            topology,
            seed,
            bugs=bugs | UNFORCED if fsync is Fsync.NEVER else bugs,
            protocol=protocol,
            without=without,
            settings=settings,
        )
        members = Members(simulation.servers)
        super().__init__(
            SimulatedLinks(simulation),
            SimulatedLinkQuality(simulation, topology),
            SimulatedProcesses(simulation, topology),
            SimulatedLeaders(simulation, topology),
            SimulatedFetches(simulation),
            SimulatedLogs(simulation, topology),
            SimulatedDisks(simulation, topology, fsync),
            SimulatedClocks(simulation, topology),
            SimulatedResources(simulation, topology),
            SimulatedStorage(simulation, members),
            SimulatedReplicas(simulation, topology, members),
            SimulatedEnsemble(simulation, topology, members),
        )
        self.runtime: Runtime = VirtualTime(simulation.world)
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
            self.part(CanKill).kill(self.topology.names)
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
