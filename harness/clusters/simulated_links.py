"""Links of simulated servers, which are cut and degraded."""

from collections.abc import Iterable, Mapping

from harness.core.capabilities import CanDegradeLinks, CanPartition
from harness.core.link_quality import LinkEvidence, LinkFault, shown
from harness.core.topology import Link, Topology
from harness.sim.simulation import Simulation


class SimulatedLinks(CanPartition):
    """Links of the simulated network, which are cut and mended."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def cut(self, links: Iterable[Link]) -> None:
        self._simulation.cut(links)

    def mend(self) -> None:
        self._simulation.servers.mend()

    def reachable(self, links: Iterable[Link]) -> Mapping[Link, bool]:
        alive = self._simulation.servers.alive
        return {link: alive(link.source, link.target) for link in links}


class SimulatedLinkQuality(CanDegradeLinks):
    """Faults of the links of the simulated network. It knows them, and measures nothing."""

    def __init__(self, simulation: Simulation, topology: Topology) -> None:
        self._simulation = simulation
        self._topology = topology

    def why_unavailable(self) -> str | None:
        return None

    def degrade_links(
        self,
        links: Iterable[Link],
        fault: LinkFault,
        amount: float,
        seed: int,  # noqa: ARG002 # the world's own seed decides
    ) -> None:
        self._simulation.degrade(links, fault, amount)

    def restore_links(self, faults: Iterable[LinkFault] = tuple(LinkFault)) -> None:
        for fault in faults:
            self._simulation.degrade(self._topology.links(), fault, 0)

    def link_evidence(
        self,
        links: Iterable[Link],
        fault: LinkFault,
        amount: float,  # noqa: ARG002 # it is known, not measured
    ) -> Mapping[Link, LinkEvidence]:
        amount_of = self._simulation.servers.amount
        amounts = {link: amount_of(link.source, link.target, fault) for link in links}
        return {link: LinkEvidence(now > 0, shown(fault, now)) for link, now in amounts.items()}
