"""Members of a ZooKeeper ensemble, and their change by reconfig (since 3.5)."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from harness.clusters.containers import Containers
from harness.clusters.kazoo_session import KazooSession
from harness.core.capabilities import CanReconfigure
from harness.core.connections import ZooKeeperError
from harness.core.dialect import Coordination
from harness.core.errors import ClusterError

_CONFIG: Final = "/zookeeper/config"
_MEMBER: Final = re.compile(r"^server\.(\d+)=[^:]+:\d+:\d+:(\w+)", re.MULTILINE)
_ANY_VERSION: Final = -1
_ANSWER_S: Final = 10.0


class UnansweredError(ClusterError):
    """A request whose answer did not come; it may have been executed."""


class EnsembleMembers(CanReconfigure):
    """Members of the ensemble, which are changed by requests to any of its servers."""

    def __init__(self, containers: Containers) -> None:
        self._containers = containers

    def why_unavailable(self) -> str | None:
        nodes = self._containers.engines.nodes
        engines = [nodes[node] for node in self._containers.topology.keepers]
        if any(engine.coordination is not Coordination.ZOOKEEPER for engine in engines):
            return "ClickHouse Keeper is changed in another way"
        if not self._containers.settings.reconfig:
            return "its ZooKeeper servers were started without reconfigEnabled; use a fresh cluster"
        return None

    def reconfigure(self, node: str, role: str) -> None:
        """Send the request to other servers, because this one closes its connections when its role
        changes, as all may when the leader changes. What became of it `ensemble` tells."""
        topology = self._containers.topology
        number = topology.node(node).replica
        joining = f"server.{number}={node}:2888:3888:{role};2181" if role else None
        leaving = None if role else str(number)
        others = [other for other in topology.keepers if other != node]
        with suppress(UnansweredError):
            self._ask(others, "reconfig", joining, leaving, None, _ANY_VERSION)

    def ensemble(self) -> Mapping[str, str]:
        topology = self._containers.topology
        text = self._ask(topology.keepers, "get", _CONFIG)[0].decode()
        names = {topology.node(node).replica: node for node in topology.keepers}
        return {names[int(number)]: role for number, role in _MEMBER.findall(text)}

    def _ask(
        self, servers: Sequence[str], request: str, *arguments: object
    ) -> tuple[bytes, object]:
        session = KazooSession(
            [self._containers.endpoint(node) for node in servers], timeout_s=_ANSWER_S
        )
        try:
            session.ask("sync", _CONFIG)
            answer: tuple[bytes, object] = session.ask(request, *arguments)
        except Exception as error:  # each refusal of the ensemble has a class of its own
            if isinstance(error, ZooKeeperError):
                raise UnansweredError(f"ZooKeeper: {request}: {error}") from error
            raise ClusterError(f"ZooKeeper: {request}: {type(error).__name__} {error}") from error
        finally:
            session.close()
        return answer
