"""Summary of a night: the verdicts, the anomalies and what is new, by cell."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import median
from types import MappingProxyType

from junitparser import Error, Failure, JUnitXml, Skipped, TestSuite
from junitparser.xunit2 import TestCase

from checkers.phrasing import number
from checkers.triage.defects import DEFECTS
from checkers.triage.explanation import KNOWN, NOT_EXPLAINED
from harness.conform.steps import STEPS
from harness.core.bounded_json import load
from harness.core.op import Json
from harness.core.verdict import Status, worst
from harness.nights.alarms import Alarm
from harness.nights.drawn import AimedMoment, DrawnRuns, aimed_moments, drawn_runs
from harness.nights.findings import CellRecord, FailOn
from harness.nights.night import Night, Slot


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
        return sum(slot.verdict is status for slot in self.slots)

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
        return Counter(name for slot in self.slots for name in slot.causes)

    @property
    def findings(self) -> Counter[str]:
        """Number of runs by finding."""
        return Counter(finding for slot in self.slots for finding in slot.findings)

    @property
    def health(self) -> Counter[str]:
        """Number of runs by what their servers said of themselves."""
        return Counter(said for slot in self.slots for said in slot.health)

    @property
    def health_new(self) -> tuple[str, ...]:
        """What servers said of themselves in no earlier night."""
        return tuple(sorted(self.health.keys() - self.earlier.hits.keys()))

    @property
    def new(self) -> tuple[str, ...]:
        """Findings that the cell had in no earlier night."""
        return tuple(sorted(self.findings.keys() - self.earlier.hits.keys()))

    @property
    def news(self) -> tuple[str, ...]:
        """New findings that are not accepted."""
        return tuple(finding for finding in self.new if finding not in self.accepted)

    @property
    def seen(self) -> CellRecord:
        """What the cell found in this night and earlier ones."""
        return self.earlier.followed_by(self.slots)

    @property
    def gone(self) -> tuple[str, ...]:
        """Accepted defects that so many runs would have shown if they were still there."""
        return tuple(sorted(name for name in self.accepted if self.seen.is_gone(name)))

    def fails(self, slot: Slot, fail_on: FailOn) -> bool:
        """Return whether a run of the cell fails the night."""
        known = self.accepted | self.earlier.hits.keys() if fail_on is FailOn.NEW else self.accepted
        return bool({*slot.findings} - (set() if fail_on is FailOn.ANY else known))

    @property
    def first_s(self) -> float | None:
        """Median time to the first anomaly, of runs that have one."""
        times = [slot.first_ns / 1e9 for slot in self.slots if slot.first_ns is not None]
        return median(times) if times else None


def cells(
    night: Night,
    names: Sequence[str],
    earlier: Mapping[str, CellRecord],
    missing: Mapping[str, str] = MappingProxyType({}),
) -> list[CellSummary]:
    """Return the summaries in the order of the matrix. `earlier` has what each cell found in
    earlier nights; `missing` the mechanisms that the version of a cell lacks."""
    slots = {**{name: [] for name in names}, **night.cells}
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


def headline(of: Sequence[CellSummary], alarms: Sequence[Alarm] = ()) -> str:
    """Return "16 runs in 8 cells: 2 INVALID, 14 VALID; explained by stale-read 1; not explained 1;
    new: unexplained cycle; accepted and gone: …; 2 alarms"."""
    cells_ = [cell for cell in of if cell.slots]
    counts = {status: sum(cell.count(status) for cell in cells_) for status in reversed(Status)}
    found = sum((cell.causes for cell in cells_), Counter[str]())
    known = [f"{name} {n}" for name, n in found.most_common() if name != NOT_EXPLAINED]
    new, gone = _new(cells_), _gone(cells_)
    parts = (
        f"{number(sum(counts.values()), 'run')} in {number(len(cells_), 'cell')}"
        + (": " if cells_ else "")
        + ", ".join(f"{count} {status.value}" for status, count in counts.items() if count),
        f"{NOT_EXPLAINED} {found[NOT_EXPLAINED]}" if found[NOT_EXPLAINED] else "",
        f"explained by {', '.join(known)}" if known else "",
        f"new: {', '.join(new)}" if new else "",
        f"accepted and gone: {', '.join(gone)}" if gone else "",
        number(len(alarms), "alarm") if alarms else "",
    )
    return "; ".join(filter(None, parts))


