"""Simulates ZooKeeper and ClickHouse servers on virtual time (`crates/simulator`)."""

from typing import Any, Protocol, TypedDict

from harness.native._native import (
    FETCH_NS,
    Disks,
    Interpreter,
    Machines,
    Members,
    Simulation,
)

__all__ = [
    "FETCH_NS",
    "Disks",
    "Host",
    "Interpreter",
    "Machines",
    "Members",
    "ReplicaState",
    "Simulation",
]


class ReplicaState(TypedDict):
    """A table's replica, as tests and tools see it."""

    leader: bool
    readonly: bool
    connected: bool
    """Whether the replica has a session with ZooKeeper."""
    keeper: str | None
    """The ZooKeeper server of the server's session."""
    parts: list[str]
    """Names of the parts on the disk."""
    queue: list[tuple[str, str, int]]
    """Type, part and quorum of each queue entry."""


class Host(Protocol):
    """Executes the calls that are not statements. It must not use the scheduler while it is
    called."""

    def begin(self, number: int, op: Any, /) -> bytes:
        """Start a worker's call and return its line. `Interpreter.end` ends the call."""

    def ended(self, op: Any, /) -> bytes:
        """Return the line of the end of a call."""

    def failed(self, is_write: bool, code: int, text: str, /) -> Any:
        """Return the Done of a statement that failed."""

    def retired(self, number: int, /) -> object:
        """Close the worker's client, because its process was retired."""

    def op(self, line: bytes, /) -> Any:
        """Return the operation of a line, for generators that listen."""
