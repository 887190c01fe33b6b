"""Engines of the simulated servers, and their dialect."""

from collections.abc import Mapping
from typing import Final

from harness.core.dialect import Dialect, Engine, Engines
from harness.core.topology import Role, Topology

SIMULATED: Final[Mapping[Role, Engine]] = {
    Role.CLICKHOUSE: Engine(role=Role.CLICKHOUSE, version="18.16.1", build="simulated"),
    Role.ZOOKEEPER: Engine(role=Role.ZOOKEEPER, version="3.8.0", build="simulated"),
}
DIALECT: Final[Dialect] = SIMULATED[Role.CLICKHOUSE].dialect


def simulated_engines(topology: Topology) -> Engines:
    """Return the engines of a simulated cluster."""
    return Engines(nodes={node.name: SIMULATED[node.role] for node in topology.nodes})