def _new(of: Sequence[CellSummary]) -> list[str]:
    return sorted({finding for cell in of for finding in cell.news})


def _gone(of: Sequence[CellSummary]) -> list[str]:
    return sorted({name for cell in of for name in cell.gone})


def unexplained_first(slots: Sequence[Slot]) -> list[Slot]:
    """Return the runs, those first that no known defect explains."""
    return sorted(slots, key=lambda slot: (not slot.is_unexplained, slot.number))


@dataclass(frozen=True, slots=True)
class ReachCounts:
    """Numbers of runs that took a step of the protocol's model, and that covered an element of it
    (`harness.conform.coverage`), by name."""

    steps: Counter[str] = field(default_factory=Counter)
    elements: Counter[str] = field(default_factory=Counter)

    @staticmethod
    def by(slots: Iterable[Slot]) -> "ReachCounts":
        """Return what the runs of a night reached."""
        every = ReachCounts()
        for slot in slots:
            every.steps.update(slot.steps)
            every.elements.update(slot.elements)
        return every

    @staticmethod
    def before(path: Path) -> "ReachCounts":
        """Return what was reached in the nights of any matrix that began before this one and have a
        summary which can be read."""
        every = ReachCounts()
        for file in path.parent.parent.glob("*/*/summary.json"):
            with suppress(OSError, ValueError, KeyError, TypeError):
                if file.parent.name < path.name:
                    summary = load(file)
                    every.steps.update(summary["steps"])
                    every.elements.update(summary.get("elements", {}))
        return every


