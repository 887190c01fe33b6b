"""What a cluster has whose real servers are reached over the network."""

from collections.abc import Mapping, Sequence

from harness.clusters.driver import Driver
from harness.clusters.kazoo_session import KazooSession
from harness.clusters.parallel import on_each
from harness.clusters.readiness import Readiness, version_of
from harness.core.connections import QueryChannel, ZooKeeper
from harness.core.parts import HasParts
from harness.core.protocols import Endpoint
from harness.core.topology import Topology


class Reachable(HasParts):
    """Connections to the servers, and what they say of themselves."""

    _readiness: Readiness

    @property
    def topology(self) -> Topology:
        """Return the nodes."""
        raise NotImplementedError

    def endpoint(self, node: str) -> Endpoint:
        """Return a replica's native port or a ZooKeeper server's client port."""
        raise NotImplementedError

    def query_channel(self, node: str, timeout_s: float) -> QueryChannel:
        """Return a new connection to a replica."""
        return Driver(self.endpoint(node), timeout_s)

    def zookeeper(self, keepers: Sequence[str], timeout_s: float = 3.0) -> ZooKeeper:
        """Return a new session with any of these ZooKeeper servers."""
        return KazooSession([self.endpoint(keeper) for keeper in keepers], timeout_s=timeout_s)

    def protocol_trace(self, now_ns: int) -> None:
        """Return None: nobody sees all that real servers agree on."""

    def versions(self) -> Mapping[str, str]:
        """Return the version that each node reports; nodes that do not answer are left out."""
        found = on_each(self.topology.nodes, lambda n: version_of(n, self.endpoint(n.name)))
        return {node.name: version for node, version in found.items() if version}

    def unready(self) -> Sequence[str]:
        """Return why the servers cannot serve now, a reason each; empty if all can."""
        return self._readiness.unready()
