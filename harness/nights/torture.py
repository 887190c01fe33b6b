"""Night of runs on reused clusters, which are judged meanwhile. Its journal has everything that is
known.

Faults are in force on one cluster at a time. With several clusters, the next run begins on another
one while the previous one heals and comes to rest. After a kill this takes longer than the faults,
because a replica looks for its ZooKeeper only every ten seconds.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Protocol

from harness.core.clock import Clock, WallClock
from harness.core.dialect import Dialect
from harness.core.errors import HarnessError
from harness.core.op import Json
from harness.core.os_process import memory_peak_mb
from harness.core.protocols import Cluster
from harness.core.seed import Seed
from harness.fleet.rows import RunSummary
from harness.nights.findings import complaints
from harness.nights.foreseen import Foreseen
from harness.nights.night import Night, Slot
from harness.nights.rota import Rota, replayed
from harness.nights.steering import NextRun, Steering
from harness.run.campaign import Campaign, copy_cluster
from harness.run.monitor import Monitor, Phase
from harness.run.stop import Stop
from harness.spec.run_options import option_values
from harness.spec.run_spec import RunSpec
from harness.spec.workload_options import SCENARIO
from harness.store.conditions import conditions_of
from harness.store.store import RunDirectory

EXCLUSIVE_PHASES = (Phase.SET_UP, Phase.FAULTS)
"""Phases of a run during which no other run begins."""
DONE = "done"
"""Last note of a run."""
BROKEN_MAX = 5
"""Number of broken runs in a row after which the machine counts as unfit."""


class Judges(Protocol):
    """Judge of runs while others go on."""

    def submit(self, run: str) -> None:
        """Judge a run, by its path in the store."""
        ...

    def done(self, *, wait: bool = False) -> Sequence[RunSummary]:
        """Return what was judged since the last call; with `wait`, after all is."""
        ...


@dataclass(frozen=True, slots=True)
class TortureCell:
    """Combination of workload, nemesis and settings."""

    name: str
    cluster: str
    """Text that is equal for cells that run on the same cluster."""
    campaign: Campaign
    spec: Callable[..., RunSpec]
    """Function of a seed, and of other values of some options if the cell is no scenario."""
    dialect: Dialect | None = None
    """Dialect of its servers; None if a user's image decides it."""


@dataclass(frozen=True, slots=True)
class _LaneRun:
    """Run that goes on."""

    number: int
    path: str
    """Path in the store."""
    monitor: Monitor
    end: Future["_End"]


@dataclass(frozen=True, slots=True)
class _End:
    """Result of a run that reached its end."""

    troubles: tuple[str, ...]
    seconds: float
    servers: str
    """Kind and versions of its servers."""
    healthy: bool
    """True if another run may use the cluster."""


@dataclass(slots=True)
class Lane:
    """Lane of runs that follow each other on one cluster."""

    cells: Sequence[TortureCell]
    """Cells of the matrix; the clusters that they bring up belong to this lane."""
    cluster: Cluster | None = None
    on: TortureCell | None = None
    """Cell that brought the cluster up."""
    run: _LaneRun | None = None

    def fits(self, cell: TortureCell) -> bool:
        """Return whether a run of the cell may have the cluster that is up."""
        return self.on is not None and self.on.cluster == cell.cluster

    def down(self) -> None:
        """Take the lane's cluster down. Raises ClusterError."""
        cluster, cell = self.cluster, self.on
        self.cluster = self.on = None
        if cluster is not None and cell is not None:
            cell.campaign.end(cluster)


