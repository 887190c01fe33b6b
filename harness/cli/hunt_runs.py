"""Makes the runs of `harness hunt` on simulated servers, in memory, and stores some of them."""

import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Final

import rich_click as click

from checkers.judge import Judgement
from harness.cli.given_options import given_options
from harness.cli.run import run as run_command
from harness.cli.run_request import RunRequest
from harness.cli.workload import workload_of
from harness.clusters.sim_cluster import SimCluster
from harness.core.errors import HarnessError, UsageError
from harness.core.seed import Seed
from harness.core.verdict import Status
from harness.generators.script import timetable
from harness.run.campaign import FinishedRun
from harness.run.hunting import HuntInput, HuntRun
from harness.run.monitor import Monitor
from harness.run.phases import RunContext, execute, fresh_token
from harness.run.plan import Plan
from harness.run.scripted import ScriptedRun, commented, script_of
from harness.run.stop import Stop
from harness.sim.bugs import bugs
from nemesis.catalogue import parse_nemesis
from nemesis.options import FaultOptions

PANIC: Final = "PanicException"


def kinds_of(judgement: Judgement) -> tuple[str, ...]:
    """Return the kinds of anomalies that make a run INVALID, as CHECKER:KIND."""
    found = {
        f"{verdict.checker}:{anomaly.kind}"
        for verdict in judgement.deciding
        if verdict.status is Status.INVALID
        for anomaly in verdict.anomalies
    }
    return tuple(sorted(found))


def base_options(context: click.Context) -> dict[str, str | tuple[str, ...]]:
    """Return the options of all runs of a hunt, by their long names: those given, and those that
    inputs change."""
    changed = ("time-limit", "interval", "duration")
    own = {name: f"{context.params[name.replace('-', '_')]:g}" for name in changed}
    return {**own, **given_options(context), "cluster": "sim"}


def request_for(words: Sequence[str]) -> RunRequest:
    """Return the request of a command line. Raises UsageError."""
    try:
        return RunRequest(run_command.make_context("run", [*words]))
    except click.UsageError as error:
        raise UsageError(error.format_message()) from error


@dataclass
class HuntRuns:
    """Makes runs of one set of options."""

    base: Mapping[str, str | tuple[str, ...]]
    """Options of every run, by their long names."""
    store: Path
    stop: Stop = field(default_factory=Stop)

    @cached_property
    def request(self) -> RunRequest:
        """Return the request of the base options."""
        return request_for(self._words({}))

    def _words(self, changed: Mapping[str, str]) -> list[str]:
        words: list[str] = []
        for name, value in {**self.base, **changed}.items():
            for one in (value,) if isinstance(value, str) else value:
                words += [f"--{name}", one]
        return words

    def __call__(self, given: HuntInput) -> HuntRun:
        """Make a run and judge it; it leaves no files."""
        began_s = time.process_time()
        plan = self._plan(given.options)
        server_seed = given.options.get("server-seed")
        cluster = SimCluster(
            self.request.topology,
            _seed(server_seed) if server_seed else plan.seed.child("cluster"),
            bugs=bugs(self.request.options.bug),
            protocol=self.request.protocol,
            fsync=self.request.options.server_settings.fsync,
        )
        cluster.simulation.servers.cover()
        try:
            return self._judged(plan, given, cluster, began_s)
        except HarnessError as error:
            return HuntRun(Status.UNKNOWN.value, (), b"", trouble=str(error))
        except BaseException as error:
            # A failed assertion of the model: the run is lost, and its input is worth a look.
            if type(error).__name__ != PANIC:
                raise
            return HuntRun(Status.UNKNOWN.value, (), b"", trouble=f"the model failed: {error}")

    def _plan(self, options: Mapping[str, str]) -> Plan:
        plan = self.request.plan(_seed(options["seed"]))
        rate = options.get("rate")
        return replace(
            plan,
            nemesis=options.get("nemesis", plan.nemesis),
            rate=plan.rate if rate is None else float(rate),
            time_limit_s=float(options.get("time-limit", plan.time_limit_s)),
        )

    def _fault_options(self, options: Mapping[str, str]) -> FaultOptions:
        own = self.request.fault_options
        return replace(
            own,
            interval_s=float(options.get("interval", own.interval_s)),
            duration_s=float(options.get("duration", own.duration_s)),
        )

    def _judged(self, plan: Plan, given: HuntInput, cluster: SimCluster, began_s: float) -> HuntRun:
        options = self._fault_options(given.options)
        nemesis = parse_nemesis(plan.nemesis, cluster.topology, plan.seed, options)
        timed = None if given.faults is None else timetable(given.faults)
        context = RunContext(
            plan, cluster, workload_of(plan), nemesis, None,
            Monitor(plan.workload, plan.time_limit_s, anomalies=None), self.stop,
            fresh_token("sim", plan.seed), drop=False, timed_faults=timed,
        )  # fmt: skip
        try:
            cluster.up()
            result = execute(context)
            elements, distances = cluster.simulation.servers.coverage()
        finally:
            cluster.down()
        judged = result.judgement
        return HuntRun(
            judged.status.value,
            kinds_of(judged) if judged.status is Status.INVALID else (),
            elements,
            distances,
            script_of(result.history.nemesis, 1) if given.faults is None else (),
            cluster.simulation.world.events,
            round(time.process_time() - began_s, 6),
        )

    # --- finds ----------------------------------------------------------------------------------

    def text(self, given: HuntInput, why: Sequence[str]) -> str:
        """Return an input as a script's file, with what it found above it. Faults that the nemesis
        draws are not in it: its command is."""
        options = {**self.base, **given.options}
        if given.faults is None:
            return "".join(f"# {line}\n" for line in (*why, self.command(given)))
        return commented(ScriptedRun(options, given.faults, faults_alone=True), why)

    def command(self, given: HuntInput) -> str:
        """Return the command that makes the run of an input whose faults the nemesis draws."""
        return shlex.join(["harness", "run", *self._words(given.options)])

    def stored(self, given: HuntInput, file: Path, why: Sequence[str]) -> FinishedRun:
        """Play an input as a run of the store; `file` gets its script, if it has one."""
        words = self._words(given.options)
        if given.faults is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(self.text(given, why), encoding="utf-8")
            words = ["--script", str(file)]
        words += ["--store", str(self.store), "--report", "invalid"]
        request = request_for(words)
        runs: list[FinishedRun] = []
        request.campaign(None, Stop(), runs.append).run([request.plan(request.seed)])
        return runs[0]


def _seed(text: str) -> Seed:
    return Seed(int(text, 0))
