"""A ZooKeeper server's clients: their connections, requests in order, local reads, watches."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from harness.sim.keeper.messages import Disk, Ensemble, Listener, Request
from harness.sim.keeper.tree import SESSION_EXPIRED, KeeperError


@dataclass(slots=True)
class Connection:
    """The server's end of a client's connection."""

    session: int
    listener: Listener
    queue: deque[tuple[int, str, Any]] = field(default_factory=deque)
    """Requests that wait for an earlier write of the same session."""
    busy: int | None = None
    """The xid of the write that all others wait for."""


class Clients:
    """Of one server: `forward` passes a write on to the leader."""

    def __init__(
        self, name: str, ensemble: Ensemble, disk: Disk, forward: Callable[[Request], None]
    ) -> None:
        self._name = name
        self._ensemble = ensemble
        self._disk = disk
        self._forward = forward
        self._connections: dict[int, Connection] = {}
        self._watches: dict[tuple[str, str], dict[tuple[int, int], None]] = {}

    def opens(self, session: int, listener: Listener) -> None:
        """A session is being opened: its first write is."""
        self._connections[session] = Connection(session, listener, busy=0)

    def request(self, session: int, xid: int, kind: str, payload: Any) -> bool:
        """After the session's earlier ones, but for a ping. False: there is no such client."""
        connection = self._connections.get(session)
        if connection is None:
            return False
        if kind == "ping":
            self._reply(connection, xid, None)
        elif connection.busy is None:
            self._serve(connection, xid, kind, payload)
        else:
            connection.queue.append((xid, kind, payload))
        return True

    def answer(self, session: int, xid: int, answer: Any) -> None:
        """A write has ended; what waited for it is next."""
        connection = self._connections.get(session)
        if connection is None or connection.busy != xid:
            return
        connection.busy = None
        self._reply(connection, xid, answer)
        if isinstance(answer, KeeperError) and answer.code == SESSION_EXPIRED:
            self.close(session)
        while connection.queue and connection.busy is None:
            self._serve(connection, *connection.queue.popleft())

    def fire(self, what: str, path: str) -> None:
        """Tells who watches this, once."""
        for session, watch in self._watches.pop((what, path), ()) if self._watches else ():
            connection = self._connections.get(session)
            if connection is None:
                continue
            if "watch-missed" in self._ensemble.bugs and self._ensemble.world.below(8) == 0:
                continue
            to = connection.listener
            self._ensemble.network.send(self._name, to.node, to.process, to.fired, watch)

    def gone(self, session: int) -> None:
        """The client ended the connection; its session lives on until it expires."""
        self._connections.pop(session, None)

    def close(self, session: int) -> None:
        """The server ends the connection."""
        connection = self._connections.pop(session, None)
        if connection is not None:
            self.refuse(connection.listener)

    def close_all(self) -> None:
        """As a server does that no longer serves, or dies."""
        for session in list(self._connections):
            self.close(session)
        self._watches.clear()

    def refuse(self, listener: Listener) -> None:
        """Resets a connection."""
        network = self._ensemble.network
        network.send(self._name, listener.node, listener.process, listener.broken)

    def _serve(self, connection: Connection, xid: int, kind: str, payload: Any) -> None:
        if kind == "read":
            self._reply(connection, xid, [self._read(connection, *one) for one in payload])
        else:
            connection.busy = xid
            self._forward(Request(self._name, connection.session, xid, kind, payload))

    def _read(self, connection: Connection, what: str, path: str, watch: int | None) -> Any:
        nodes = self._disk.tree.nodes
        node = nodes.get(path)
        if watch is not None and (node is not None or what == "exists"):
            kind = "data" if what in ("get", "exists") else "children"
            self._watches.setdefault((kind, path), {})[connection.session, watch] = None
        if node is None:
            return None
        if what == "get":
            return node.data, node.version
        if what == "exists":
            return node.version
        if what == "stat":
            return node.data, node.version, node.czxid, node.mzxid
        if what == "listed":
            return node.made, dict(node.children)
        if what == "values":
            return {name: nodes[f"{path}/{name}"].data for name in node.children}
        return sorted(node.children) if what == "children" else len(node.children)

    def _reply(self, connection: Connection, xid: int, answer: Any) -> None:
        to = connection.listener
        self._ensemble.network.send(self._name, to.node, to.process, to.answered, xid, answer)
