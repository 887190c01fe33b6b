"""Summary of a night: the verdicts, the anomalies and what is new, by cell."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
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
from harness.run.night import Night, Slot
from harness.run.rota import steps_made


@dataclass(frozen=True, slots=True)
class CellSummary:
    """Runs of one cell of the matrix."""

    name: str
    slots: tuple[Slot, ...]
    new: tuple[str, ...]
    """Kinds of anomalies that the cell did not have in the last night."""
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
    def first_s(self) -> float | None:
        """Median time to the first anomaly, of runs that have one."""
        times = [slot.first_ns / 1e9 for slot in self.slots if slot.first_ns is not None]
        return median(times) if times else None


def headline(of: Sequence[CellSummary]) -> str:
    """Return "1 of 16 runs, in 1 of 8 cells: stale-read 1; new: cycle", the extent of the worst
    status."""
    cells_ = [cell for cell in of if cell.slots]
    counts = {status: sum(cell.count(status) for cell in cells_) for status in Status}
    status = worst(status for status in Status if counts[status])
    where = sum(bool(cell.count(status)) for cell in cells_)
    found = sum((cell.causes for cell in cells_), Counter[str]())
    new = sorted({kind for cell in cells_ for kind in cell.new})
    return (
        f"{counts[status]} of {sum(counts.values())} runs, in {where} of "
        f"{len(cells_)} cells"
        + (f": {', '.join(f'{name} {n}' for name, n in found.most_common())}" if found else "")
        + (f"; new: {', '.join(new)}" if new else "")
    )


def verdict(slot: Slot) -> Status:
    """Return the status of a run; one that died or broke is at best UNKNOWN."""
    own = [slot.status or Status.UNKNOWN]
    return worst([*own, Status.UNKNOWN] if slot.killed or slot.broken is not None else own)


def why(slot: Slot) -> str:
    """Return the reason of a run's status."""
    if slot.broken is not None:
        return f"broken: {slot.broken}"
    if slot.killed:
        return f"killed with its harness; {slot.reason or 'it left nothing'}"
    return slot.reason


def causes(slot: Slot) -> tuple[str, ...]:
    """Return the known defects that explain an INVALID run, or that none does; () for others."""
    if verdict(slot) is not Status.INVALID:
        return ()
    if slot.cause is None or slot.cause.status != KNOWN:
        return (NOT_EXPLAINED,)
    return tuple(one.name for one in slot.cause.defects)


def cells(
    night: Night,
    names: Sequence[str],
    before: Mapping[str, Sequence[str]],
    missing: Mapping[str, str] = MappingProxyType({}),
) -> list[CellSummary]:
    """Return the summaries in the order of the matrix. `before` has the kinds of the last night by
    cell; `missing` the mechanisms that the version of a cell lacks."""
    by_cell: dict[str, list[Slot]] = {name: [] for name in names}
    for slot in night.slots.values():
        by_cell.setdefault(slot.cell, []).append(slot)
    return [
        CellSummary(
            name,
            tuple(slots),
            tuple(sorted({k for s in slots for k in s.kinds} - set(before.get(name, ())))),
            missing.get(name, ""),
        )
        for name, slots in by_cell.items()
    ]


def _type(slot: Slot, status: Status) -> str:
    known = status is Status.INVALID and NOT_EXPLAINED not in causes(slot)
    return KNOWN.upper() if known else status.value


def _message(slot: Slot) -> str:
    return why(slot) if slot.cause is None else f"{slot.cause.text}; {why(slot)}"


def kinds_before(path: Path) -> dict[str, list[str]]:
    """Return by cell the kinds of anomalies of the last night before this one that has a summary
    which can be read."""
    earlier = sorted(p for p in path.parent.glob("*/summary.json") if p.parent.name < path.name)
    for file in reversed(earlier):
        with suppress(OSError, ValueError, KeyError, TypeError):
            return {cell["name"]: list(cell["anomalies"]) for cell in load(file)["cells"]}
    return {}


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
    earlier: Mapping[str, int] = MappingProxyType({}),
    steps: Collection[str] = STEPS,
) -> dict[str, Json]:
    """Return the contents of summary.json. `earlier` has the number of runs of earlier nights by
    step of the model, `steps` has those that the servers of the night can take."""
    every = list(night.slots.values())
    counted = Counter(name for slot in every for name in causes(slot))
    made = steps_made(every)
    status = worst(verdict(slot) for slot in every)
    return {
        "schema": 1,
        "status": status.value,
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
                "first_anomaly_s": cell.first_s,
                "new": list(cell.new),
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


def _case(name: str, slot: Slot, body: Callable[[Slot], str]) -> TestCase:
    case = TestCase(name, slot.cell, slot.seconds)
    of_run = {"seed": slot.seed, "run": str(slot.number), "directory": slot.path}
    for key, value in of_run.items():
        if value:
            case.add_property(key, value)
    status = verdict(slot)
    if status is not Status.VALID:
        kind = Failure if status is Status.INVALID else Error
        result = kind(_message(slot), _type(slot, status))
        result.text = body(slot)
        case.result = [result]
    return case


def junit(of: Sequence[CellSummary], body: Callable[[Slot], str] = lambda _: "") -> JUnitXml:
    """Return a JUnit report with a suite per cell and a case per run; INVALID is a failure, UNKNOWN
    an error, with the text of `body`. Cases are named by their cell and their place in it, so that
    they have the same names every night; seed, number and directory are properties. A failure that
    known defects explain has the type "KNOWN" in place of "INVALID", and its suite a property
    "known-defect:NAME" for each of them, and one "unexplained", with the number of such runs. A
    cell that its version cannot run has one case, which is skipped."""
    xml = JUnitXml("harness torture")
    for cell in of:
        suite = TestSuite(cell.name)
        for place, slot in enumerate(cell.slots, 1):
            suite.add_testcase(_case(f"{cell.name} #{place}", slot, body))
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
