"""A client that goes from replica to replica, as one behind a balancer does."""

from collections.abc import Callable

from harness.core.op import Done, Op
from harness.core.protocols import Client


class Roaming:
    """One client, one connection to each node that its ops name."""

    def __init__(self, opened: Callable[[str], Client]) -> None:
        """`opened(node)` makes a client of one node."""
        self._opened = opened
        self._clients: dict[str, Client] = {}

    def invoke(self, op: Op) -> Done:
        """On the op's own node."""
        assert op.node is not None, "a client that roams must be told where to go"
        if op.node not in self._clients:
            self._clients[op.node] = self._opened(op.node)
        return self._clients[op.node].invoke(op)

    def close(self) -> None:
        """All of them; may be called twice."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()
