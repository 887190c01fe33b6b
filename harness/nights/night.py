"""Journal of a torture night, which is only ever appended to.

A line is a JSON object with "event" and "run", the number of a run, from 0:

    night     the request: "matrix" (its digest), "runs", "hours", "started_utc", "fail_on",
              "steer", "accept" (by cell, the known defects that its runs may show)
    begin     "cell", "seed", and of a steered night "how" it was drawn, "options" that differ from
              the cell's, the number of the run that it follows as "parent", or null, and the
              "element" for whose sake it was drawn; written before the run has a directory
    directory "path", in the store
    recorded  "troubles", "seconds", "phases" (by phase, the seconds it took), "servers" (kind and
              versions, as of Conditions.on), "memory_mb" (of the harness, the most since the run
              before; null if unknown); its history is whole
    broken    "error": it did not reach its end
    judged    "status", "reason", "kinds", "first_ns", "cause": its explanation as results.json has
              it, or null, "health": what the servers said of themselves
              (`harness.nights.findings.complaints`), "steps": the names of the model's steps that
              it took, and "elements": what they covered (`harness.conform.coverage`), if it was
              replayed
    end       the night is over, and its summary is written

A run that has a begin and neither recorded nor broken was killed with its harness.
"""

import errno
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any, Final

import msgspec

from checkers.triage.explanation import KNOWN, NOT_EXPLAINED, Cause
from harness.core.bounded_json import loads, open_regular
from harness.core.errors import HarnessError
from harness.core.verdict import Status, worst
from harness.store.disk import why_unwritable

JOURNAL: Final = "journal.jsonl"
NIGHTS: Final = "torture"
"""Directory of the store with a directory for each matrix, which has one for each night."""


@dataclass(slots=True)
class Slot:
    """State of one run of the night."""

    number: int
    cell: str
    seed: str
    path: str | None = None
    recorded: bool = False
    seconds: float = 0.0
    phases: Mapping[str, float] = field(default_factory=dict)
    servers: str = ""
    """Kind and versions of its servers; "" if unknown."""
    memory_mb: float | None = None
    """Most memory that the harness had since the run before was recorded; None if unknown."""
    troubles: tuple[str, ...] = ()
    broken: str | None = None
    status: Status | None = None
    """Status of its verdict; None before it is judged."""
    reason: str = ""
    kinds: tuple[str, ...] = ()
    first_ns: int | None = None
    cause: Cause | None = None
    """Explanation of an INVALID run by known defects."""
    health: tuple[str, ...] = ()
    """What its servers said of themselves, whatever its status; () if unknown."""
    steps: tuple[str, ...] = ()
    """Names of the model's steps that it took, and of departures from it; () if unknown."""
    elements: tuple[str, ...] = ()
    """What these steps covered; () if unknown."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options in which it differs from its cell, by their long names."""
    how: str = ""
    """How a steered night drew it."""
    parent: int | None = None
    """Number of the run that it follows; None if it was drawn afresh."""
    element: str = ""
    """Element of the model for whose sake it was drawn; "" for none."""

    @property
    def killed(self) -> bool:
        """Return whether the harness died during the run; also true while the run goes on."""
        return not self.recorded and self.broken is None

    @property
    def is_varied(self) -> bool:
        """Return whether a steered night gave it other options than its cell has, so that its
        figures are not those of the cell."""
        return bool(self.options)

    @property
    def verdict(self) -> Status:
        """Status of the run: that of its verdict, but at best UNKNOWN if the run died or broke, or
        has no verdict yet."""
        judged = self.status or Status.UNKNOWN
        whole = self.recorded and self.broken is None
        return judged if whole else worst([judged, Status.UNKNOWN])

    @property
    def causes(self) -> tuple[str, ...]:
        """Known defects that explain an INVALID run, or that none does; () for others."""
        if self.verdict is not Status.INVALID:
            return ()
        if self.cause is None or self.cause.status != KNOWN:
            return (NOT_EXPLAINED,)
        return tuple(defect.name for defect in self.cause.defects)

    @property
    def is_unexplained(self) -> bool:
        """Return whether the run is INVALID and known defects do not explain all of it."""
        return NOT_EXPLAINED in self.causes

    @property
    def findings(self) -> tuple[str, ...]:
        """Findings of an INVALID run: the known defects that explain it, or "unexplained" and the
        kind of each anomaly, such as "unexplained stale"; () for others."""
        if not self.is_unexplained:
            return self.causes
        return tuple(f"unexplained {kind}" for kind in self.kinds) or ("unexplained",)

    @property
    def shown(self) -> tuple[str, ...]:
        """What an INVALID run has shown: its findings, and known defects that explain a part of
        what nothing explains in whole."""
        beside = () if self.cause is None else (defect.name for defect in self.cause.defects)
        return tuple(dict.fromkeys((*self.findings, *beside))) if self.findings else ()

    @property
    def why(self) -> str:
        """Reason of its status."""
        if self.broken is not None:
            return f"broken: {self.broken}"
        if self.killed:
            return f"killed with its harness; {self.reason or 'it left nothing'}"
        return self.reason


