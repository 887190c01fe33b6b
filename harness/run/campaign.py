"""Campaigns: several runs on one cluster, which comes up once and always goes down at the end."""

import shutil
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from harness.core.errors import ClusterError, HarnessError
from harness.core.history import History
from harness.core.protocols import Cluster, Generator, Nemesis, Workload
from harness.core.topology import Topology
from harness.core.verdict import Status
from harness.run.monitor import Monitor, Phase, Show
from harness.run.phases import RunResult, execute, record
from harness.run.run_context import RunContext
from harness.run.stop import Stop
from harness.spec.fault_options import fault_options
from harness.spec.run_spec import RunSpec
from harness.store.disk import is_unwritable, why_unwritable
from harness.store.store import RunDirectory, Store
from nemesis.catalogue import parse_nemesis
from nemesis.composed import check_capabilities, install_proxies
from nemesis.options import FaultCommands


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """Run that has ended."""

    spec: RunSpec
    directory: RunDirectory
    outcome: RunResult


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSource:
    """Source of the clusters of a campaign."""

    make: Callable[[RunSpec, Callable[[str], None]], Cluster]
    """Return a cluster for this run, and perhaps others, that has yet to be brought up; report
    progress meanwhile."""
    files: Path | None = None
    """Directory of the cluster's compose file and configuration, if it has one."""
    leave: bool = False
    """True if the cluster keeps running afterwards."""
    per_run: bool = False
    """True if each run has a cluster of its own, which its seed decides. It stays on the thread
    that created it."""

    @property
    def kept(self) -> Path | None:
        """Return the directory of a cluster that keeps running; None if it does not."""
        return self.files if self.leave else None


