"""Summary of a night: the verdicts, the anomalies and what is new, by cell."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from types import MappingProxyType

from junitparser import Error, Failure, JUnitXml, Skipped, TestSuite
from junitparser.xunit2 import TestCase

from checkers.triage.defects import DEFECTS
from checkers.triage.explanation import KNOWN, NOT_EXPLAINED
from harness.conform.replay import STEPS
from harness.core.bounded_json import load
from harness.core.op import Json
from harness.core.verdict import Status, worst
from harness.nights.findings import CellRecord, FailOn, by_cell, causes, findings_of, verdict
from harness.nights.night import Night, Slot
from harness.nights.rota import steps_made


@dataclass(frozen=True, slots=True)
class CellSummary:
    """Runs of one cell of the matrix."""

    name: str
    slots: tuple[Slot, ...]
    earlier: CellRecord = field(default_factory=CellRecord)
    """What the cell found in earlier nights."""
    accepted: frozenset[str] = frozenset()
    """Known defects that its runs may show."""
    missing: str = ""
    """Mechanisms that its version lacks, so that it has no runs; "" if it has all."""

    def count(self, status: Status) -> int:
        """Return the number of runs with this verdict; a run without one is UNKNOWN."""
        return sum(verdict(slot) is status for slot in self.slots)

    @property
    def killed(self) -> int:
        """Number of runs that died with their harness."""
        return sum(slot.killed for slot in self.slots)

    @property
    def broken(self) -> int:
        """Number of runs that did not reach their end."""
        return sum(slot.broken is not None for slot in self.slots)

    @property
    def kinds(self) -> Counter[str]:
        """Number of runs with each kind of anomaly."""
        return Counter(kind for slot in self.slots for kind in slot.kinds)

    @property
    def causes(self) -> Counter[str]:
        """Number of runs that known defects explain, by defect, and of those that they do not."""
        return Counter(name for slot in self.slots for name in causes(slot))

    @property
    def findings(self) -> Counter[str]:
        """Number of runs by finding."""
        return Counter(finding for slot in self.slots for finding in findings_of(slot))

    @property
    def new(self) -> tuple[str, ...]:
        """Findings that the cell had in no earlier night."""
        return tuple(sorted(self.findings.keys() - self.earlier.hits.keys()))

    @property
    def gone(self) -> tuple[str, ...]:
        """Accepted defects that so many runs would have shown if they were still there."""
        record = self.earlier.followed_by(self.slots)
        return tuple(sorted(name for name in self.accepted if record.is_gone(name)))

    def fails(self, slot: Slot, fail_on: FailOn) -> bool:
        """Return whether a run of the cell fails the night."""
        known = self.accepted | self.earlier.hits.keys() if fail_on is FailOn.NEW else self.accepted
        return bool({*findings_of(slot)} - (set() if fail_on is FailOn.ANY else known))

    @property
    def first_s(self) -> float | None:
        """Median time to the first anomaly, of runs that have one."""
        times = [slot.first_ns / 1e9 for slot in self.slots if slot.first_ns is not None]
        return median(times) if times else None


def headline(of: Sequence[CellSummary]) -> str:
    """Return "1 of 16 runs, in 1 of 8 cells: stale-read 1; new: unexplained cycle; gone: …", the
    extent of the worst status."""
    cells_ = [cell for cell in of if cell.slots]
    counts = {status: sum(cell.count(status) for cell in cells_) for status in Status}
    status = worst(status for status in Status if counts[status])
    where = sum(bool(cell.count(status)) for cell in cells_)
    found = sum((cell.causes for cell in cells_), Counter[str]())
    new = sorted({finding for cell in cells_ for finding in cell.new})
    gone = sorted({name for cell in cells_ for name in cell.gone})
    return (
        f"{counts[status]} of {sum(counts.values())} runs, in {where} of "
        f"{len(cells_)} cells"
        + (f": {', '.join(f'{name} {n}' for name, n in found.most_common())}" if found else "")
        + (f"; new: {', '.join(new)}" if new else "")
        + (f"; accepted and gone: {', '.join(gone)}" if gone else "")
    )


def night_status(of: Sequence[CellSummary], fail_on: FailOn) -> Status:
    """Return what the night comes to: INVALID if a run fails it; UNKNOWN if one had no conclusion,
    if there was none, or if an accepted defect is gone, so that the list of accepted ones is
    wrong."""
    statuses: list[Status] = []
    for cell in of:
        statuses += [Status.UNKNOWN] * bool(cell.gone)
        for slot in cell.slots:
            passed = verdict(slot) is Status.INVALID and not cell.fails(slot, fail_on)
            statuses.append(Status.VALID if passed else verdict(slot))
    return worst(statuses)


def why(slot: Slot) -> str:
    """Return the reason of a run's status."""
    if slot.broken is not None:
        return f"broken: {slot.broken}"
    if slot.killed:
        return f"killed with its harness; {slot.reason or 'it left nothing'}"
    return slot.reason


