"""Simulates ZooKeeper and ClickHouse servers on virtual time (`crates/simulator`)."""

from typing import TypedDict

from harness.native._native import (
    FETCH_NS,
    Disks,
    Machines,
    Members,
    Simulation,
)

__all__ = [
    "FETCH_NS",
    "Disks",
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
