"""Makes the runs of `harness hunt` on simulated servers, in memory, and stores some of them."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

from msgspec import structs

from harness.clusters.sim_cluster import SimCluster
from harness.core.errors import HarnessError
from harness.core.verdict import Status
from harness.generators.script import timetable
from harness.run.campaign import FinishedRun
from harness.run.phases import execute
from harness.run.run_context import RunContext
from harness.run.run_request import Invocation, RunRequest
from harness.run.scripted import ScriptedRun, commented, script_of
from harness.run.stop import Stop
from harness.search.anomaly_kind import kinds_of
from harness.search.hunting import HuntInput, HuntRun
from harness.spec.option_types import as_text
from harness.spec.run_options import OPTIONS, command_of, option_texts, with_options
from harness.spec.run_spec import RunSpec

PANIC: Final = "PanicException"


def base_options(spec: RunSpec) -> dict[str, str | tuple[str, ...]]:
    """Return the options of all runs of a hunt, by their long names: those given, and those that
    inputs change."""
    changed = ("time-limit", "interval", "duration")
    own = {name: as_text(getattr(spec, OPTIONS[name].field)) for name in changed}
    given = option_texts(spec, beyond=RunSpec(seed=spec.seed))
    return {**own, **given, "cluster": "sim"}


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
        return RunRequest(with_options(RunSpec(), self.base))

    def __call__(self, given: HuntInput) -> HuntRun:
        """Make a run and judge it; it leaves no files."""
        began_s = time.process_time()
        seed = with_options(RunSpec(), {"seed": given.options["seed"]}).seed
        spec = with_options(self.request.spec(seed), given.options)
        cluster = self.request.simulated_cluster(spec, lambda _: None)
        cluster.simulation.servers.cover()
        try:
            return self._judged(spec, given, cluster, began_s)
        except HarnessError as error:
            return HuntRun(Status.UNKNOWN.value, (), b"", trouble=str(error))
        except BaseException as error:
            # A failed assertion of the model: the run is lost, and its input is worth a look.
            if type(error).__name__ != PANIC:
                raise
            return HuntRun(Status.UNKNOWN.value, (), b"", trouble=f"the model failed: {error}")

    def _judged(
        self, spec: RunSpec, given: HuntInput, cluster: SimCluster, began_s: float
    ) -> HuntRun:
        timed = None if given.faults is None else timetable(given.faults)
        context = RunContext.of(spec, cluster, stop=self.stop, timed_faults=timed)
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
        return command_of(self._given(given), beyond=RunSpec())

    def _given(self, given: HuntInput) -> RunSpec:
        return with_options(RunSpec(), {**self.base, **given.options})

    def store_run(self, given: HuntInput, file: Path, why: Sequence[str]) -> FinishedRun:
        """Play an input as a run of the store; `file` gets its script, if it has one."""
        spec = self._given(given)
        if given.faults is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(self.text(given, why), encoding="utf-8")
            spec = structs.replace(spec, script=str(file))
        request = RunRequest(spec, Invocation(store=str(self.store), report="invalid"))
        return request.campaign(None, Stop()).run_once(request.spec(spec.seed))