def cells(
    night: Night,
    names: Sequence[str],
    earlier: Mapping[str, CellRecord],
    missing: Mapping[str, str] = MappingProxyType({}),
) -> list[CellSummary]:
    """Return the summaries in the order of the matrix. `earlier` has what each cell found in
    earlier nights; `missing` the mechanisms that the version of a cell lacks."""
    slots = {**{name: [] for name in names}, **by_cell(night)}
    return [
        CellSummary(
            name,
            tuple(of),
            earlier.get(name, CellRecord()),
            frozenset(night.accepted.get(name, ())),
            missing.get(name, ""),
        )
        for name, of in slots.items()
    ]


def _type(slot: Slot, status: Status) -> str:
    known = status is Status.INVALID and NOT_EXPLAINED not in causes(slot)
    return KNOWN.upper() if known else status.value


def _message(slot: Slot) -> str:
    return why(slot) if slot.cause is None else f"{slot.cause.text}; {why(slot)}"


def steps_before(path: Path) -> Counter[str]:
    """Return the number of runs that took each step of the model, in the nights of any matrix that
    began before this one and have a summary which can be read."""
    made: Counter[str] = Counter()
    for file in path.parent.parent.glob("*/*/summary.json"):
        with suppress(OSError, ValueError, KeyError, TypeError):
            if file.parent.name < path.name:
                made.update(load(file)["steps"])
    return made


def not_taken(made: Mapping[str, int], steps: Iterable[str] = STEPS) -> list[str]:
    """Return those of the steps that no run took."""
    return sorted(step for step in steps if not made.get(step))


def as_json(
    night: Night,
    of: Sequence[CellSummary],
    fail_on: FailOn = FailOn.UNEXPLAINED,
    earlier: Mapping[str, int] = MappingProxyType({}),
    steps: Collection[str] = STEPS,
) -> dict[str, Json]:
    """Return the contents of summary.json. "status" is the worst of the runs, "exit_status" that of
    the night, see `night_status`. `earlier` has the number of runs of earlier nights by
    step of the model, `steps` has those that the servers of the night can take."""
    every = list(night.slots.values())
    counted = Counter(name for slot in every for name in causes(slot))
    made = steps_made(every)
    status = worst(verdict(slot) for slot in every)
    return {
        "schema": 1,
        "status": status.value,
        "fail_on": fail_on.value,
        "exit_status": night_status(of, fail_on).exit_status,
        "failed": sorted(s.number for cell in of for s in cell.slots if cell.fails(s, fail_on)),
        "new": sorted({finding for cell in of for finding in cell.new}),
        "gone": sorted({name for cell in of for name in cell.gone}),
        "runs": len(every),
        "statuses": {s.value: sum(verdict(slot) is s for slot in every) for s in Status},
        "killed": sum(slot.killed for slot in every),
        "broken": sum(slot.broken is not None for slot in every),
        "causes": dict(counted.most_common()),
        "steps": dict(made.most_common()),
        "steps_not_taken": not_taken(made, steps),
        "steps_never_taken": not_taken(made + Counter(earlier), steps),
        "request": night.request,
        "cells": [
            {
                "name": cell.name,
                "runs": len(cell.slots),
                **{s.value: cell.count(s) for s in Status},
                "killed": cell.killed,
                "broken": cell.broken,
                "anomalies": dict(cell.kinds.most_common()),
                "causes": dict(cell.causes.most_common()),
                "findings": dict(cell.findings.most_common()),
                "first_anomaly_s": cell.first_s,
                "new": list(cell.new),
                "accepted": sorted(cell.accepted),
                "gone": list(cell.gone),
                "not_applicable": cell.missing or None,
            }
            for cell in of
        ],
        "runs_by_number": [
            {
                "run": slot.number,
                "cell": slot.cell,
                "seed": slot.seed,
                "path": slot.path,
                "status": verdict(slot).value,
                "why": why(slot),
                "causes": list(causes(slot)),
            }
            for slot in unexplained_first(every)
        ],
    }


