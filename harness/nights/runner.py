"""Nights of a matrix from their request to their summary: begun or resumed, run, judged, stored."""

import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from io import StringIO
from pathlib import Path
from typing import Final, Protocol

from rich.console import Console

from harness.clusters.removal import clean
from harness.conform.steps import STEPS, steps_with
from harness.core.clock import utc_now
from harness.core.errors import HarnessError, UsageError
from harness.core.printable import printable
from harness.core.seed import Seed
from harness.core.verdict import Status
from harness.fleet.engine import ChosenEngine, EngineName, choose_engine
from harness.fleet.found_runs import found_again
from harness.fleet.judges import judging, merge_kept
from harness.fleet.stored_runs import StoredRuns, restamp
from harness.nights.alarms import alarms_of
from harness.nights.findings import CellRecord, FailOn, nights_before
from harness.nights.foreseen import Foreseen, foresee, foreseen_in
from harness.nights.matrix import TortureMatrix
from harness.nights.night import JOURNAL, NIGHTS, Night, Slot
from harness.nights.night_summary import (
    CellSummary,
    NightSummary,
    ReachCounts,
    cells,
    unexplained_first,
)
from harness.nights.night_text import markdown
from harness.nights.notification import notify
from harness.nights.torture import Lane, Torture
from harness.report.run_files import draw, facts_in
from harness.report.text import text_report
from harness.run.monitor import Monitor, Show
from harness.run.stop import Stop
from harness.spec.workload_options import workload_of
from harness.store.disk import why_unwritable
from harness.store.store import RunDirectory

BODIES_MAX: Final = 50
"""Number of runs whose witness is in junit.xml; those come first that no known defect explains."""
BODY_COLUMNS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class NightOptions:
    """Options of a night; a field has the name that click gives it."""

    store: Path
    hours: float | None
    runs: int | None
    fail_fast: bool
    fail_on: FailOn
    clusters: int
    engine: EngineName
    """What judges."""
    spark: str | None
    """Master of the Spark that judges; None for that of its configuration."""
    steer: bool
    """Whether what runs reach decides which come next."""
    notify: str | None
    """Shell command or URL that is given the summary; None without one."""
    markdown: Path | None
    """File that the summary is appended to as Markdown; None without one."""

    def __post_init__(self) -> None:
        if self.hours is None and self.runs is None:
            raise UsageError("neither --hours nor --runs; expected at least one of them")
        choose_engine(self.engine, self.spark, 0)  # refuses what contradicts itself

    def engine_of(self, night: Night) -> ChosenEngine:
        """Return what judges the runs of a night: those that a killed one has left unjudged, and
        those to come, as far as their number is known. Raises UsageError."""
        to_come = 0 if self.runs is None else max(0, self.runs - night.next)
        return choose_engine(self.engine, self.spark, len(night.unjudged) + to_come)

    def seconds_left(self, night: Night) -> float | None:
        """Return what is left of the time budget, counted from the beginning of the night; None
        without a budget."""
        if self.hours is None:
            return None
        began = datetime.fromisoformat(night.request["started_utc"])
        return self.hours * 3_600 - (utc_now() - began).total_seconds()


class NightOutput(Protocol):
    """What shows a night as it goes on."""

    def showing(
        self, night: Night, seconds_left: float | None
    ) -> AbstractContextManager[Callable[[Monitor], None]]:
        """Show a night while the block runs; the function that it yields gets the monitor of each
        run that begins."""
        ...

    def show_run(self, slot: Slot) -> None:
        """Show a run whose verdict is known, or that broke."""
        ...

    def show_engine(self, text: str) -> None:
        """Say what judges, and why."""
        ...

    def warn_unnotified(self, why: str) -> None:
        """Say that the notification failed."""
        ...