@dataclass(frozen=True, slots=True)
class Campaign:
    """Settings that all runs of a campaign share, and its callbacks."""

    store: Store
    clusters: ClusterSource
    workload: Callable[[RunSpec], Workload]
    commands: Mapping[str, FaultCommands]
    """Faults that commands of the user make, by name."""
    shown: Show
    """Show a run while it goes on."""
    draw: Callable[[RunDirectory, History | None], str | None]
    """Draw the page of a run, finished or not, with its history if that was read already; return
    the reason if it could not be drawn."""
    stop: Stop
    reported: Container[Status | None] = frozenset((*Status, None))
    """Statuses of the runs that get a page and a history.parquet, None for a run that crashed.
    Those of others are made on demand."""
    freeze: bool = False
    """True if a run ends with paused servers at a departure from the model of the protocol."""
    script: Callable[[RunSpec], Generator | None] = lambda _: None
    """Return calls and faults in one sequence, in place of the workload's and the nemesis' own."""
    timed_faults: Callable[[RunSpec], Generator | None] = lambda _: None
    """Return faults in place of the nemesis' own."""

    def run(self, specs: Sequence[RunSpec], finished: Callable[[FinishedRun], None]) -> None:
        """Execute the runs one after the other, until all are done or a stop is requested, and
        report each. Raise HarnessError, with the cluster down."""
        with self.trials() as trial:
            for at, spec in enumerate(specs, 1):
                # Report first, so that a failed teardown cannot lose the verdict.
                finished(trial(spec, last=at == len(specs)))
                if self.stop:
                    break

    def run_once(self, spec: RunSpec) -> FinishedRun:
        """Execute a run alone. Raise HarnessError, with the cluster down."""
        with self.trials() as trial:
            return trial(spec, last=True)

    @contextmanager
    def trials(self) -> Iterator["Trials"]:
        """Yield what executes one run after another, on clusters that are down afterwards. Raise
        HarnessError, with the cluster down."""
        trials = Trials(self)
        try:
            yield trials
        finally:
            trials.end()

    def made(self, spec: RunSpec, monitor: Monitor) -> Cluster:
        """Return a cluster that the caller brings up."""
        return self.clusters.make(spec, partial(monitor.enter, Phase.SET_UP))

    def up(self, cluster: Cluster) -> None:
        """Bring a cluster up. Raise ClusterError, also if its files cannot be written."""
        try:
            cluster.up()
        except OSError as error:
            if self.clusters.files is None or not is_unwritable(error):
                raise
            why = why_unwritable(self.clusters.files, error)
            raise ClusterError(f"{self.clusters.files}: cannot be written: {why}") from error

    def end(self, cluster: Cluster) -> None:
        """Take a cluster down, unless it is to be left. Raise ClusterError."""
        if self.clusters.leave:
            cluster.close()
        else:
            cluster.down()

    def begun(self, spec: RunSpec, cluster: Cluster) -> RunDirectory:
        """Create a directory for a run on this cluster."""
        durable = not cluster.runtime.reproducible
        directory = self.store.create(spec.workload, spec.nemesis, spec.seed, durable=durable)
        directory.begin(spec, cluster.engines, cluster.topology, cluster.versions())
        return directory

    def _nemesis(self, spec: RunSpec, cluster: Cluster) -> Nemesis:
        """Return what injects a run's faults. Raise UsageError if the cluster cannot do them."""
        options = fault_options(spec, self.commands)
        nemesis = parse_nemesis(spec.nemesis, cluster.topology, spec.seed, options)
        check_capabilities(nemesis, cluster)
        install_proxies(nemesis, cluster)
        return nemesis

    def recorded(
        self, spec: RunSpec, cluster: Cluster, directory: RunDirectory, monitor: Monitor
    ) -> tuple[str, ...]:
        """Execute a run without judging it, on a cluster that is used again. Return its troubles.
        Raise HarnessError if it does not reach its end. The servers' logs are collected either
        way."""
        with directory.held():
            try:
                with _crashing(directory):
                    nemesis = self._nemesis(spec, cluster)
                    context = self._context(spec, cluster, nemesis, directory, monitor, drop=True)
                    troubles = record(context).troubles
            except BaseException:
                _collected(cluster, directory)
                raise
            monitor.enter(Phase.CLEAN_UP, "collecting logs")
            uncollected = _collected(cluster, directory)
            troubles = (*troubles, *([uncollected] if uncollected else []))
            directory.recorded(troubles)
        return troubles

    def _context(
        self,
        spec: RunSpec,
        cluster: Cluster,
        nemesis: Nemesis,
        directory: RunDirectory,
        monitor: Monitor,
        *,
        drop: bool,
    ) -> RunContext:
        monitor.enter(Phase.SET_UP, "creating tables")
        return RunContext.of(
            spec,
            cluster,
            directory=directory,
            workload=self.workload(spec),
            nemesis=nemesis,
            monitor=monitor,
            stop=self.stop,
            drop=drop,
            script=self.script(spec),
            freeze=self.freeze,
            timed_faults=self.timed_faults(spec),
        )

    def execute(
        self, spec: RunSpec, cluster: Cluster, monitor: Monitor, *, drop: bool
    ) -> FinishedRun:
        """Execute and judge a run on a cluster that is up. Raise HarnessError."""
        nemesis = self._nemesis(spec, cluster)  # refused before anything is made
        directory = self.begun(spec, cluster)
        with directory.held():
            context = partial(self._context, spec, cluster, nemesis, directory, monitor, drop=drop)
            outcome = self._executed(cluster, directory, context)
            reported = outcome.judgement.status in self.reported
            history = outcome.history if reported else None
            unstored = directory.finish(outcome.judgement, outcome.troubles, history)
            monitor.enter(Phase.CLEAN_UP)
            more = [*unstored, _collected(cluster, directory)]
            if reported:
                monitor.enter(Phase.CLEAN_UP, "drawing the report")
                more.append(self.draw(directory, history))
        troubles = (*outcome.troubles, *[text for text in more if text])
        return FinishedRun(spec, directory, replace(outcome, troubles=troubles))

    def _executed(
        self, cluster: Cluster, directory: RunDirectory, context: Callable[[], RunContext]
    ) -> RunResult:
        try:
            with _crashing(directory):
                if self.clusters.files is not None:
                    copy_cluster(self.clusters.files, directory.path)
                return execute(context())
        except BaseException:
            _collected(cluster, directory)
            if None in self.reported:
                self.draw(directory, None)
            raise


