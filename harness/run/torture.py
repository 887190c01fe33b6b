"""A night of runs on reused clusters, judged meanwhile. What is known is in its journal."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from checkers.fleet_rows import RunSummary
from harness.core.clock import Clock, WallClock
from harness.core.errors import HarnessError
from harness.core.protocols import Cluster
from harness.core.seed import Seed
from harness.core.verdict import Status
from harness.run.campaign import Campaign, copy_cluster
from harness.run.monitor import Monitor
from harness.run.night import Night, Slot
from harness.run.night_summary import verdict
from harness.run.plan import Plan
from harness.run.stop import Stop
from harness.run.store import RunDirectory

BROKEN_MAX = 5
"""So many runs in a row that could not be brought to their end: the machine is not fit."""


class Judges(Protocol):
    """Judge runs while others go on."""

    def submit(self, run: str) -> None:
        """A run, by its path in the store."""
        ...

    def done(self, *, wait: bool = False) -> Sequence[RunSummary]:
        """What was judged since the last call; with `wait`, after all is."""
        ...


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination of workload, nemesis and settings."""

    name: str
    cluster: str
    """Cells with the same text run on the same cluster."""
    campaign: Campaign
    plan: Callable[[Seed], Plan]


@dataclass(slots=True)
class Torture:
    """Runs the cells of a matrix in turn, each round with the next seed."""

    store: Path
    night: Night
    cells: Sequence[Cell]
    seed: Seed
    judges: Judges
    shown: Callable[[Monitor], AbstractContextManager[None]]
    told: Callable[[Slot], None]
    """Hears of every run when its verdict is known, and of those that broke."""
    stop: Stop
    fail_fast: bool = False
    runs: int | None = None
    seconds: float | None = None
    """Since `clock` began; what earlier parts of the night took is off it already."""
    clock: Clock = field(default_factory=WallClock)
    _cluster: Cluster | None = None
    _on: Cell | None = None
    _broken: int = 0

    def run(self) -> None:
        """Until the runs are made, the time is over, or the wish to stop comes. Every run that
        left something is judged then. Raises HarnessError, with the cluster down."""
        try:
            for slot in self.night.unjudged:
                assert slot.path is not None
                self.judges.submit(slot.path)
            while not self._over():
                self._next()
                self._hear()
        finally:
            self._down()
        self._hear(wait=True)

    def _over(self) -> bool:
        late = self.seconds is not None and self.clock.now_ns() / 1e9 >= self.seconds
        enough = self.runs is not None and self.night.next >= self.runs
        worst = any(verdict(slot) is Status.INVALID for slot in self.night.slots.values())
        return bool(self.stop) or late or enough or (self.fail_fast and worst)

    def _next(self) -> None:
        number = self.night.next
        cell = self.cells[number % len(self.cells)]
        plan = cell.plan(Seed((self.seed.value + number // len(self.cells)) % (1 << 64)))
        self.night.say("begin", number, cell=cell.name, seed=str(plan.seed))
        monitor = Monitor(f"run {number}: {cell.name}, seed {plan.seed}", plan.time_limit_s)
        if not cell.campaign.workload(plan).live_anomalies:
            monitor.anomalies = None
        clock = WallClock()
        try:
            with self.shown(monitor):
                cluster = self._cluster_of(cell, plan, monitor)
                directory = cell.campaign.begun(plan, cluster)
                self._copy_files(directory)
                path = directory.path.resolve().relative_to(self.store.resolve()).as_posix()
                self.night.say("directory", number, path=path)
                troubles = cell.campaign.recorded(plan, cluster, directory, monitor)
        except (HarnessError, OSError) as error:
            self._broke(number, error)
            return
        took = round(clock.now_ns() / 1e9, 3)
        self.night.say("recorded", number, troubles=list(troubles), seconds=took)
        self.judges.submit(path)
        self._broken = 0
        if troubles or cell.campaign.own_cluster is not None or cluster.unready():
            self._down()

    def _copy_files(self, directory: RunDirectory) -> None:
        assert self._on is not None
        if self._on.campaign.files is not None:
            copy_cluster(self._on.campaign.files, directory.path)

    def _broke(self, number: int, error: Exception) -> None:
        self.night.say("broken", number, error=f"{type(error).__name__}: {error}")
        slot = self.night.slots[number]
        self._down()
        if slot.path is None:
            self.told(slot)
        else:
            self.judges.submit(slot.path)
        self._broken += 1
        if self._broken >= BROKEN_MAX:
            raise HarnessError(f"{BROKEN_MAX} runs in a row broke, the last: {error}")

    def _cluster_of(self, cell: Cell, plan: Plan, monitor: Monitor) -> Cluster:
        """The cluster that is up, or a fresh one when another is needed."""
        if self._cluster is not None and self._on is not None and self._on.cluster == cell.cluster:
            return self._cluster
        self._down()
        with self.stop.interrupting():
            self._cluster, self._on = cell.campaign.brought_up(plan, monitor), cell
        return self._cluster

    def _down(self) -> None:
        cluster, cell = self._cluster, self._on
        self._cluster = self._on = None
        if cluster is not None and cell is not None:
            cell.campaign.end(cluster)

    def _hear(self, *, wait: bool = False) -> None:
        by_path = {slot.path: slot for slot in self.night.slots.values()}
        for one in self.judges.done(wait=wait):
            slot = by_path[one.run]
            self.night.say(
                "judged",
                slot.number,
                status=one.status.value,
                reason=one.reason,
                kinds=list(one.kinds),
                first_ns=one.first_ns,
            )
            self.told(self.night.slots[slot.number])
