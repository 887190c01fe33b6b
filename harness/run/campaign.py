"""Several runs on one cluster: up once, down at the end, whatever happens between."""

import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import ClusterError, HarnessError
from harness.core.protocols import Cluster, Nemesis, Workload
from harness.run.monitor import Monitor, Phase
from harness.run.phases import Outcome, Trial, conduct, fresh_token
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
    cluster: Cluster
    files: Path
    """The cluster's directory: its compose file and configuration."""
    workload: Callable[[Plan], Workload]
    nemesis: Callable[[Plan], Nemesis]
    prepare: Callable[[Callable[[str], None]], None]
    """Makes the cluster ready to be used (images, then up); says what it does meanwhile."""
    leave: bool
    """Leave the cluster running afterwards."""
    shown: Callable[[Monitor], AbstractContextManager[None]]
    finished: Callable[[Finished], None]
    stop: Stop

    def run(self, plans: Sequence[Plan]) -> None:
        """The runs, one after the other, until all are done or the wish to stop comes. Raises
        HarnessError, with the cluster down."""
        try:
            for number, plan in enumerate(plans):
                if number and self.stop:
                    break
                self._one(plan, first=number == 0, last=plan is plans[-1])
        finally:
            if not self.leave:
                self.cluster.down()

    def _one(self, plan: Plan, *, first: bool, last: bool) -> None:
        monitor = Monitor(_title(plan), plan.time_limit_s)
        workload, nemesis = self.workload(plan), self.nemesis(plan)
        directory = self.store.create(plan)
        with self.shown(monitor):
            try:
                if first:
                    with self.stop.interrupting():
                        self.prepare(lambda note: monitor.enter(Phase.SET_UP, note))
                monitor.enter(Phase.SET_UP, "creating tables")
                self._copy_files(directory)
                token = fresh_token(directory.path.name, plan.seed)
                directory.began(plan, self.cluster)
                outcome = conduct(
                    Trial(
                        plan, self.cluster, workload, nemesis, directory, monitor, self.stop, token
                    )
                )
            except BaseException as error:
                directory.crashed(f"{type(error).__name__}: {error}")
                raise
            directory.finished(outcome.judgement, outcome.troubles)
            monitor.enter(Phase.CLEAN_UP)
            self.cluster.collect(directory.logs)
            if (last or self.stop) and not self.leave:
                self.cluster.down()
        self.finished(Finished(plan, directory, outcome))

    def _copy_files(self, directory: RunDirectory) -> None:
        """The compose file and what it mounts, so that the cluster can be had again by hand."""
        for source in self.files.iterdir():
            target = directory.path / source.name
            if source.is_dir():
                shutil.copytree(source, target)
            else:
                shutil.copyfile(source, target)


def _title(plan: Plan) -> str:
    return f"{plan.workload} + {plan.nemesis}, seed {plan.seed}"
