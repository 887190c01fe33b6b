"""Clients: one with a function for each kind of call, and one that goes from node to node."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from harness.clients.clickhouse import ClickHouse, DatabaseError, failed_read, failed_write
from harness.core.op import Done, Kind, Op, Value
from harness.core.protocols import Client, HasFunctions

Call: TypeAlias = Callable[[ClickHouse, Op], Value]
"""Function that makes the call, raises DatabaseError, and returns the value of an ok."""


class TableClient:
    """Client whose calls end by the table of outcomes, those of `writes` as writes and those of
    `reads` as reads."""

    def __init__(
        self, connection: ClickHouse, *, writes: Mapping[str, Call], reads: Mapping[str, Call]
    ) -> None:
        self._connection = connection
        self._writes = writes
        self._reads = reads

    def invoke(self, op: Op) -> Done:
        """Make the call. Raises KeyError for a call that the workload does not have."""
        write = self._writes.get(op.f)
        call = write or self._reads[op.f]
        try:
            return Done(Kind.OK, call(self._connection, op))
        except DatabaseError as error:
            return failed_write(error) if write else failed_read(error)

    def function_of(self, f: str) -> Call:
        """Return the function that makes the calls of this name."""
        return self._writes.get(f) or self._reads[f]

    def close(self) -> None:
        """Close the connection; idempotent."""
        self._connection.close()


class Roaming:
    """Client with a connection to each node that its ops name, as behind a load balancer."""

    def __init__(self, opened: Callable[[str], Client]) -> None:
        """Create a client without connections; `opened` returns a client of a node."""
        self._opened = opened
        self._clients: dict[str, Client] = {}

    def invoke(self, op: Op) -> Done:
        """Make the call on the op's own node."""
        assert op.node is not None, "an op of a roaming client names its node"
        if op.node not in self._clients:
            self._clients[op.node] = self._opened(op.node)
        return self._clients[op.node].invoke(op)

    def function_of(self, f: str) -> Callable[..., object]:
        """Return the function that makes the calls of this name."""
        client = next(iter(self._clients.values()))
        return client.function_of(f) if isinstance(client, HasFunctions) else client.invoke

    def close(self) -> None:
        """Close the clients of all nodes; idempotent."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()
