"""Manifest of a kept cluster: what another process must know to use it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from compose.plan import Images
from compose.settings import Fsync, PartFormat, Settings, Storage
from harness.core.bucket import Bucket
from harness.core.errors import ClusterError
from harness.core.topology import Node, Role, Topology

FILE: Final = "cluster.json"
"""Name of the manifest in the cluster's directory."""


@dataclass(frozen=True, slots=True)
class ClusterManifest:
    """Description of a cluster, without its connections."""

    name: str
    topology: Topology
    images: Images
    settings: Settings
    addresses: Mapping[str, str]
    """Where each node's service is reached from this machine, as "127.0.0.1:33681"."""

    def save(self, directory: Path) -> None:
        """Write the manifest into the cluster's directory."""
        # Images that no node runs any more are left out: the next user of the cluster does not
        # run them either.
        images = Images(
            self.images.pod,
            {
                role: {n.version: self.images.of(n) for n in self.topology.nodes if n.role is role}
                for role in self.images.servers
            },
        )
        state = {
            "name": self.name,
            "nodes": [asdict(node) for node in self.topology.nodes],
            "bucket": self.topology.bucket and asdict(self.topology.bucket),
            "images": asdict(images),
            "settings": asdict(self.settings),
            "addresses": dict(self.addresses),
        }
        (directory / FILE).write_text(json.dumps(state, indent=2))

    @staticmethod
    def load(directory: Path) -> "ClusterManifest":
        """Return the manifest in a directory. Raises ClusterError if there is none."""
        path = directory / FILE
        try:
            state: Mapping[str, Any] = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise ClusterError(
                f"{path}: no cluster was kept there ({error}). Keep one with --keep-cluster"
            ) from error
        try:
            settings = {
                **state["settings"],
                "storage": Storage(state["settings"]["storage"]),
                "parts": PartFormat(state["settings"]["parts"]),
                "fsync": Fsync(state["settings"]["fsync"]),
            }
            return ClusterManifest(
                name=state["name"],
                topology=Topology(
                    tuple(map(_node, state["nodes"])),
                    state["bucket"] and Bucket(**state["bucket"]),
                ),
                images=msgspec.convert(state["images"], Images),
                settings=Settings(**settings),
                addresses=state.get("addresses", {}),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ClusterError(
                f"{path}: does not describe a cluster ({type(error).__name__}: {error}); another "
                "version of the harness may have written it: "
                f"harness clean {directory.name} removes it"
            ) from error


def _node(fields: Mapping[str, Any]) -> Node:
    changed = {"role": Role(fields["role"]), "keepers": tuple(fields["keepers"])}
    return Node(**{**fields, **changed})
