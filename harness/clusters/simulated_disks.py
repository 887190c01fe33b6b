"""Disks of simulated servers: each loses power and fails on command."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from compose.settings import Fsync
from harness.core.capabilities import CanCutPower, HasFaultyDisks
from harness.core.op import Json
from harness.core.topology import Topology
from harness.native.simulator import Disks
from harness.sim.simulation import Simulation
from harness.sim.world import MS

MARKED_NS: Final = 200 * MS
"""Time from the marks on a replica's disk to the end of its power, as on real servers. The fsync of
a mark commits all earlier changes of metadata."""


class SimulatedDisks(CanCutPower, HasFaultyDisks):
    """Disks of simulated servers, each of which fails on command."""

    def __init__(self, simulation: Simulation, topology: Topology, fsync: Fsync) -> None:
        self._simulation = simulation
        self._topology = topology
        self._synced = fsync.value
        self._disks = Disks(simulation.servers, self._synced)

    def why_unavailable(self) -> str | None:
        return None

    def synced(self) -> str:
        return self._synced

    def cut_power(
        self, nodes: Iterable[str], torn: Mapping[str, int]
    ) -> Mapping[str, Mapping[str, Json]]:
        nodes = tuple(nodes)
        for node in nodes:
            self._disks.mark(node)
        if any(node in self._topology.replicas for node in nodes):
            self._simulation.world.sleep(MARKED_NS)
        words = ("changes", "pages", "files", "kept", "synced", "unsynced")
        cuts = {node: self._disks.cut(node, torn.get(node)) for node in nodes}
        return {node: dict(zip(words, cut, strict=True)) for node, cut in cuts.items()}

    def set_disk_fault(self, nodes: Iterable[str], name: str, fault: Mapping[str, Json]) -> None:
        kind, delay_ms = str(fault["kind"]), fault.get("delay_ms", 0)
        # A simulated ZooKeeper server has nothing but its log.
        kind = {"fail-log": "fail-writes", "slow-log": "slow"}.get(kind, kind)
        assert isinstance(delay_ms, int), "a delay is a number of milliseconds"
        for node in nodes:
            self._disks.set_fault(node, name, kind, delay_ms)

    def clear_disk_fault(self, nodes: Iterable[str], name: str) -> None:
        for node in nodes:
            self._disks.clear_fault(node, name)

    def disk_state(self, node: str) -> Mapping[str, Json]:
        hits, changes, pages, flips = self._disks.state(node)
        return {"hits": dict(hits), "changes": changes, "pages": pages, "flips": flips}

    def probe_disk(self, node: str) -> Mapping[str, Mapping[str, Json]]:
        return {what: {"error": error, "ms": ms} for what, error, ms in self._disks.probe(node)}

    def flip_bit(self, node: str, files: Mapping[str, Sequence[str]], seed: int) -> Json:
        below, without, endings = (list(files[word]) for word in ("below", "without", "endings"))
        found = self._disks.flip(node, below, without, endings, seed)
        words = ("file", "offset", "bit", "byte", "read")
        return dict(zip(words, found, strict=True)) if found else None

    def restore_bits(self, nodes: Iterable[str]) -> None:
        """Flip the flipped bits back unless their files are gone; it may be called twice."""
        for node in nodes:
            self._disks.restore_bits(node)

    def sync_disks(self) -> None:
        self._disks.sync()