def unexplained_first(slots: Sequence[Slot]) -> list[Slot]:
    """Return the runs, those first that no known defect explains."""
    return sorted(slots, key=lambda slot: (NOT_EXPLAINED not in causes(slot), slot.number))


def _case(
    name: str, cell: CellSummary, slot: Slot, fail_on: FailOn, body: Callable[[Slot], str]
) -> TestCase:
    case = TestCase(name, slot.cell, slot.seconds)
    of_run = {"seed": slot.seed, "run": str(slot.number), "directory": slot.path}
    for key, value in of_run.items():
        if value:
            case.add_property(key, value)
    status = verdict(slot)
    if status is not Status.VALID:
        kind: type[Failure | Skipped | Error] = Error
        if status is Status.INVALID:
            kind = Failure if cell.fails(slot, fail_on) else Skipped
        result = kind(_message(slot), _type(slot, status))
        result.text = body(slot)
        case.result = [result]
    return case


def _accepted_case(cell: CellSummary, name: str) -> TestCase:
    """Return the case of an accepted defect, which fails if it is gone."""
    case = TestCase(f"{cell.name} accepts {name}", cell.name)
    if name in cell.gone:
        record = cell.earlier.followed_by(cell.slots)
        runs = record.runs - record.last[name]
        text = f"not seen in the last {runs} runs, and in {record.hits[name]} of those before"
        case.result = [Failure(f"{text}: accept it no longer", "GONE")]
    return case


def junit(
    of: Sequence[CellSummary],
    fail_on: FailOn = FailOn.UNEXPLAINED,
    body: Callable[[Slot], str] = lambda _: "",
) -> JUnitXml:
    """Return a JUnit report with a suite per cell and a case per run.

    An INVALID run is a failure, or skipped if it does not fail the night, as an expected failure of
    pytest is; an UNKNOWN one is an error. Both have the text of `body`. An accepted defect has a
    case that fails if it is gone. Cases of runs are named by their cell and their place in it, so
    that they have the same names every night; seed, number and directory are properties. A run that
    known defects explain has the type "KNOWN" in place of "INVALID", and its suite a property
    "known-defect:NAME" for each of them, and one "unexplained", with the number of such runs. A
    cell that its version cannot run has one case, which is skipped.
    """
    xml = JUnitXml("harness torture")
    for cell in of:
        suite = TestSuite(cell.name)
        for place, slot in enumerate(cell.slots, 1):
            suite.add_testcase(_case(f"{cell.name} #{place}", cell, slot, fail_on, body))
        for name in sorted(cell.accepted) if cell.slots else ():
            suite.add_testcase(_accepted_case(cell, name))
        for name, count in cell.causes.most_common():
            known = f"known-defect:{name}" if name in DEFECTS else "unexplained"
            suite.add_property(known, str(count))
        if cell.missing:
            case = TestCase("not applicable", cell.name)
            case.result = [Skipped(f"needs {cell.missing}")]
            suite.add_testcase(case)
        xml.add_testsuite(suite)
    xml.update_statistics()  # type: ignore[no-untyped-call]
    return xml
