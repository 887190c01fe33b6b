"""Faults of servers' clocks: jump, drift, strobe, and a clock that stands still."""

from collections.abc import Mapping, Sequence
from typing import Final

from harness.core.capabilities import CanSetClocks
from harness.core.clock_fault import VARIANTS, ClockFault, ClockReading, shows, wrong
from harness.core.op import Json
from harness.core.protocols import Cluster
from harness.core.seed import Seed
from nemesis.family import Needs, Watch
from nemesis.fault import ANY, Aim, FaultChoice, FaultEntry
from nemesis.node_fault import NodeFault


class WrongClock(NodeFault):
    """Family of one fault of clocks. The server itself is asked for its time. A restart of the
    server does not end the fault."""

    needs: Needs = (CanSetClocks,)
    heal_rank = 0

    def __init__(self, choice: FaultChoice) -> None:
        super().__init__(choice)
        self._faults = VARIANTS[self.f][1]
        self._fault = self._faults[0]
        self._readings: dict[str, list[ClockReading]] = {}

    def plan(self, seed: Seed, turn: int) -> Mapping[str, Json]:
        """Return also how the clocks are wrong."""
        fault = seed.child("clock").choice(turn, self._faults)
        return {**super().plan(seed, turn), **fault.planned()}

    def begin(self, cluster: Cluster, plan: Mapping[str, Json], watch: Watch) -> dict[str, Json]:
        """Make the clocks of the planned nodes wrong, and ask them for their time."""
        self._fault = ClockFault.of(plan, self._faults[0])
        self._readings = {}
        done = super().begin(cluster, plan, watch)
        return {**done, "text": f"{done['text']}: {self._fault}"}

    def _eligible(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        # A second fault of a clock would end the first.
        right = [n for n in nodes if cluster.part(CanSetClocks).clock_fault(n) == ClockFault()]
        return super()._eligible(cluster, right)

    def _inject(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        cluster.part(CanSetClocks).set_clocks(nodes, self._fault)

    def _unverified(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        reasons = []
        for node, reading in cluster.part(CanSetClocks).read_clocks(nodes).items():
            kept = self._readings.setdefault(node, [])
            if isinstance(reading, ClockReading):
                kept.append(reading)
            why = shows(self._fault, kept)
            if why is not None:
                reasons.append(f"{node}: {why}")
        return reasons

    def _revert(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        cluster.part(CanSetClocks).reset_clocks(nodes)

    def _remaining(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        # A server that does not run has no clock; one that is started has the right one.
        found = cluster.part(CanSetClocks).read_clocks(nodes)
        reasons = {n: wrong(r) for n, r in found.items() if isinstance(r, ClockReading)}
        return [f"{node}: {why}" for node, why in reasons.items() if why is not None] + [
            f"{node}: {why}" for node, why in found.items() if isinstance(why, str)
        ]


FAULTS: Final = tuple(
    FaultEntry(
        name=name,
        text=text,
        seen="the server was asked for its time: it is as wrong as that",
        gone="the server was asked for its time: it is right",
        make=WrongClock,
        aim=Aim(role="zookeeper", target="one") if name == "clock-skew" else ANY,
    )
    for name, (text, _) in VARIANTS.items()
)