@dataclass(slots=True)
class Torture:
    """Runs of the cells of a matrix in the order of a `Rota`, each cell's with the next seed."""

    store: Path
    night: Night
    lanes: Sequence[Lane]
    seed: Seed
    judges: Judges
    shown: Callable[[Monitor], None]
    """Function that gets the monitor of every run that begins."""
    on_verdict: Callable[[Slot], None]
    """Function that gets every run when its verdict is known, and every run that broke."""
    stop: Stop
    fails: Callable[[Slot], bool] | None = None
    """Predicate of runs after which no run begins; while an ended run has no verdict none begins
    either. None: every run begins."""
    runs: int | None = None
    seconds: float | None = None
    """Seconds on `clock` after which no run begins; earlier parts of the night are subtracted
    already."""
    earlier: Mapping[str, int] = field(default_factory=dict)
    """By element of the model: the number of runs of earlier nights that covered it."""
    foreseen: Foreseen = field(default_factory=dict)
    """What simulated runs of the cells of a steered night covered."""
    clock: Clock = field(default_factory=WallClock)
    _options: list[Mapping[str, Json]] = field(default_factory=list)
    """Options of each cell of which a steered night may draw others; empty until they are asked
    for."""
    _broken: int = 0
    _news: SimpleQueue[None] = field(default_factory=SimpleQueue)
    """Queue that gets an item when a run's faults are over, and when it ends."""

    def run(self) -> None:
        """Make runs until there are enough, the time is over, or a stop is requested; then judge
        every run that left something. Raises HarnessError, with the clusters down."""
        for slot in self.night.unjudged:
            assert slot.path is not None
            self.judges.submit(slot.path)
        with ExitStack() as ends:
            pool = ends.enter_context(ThreadPoolExecutor(len(self.lanes), "lane"))
            for lane in self.lanes:
                ends.callback(lane.down)
                ends.callback(self._ended, lane)
            while not self._over():
                free = self._free()
                if free is None:
                    self._news.get()
                else:
                    self._begin(free, pool)
                for lane in self.lanes:
                    if lane.run is not None and lane.run.end.done():
                        self._ended(lane)
                self._hear(wait=self.fails is not None)
        self._hear(wait=True)

    def _over(self) -> bool:
        """Return whether no more runs begin."""
        left_s = None if self.seconds is None else self.seconds - self.clock.now_ns() / 1e9
        next_cell = self._cells[self._next.cell]
        late = left_s is not None and left_s <= self.night.expected_s(next_cell.name)
        enough = self.runs is not None and self.night.next >= self.runs
        failed = self.fails is not None and any(map(self.fails, self.night.runs))
        return bool(self.stop) or late or enough or failed

    @property
    def _cells(self) -> Sequence[TortureCell]:
        """Cells of the matrix; each lane has its own copy of them."""
        return self.lanes[0].cells

    @property
    def _next(self) -> NextRun:
        """What the next run is, by all that is known now."""
        request = self.night.request
        names = [cell.name for cell in self._cells]
        rota = Rota(names, self.earlier, request.get("first", ""))
        if not request.get("steer"):
            return NextRun(rota.next(self.night.runs))
        if not self._options:
            self._options += [_varied_options(cell.spec(self.seed)) for cell in self._cells]
        return Steering(rota, self.seed, self._options, self.foreseen).next(self.night.runs)

    def _free(self) -> Lane | None:
        """Return the lane on which the next run may begin, preferably one whose cluster fits; None
        if there is none yet."""
        if any(lane.run and lane.run.monitor.phase in EXCLUSIVE_PHASES for lane in self.lanes):
            return None
        free = [lane for lane in self.lanes if lane.run is None]
        cell = self._cells[self._next.cell]
        order = sorted(free, key=lambda lane: (not lane.fits(cell), lane.cluster is not None))
        return order[0] if order else None

    def _begin(self, lane: Lane, pool: ThreadPoolExecutor) -> None:
        number = self.night.next
        choice = self._next
        cell = lane.cells[choice.cell]
        before = sum(slot.cell == cell.name for slot in self.night.runs)
        words = (choice.options,) if choice.options else ()
        spec = cell.spec(self.seed.after(before), *words)
        drawn = {
            "how": choice.how,
            "options": dict(choice.options),
            "parent": choice.parent,
            "element": choice.element,
        }
        self.night.say(
            "begin", number, cell=cell.name, seed=str(spec.seed), **(drawn if choice.how else {})
        )
        clock = WallClock()
        monitor = self._monitor(number, cell, spec)
        try:
            cluster = self._cluster_of(lane, cell, spec, monitor)
            directory = cell.campaign.begun(spec, cluster)
            path = directory.path.resolve().relative_to(self.store.resolve()).as_posix()
            self.night.say("directory", number, path=path)
            assert lane.on is not None, "it brought the cluster up"
            files = lane.on.campaign.clusters.files
            if files is not None:
                copy_cluster(files, directory.path)
        except (HarnessError, OSError) as error:
            monitor.enter(Phase.CLEAN_UP, DONE)
            self._broke(lane, number, error)
            return
        record = partial(_recorded, cell.campaign, spec, cluster, directory, monitor, clock)
        # Simulated servers stay on the thread that made them.
        end = _here(record) if cell.campaign.clusters.per_run else pool.submit(record)
        lane.run = _LaneRun(number, path, monitor, end)
        end.add_done_callback(lambda _: self._news.put(None))

    def _monitor(self, number: int, cell: TortureCell, spec: RunSpec) -> Monitor:
        monitor = Monitor(f"run {number}: {cell.name}, seed {spec.seed}", spec.time_limit_s)
        if not cell.campaign.workload(spec).live_anomalies:
            monitor.anomalies = None
        monitor.listeners.append(lambda *_: self._news.put(None))
        self.shown(monitor)
        return monitor

    def _cluster_of(
        self, lane: Lane, cell: TortureCell, spec: RunSpec, monitor: Monitor
    ) -> Cluster:
        """Return the cluster that is up, or a new one if another is needed."""
        if lane.cluster is not None and lane.fits(cell):
            return lane.cluster
        lane.down()
        with self.stop.interrupting():
            # The lane has it before it is up, so that no signal can lose it.
            lane.on = cell
            lane.cluster = cell.campaign.made(spec, monitor)
            cell.campaign.up(lane.cluster)
        return lane.cluster

    def _ended(self, lane: Lane) -> None:
        """Wait for the end of the lane's run, if there is one, and record it."""
        run, lane.run = lane.run, None
        if run is None:
            return
        assert lane.on is not None, "its cluster is up as long as it goes on"
        try:
            end = run.end.result()
        except (HarnessError, OSError) as error:
            self._broke(lane, run.number, error)
            return
        self.night.say(
            "recorded",
            run.number,
            troubles=list(end.troubles),
            seconds=end.seconds,
            phases={phase: round(s, 3) for phase, s in run.monitor.seconds.items()},
            servers=end.servers,
            memory_mb=memory_peak_mb(),
        )
        self.judges.submit(run.path)
        self._broken = 0
        if not end.healthy or lane.on.campaign.clusters.per_run:
            lane.down()

    def _broke(self, lane: Lane, number: int, error: Exception) -> None:
        self.night.say("broken", number, error=f"{type(error).__name__}: {error}")
        slot = self.night.slots[number]
        lane.down()
        if slot.path is None:
            self.on_verdict(slot)
        else:
            self.judges.submit(slot.path)
        self._broken += 1
        if self._broken >= BROKEN_MAX:
            raise HarnessError(f"{BROKEN_MAX} runs in a row broke, the last: {error}")

    def _hear(self, *, wait: bool = False) -> None:
        by_path = {slot.path: slot for slot in self.night.runs}
        for one in self.judges.done(wait=wait):
            slot = by_path[one.run]
            results = self._results(one)
            self.night.say(
                "judged",
                slot.number,
                status=one.status.value,
                reason=one.reason,
                kinds=list(one.kinds),
                first_ns=one.first_ns,
                cause=results.get("explanation"),
                health=complaints(results),
                **replayed(results),
            )
            self.on_verdict(self.night.slots[slot.number])

    def _results(self, one: RunSummary) -> Mapping[str, Json]:
        """Return what the judge of a run has stored."""
        try:
            return RunDirectory(self.store / one.run).results()
        except HarnessError:  # the verdict counts all the same
            return {}


def _varied_options(spec: RunSpec) -> Mapping[str, Json]:
    """Return the options of which a steered night may draw others; a scenario has none."""
    return {} if spec.workload.startswith(SCENARIO) else option_values(spec)


def _here(work: Callable[[], _End]) -> Future[_End]:
    """Execute the work on this thread and return its future."""
    future: Future[_End] = Future()
    try:
        future.set_result(work())
    except Exception as error:
        future.set_exception(error)
    return future


def _recorded(
    campaign: Campaign,
    spec: RunSpec,
    cluster: Cluster,
    directory: RunDirectory,
    monitor: Monitor,
    clock: Clock,
) -> _End:
    """Record a run in a lane's thread. `clock` starts with the run."""
    before = cluster.topology
    try:
        troubles = campaign.recorded(spec, cluster, directory, monitor)
        # A cluster whose servers were upgraded does not fit the next run.
        healthy = not troubles and cluster.topology == before and not cluster.unready()
    finally:
        monitor.enter(Phase.CLEAN_UP, DONE)
    servers = conditions_of(directory.info().stored()).on
    return _End(troubles, round(clock.now_ns() / 1e9, 3), servers, healthy)
