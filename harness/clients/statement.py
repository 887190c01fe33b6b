"""Calls that are one statement: simulated servers are asked them with no client between."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from harness.clients.table_client import Call


@dataclass(frozen=True, slots=True)
class Statement:
    """What a call says to its server."""

    is_write: bool
    """An INSERT of the row (key, value); else a SELECT of numbers."""
    sql: str
    """Of a SELECT all but the key, which comes last."""
    settings: tuple[Mapping[str, int | str], ...]
    """The next of these for the next value."""
    timeout_s: float
    """An answer is waited for so long."""


@runtime_checkable
class HasStatements(Protocol):
    """A session of a workload some of whose calls are one statement."""

    def statements(self) -> Mapping[str, Statement]:
        """Those, by name; its clients make them alike."""
        ...


def statements(
    writes: Mapping[str, Call], reads: Mapping[str, Call], timeout_s: float
) -> dict[str, Statement]:
    """Those of a client's calls, by name, that are one."""
    found: dict[str, Statement] = {}
    for name, call in {**reads, **writes}.items():
        stated = getattr(call, "statement", None)
        if stated is not None:
            found[name] = stated(timeout_s)
    return found
