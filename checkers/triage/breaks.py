"""What faults do to nodes: which they kill, and which they keep apart."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from harness.core.history import Fault, History

_NODE: Final = re.compile(r"[a-z]+[0-9]+")
_STORE: Final = "store"
_KILLS: Final = ("kill", "restart", "merge-kill", "drop-kill", "fetch-kill", "clone-kill")


def kills(history: History, node: str) -> Iterator[Fault]:
    """Yield the faults that end the process of a node."""
    for fault in history.faults:
        if fault.name.startswith(_KILLS) and node in nodes_in(fault.text):
            yield fault


def nodes_in(text: str) -> frozenset[str]:
    """Return the nodes that the text of a fault names."""
    return frozenset(_NODE.findall(text))


def sides_in(text: str) -> Sequence[frozenset[str]]:
    """Return the sides of a partition by the text of the fault; () for another fault."""
    return [frozenset(side.split()) for side in re.findall(r"[^{}|]+(?=[|}])", text)]


def cuts_store(fault: Fault, node: str) -> bool:
    """Return whether a fault keeps a node from the object store."""
    if fault.name.startswith(_STORE):
        return True
    sides = sides_in(fault.text)
    return any(node in side and not any(n.startswith(_STORE) for n in side) for side in sides) and (
        any(n.startswith(_STORE) for side in sides for n in side)
    )