@dataclass(slots=True)
class Night:
    """Journal of a night, and the state that its events describe."""

    path: Path
    """Directory of the journal."""
    request: dict[str, Any] = field(default_factory=dict)
    slots: dict[int, Slot] = field(default_factory=dict)
    over: bool = False

    @staticmethod
    def read(path: Path, *, repair: bool = True) -> "Night":
        """Read a journal; a last line that was cut off does not count, and is removed if `repair`.
        Raises HarnessError."""
        night = Night(path)
        file = path / JOURNAL
        try:
            with open_regular(file) as raw:
                *lines, rest = raw.read().split(b"\n")
            if rest and repair:
                os.truncate(file, file.stat().st_size - len(rest))
            for line in lines:
                night._take(loads(line))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise HarnessError(f"{file}: is no journal of a night: {error}") from error
        return night

    @staticmethod
    def begun(path: Path, request: Mapping[str, Any]) -> "Night":
        """Create a journal."""
        try:
            path.mkdir(parents=True)
        except OSError as error:
            raise HarnessError(f"{path}: cannot be made: {why_unwritable(path, error)}") from error
        night = Night(path)
        night.say("night", **request)
        return night

    def say(self, event: str, run: int | None = None, **more: Any) -> None:
        """Append an event, which is on the disk on return. Raises HarnessError."""
        said = {"event": event, **({} if run is None else {"run": run}), **more}
        path = self.path / JOURNAL
        try:
            with path.open("ab", buffering=0) as file:
                length = file.tell()
                line = json.dumps(said, ensure_ascii=False).encode() + b"\n"
                if file.write(line) < len(line):
                    os.ftruncate(file.fileno(), length)
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(file.fileno())
        except OSError as error:
            raise HarnessError(
                f"{path}: cannot be written: {why_unwritable(path, error)}"
            ) from error
        self._take(said)

    def _take(self, said: Mapping[str, Any]) -> None:
        event, run = said["event"], said.get("run")
        if event == "night":
            self.request = {name: value for name, value in said.items() if name != "event"}
        elif event == "end":
            self.over = True
        elif event == "begin":
            if run in self.slots:
                raise ValueError(f"run {run} began twice")
            slot = Slot(said["run"], said["cell"], said["seed"])
            slot.options, slot.how = said.get("options", {}), said.get("how", "")
            slot.parent, slot.element = said.get("parent"), said.get("element", "")
            self.slots[slot.number] = slot
        else:
            self._follow(self.slots[said["run"]], event, said)

    def _follow(self, slot: Slot, event: str, said: Mapping[str, Any]) -> None:
        if event == "directory":
            slot.path = said["path"]
        elif event == "recorded":
            slot.recorded, slot.seconds, slot.phases = True, said["seconds"], said.get("phases", {})
            slot.troubles = tuple(said["troubles"])
            slot.servers, slot.memory_mb = said.get("servers", ""), said.get("memory_mb")
        elif event == "broken":
            slot.broken = said["error"]
        elif event == "judged":
            slot.status, slot.reason = Status(said["status"]), said["reason"]
            slot.kinds, slot.first_ns = tuple(said["kinds"]), said["first_ns"]
            slot.health = tuple(said.get("health", ()))
            slot.steps = tuple(said.get("steps", ()))
            slot.elements = tuple(said.get("elements", ()))
            cause = said.get("cause")
            slot.cause = None if cause is None else msgspec.convert(cause, Cause)
        else:
            raise ValueError(f"event {event!r}")

    @property
    def began(self) -> datetime | None:
        """Time when it began; None if its request does not tell."""
        try:
            return datetime.fromisoformat(self.request["started_utc"])
        except (KeyError, TypeError, ValueError):
            return None

    @property
    def accepted(self) -> Mapping[str, Sequence[str]]:
        """Known defects that runs may show, by cell."""
        accepted: Mapping[str, Sequence[str]] = self.request.get("accept", {})
        return accepted

    @property
    def runs(self) -> list[Slot]:
        """Its runs, in the order in which they began."""
        return list(self.slots.values())

    @property
    def cells(self) -> Mapping[str, list[Slot]]:
        """Its runs by their cells, in the order in which they first ran."""
        cells: dict[str, list[Slot]] = {}
        for slot in self.runs:
            cells.setdefault(slot.cell, []).append(slot)
        return cells

    @property
    def unjudged(self) -> list[Slot]:
        """Runs that left something to judge and have no verdict yet."""
        return [slot for slot in self.runs if slot.path is not None and slot.status is None]

    def expected_s(self, cell: str) -> float:
        """Return the expected duration of a run of this cell: the median of its runs so far, or of
        all cells if it has none; 0 before the first."""
        recorded = [slot for slot in self.runs if slot.recorded]
        of_cell = [slot.seconds for slot in recorded if slot.cell == cell]
        return median(of_cell or [slot.seconds for slot in recorded] or [0.0])

    @property
    def next(self) -> int:
        """Number of the next run."""
        return max(self.slots, default=-1) + 1