class NightRunner:
    """Runs the nights of a matrix in a store. A night that was killed can be resumed."""

    def __init__(
        self, matrix: TortureMatrix, options: NightOptions, show: Show, stop: Stop
    ) -> None:
        """Prepare the cells of the matrix. Raises UsageError for what cannot be run."""
        self.options = options
        self._matrix = matrix
        self._stop = stop
        store = str(options.store)
        settled = [matrix.settled(store, show, stop) for _ in range(options.clusters)]
        lanes = [Lane(ready) for ready, _ in settled]
        self._cells, self._missing = settled[0]
        self._simulated = any(cell.campaign.clusters.per_run for cell in self._cells)
        # Simulated servers stay on the thread that made them, which has one run at a time.
        self._lanes = lanes[:1] if self._simulated else lanes
        self._nights = options.store / NIGHTS / matrix.name

    def resume(self) -> Night | None:
        """Return the last night of the matrix, without the clusters that its process has left; None
        if it is over, or was of another matrix of this name."""
        night = self._last()
        if night is None or night.over or night.request["matrix"] != self._matrix.digest:
            return None
        if not self._simulated:
            clean(store=self.options.store)
        return night

    def begin(self) -> Night:
        """Return a new night."""
        now = utc_now()
        seed = Seed.fresh().value if self._matrix.seed is None else self._matrix.seed
        request = {
            "matrix": self._matrix.digest,
            "runs": self.options.runs,
            "hours": self.options.hours,
            "seed": str(seed),
            "first": self._first_cell(),
            "fail_on": self.options.fail_on.value,
            "steer": self.options.steer,
            "started_utc": now.isoformat(timespec="seconds"),
            "accept": {c.name: sorted(c.accepted) for c in self._matrix.cells if c.accepted},
        }
        return Night.begun(self._nights / f"{now:%Y%m%dT%H%M%S%fZ}", request)

    def _last(self) -> Night | None:
        journal = max(self._nights.glob(f"*/{JOURNAL}"), default=None)
        return None if journal is None else Night.read(journal.parent)

    def _first_cell(self) -> str:
        """Return the cell after the one with which the last night ended; the first one without."""
        names = [cell.name for cell in self._cells]
        night = self._last()
        ended = night.runs[-1].cell if night is not None and night.slots else ""
        return names[(names.index(ended) + 1) % len(names)] if ended in names else names[0]

    def run(self, night: Night, output: NightOutput) -> NightSummary:
        """Run a night to its end, or until stopped, and store and return its summary. If its time
        is over already, only judge what is left."""
        earlier = nights_before(night.path)
        records = earlier.records
        before = self._summary_of(night, records)
        seconds_left = self.options.seconds_left(night)
        runs = StoredRuns(workload_of, saved=finish_files)
        with ExitStack() as stack:
            stack.enter_context(self._stop.obeying_signals())
            foreseen = self._foreseen(night)
            engine = self.options.engine_of(night)
            output.show_engine(engine.text)
            judges = stack.enter_context(judging(self.options.store, runs, engine))
            shown = stack.enter_context(output.showing(night, seconds_left))
            Torture(
                store=self.options.store,
                night=night,
                lanes=self._lanes,
                seed=Seed(int(night.request["seed"])),
                judges=judges,
                shown=shown,
                on_verdict=output.show_run,
                stop=self._stop,
                fails=before.fails if self.options.fail_fast else None,
                runs=self.options.runs,
                seconds=seconds_left,
                earlier=before.earlier_reach.elements,
                foreseen=foreseen,
            ).run()
        summary = replace(
            before,
            cells=self._summaries_of_cells(night, records),
            alarms=alarms_of(night, earlier.recent),
        )
        _write(summary, self.options.store)
        if self.options.markdown is not None:
            _append(self.options.markdown, markdown(summary.results()))
        merge_kept(self.options.store)
        paths = [slot.path for slot in night.runs if slot.path is not None]
        restamp(found_again(self.options.store, paths), runs)
        if not self._stop:
            night.say("end")
            told = self.options.notify
            if told is not None and (why := notify(told, summary.results())):
                output.warn_unnotified(why)
        return summary

    def _foreseen(self, night: Night) -> Foreseen:
        """Return what simulated runs of a steered night on real servers cover."""
        if not night.request.get("steer") or self._simulated:
            return {}
        known = foreseen_in(night.path)
        if known is not None:
            return known
        seed = Seed(int(night.request["seed"]))
        cells = [(cell.name, cell.spec(seed), cell.dialect) for cell in self._cells]
        return foresee(cells, seed, night.path, self._stop)

    def _summary_of(self, night: Night, records: Mapping[str, CellRecord]) -> NightSummary:
        dialects = [cell.dialect for cell in self._cells]
        entries = [dialect.log_entries for dialect in dialects if dialect is not None]
        return NightSummary(
            night=night,
            cells=self._summaries_of_cells(night, records),
            fail_on=self.options.fail_on,
            earlier_reach=ReachCounts.before(night.path),
            steps=STEPS if None in dialects else steps_with(frozenset().union(*entries)),
        )

    def _summaries_of_cells(
        self, night: Night, records: Mapping[str, CellRecord]
    ) -> list[CellSummary]:
        names = [cell.name for cell in self._matrix.cells]
        return cells(night, names, records, self._missing)


def finish_files(directory: RunDirectory, status: Status) -> None:
    """Draw the report of a run that is not VALID; delete the server logs of a VALID one."""
    if status is Status.VALID:
        shutil.rmtree(directory.logs, ignore_errors=True)
    else:
        draw(directory)


def _write(summary: NightSummary, store: Path) -> None:
    """Write summary.json and junit.xml, which has the witnesses of the runs that are not VALID.
    Raises HarnessError."""
    slots = [slot for slot in summary.night.runs if slot.verdict is not Status.VALID]
    shown = {slot.number for slot in unexplained_first(slots)[:BODIES_MAX]}

    def body(slot: Slot) -> str:
        return _witness(store / slot.path) if slot.path and slot.number in shown else ""

    path = summary.night.path
    try:
        report = summary.results()
        (path / "summary.json").write_text(json.dumps(report, indent=2) + "\n")
        summary.junit(body).write(str(path / "junit.xml"), pretty=True)
    except OSError as error:
        why = why_unwritable(path, error)
        raise HarnessError(f"{path}: the summary cannot be written: {why}") from error


def _append(file: Path, text: str) -> None:
    """Append a text to a file. Raises HarnessError."""
    try:
        with file.open("a") as stream:
            stream.write(text)
    except OSError as error:
        raise HarnessError(f"{file}: cannot be written: {why_unwritable(file, error)}") from error


def _witness(run: Path) -> str:
    """Return the witness of a run and the command that repeats it, as `harness report` prints
    them."""
    text = StringIO()
    try:
        report = text_report(facts_in(RunDirectory(run)))
        Console(file=text, width=BODY_COLUMNS).print(report, crop=False)
    except HarnessError as error:
        return f"{run}: {error}"
    return printable(text.getvalue())
