"""Servers of a cluster of containers that are restarted on another version."""

import threading
from collections.abc import Sequence

from compose.plan import entrypoint
from harness.clusters.containers import Containers
from harness.clusters.processes import Processes
from harness.clusters.readiness import Readiness, await_version
from harness.core.capabilities import CanUpgrade


class Upgrades(CanUpgrade):
    """Upgrades of the servers of one cluster. The pods stay, and with them the network, the cuts
    and the volumes; the configuration is rendered for the new version."""

    def __init__(self, containers: Containers, processes: Processes, readiness: Readiness) -> None:
        self._containers = containers
        self._processes = processes
        self._readiness = readiness
        self._upgrading = threading.Lock()

    def upgrade(self, node: str, version: str) -> float:
        containers = self._containers
        with self._upgrading:
            wanted = containers.images.of(
                containers.topology.with_version(node, version).node(node)
            )
            environment = containers.plan.server(node).environment
            program = entrypoint(wanted, containers.settings)
            try:
                away_s = self._processes.replace(
                    node,
                    wanted.tag,
                    environment,
                    program,
                    # The configuration may change only while no server runs, which would reload it.
                    lambda ended: containers.change_version(node, version, ended),
                )
            finally:
                containers.save()
            reported = await_version(containers.topology.node(node), containers.endpoint(node))
            if reported is not None:
                containers.reported[node] = reported
        return away_s

    def inactive(self, node: str) -> Sequence[str]:
        return self._readiness.inactive(node)
