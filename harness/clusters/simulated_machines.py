"""What lies under simulated servers: their clocks and their resources."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from harness.clusters.clock_query import read_clock
from harness.clusters.simulated_connections import SimulatedChannel
from harness.core.capabilities import CanSetClocks, CanStarve
from harness.core.clock_fault import ClockFault, ClockReading
from harness.core.connections import QueryError
from harness.core.resources import Resource
from harness.core.topology import Topology
from harness.native.simulator import Machines
from harness.sim.simulation import Simulation
from harness.sim.world import SECOND

_ANSWER_S: Final = 3.0
_ASKED: Final = 3
"""Number of queries before a server's throttled periods are counted: it needs no CPU otherwise."""


class SimulatedClocks(CanSetClocks):
    """Clocks of simulated servers, each of which has its own."""

    def __init__(self, simulation: Simulation, topology: Topology) -> None:
        self._simulation = simulation
        self._topology = topology
        self._machines = Machines(simulation.servers)
        self._faults: dict[str, ClockFault] = {}

    def why_unavailable(self) -> str | None:
        return None

    def set_clocks(self, nodes: Iterable[str], fault: ClockFault) -> None:
        for node in nodes:
            self._faults[node] = fault
            self._simulation.skew(node, fault.rate or 1.0)
            offset, period = (round(s * SECOND) for s in (fault.offset_s, fault.period_s))
            self._machines.set_wall(node, offset, period, fault.rate)

    def clock_fault(self, node: str) -> ClockFault:
        return self._faults.get(node, ClockFault())

    def reset_clocks(self, nodes: Iterable[str]) -> None:
        self.set_clocks(nodes, ClockFault())

    def read_clocks(self, nodes: Iterable[str]) -> Mapping[str, ClockReading | str]:
        """Return how wrong the wall clock of each server is: replicas are asked, ZooKeeper servers
        have no request for it."""
        return {node: self._read_clock(node) for node in nodes}

    def _read_clock(self, node: str) -> ClockReading | str:
        before = self._simulation.world.now_ns
        if node not in self._topology.replicas:
            error = self._machines.wall_ns(node) - before
            return ClockReading(before, error, error)
        channel = SimulatedChannel(self._simulation, node, _ANSWER_S)
        try:
            shown, resolution = read_clock(lambda sql: int(channel.ask(sql, {}, None)[0][0]))
        except QueryError as error:
            return f"does not say its time: {error}"
        after = self._simulation.world.now_ns
        return ClockReading(after, shown - after, shown + resolution - before)


class SimulatedResources(CanStarve):
    """Resources of simulated servers, each of which may lack any."""

    def __init__(self, simulation: Simulation, topology: Topology) -> None:
        self._simulation = simulation
        self._topology = topology
        self._machines = Machines(simulation.servers)
        self._throttled: dict[str, int] = {}
        """Number of throttled periods of each server when it was last read."""

    def why_not_starved(self, resource: Resource) -> str | None:  # noqa: ARG002
        return None

    def starve(self, nodes: Iterable[str], resource: Resource) -> None:
        for node in nodes:
            self._throttled[node] = self._machines.throttled(node)
            self._machines.starve(node, resource)

    def feed(self, nodes: Iterable[str], resource: Resource) -> None:
        for node in nodes:
            self._machines.feed(node, resource)
            self._throttled[node] = self._machines.throttled(node)

    def shortages(self, nodes: Iterable[str], resource: Resource) -> Mapping[str, str | None]:
        return {node: _SHORTAGE[resource](self, node) for node in nodes}

    def out_of_memory(self, node: str) -> str | None:
        """Return whether the OOM killer ended the server's last life."""
        return "it was killed for its memory" if self._machines.killed(node) else None

    def out_of_cpu(self, node: str) -> str | None:
        """Return how much more often the server was throttled than when last read."""
        for _ in range(_ASKED):
            self._why_not_served(node)
        now = self._machines.throttled(node)
        more = now - self._throttled.get(node, now)
        self._throttled[node] = now
        return f"throttled in {more} periods" if more > 0 else None

    def out_of_files(self, node: str) -> str | None:
        """Return what the server refuses if it has as many descriptors as it may."""
        return self._why_not_served(node) if self._machines.lacks(node, Resource.FILES) else None

    def out_of_connections(self, node: str) -> str | None:
        """Return why the server does not serve a new connection."""
        return self._why_not_served(node)

    def out_of_names(self, node: str) -> str | None:
        """Return whether a lookup of another server's name on the server's machine fails."""
        other = next(name for name in self._topology.names if name != node)
        failed = self._machines.lacks(node, Resource.NAMES)
        return f"{other} cannot be looked up" if failed else None

    def _why_not_served(self, node: str) -> str | None:
        """Return why a new connection to the server is not served; None if it is."""
        if node not in self._topology.replicas:
            return None if self._machines.accepts(node) else "does not answer"
        try:
            SimulatedChannel(self._simulation, node, _ANSWER_S).ask("SELECT 1", {}, None)
        except QueryError as error:
            return f"no answer to SELECT 1: {error}"
        return None


_SHORTAGE: Final[Mapping[Resource, Callable[[SimulatedResources, str], str | None]]] = {
    Resource.MEMORY: SimulatedResources.out_of_memory,
    Resource.CPU: SimulatedResources.out_of_cpu,
    Resource.FILES: SimulatedResources.out_of_files,
    Resource.CONNECTIONS: SimulatedResources.out_of_connections,
    Resource.NAMES: SimulatedResources.out_of_names,
}
