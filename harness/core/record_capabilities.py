"""Capabilities of clusters that keep what their servers have written. See `capabilities`."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable


@runtime_checkable
class KeepsTransactions(Protocol):
    """The cluster keeps ZooKeeper's transaction logs."""

    def transactions(self) -> Mapping[str, bytes]:
        """Return each ZooKeeper server's transaction log, as `harness.conform.ensemble` reads it,
        while the server runs; a server that has none is left out. Raises ClusterError."""
        ...


@runtime_checkable
class GrowsTransactions(Protocol):
    """The cluster's transaction logs of ZooKeeper can be read while they grow."""

    def transactions_since(self, node: str, file: str, offset: int) -> tuple[Sequence[str], bytes]:
        """Return the names of a ZooKeeper server's log files, oldest first, and the bytes of one of
        them from `offset` on, at most 1 MiB; none if `file` is "" or missing. Raises
        ClusterError."""
        ...


@runtime_checkable
class KeepsErrors(Protocol):
    """The cluster reads what its servers have logged."""

    def errors(self, node: str, bytes_max: int) -> str:
        """Return the end of a server's log, at most so many bytes, since the last run's logs were
        collected: of a database server the warnings and errors. Raises ClusterError."""
        ...


@runtime_checkable
class DatesTransactions(Protocol):
    """The cluster says how far its ZooKeeper servers are, which dates their transactions."""

    def dates_may_be_wrong(self) -> bool:
        """Return whether the clocks by which servers date transactions can be set wrong."""
        ...

    def following_progress(
        self, heard: Callable[[float, float, int, bool], None]
    ) -> AbstractContextManager[None]:
        """Ask the ZooKeeper servers for their newest transactions while the block runs, and call
        `heard` for each answer on another thread: when it was asked and answered, in wall-clock ms
        of a clock that is right, the number of the transaction, and whether the server leads."""
        ...
