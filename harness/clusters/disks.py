"""Disks of a cluster's nodes that fail on command: a program in each pod."""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from compose.plan import DISK_FILE, DISK_PROGRAM
from compose.settings import Settings, Storage
from harness.clusters import programs
from harness.clusters.engine import engine
from harness.clusters.fault_means import FAULTY_DISKS, why_none
from harness.clusters.images import pod_image
from harness.clusters.parallel import on_each
from harness.clusters.pods import PodAgent
from harness.core.errors import ClusterError, FaultError
from harness.core.op import Json
from harness.core.topology import Topology

_TOLD_S: Final = 20.0
_ROOT: Final = "/disk"
"""Where a pod has its whole disk."""


class NodeDisks:
    """Part of a cluster of containers: the capabilities CanCutPower and HasFaultyDisks."""

    topology: Topology
    settings: Settings
    _agents: dict[str, PodAgent]

    def kill(self, nodes: Iterable[str]) -> None:
        """Send SIGKILL and return when the processes are gone."""
        raise NotImplementedError

    def synced(self) -> str:
        """Return what the servers sync."""
        return self.settings.fsync.value

    def why_no_faulty_disks(self) -> str | None:
        """Return why the disks do not fail; None if they do on command."""
        if self.settings.storage is Storage.FAULTY:
            return None
        return f"its data is in storage {self.settings.storage}; expected --storage faulty"

    def cut_power(
        self, nodes: Iterable[str], torn: Mapping[str, int]
    ) -> Mapping[str, Mapping[str, Json]]:
        """Kill the servers and lose what is not durable on their disks. Return what was lost, and
        whether of two files that were written before the "synced" and the "unsynced" one have
        their content. `torn` has a seed for each disk that keeps some of it, in part."""
        nodes = tuple(nodes)
        on_each(nodes, lambda node: self._agents[node].run(DISK_PROGRAM, "mark"))
        self.kill(nodes)

        def cut(node: str) -> Mapping[str, Json]:
            seed = {"torn": torn[node]} if node in torn else {}
            return {**self._tell(node, {"do": "cut", **seed}), **self._answer(node, "marked")}

        return on_each(nodes, cut)

    def set_disk_fault(self, nodes: Iterable[str], name: str, fault: Mapping[str, Json]) -> None:
        """Make the disks fail as the fault says until it is cleared; see faults.rs."""
        on_each(nodes, lambda node: self._tell(node, {**fault, "do": "set", "name": name}))

    def clear_disk_fault(self, nodes: Iterable[str], name: str) -> None:
        """End a fault of the disks; idempotent."""
        on_each(nodes, lambda node: self._tell(node, {"do": "clear", "name": name}))

    def disk_state(self, node: str) -> Mapping[str, Json]:
        """Return "hits", the number of requests that each fault in force applied to, by its name;
        "changes" and "pages", the numbers of those that are not durable; and "flips", how many bits
        are flipped."""
        return self._tell(node, {"do": "state"})

    def probe_disk(self, node: str) -> Mapping[str, Mapping[str, Json]]:
        """Write, sync and read on the disk. Return the "error" of each, such as "EIO" or "", and
        its length in "ms"."""
        found: Mapping[str, Mapping[str, Json]] = self._answer(node, "probe")
        return found

    def flip_bit(self, node: str, files: Mapping[str, Sequence[str]], seed: int) -> Json:
        """Flip a bit of a file that the seed chooses among those `files` describes. Return "file",
        "offset", "bit", and the "byte" as it should be and as it is "read"; None if there is no
        such file."""
        told = self._tell(node, {"do": "flip", "seed": seed, **files})
        if told["file"] is None:
            return None
        at = ("-An", "-tu1", "-N1", f"-j{told['offset']}", f"{_ROOT}{told['file']}")
        return {**told, "read": int(self._agents[node].run("od", *at))}

    def restore_bits(self, nodes: Iterable[str]) -> None:
        """Flip every flipped bit back unless its byte was written since; idempotent."""
        on_each(nodes, lambda node: self._tell(node, {"do": "unflip"}))

    def heal_disks(self) -> None:
        """End every fault of the disks; idempotent."""
        self._tell_all({"do": "heal"})

    def sync_disks(self) -> None:
        """Make everything durable, as an hour without a fault would."""
        self._tell_all({"do": "sync"})

    def _tell_all(self, command: Mapping[str, Any]) -> None:
        if self.settings.storage is Storage.FAULTY:
            nodes = (*self.topology.replicas, *self.topology.keepers)
            on_each(nodes, lambda node: self._tell(node, command))

    def _tell(self, node: str, command: Mapping[str, Any]) -> Mapping[str, Json]:
        answer = self._answer(node, "tell", json.dumps(command))
        if "error" in answer:
            raise FaultError(f"disk of {node}: {answer['error']}")
        return dict(answer)

    def _answer(self, node: str, *words: str) -> Any:
        return json.loads(self._agents[node].run(DISK_PROGRAM, *words, wait_s=_TOLD_S))


def write_program(settings: Settings, directory: Path) -> None:
    """Put the program beside the compose file if containers need it."""
    if settings.storage is Storage.FAULTY:
        programs.install(DISK_FILE, directory)


def require_faulty_storage() -> None:
    """Raise ClusterError, which says what this machine lacks, if it can have no faulty disk."""
    with closing(engine()) as client:
        why = why_none(client, pod_image(), FAULTY_DISKS)
    if why:
        raise ClusterError(
            f"--storage faulty: {why}; choose --storage memory or volume, or another machine "
            "(harness doctor says what it allows)"
        )
