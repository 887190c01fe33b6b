"""A cluster without servers, which keeps the statements that clients send to it.

A workload knows how its calls become statements. On this cluster it makes them, and nobody executes
them: every query is answered by no rows.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from harness.clients.sent_statement import SentStatement
from harness.core.bucket import Bucket
from harness.core.connections import QueryChannel, StoreChannel, ZooKeeper
from harness.core.engines import Engines
from harness.core.errors import ClusterError
from harness.core.op import Call, Kind, Op
from harness.core.protocols import Client, Cluster, Endpoint, Workload
from harness.core.runtime import Runtime, WallTime
from harness.core.topology import Topology
from harness.export.errors import NotExportableError

P = TypeVar("P")


class SilentCluster(Cluster):
    """Cluster of servers that answer every query with no rows. Whatever is no query raises
    NotExportableError."""

    def __init__(self, topology: Topology, engines: Engines) -> None:
        self.name = "silent"
        self.runtime: Runtime = WallTime()
        self.readings: Sequence[str] = ()
        self._topology = topology
        self._engines = engines
        self.sent: list[SentStatement] = []
        """Statements since the last `take`."""

    def take(self) -> tuple[SentStatement, ...]:
        """Return the statements since the last time."""
        sent = tuple(self.sent)
        self.sent.clear()
        return sent

    @property
    def topology(self) -> Topology:
        """Return the nodes."""
        return self._topology

    @property
    def engines(self) -> Engines:
        """Return the engines whose dialect decides the statements."""
        return self._engines

    def query_channel(self, node: str, timeout_s: float) -> QueryChannel:
        """Return a connection that keeps statements."""
        return _KeepingChannel(self.sent, node, timeout_s)

    @classmethod
    def has(cls, capability: type) -> bool:  # noqa: ARG003
        """Return False: it can do nothing else."""
        return False

    def part(self, capability: type[P]) -> P:
        """Raise NotExportableError."""
        _refuse(f"the capability {capability.__name__}")

    def endpoint(self, node: str) -> Endpoint:
        """Raise NotExportableError."""
        _refuse(f"a connection to {node} that is no query")

    def store_channel(self, timeout_s: float) -> StoreChannel:  # noqa: ARG002
        """Return a connection to a store that is empty."""
        return _EmptyStore()

    def zookeeper(self, keepers: Sequence[str], timeout_s: float = 3.0) -> ZooKeeper:  # noqa: ARG002
        """Return a session that raises NotExportableError when it is asked."""
        return _NoSession()

    def up(self) -> None:
        """Do nothing."""

    def down(self) -> None:
        """Do nothing."""

    def ping(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    def protocol_trace(self, now_ns: int) -> None:
        """Return None: nothing was agreed on."""

    def versions(self) -> Mapping[str, str]:
        """Return the versions of the engines."""
        return {node: engine.version for node, engine in self._engines.nodes.items()}

    def unready(self) -> Sequence[str]:
        """Return nothing."""
        return ()

    def collect(self, directory: Path) -> None:
        """Do nothing: there are no logs."""


class _KeepingChannel:
    """Connection that keeps the statements, and answers with no rows."""

    def __init__(self, sent: list[SentStatement], node: str, timeout_s: float) -> None:
        self._sent = sent
        self._node = node
        self._timeout_s = timeout_s

    def ask(
        self,
        sql: str,
        settings: Mapping[str, int | str],
        rows: Sequence[Any] | None,
        query_id: str = "",  # noqa: ARG002
    ) -> Any:
        self._sent.append(SentStatement(self._node, sql, settings, rows, self._timeout_s))
        return []

    def keep_session(self) -> None:
        """Do nothing."""

    def disconnect(self) -> None:
        """Do nothing."""


class _EmptyStore:
    """Object store without objects, which keeps no log of requests."""

    bucket = Bucket("http://store")
    logs_requests = False

    def request(self, method: str, path: str, body: str | None = None) -> tuple[int, str]:  # noqa: ARG002
        return 200, "<ListBucketResult/>"


class _NoSession(ZooKeeper):
    """Session of a client with ZooKeeper that is never asked anything."""

    def ask(self, request: str, *arguments: Any, **named: Any) -> Any:  # noqa: ARG002
        _refuse_session()

    def ask_all(
        self,
        requests: Sequence[tuple[str, tuple[Any, ...]]],  # noqa: ARG002
        **named: Any,  # noqa: ARG002
    ) -> tuple[Any, ...]:
        _refuse_session()

    def each(self, request: str, paths: Sequence[str]) -> dict[str, Any]:  # noqa: ARG002
        _refuse_session()

    def multi(self, *operations: tuple[Any, ...]) -> tuple[Any, ...]:  # noqa: ARG002
        _refuse_session()

    def ask_in_order(
        self,
        request: str,  # noqa: ARG002
        path: str,  # noqa: ARG002
        watch: Callable[[str, int], None] | None = None,  # noqa: ARG002
    ) -> tuple[Any, int]:
        _refuse_session()

    def stop_pings(self) -> None:
        _refuse_session()

    def has_expired(self) -> bool:
        _refuse_session()

    def end(self) -> None:
        _refuse_session()

    def abandon(self) -> None:
        _refuse_session()

    def close(self) -> None:
        """Do nothing."""


def _refuse_session() -> NoReturn:
    _refuse("a client's look at ZooKeeper")


def _refuse(what: str) -> NoReturn:
    raise NotExportableError(f"it needs {what}, which SQL alone cannot replace")


class StatementsOfCalls:
    """The statements of a workload: those that create its tables, and those of each call."""

    def __init__(
        self, workload: Workload, topology: Topology, engines: Engines, token: str
    ) -> None:
        """Create the tables on no server. Raises NotExportableError."""
        self.token = token
        """Last part of the names of its databases."""
        self._cluster = SilentCluster(topology, engines)
        try:
            self._session = workload.session(self._cluster, token)
        except ClusterError as error:
            raise NotExportableError(
                f"its tables are made of what servers answer ({error})"
            ) from error
        self.setup = self._cluster.take()
        """Statements that create the tables."""
        self._clients: dict[str, Client] = {}

    def of(self, call: Call) -> tuple[SentStatement, ...]:
        """Return the statements of a call, in order. Raises NotExportableError for one that makes
        none, such as a look at ZooKeeper."""
        assert call.node is not None, "the calls of a script name their nodes"
        if call.node not in self._clients:
            self._clients[call.node] = self._session.client(call.node)
        op = Op(
            index=0,
            process=0,
            kind=Kind.INVOKE,
            f=call.f,
            time_ns=0,
            value=call.value,
            key=call.key,
            node=call.node,
        )
        try:
            self._clients[call.node].invoke(op)
        except (KeyError, AssertionError) as error:
            raise NotExportableError(f"{call.f}: the workload makes no such call") from error
        sent = self._cluster.take()
        if not sent:
            raise NotExportableError(f"{call.f}: it is no statement")
        return sent

    def close(self) -> None:
        """Close the clients and the session."""
        for client in self._clients.values():
            client.close()
        self._session.close()
