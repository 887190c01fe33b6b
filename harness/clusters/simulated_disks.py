"""Disks of simulated servers: each loses power and fails on command."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from harness.core.op import Json
from harness.core.topology import Topology
from harness.native.simulator import Disks
from harness.sim.simulation import Simulation
from harness.sim.world import MS

MARKED_NS: Final = 200 * MS
"""Time from the marks on a replica's disk to the end of its power, as on real servers. The fsync of
a mark commits all earlier changes of metadata."""


class SimulatedDisks:
    """Part of a simulated cluster: the capabilities CanCutPower and HasFaultyDisks."""

    simulation: Simulation
    topology: Topology
    _disks: Disks
    _synced: str

    def why_no_faulty_disks(self) -> str | None:
        """Return None: the disk of every simulated server fails on command."""

    def synced(self) -> str:
        """Return what the servers sync."""
        return self._synced

    def cut_power(
        self, nodes: Iterable[str], torn: Mapping[str, int]
    ) -> Mapping[str, Mapping[str, Json]]:
        """Kill the servers and lose what is not durable on their disks; `torn` has a seed for each
        disk that keeps some of it. Return what was lost, and whether of two files that were written
        before the "synced" and the "unsynced" one have their content."""
        nodes = tuple(nodes)
        for node in nodes:
            self._disks.mark(node)
        if any(node in self.topology.replicas for node in nodes):
            self.simulation.world.sleep(MARKED_NS)
        words = ("changes", "pages", "files", "kept", "synced", "unsynced")
        cuts = {node: self._disks.cut(node, torn.get(node)) for node in nodes}
        return {node: dict(zip(words, cut, strict=True)) for node, cut in cuts.items()}

    def set_disk_fault(self, nodes: Iterable[str], name: str, fault: Mapping[str, Json]) -> None:
        """Make the disks fail as the fault says until it is cleared."""
        kind, delay_ms = str(fault["kind"]), fault.get("delay_ms", 0)
        assert isinstance(delay_ms, int), "a delay is a number of milliseconds"
        for node in nodes:
            self._disks.set_fault(node, name, kind, delay_ms)

    def clear_disk_fault(self, nodes: Iterable[str], name: str) -> None:
        """End a fault of the disks; it may be called twice."""
        for node in nodes:
            self._disks.clear_fault(node, name)

    def disk_state(self, node: str) -> Mapping[str, Json]:
        """Return "hits", the number of a server's requests that each fault in force applied to, by
        name; "changes" and "pages" that are not durable; "flips", the number of flipped bits."""
        hits, changes, pages, flips = self._disks.state(node)
        return {"hits": dict(hits), "changes": changes, "pages": pages, "flips": flips}

    def probe_disk(self, node: str) -> Mapping[str, Mapping[str, Json]]:
        """Return the "error" of a "write", a "sync" and a "read", "" if there is none, and the
        length of each in "ms"."""
        return {what: {"error": error, "ms": ms} for what, error, ms in self._disks.probe(node)}

    def flip_bit(self, node: str, files: Mapping[str, Sequence[str]], seed: int) -> Json:
        """Flip a bit of a file that the seed chooses among those `files` describes. Return "file",
        "offset", "bit", and the "byte" as it should be and as it is "read"; None if there is no
        such file."""
        below, without, endings = (list(files[word]) for word in ("below", "without", "endings"))
        found = self._disks.flip(node, below, without, endings, seed)
        words = ("file", "offset", "bit", "byte", "read")
        return dict(zip(words, found, strict=True)) if found else None

    def restore_bits(self, nodes: Iterable[str]) -> None:
        """Flip the flipped bits back unless their files are gone; it may be called twice."""
        for node in nodes:
            self._disks.restore_bits(node)

    def sync_disks(self) -> None:
        """Make everything durable on all disks."""
        self._disks.sync()
