"""Members of a ZooKeeper ensemble, and their change by reconfig (since 3.5)."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from compose.settings import Settings
from harness.clusters.kazoo_session import KazooSession
from harness.core.connections import ZooKeeperError
from harness.core.dialect import Coordination
from harness.core.engines import Engines
from harness.core.errors import ClusterError
from harness.core.protocols import Endpoint
from harness.core.topology import Topology

_CONFIG: Final = "/zookeeper/config"
_MEMBER: Final = re.compile(r"^server\.(\d+)=[^:]+:\d+:\d+:(\w+)", re.MULTILINE)
_ANY_VERSION: Final = -1
_ANSWER_S: Final = 10.0


class UnansweredError(ClusterError):
    """A request whose answer did not come; it may have been executed."""


class HasEnsemble:
    """CanReconfigure, by requests to any server of the ensemble."""

    topology: Topology
    settings: Settings

    @property
    def engines(self) -> Engines:
        """Return the engines of the servers."""
        raise NotImplementedError

    def endpoint(self, node: str) -> Endpoint:
        """Return the port of a node."""
        raise NotImplementedError

    def why_no_reconfig(self) -> str | None:
        """Return why the ensemble cannot be changed; None if it can."""
        engines = [self.engines.nodes[node] for node in self.topology.keepers]
        if any(engine.coordination is not Coordination.ZOOKEEPER for engine in engines):
            return "ClickHouse Keeper is changed in another way"
        if not self.settings.reconfig:
            return "its ZooKeeper servers were started without reconfigEnabled; use a fresh cluster"
        return None

    def reconfigure(self, node: str, role: str) -> None:
        """Make the server "participant" or "observer", or remove it, for "".

        The request goes to other servers, because this one closes its connections when its role
        changes, as all may when the leader changes. What became of it `ensemble` tells.
        """
        number = self.topology.node(node).replica
        joining = f"server.{number}={node}:2888:3888:{role};2181" if role else None
        leaving = None if role else str(number)
        others = [other for other in self.topology.keepers if other != node]
        with suppress(UnansweredError):
            self._ask(others, "reconfig", joining, leaving, None, _ANY_VERSION)

    def ensemble(self) -> Mapping[str, str]:
        """Return the role of each member, as the ensemble's configuration has it."""
        text = self._ask(self.topology.keepers, "get", _CONFIG)[0].decode()
        names = {self.topology.node(node).replica: node for node in self.topology.keepers}
        return {names[int(number)]: role for number, role in _MEMBER.findall(text)}

    def _ask(
        self, servers: Sequence[str], request: str, *arguments: object
    ) -> tuple[bytes, object]:
        session = KazooSession([self.endpoint(node) for node in servers], timeout_s=_ANSWER_S)
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