@dataclass(slots=True)
class Trials:
    """Runs of a campaign, one after another on one cluster as long as it can be used."""

    campaign: Campaign
    _cluster: Cluster | None = None
    _topology: Topology | None = None
    """Topology of the cluster before its last run."""
    _restless: bool = False
    """True if something kept the cluster from its rest that may keep the next run from it."""

    def __call__(self, spec: RunSpec, *, last: bool = False) -> FinishedRun:
        """Execute a run; `last` says that there is none after it. Raise HarnessError."""
        campaign = self.campaign
        if self._is_spent:
            self.end()
        title = f"{spec.workload} + {spec.nemesis}, seed {spec.seed}"
        monitor = Monitor(title, spec.time_limit_s, stop=campaign.stop)
        if not campaign.workload(spec).live_anomalies:
            monitor.anomalies = None
        drop = campaign.clusters.leave or not (last or campaign.clusters.per_run)
        with campaign.shown(monitor):
            cluster = self._up(spec, monitor)
            self._topology = cluster.topology
            run = campaign.execute(spec, cluster, monitor, drop=drop)
        # What a script leaves unfinished is its own table, which is dropped.
        self._restless = bool(run.outcome.troubles) and campaign.script(spec) is None
        return run

    @property
    def _is_spent(self) -> bool:
        """Return whether the next run needs another cluster.

        It does if a server of this one did not survive or was upgraded, or if what kept it from
        quiescence may keep the next run from it too, as a host that left the DDL queue stays out of
        it. It is asked when the last run was reported, so that no server can cost its verdict.
        """
        cluster, clusters = self._cluster, self.campaign.clusters
        if cluster is None or clusters.leave:
            return False
        changed = cluster.topology != self._topology
        return clusters.per_run or self._restless or changed or bool(cluster.unready())

    def _up(self, spec: RunSpec, monitor: Monitor) -> Cluster:
        if self._cluster is None:
            with self.campaign.stop.interrupting():
                self.campaign.stop.check()
                # Known here before it is up, so that no signal can lose it.
                self._cluster = self.campaign.made(spec, monitor)
                try:
                    self.campaign.up(self._cluster)
                except ClusterError:
                    # It has removed what it created, or the error says what is left.
                    self._cluster.close()
                    self._cluster = None
                    raise
        return self._cluster

    def end(self) -> None:
        """End the cluster, if there is one. Raise ClusterError."""
        ended, self._cluster = self._cluster, None
        if ended is not None:
            self.campaign.end(ended)


@contextmanager
def _crashing(directory: RunDirectory) -> Iterator[None]:
    """Record the exception that ends the run early in the run's directory."""
    try:
        yield
    except BaseException as error:
        try:
            directory.crash(f"{type(error).__name__}: {error}")
        except HarnessError as unwritten:
            if isinstance(error, HarnessError):
                raise HarnessError(f"{error}; {unwritten}") from error
        raise


def _collected(cluster: Cluster, directory: RunDirectory) -> str | None:
    """Collect the servers' logs. Return the reason if some are missing."""
    try:
        cluster.collect(directory.logs)
    except ClusterError as error:
        return f"not all logs: {error}"
    except OSError as error:
        why = why_unwritable(directory.logs, error)
        return f"not all logs: {directory.logs} cannot be written: {why}"
    return None


def copy_cluster(files: Path, directory: Path) -> None:
    """Copy the compose file and what it mounts, so that the cluster can be recreated by hand."""
    shutil.copyfile(files / "compose.yml", directory / "compose.yml")
    shutil.copytree(files / "config", directory / "config")
