"""Campaigns: several runs on one cluster, which comes up once and always goes down at the end."""

import shutil
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from harness.core.errors import ClusterError, HarnessError
from harness.core.history import History
from harness.core.protocols import Cluster, Generator, Nemesis, Workload
from harness.core.topology import Topology
from harness.core.verdict import Status
from harness.run.disk import is_unwritable, why_unwritable
from harness.run.monitor import Monitor, Phase
from harness.run.phases import RunContext, RunResult, execute, fresh_token, record
from harness.run.plan import Plan
from harness.run.stop import Stop
from harness.run.store import RunDirectory, Store
from nemesis.catalogue import parse_nemesis
from nemesis.composed import check_capabilities, install_proxies
from nemesis.options import FaultOptions


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """Run that has ended."""

    plan: Plan
    directory: RunDirectory
    outcome: RunResult


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSource:
    """Source of the clusters of a campaign."""

    make: Callable[[Plan, Callable[[str], None]], Cluster]
    """Return a cluster for this run, and perhaps others, that has yet to be brought up; report
    progress meanwhile."""
    files: Path | None = None
    """Directory of the cluster's compose file and configuration, if it has one."""
    leave: bool = False
    """True if the cluster keeps running afterwards."""
    per_run: bool = False
    """True if each run has a cluster of its own, which its seed decides. It stays on the thread
    that created it."""


@dataclass(frozen=True, slots=True)
class Campaign:
    """Settings that all runs of a campaign share, and its callbacks."""

    store: Store
    clusters: ClusterSource
    workload: Callable[[Plan], Workload]
    faults: FaultOptions
    """Options of the faults of the plans' nemeses."""
    shown: Callable[[Monitor], AbstractContextManager[None]]
    """Show a run while it goes on."""
    finished: Callable[[FinishedRun], None]
    draw: Callable[[RunDirectory, History | None], str | None]
    """Draw the page of a run, finished or not, with its history if that was read already; return
    the reason if it could not be drawn."""
    stop: Stop
    reported: Container[Status | None] = frozenset((*Status, None))
    """Statuses of the runs that get a page and a history.parquet, None for a run that crashed.
    Those of others are made on demand."""
    freeze: bool = False
    """True if a run ends with paused servers at a departure from the model of the protocol."""
    script: Callable[[Plan], Generator | None] = lambda _: None
    """Return calls and faults in one sequence, in place of the workload's and the nemesis' own."""
    timed_faults: Callable[[Plan], Generator | None] = lambda _: None
    """Return faults in place of the nemesis' own."""

    def run(self, plans: Iterable[Plan]) -> None:
        """Execute the plans one after the other, until all are done or a stop is requested. An
        iterable that is no sequence yields the next plan after a run is over, and may look at its
        result. Raise HarnessError, with the cluster down."""
        final = plans[-1] if isinstance(plans, Sequence) and plans else None
        cluster: Cluster | None = None
        try:
            for plan in plans:
                title = f"{plan.workload} + {plan.nemesis}, seed {plan.seed}"
                monitor = Monitor(title, plan.time_limit_s, stop=self.stop)
                if not self.workload(plan).live_anomalies:
                    monitor.anomalies = None
                with self.shown(monitor):
                    if cluster is None:
                        with self.stop.interrupting():
                            self.stop.check()
                            # Known here before it is up, so that no signal can lose it.
                            cluster = self.made(plan, monitor)
                            self.up(cluster)
                    last = plan is final or self.clusters.per_run
                    before = cluster.topology
                    run = self._one(plan, cluster, monitor, drop=self.clusters.leave or not last)
                # Report first, so that a failed teardown cannot lose the verdict.
                self.finished(run)
                over = self.clusters.per_run or self._spent(cluster, before, run, last=last)
                del run  # the next one has its memory
                if over:
                    ended, cluster = cluster, None
                    self.end(ended)
                    del ended
                if self.stop:
                    break
        finally:
            if cluster is not None:
                self.end(cluster)

    def _spent(self, cluster: Cluster, before: Topology, run: FinishedRun, *, last: bool) -> bool:
        """Return whether the next run needs another cluster.

        It does if a server of this one did not survive or was upgraded, or if what kept it from
        quiescence may keep the next run from it too (a host that left the DDL queue stays out of
        it). What a script leaves unfinished is its own table, which is dropped.
        """
        if self.clusters.leave or last:
            return False
        restless = bool(run.outcome.troubles) and self.script(run.plan) is None
        return restless or cluster.topology != before or bool(cluster.unready())

    def made(self, plan: Plan, monitor: Monitor) -> Cluster:
        """Return a cluster that the caller brings up."""
        return self.clusters.make(plan, partial(monitor.enter, Phase.SET_UP))

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

    def begun(self, plan: Plan, cluster: Cluster) -> RunDirectory:
        """Create a directory for a run on this cluster."""
        durable = not cluster.runtime.reproducible
        directory = self.store.create(plan.workload, plan.nemesis, plan.seed, durable=durable)
        met = replace(plan, engines=cluster.engines)
        directory.begin(met, cluster.topology, cluster.versions())
        return directory

    def _nemesis(self, plan: Plan, cluster: Cluster) -> Nemesis:
        """Return what injects the plan's faults. Raise UsageError if the cluster cannot do them."""
        nemesis = parse_nemesis(plan.nemesis, cluster.topology, plan.seed, self.faults)
        check_capabilities(nemesis, cluster)
        install_proxies(nemesis, cluster)
        return nemesis

    def recorded(
        self, plan: Plan, cluster: Cluster, directory: RunDirectory, monitor: Monitor
    ) -> tuple[str, ...]:
        """Execute a run without judging it, on a cluster that is used again. Return its troubles.
        Raise HarnessError if it does not reach its end. The servers' logs are collected either
        way."""
        with directory.held():
            try:
                with _crashing(directory):
                    nemesis = self._nemesis(plan, cluster)
                    context = self._context(plan, cluster, nemesis, directory, monitor, drop=True)
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
        plan: Plan,
        cluster: Cluster,
        nemesis: Nemesis,
        directory: RunDirectory,
        monitor: Monitor,
        *,
        drop: bool,
    ) -> RunContext:
        workload, script = self.workload(plan), self.script(plan)
        name = "sim" if cluster.runtime.reproducible else directory.path.name
        token = fresh_token(name, plan.seed)
        monitor.enter(Phase.SET_UP, "creating tables")
        stop = self.stop
        return RunContext(
            plan, cluster, workload, nemesis, directory, monitor, stop, token, drop, script,
            self.freeze, self.timed_faults(plan),
        )  # fmt: skip

    def _one(self, plan: Plan, cluster: Cluster, monitor: Monitor, *, drop: bool) -> FinishedRun:
        nemesis = self._nemesis(plan, cluster)  # refused before anything is made
        directory = self.begun(plan, cluster)
        with directory.held():
            context = partial(self._context, plan, cluster, nemesis, directory, monitor, drop=drop)
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
        return FinishedRun(plan, directory, replace(outcome, troubles=troubles))

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
