"""Several runs on one cluster: up once, down at the end, whatever happens between."""

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from harness.core.errors import ClusterError, HarnessError
from harness.core.history import History
from harness.core.protocols import Cluster, Generator, KeepsTime, Nemesis, Workload
from harness.core.topology import Topology
from harness.core.verdict import Status
from harness.run.disk import is_unwritable, why_unwritable
from harness.run.monitor import Monitor, Phase
from harness.run.phases import Outcome, Trial, conduct, fresh_token, record
from harness.run.plan import Plan
from harness.run.stop import Stop
from harness.run.store import RunDirectory, Store


@dataclass(frozen=True, slots=True)
class Finished:
    """A run that came to an end."""

    plan: Plan
    directory: RunDirectory
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Campaign:
    """What all its runs share."""

    store: Store
    make_cluster: Callable[[Callable[[str], None]], Cluster]
    """Returns a cluster that has yet to be brought up; says meanwhile what it does."""
    files: Path | None
    """The cluster's directory: its compose file and configuration; None: it has none."""
    workload: Callable[[Plan], Workload]
    nemesis: Callable[[Plan, Cluster], Nemesis]
    """Raises UsageError when the cluster cannot do these faults."""
    leave: bool
    """Leave the cluster running afterwards."""
    shown: Callable[[Monitor], AbstractContextManager[None]]
    finished: Callable[[Finished], None]
    draw: Callable[[RunDirectory, History | None], str | None]
    """Draws the page of a run, whatever became of it, with its history where that was read
    already; returns why it could not."""
    stop: Stop
    own_cluster: Callable[[Plan], Cluster] | None = None
    """In the place of `make_cluster`: a cluster for each run, which the run's seed decides."""
    reported: Callable[[Status | None], bool] = lambda _: True
    """By a run's status, None where it crashed: whether its page is drawn and its history.parquet
    written. Those of others are made when somebody asks for them."""
    script: Callable[[Plan], Generator | None] = lambda _: None
    """Calls and faults in one sequence, in the place of the workload's and the nemesis' own."""

    def run(self, plans: Iterable[Plan]) -> None:
        """The runs, one after the other, until all are done or the wish to stop comes. What is no
        sequence is asked for the next plan when a run is over, and may look at what it came to.
        Raises HarnessError, with the cluster down."""
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
                    last = plan is final or self.own_cluster is not None
                    before = cluster.topology
                    run = self._one(plan, cluster, monitor, drop=self.leave or not last)
                # Told before the cluster ends: should that fail, the verdict is known already.
                self.finished(run)
                over = self.own_cluster is not None or self._spent(cluster, before, run, last=last)
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

    def _spent(self, cluster: Cluster, before: Topology, run: Finished, *, last: bool) -> bool:
        """Whether the next run needs another cluster: a server of this one did not survive or was
        upgraded, or what kept it from its rest may keep the next run from its own (a host that left
        the DDL queue stays out of it). What a script leaves without rest is its own table, which is
        dropped."""
        if self.leave or last:
            return False
        restless = bool(run.outcome.troubles) and self.script(run.plan) is None
        return restless or cluster.topology != before or bool(cluster.unready())

    def made(self, plan: Plan, monitor: Monitor) -> Cluster:
        """Return a cluster that the caller brings up."""
        if self.own_cluster is not None:
            return self.own_cluster(plan)
        return self.make_cluster(partial(monitor.enter, Phase.SET_UP))

    def up(self, cluster: Cluster) -> None:
        """Brings it up. Raises ClusterError, also where its files cannot be written."""
        try:
            cluster.up()
        except OSError as error:
            if self.files is None or not is_unwritable(error):
                raise
            why = why_unwritable(self.files, error)
            raise ClusterError(f"{self.files}: cannot be written: {why}") from error

    def end(self, cluster: Cluster) -> None:
        """Takes it down, unless it is to be left. Raises ClusterError."""
        if self.leave:
            cluster.close()
        else:
            cluster.down()

    def begun(self, plan: Plan, cluster: Cluster) -> RunDirectory:
        """A directory for a run on this cluster."""
        durable = not isinstance(cluster, KeepsTime)
        directory = self.store.create(plan.workload, plan.nemesis, plan.seed, durable=durable)
        met = replace(plan, engines=cluster.engines)
        directory.begin(met, cluster.topology, cluster.versions())
        return directory

    def recorded(
        self, plan: Plan, cluster: Cluster, directory: RunDirectory, monitor: Monitor
    ) -> tuple[str, ...]:
        """A run of which nothing is judged, on a cluster that goes on; its troubles. Raises
        HarnessError when it cannot be brought to its end. The servers' logs are collected
        either way."""
        with directory.held():
            try:
                with _crashing(directory):
                    nemesis = self.nemesis(plan, cluster)
                    trial = self._trial(plan, cluster, nemesis, directory, monitor, drop=True)
                    troubles = record(trial)
            except BaseException:
                _collected(cluster, directory)
                raise
            monitor.enter(Phase.CLEAN_UP, "collecting logs")
            uncollected = _collected(cluster, directory)
            troubles = (*troubles, *([uncollected] if uncollected else []))
            directory.recorded(troubles)
        return troubles

    def _trial(
        self,
        plan: Plan,
        cluster: Cluster,
        nemesis: Nemesis,
        directory: RunDirectory,
        monitor: Monitor,
        *,
        drop: bool,
    ) -> Trial:
        workload, script = self.workload(plan), self.script(plan)
        # On a cluster with a time of its own, the same seed is to leave the same bytes.
        name = "sim" if isinstance(cluster, KeepsTime) else directory.path.name
        token = fresh_token(name, plan.seed)
        monitor.enter(Phase.SET_UP, "creating tables")
        stop = self.stop
        return Trial(
            plan, cluster, workload, nemesis, directory, monitor, stop, token, drop, script
        )

    def _one(self, plan: Plan, cluster: Cluster, monitor: Monitor, *, drop: bool) -> Finished:
        nemesis = self.nemesis(plan, cluster)  # refused before anything is made
        directory = self.begun(plan, cluster)
        with directory.held():
            trial = partial(self._trial, plan, cluster, nemesis, directory, monitor, drop=drop)
            outcome = self._conducted(cluster, directory, trial)
            reported = self.reported(outcome.judgement.status)
            history = outcome.history if reported else None
            unstored = directory.finish(outcome.judgement, outcome.troubles, history)
            monitor.enter(Phase.CLEAN_UP)
            more = [*unstored, _collected(cluster, directory)]
            if reported:
                monitor.enter(Phase.CLEAN_UP, "drawing the report")
                more.append(self.draw(directory, history))
        told = (*outcome.troubles, *[text for text in more if text])
        return Finished(plan, directory, replace(outcome, troubles=told))

    def _conducted(
        self, cluster: Cluster, directory: RunDirectory, trial: Callable[[], Trial]
    ) -> Outcome:
        try:
            with _crashing(directory):
                if self.files is not None:
                    copy_cluster(self.files, directory.path)
                return conduct(trial())
        except BaseException:
            _collected(cluster, directory)
            if self.reported(None):
                self.draw(directory, None)
            raise


@contextmanager
def _crashing(directory: RunDirectory) -> Iterator[None]:
    """What ends a run early is told in its directory."""
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
    """The servers' logs; returns why there are none."""
    try:
        cluster.collect(directory.logs)
    except ClusterError as error:
        return f"no logs: {error}"
    except OSError as error:
        why = why_unwritable(directory.logs, error)
        return f"not all logs: {directory.logs} cannot be written: {why}"
    return None


def copy_cluster(files: Path, directory: Path) -> None:
    """The compose file and what it mounts, so that the cluster can be had again by hand."""
    shutil.copyfile(files / "compose.yml", directory / "compose.yml")
    shutil.copytree(files / "config", directory / "config")
