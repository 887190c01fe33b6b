"""Disks of a cluster's nodes that fail on command: a program in each pod."""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from compose.plan import DISK_FILE, DISK_PROGRAM
from compose.settings import Settings, Storage
from harness.clusters import programs
from harness.clusters.containers import Containers
from harness.clusters.engine import engine
from harness.clusters.fault_means import FAULTY_DISKS, why_none
from harness.clusters.images import pod_image
from harness.clusters.parallel import on_each
from harness.clusters.processes import Processes
from harness.core.capabilities import CanCutPower, HasFaultyDisks
from harness.core.errors import ClusterError, FaultError
from harness.core.op import Json

_TOLD_S: Final = 60.0
_ROOT: Final = "/disk"
"""Where a pod has its whole disk."""


class NodeDisks(CanCutPower, HasFaultyDisks):
    """Disks of a cluster's nodes, each of which is a program in the node's pod."""

    def __init__(self, containers: Containers, processes: Processes) -> None:
        self._topology = containers.topology
        self._settings = containers.settings
        self._agents = containers.agents
        self._processes = processes

    def synced(self) -> str:
        return self._settings.fsync.value

    def why_unavailable(self) -> str | None:
        if self._settings.storage is Storage.FAULTY:
            return None
        return f"its data is in storage {self._settings.storage}; expected --storage faulty"

    def cut_power(
        self, nodes: Iterable[str], torn: Mapping[str, int]
    ) -> Mapping[str, Mapping[str, Json]]:
        nodes = tuple(nodes)
        on_each(nodes, lambda node: self._agents[node].run(DISK_PROGRAM, "mark"))
        self._processes.kill(nodes)

        def cut(node: str) -> Mapping[str, Json]:
            seed = {"torn": torn[node]} if node in torn else {}
            return {**self._tell(node, {"do": "cut", **seed}), **self._answer(node, "marked")}

        return on_each(nodes, cut)

    def set_disk_fault(self, nodes: Iterable[str], name: str, fault: Mapping[str, Json]) -> None:
        """Make the disks fail as the fault says until it is cleared; see faults.rs."""
        on_each(nodes, lambda node: self._tell(node, {**fault, "do": "set", "name": name}))

    def clear_disk_fault(self, nodes: Iterable[str], name: str) -> None:
        on_each(nodes, lambda node: self._tell(node, {"do": "clear", "name": name}))

    def disk_state(self, node: str) -> Mapping[str, Json]:
        return self._tell(node, {"do": "state"})

    def probe_disk(self, node: str) -> Mapping[str, Mapping[str, Json]]:
        found: Mapping[str, Mapping[str, Json]] = self._answer(node, "probe")
        return found

    def flip_bit(self, node: str, files: Mapping[str, Sequence[str]], seed: int) -> Json:
        told = self._tell(node, {"do": "flip", "seed": seed, **files})
        if told["file"] is None:
            return None
        at = ("-An", "-tu1", "-N1", f"-j{told['offset']}", f"{_ROOT}{told['file']}")
        return {**told, "read": int(self._agents[node].run("od", *at))}

    def restore_bits(self, nodes: Iterable[str]) -> None:
        on_each(nodes, lambda node: self._tell(node, {"do": "unflip"}))

    def heal_disks(self) -> None:
        """End every fault of the disks; idempotent."""
        self._tell_all({"do": "heal"})

    def sync_disks(self) -> None:
        """Make everything durable, as an hour without a fault would."""
        self._tell_all({"do": "sync"})

    def _tell_all(self, command: Mapping[str, Any]) -> None:
        if self._settings.storage is Storage.FAULTY:
            nodes = (*self._topology.replicas, *self._topology.keepers)
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
