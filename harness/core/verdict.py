"""Verdicts of checkers. VALID needs something checked, INVALID needs a witness."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

import msgspec

from harness.core.errors import EXIT_INVALID, EXIT_UNKNOWN, EXIT_VALID
from harness.core.op import Json


class Status(StrEnum):
    """Status of a verdict, in order of severity; the most severe wins."""

    VALID = "VALID"
    UNKNOWN = "UNKNOWN"
    INVALID = "INVALID"

    @property
    def severity(self) -> int:
        """Return 0, 1 or 2; a greater number is more severe."""
        return _SEVERITY[self]

    @property
    def exit_status(self) -> int:
        """Return the exit status of a command with this result."""
        return {"VALID": EXIT_VALID, "UNKNOWN": EXIT_UNKNOWN, "INVALID": EXIT_INVALID}[self]


_SEVERITY: Final = {status: rank for rank, status in enumerate(Status)}


def worst(statuses: Iterable[Status]) -> Status:
    """Return the most severe status; UNKNOWN without any, because nothing was checked."""
    return max(statuses, key=_SEVERITY.__getitem__, default=Status.UNKNOWN)


class Anomaly(msgspec.Struct, frozen=True, kw_only=True):
    """Violation of the checked property by the history, with its witness."""

    kind: str
    """Name of the anomaly in the literature: "lost", "stale", "duplicate", "phantom", "cycle"."""
    text: str
    """Description in one sentence."""
    ops: tuple[int, ...]
    """Indices of the few ops that prove it, in order of time."""
    key: int | None = None
    value: int | None = None
    time_ns: int = 0
    """Time at which it was first seen."""
    steps: tuple[str, ...] = ()
    """Witness in words, one line per step."""

    def __post_init__(self) -> None:
        assert self.ops, "an anomaly without ops proves nothing"


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Conclusion of one checker about one history."""

    checker: str
    status: Status
    summary: str
    """Summary in one line: what was found among how much."""
    checked: int
    """Number of things that were examined."""
    anomalies: tuple[Anomaly, ...] = ()
    """Anomalies with the smallest witness first; at most a few of each kind."""
    figures: Mapping[str, Json] = msgspec.field(default_factory=dict)
    """Figures by name, with the unit in the name; "anomalies": {kind: count} counts all of them."""

    cut_short: bool = False
    """Whether time or memory was not enough to decide."""
    only_reported: bool = False
    """Whether it does not count for the run; `judge` says so of checkers that only report."""

    def __post_init__(self) -> None:
        assert (self.status is Status.INVALID) == bool(self.anomalies), "INVALID <=> a witness"
        assert self.status is not Status.VALID or self.checked > 0, "VALID of nothing"
