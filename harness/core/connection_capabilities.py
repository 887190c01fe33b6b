"""Capabilities of what connects servers: TCP connections, and names. See `capabilities`."""

from collections.abc import Iterable
from typing import Protocol, runtime_checkable


@runtime_checkable
class CanSilence(Protocol):
    """The cluster drops every packet of the TCP connections that servers have with others, as a
    firewall that has forgotten them; connections that are opened later work."""

    def silence(self, nodes: Iterable[str]) -> None:
        """Drop the packets of the connections that the servers have now; neither end is told."""
        ...

    def end_silence(self, nodes: Iterable[str]) -> None:
        """Let the packets of these connections pass again; idempotent."""
        ...

    def silenced(self, node: str) -> bool:
        """Return whether a packet of a silenced connection of the server was dropped."""
        ...


@runtime_checkable
class CanMisname(Protocol):
    """The cluster has the names of ZooKeeper servers lead to other ones, for single replicas."""

    def misname(self, nodes: Iterable[str]) -> None:
        """Have each name of a ZooKeeper server lead these replicas to the next server, and that of
        the last one to the first, when they next resolve it."""
        ...

    def end_misnaming(self, nodes: Iterable[str]) -> None:
        """Have the names lead to their own servers again; idempotent."""
        ...

    def misnamed(self, node: str) -> bool:
        """Return whether a name leads the replica to another server."""
        ...
