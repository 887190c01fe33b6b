"""Readiness of servers: whether each is alive, whether it can serve, and the wait until all can."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from http.client import HTTPConnection, HTTPException
from itertools import chain
from typing import Final

from harness.clusters import keeper, replica
from harness.clusters.http_answer import exchange
from harness.clusters.parallel import on_each
from harness.core.capabilities import ReportsLeader, ReportsTableLeader
from harness.core.errors import ClusterError
from harness.core.protocols import Endpoint
from harness.core.topology import Node, Role, Topology

_READY_S: Final = 120.0
_POLL_S: Final = 0.1
_STORE_S: Final = 3.0
_VERSION_S: Final = 5.0
_VERSION_CHARS: Final = 100


def _store_is_alive(endpoint: Endpoint) -> str | None:
    """Return why an object store does not answer; None if it does."""
    try:
        exchange(
            HTTPConnection(endpoint.host, endpoint.port, timeout=_STORE_S), _STORE_S, "HEAD", "/"
        )
    except (OSError, HTTPException) as error:
        return f"does not answer ({error})"
    return None


_ALIVE: Final[Mapping[Role, Callable[[Endpoint], str | None]]] = {
    Role.CLICKHOUSE: replica.is_alive,
    Role.ZOOKEEPER: keeper.is_alive,
    Role.STORE: _store_is_alive,
}


class Readiness(ReportsLeader, ReportsTableLeader):
    """Readiness of the servers of one cluster.

    `refusal(node)` returns why a replica's tables accept no inserts, and may raise ClusterError;
    `end(node)` returns how the server's container ended, "" if it runs, and may raise ClusterError;
    `last_lines(node)` returns the end of the server's log.
    """

    def __init__(
        self,
        cluster: str,
        topology: Topology,
        endpoint: Callable[[str], Endpoint],
        refusal: Callable[[str], str | None],
        end: Callable[[str], str],
        last_lines: Callable[[str], str],
    ) -> None:
        self._cluster = cluster
        self._topology = topology
        # ZooKeeper first: a replica that finds no ZooKeeper fills its log with errors.
        self._in_order = (topology.keepers, topology.stores, topology.replicas)
        self._endpoint = endpoint
        self._refusal = refusal
        self._end = end
        self._last_lines = last_lines

    def why_not_alive(self, node: str) -> str | None:
        """Return why a server does not answer, whether or not it has ZooKeeper; None if it does."""
        return _ALIVE[self._role(node)](self._endpoint(node))

    def why_unready(self, node: str) -> str | None:
        """Return why a server cannot serve now, such as "zk2 has no leader"; None if it can."""
        endpoint = self._endpoint(node)
        if self._role(node) is Role.ZOOKEEPER:
            try:
                state = keeper.read_state(endpoint)
            except ClusterError as error:
                return f"{node} {error}{self._and_end(node)}"
            return None if state.mode else f"{node} has no leader"
        dead = self.why_not_alive(node)
        if dead:
            return f"{node} does not answer: {dead}{self._and_end(node)}"
        if self._role(node) is Role.STORE:
            return None
        session = replica.has_session(endpoint)
        if session:
            return f"{node} has no ZooKeeper session: {session}"
        try:
            refused = self._refusal(node)
        except ClusterError as error:
            return f"{node} does not answer: {error}"
        return refused and f"{node} {refused}"

    def inactive(self, node: str) -> Sequence[str]:
        """Return why a server cannot serve, or which of its tables are inactive, a reason each."""
        why = self.why_unready(node)
        if why is not None:
            return [why]
        if self._role(node) is not Role.CLICKHOUSE:
            return []
        try:
            tables = replica.inactive_tables(self._endpoint(node))
            return [f"{node}: {table} is not active" for table in tables]
        except ClusterError as error:
            return [f"{node} does not answer: {error}"]

    def unready(self) -> Sequence[str]:
        """Return why the servers cannot serve now, a reason each; empty if all can."""
        reasons = on_each(chain(*self._in_order), self.why_unready).values()
        out = [reason for reason in reasons if reason]
        if not out and self.leader() is None:
            out.append("ZooKeeper has no leader")
        return out

    def leader(self) -> str | None:
        """Return the ZooKeeper server that leads now; None if none does.

        A deposed leader that has not noticed yet still reports that it leads, so the newest term
        decides.
        """
        leading = [
            (state.epoch, node)
            for node, state in self._keeper_states().items()
            if state and state.mode in ("leader", "standalone")
        ]
        return max(leading)[1] if leading else None

    def table_leader(self) -> str | None:
        replicas = self._topology.replicas
        led = on_each(replicas, lambda node: replica.tables_led(self._endpoint(node)))
        most = max(replicas, key=lambda node: led[node])
        return most if led[most] else None

    def serving(self) -> frozenset[str]:
        states = self._keeper_states()
        return frozenset(node for node, state in states.items() if state and state.mode)

    def await_ready(self) -> None:
        """Return once all servers can serve. Raises ClusterError with the end of a server's log."""
        deadline = time.monotonic() + _READY_S
        for nodes in self._in_order:
            on_each(nodes, partial(self._await_node, deadline=deadline))
        self._await_empty(self.unready)

    def await_ddl(self) -> None:
        """Return once all replicas execute statements ON CLUSTER. Raises ClusterError.

        The thread that executes them retries later if it found no ZooKeeper at first. Until it
        succeeds, a server that gets such a statement may die of a segmentation fault, and the
        thread's first writes may come at any time; if a cut holds up a write, all reads of its
        session wait behind it (18.16.1).

        A server without watches in ZooKeeper does not execute them yet. One with tables has watches
        in any case, so for it the wait shows nothing.
        """

        def missing() -> Sequence[str]:
            watches = on_each(
                self._topology.replicas, lambda node: replica.watches_of(self._endpoint(node))
            )
            return [f"{node} executes nothing ON CLUSTER" for node, n in watches.items() if not n]

        self._await_empty(missing)

    def _role(self, node: str) -> Role:
        return self._topology.node(node).role

    def _and_end(self, node: str) -> str:
        """Return how the container of a server that does not answer ended, to be added to that."""
        try:
            end = self._end(node)
        except ClusterError as error:
            end = str(error)
        return end and f"; {end}"

    def _keeper_states(self) -> dict[str, keeper.KeeperState | None]:
        return on_each(self._topology.keepers, lambda node: keeper.state(self._endpoint(node)))

    def _await_node(self, node: str, deadline: float) -> None:
        while (why := self.why_unready(node)) is not None:
            if self._end(node) or time.monotonic() > deadline:
                raise ClusterError(
                    f"{node}: did not come up: {why}; the end of its log:\n{self._last_lines(node)}"
                )
            time.sleep(_POLL_S)

    def _await_empty(self, reasons: Callable[[], Sequence[str]]) -> None:
        deadline = time.monotonic() + _READY_S
        while found := reasons():
            if time.monotonic() > deadline:
                raise ClusterError(f"cluster {self._cluster}: not ready: {'; '.join(found)}")
            time.sleep(_POLL_S)


def version_of(node: Node, endpoint: Endpoint) -> str | None:
    """Return the version that a server reports; None if it does not answer.

    The object store reports none, so its image's label is all that is known.
    """
    if node.role is Role.STORE:
        return None
    try:
        return read_version(node, endpoint)
    except ClusterError:
        return None


def read_version(node: Node, endpoint: Endpoint) -> str:
    """Return the version that a server reports. Raises ClusterError with the reason if it does
    not."""
    if node.role is Role.CLICKHOUSE:
        version = str(replica.query_value(endpoint, "SELECT version()", str))
    else:
        version = keeper.read_state(endpoint).version
    if not 0 < len(version) <= _VERSION_CHARS:
        raise ClusterError(
            f"reports the version {version[:_VERSION_CHARS]!r}; expected one such as 3.8.0, which "
            "a ZooKeeper server reports only while it has a quorum"
        )
    return version


def await_version(node: Node, endpoint: Endpoint) -> str | None:
    """Return the version that a server reports.

    A ZooKeeper server reports it only with a quorum. If it has none for a while, the result is
    None, and the label of its image is all that is known.
    """
    deadline = time.monotonic() + _VERSION_S
    while (version := version_of(node, endpoint)) is None and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    return version
