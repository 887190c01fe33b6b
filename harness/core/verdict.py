"""What a checker concludes. VALID needs something checked, INVALID needs a witness."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from harness.core.errors import EXIT_INVALID, EXIT_UNKNOWN, EXIT_VALID
from harness.core.op import Json


class Status(StrEnum):
    """In order of severity; the worst wins."""

    VALID = "VALID"
    UNKNOWN = "UNKNOWN"
    INVALID = "INVALID"

    @property
    def severity(self) -> int:
        """0, 1, 2."""
        return _SEVERITY[self]

    @property
    def exit_status(self) -> int:
        """Of the command that found it."""
        return {"VALID": EXIT_VALID, "UNKNOWN": EXIT_UNKNOWN, "INVALID": EXIT_INVALID}[self]


_SEVERITY: Final = {status: rank for rank, status in enumerate(Status)}


def worst(statuses: Iterable[Status]) -> Status:
    """The most severe; UNKNOWN of nothing, for nothing was checked."""
    return max(statuses, key=_SEVERITY.__getitem__, default=Status.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """One way in which the history breaks the property, with its witness."""

    kind: str
    """The field's name for it: "lost", "stale", "duplicate", "phantom", "cycle"."""
    text: str
    """One sentence for people."""
    ops: tuple[int, ...]
    """The indices of the few ops that prove it, in order of time."""
    key: int | None = None
    value: int | None = None
    time_ns: int = 0
    """When it was first seen."""
    steps: tuple[str, ...] = ()
    """The witness in words, a line a step."""

    def __post_init__(self) -> None:
        assert self.ops, "an anomaly without ops proves nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One checker's conclusion about one history."""

    checker: str
    status: Status
    summary: str
    """One line: what was found of how much."""
    checked: int
    """How many things were examined."""
    anomalies: tuple[Anomaly, ...] = ()
    """Smallest witness first; at most a few of each kind."""
    figures: Mapping[str, Json] = field(default_factory=dict)
    """Numbers by name, unit in the name; "anomalies": {kind: count} counts all of them."""

    def __post_init__(self) -> None:
        assert (self.status is Status.INVALID) == bool(self.anomalies), "INVALID <=> a witness"
        assert self.status is not Status.VALID or self.checked > 0, "VALID of nothing"
