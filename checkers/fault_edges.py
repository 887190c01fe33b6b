"""Reads what the nemesis recorded of its faults: where each began and ended, and what it struck."""

from collections.abc import Mapping

import msgspec
from msgspec import UNSET, UnsetType

from checkers.look import decode
from harness.core.op import Op


class FaultEdge(msgspec.Struct, frozen=True):
    """Begin or end of a fault, as the value of an op of the nemesis."""

    edge: str = ""
    """"begin", "end", "once" or "heal"; "" for an op that is none of these."""
    fault: int | None = None
    """Number that the begin and the end of a fault share."""
    name: str = ""
    """Name of the nemesis."""
    text: str = ""
    nodes: list[str] | UnsetType = UNSET
    """Nodes that the fault struck."""
    grudge: dict[str, list[str]] | UnsetType = UNSET
    """Nodes that each node does not hear, of a cut of links."""
    takes: str = ""
    """What it may have taken from disks, see `Takes`."""
    fsync: str = ""
    """What the server syncs."""


def edge_of(op: Op) -> FaultEdge:
    """Return the begin or end of a fault that an op of the nemesis is."""
    return decode(op, FaultEdge) if isinstance(op.value, Mapping) else FaultEdge()