@dataclass(frozen=True, kw_only=True)
class NightSummary:
    """What a night came to."""

    night: Night
    cells: Sequence[CellSummary]
    fail_on: FailOn = FailOn.UNEXPLAINED
    earlier_reach: ReachCounts = field(default_factory=ReachCounts)
    """What runs of earlier nights reached."""
    steps: Collection[str] = STEPS
    """Steps of the model that the servers of the night can take."""
    alarms: Sequence[Alarm] = ()
    """Figures of its cells that have changed."""

    @property
    def status(self) -> Status:
        """What the night comes to: INVALID if a run fails it; UNKNOWN if one had no conclusion, if
        there was none, or if an accepted defect is gone, so that the list of accepted ones is
        wrong."""
        statuses: list[Status] = []
        for cell in self.cells:
            statuses += [Status.UNKNOWN] * bool(cell.gone)
            for slot in cell.slots:
                passed = slot.verdict is Status.INVALID and not cell.fails(slot, self.fail_on)
                statuses.append(Status.VALID if passed else slot.verdict)
        return worst(statuses)

    @property
    def word(self) -> str:
        """Its status in a word, which is "ACCEPTED" for VALID if there were INVALID runs."""
        accepted = any(cell.count(Status.INVALID) for cell in self.cells)
        return "ACCEPTED" if self.status is Status.VALID and accepted else self.status.value

    @property
    def headline(self) -> str:
        """What it came to, in one line."""
        return headline(self.cells, self.alarms)

    @property
    def failed(self) -> list[Slot]:
        """Runs that fail the night."""
        return [slot for slot in self.night.runs if self.fails(slot)]

    def fails(self, slot: Slot) -> bool:
        """Return whether a run fails the night."""
        return next(c for c in self.cells if c.name == slot.cell).fails(slot, self.fail_on)

    @cached_property
    def causes(self) -> Counter[str]:
        """Number of runs that known defects explain, by defect, and of those that they do not."""
        return Counter(name for slot in self.night.runs for name in slot.causes)

    @cached_property
    def reached(self) -> ReachCounts:
        """What its runs reached."""
        return ReachCounts.by(self.night.runs)

    @property
    def fresh_elements(self) -> list[str]:
        """Elements that no run of an earlier night covered."""
        return sorted(self.reached.elements.keys() - self.earlier_reach.elements.keys())

    @cached_property
    def drawn(self) -> Sequence[DrawnRuns]:
        """Runs of a steered night by the ways in which they were drawn."""
        return drawn_runs(self.night.runs)

    @cached_property
    def moments(self) -> Sequence[AimedMoment]:
        """Elements at which runs were aimed."""
        return aimed_moments(self.night.runs)

    @property
    def aimed_at(self) -> dict[str, bool]:
        """Elements that simulated runs alone had covered and at which runs were aimed; whether one
        of the night covered them in the end."""
        return {one.element: one.is_covered for one in self.moments if one.foreseen}

    @property
    def steps_not_taken(self) -> list[str]:
        """Steps that no run of the night took."""
        return sorted(step for step in self.steps if not self.reached.steps.get(step))

    @property
    def steps_never_taken(self) -> list[str]:
        """Steps that no run of this night or an earlier one took."""
        return [step for step in self.steps_not_taken if not self.earlier_reach.steps.get(step)]

    def results(self) -> dict[str, Json]:
        """Return the contents of summary.json. "status" is the worst of the runs, "exit_status"
        that of the night."""
        every, of = self.night.runs, self.cells
        return {
            "schema": 1,
            "night": str(self.night.path),
            "status": worst(slot.verdict for slot in every).value,
            "fail_on": self.fail_on.value,
            "exit_status": self.status.exit_status,
            "headline": f"{self.word}: {self.headline}",
            "failed": [slot.number for slot in self.failed],
            "unexplained": sum(slot.is_unexplained for slot in every),
            "new": _new(of),
            "gone": _gone(of),
            "alarms": [one.results() for one in self.alarms],
            "runs": len(every),
            "statuses": {s.value: sum(slot.verdict is s for slot in every) for s in Status},
            "killed": sum(slot.killed for slot in every),
            "broken": sum(slot.broken is not None for slot in every),
            "causes": dict(self.causes.most_common()),
            "steps": dict(self.reached.steps.most_common()),
            "elements": dict(self.reached.elements.most_common()),
            "fresh_elements": self.fresh_elements,
            "aimed_at": self.aimed_at,
            "drawn": [one.results() for one in self.drawn],
            "steps_not_taken": self.steps_not_taken,
            "steps_never_taken": self.steps_never_taken,
            "request": self.night.request,
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
                    "health": dict(cell.health.most_common()),
                    "health_new": list(cell.health_new),
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
                    "status": slot.verdict.value,
                    "why": slot.why,
                    "causes": list(slot.causes),
                }
                for slot in unexplained_first(every)
            ],
        }

    def junit(self, body: Callable[[Slot], str] = lambda _: "") -> JUnitXml:
        """Return a JUnit report with a suite per cell and a case per run.

        An INVALID run is a failure, or skipped if it does not fail the night, as an expected
        failure of pytest is; an UNKNOWN one is an error. Both have the text of `body`. An accepted
        defect that its cell has shown has a case, which fails if it is gone. Cases of runs are
        named by their cell and their place in it, so that they have the same names every night;
        seed, number and directory are properties. A run that known defects explain has the type
        "KNOWN" in place of "INVALID", and its suite a property "known-defect:NAME" for each of
        them, and one "unexplained", with the number of such runs. A cell that its version cannot
        run has one case, which is skipped.
        """
        xml = JUnitXml("harness torture")
        for cell in self.cells:
            suite = TestSuite(cell.name)
            for place, slot in enumerate(cell.slots, 1):
                fails = cell.fails(slot, self.fail_on)
                suite.add_testcase(_case(f"{cell.name} #{place}", slot, body, fails=fails))
            for name in sorted(cell.accepted & cell.seen.hits.keys()):
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


def _case(name: str, slot: Slot, body: Callable[[Slot], str], *, fails: bool) -> TestCase:
    case = TestCase(name, slot.cell, slot.seconds)
    of_run = {"seed": slot.seed, "run": str(slot.number), "directory": slot.path}
    for key, value in of_run.items():
        if value:
            case.add_property(key, value)
    status = slot.verdict
    if status is not Status.VALID:
        kind: type[Failure | Skipped | Error] = Error
        if status is Status.INVALID:
            kind = Failure if fails else Skipped
        is_known = status is Status.INVALID and not slot.is_unexplained
        message = slot.why if slot.cause is None else f"{slot.cause.text}; {slot.why}"
        result = kind(message, KNOWN.upper() if is_known else status.value)
        result.text = body(slot)
        case.result = [result]
    return case


def _accepted_case(cell: CellSummary, name: str) -> TestCase:
    """Return the case of an accepted defect, which fails if it is gone."""
    case = TestCase(f"{cell.name} accepts {name}", cell.name)
    if name in cell.gone:
        record = cell.seen
        runs = record.runs - record.last[name]
        text = f"not seen in the last {runs} runs, and in {record.hits[name]} of those before"
        case.result = [Failure(f"{text}: accept it no longer", "GONE")]
    return case
