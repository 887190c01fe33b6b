"""Candidates of `harness shrink`: a stored run as a script, and what plays a script and looks for
the anomaly, on simulated or on real servers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from msgspec import structs

from checkers.every_run import applicable
from checkers.judge import Judgement, judge, judgement_of
from checkers.triage.explanation import KNOWN
from checkers.witness import gravest
from harness.clusters.sim_cluster import SimCluster
from harness.core.errors import HarnessError, UsageError
from harness.core.history import History
from harness.core.ranges import quoted
from harness.core.seed import Seed
from harness.core.verdict import Status
from harness.generators.script import TimedCall, timetable
from harness.run.campaign import FinishedRun
from harness.run.phases import checkers_of, record, workers_of
from harness.run.rates import SequentialTest
from harness.run.run_context import RunContext
from harness.run.run_request import Invocation, RunRequest
from harness.run.scripted import ScriptedRun, script_of
from harness.run.stop import Stop
from harness.run.trial import TryCounts, TryResult
from harness.search.anomaly_kind import AnomalyKind, kinds_of
from harness.search.replay import check_same, repeatable_spec
from harness.search.script_edits import length_ns, simplified
from harness.search.shrinking import (
    CandidateResult,
    OutOfBudgetError,
    Reproduction,
    ShrinkBudget,
)
from harness.spec.option_types import as_text
from harness.spec.run_options import OptionValues, option_texts, with_options
from harness.spec.run_spec import RunSpec
from harness.store.run_info import RunInfo
from harness.store.store import RunDirectory, Store

SCRIPT_FILE: Final = "shrunk.toml"


@dataclass(frozen=True, slots=True)
class RedRun:
    """A stored INVALID run, as a script."""

    name: str
    directory: RunDirectory
    info: RunInfo
    script: ScriptedRun
    kind: AnomalyKind

    @property
    def simulated(self) -> bool:
        """Return whether its servers were simulated."""
        return self.script.options.get("cluster") == "sim"


def red_run(what: str, store: Store, kind: str | None = None) -> RedRun:
    """Return a stored run as a script. Raises UsageError for a run that is not INVALID, and for one
    that no command line makes."""
    directory = store.find(what)
    info = directory.info()
    name = f"{directory.path.parent.name}/{directory.path.name}"
    judgement = judgement_of(directory.results())
    found = gravest(judgement)
    if judgement.status is not Status.INVALID or found is None:
        raise UsageError(
            f"run {name}: is {judgement.status.value}, so that there is nothing to shrink; "
            "expected a run that is INVALID"
        )
    spec = repeatable_spec(name, info)
    check_same(name, info, RunRequest(spec))
    replicas = info.topology.replicas
    workers = workers_of(info.spec.nodes or replicas, info.spec.concurrency, replicas)
    calls = script_of(directory.history(), len(workers) - 1)
    options = {
        **simplified(option_texts(spec, beyond=RunSpec())),
        "cluster": spec.cluster,
        "workload": spec.workload,
        "seed": str(spec.seed),
        "time-limit": as_text(time_limit_s(spec.time_limit_s, calls)),
    }
    script = ScriptedRun(options, calls)
    return RedRun(name, directory, info, script, _kind(kind, name, judgement))


def time_limit_s(limit_s: float, calls: Sequence[TimedCall]) -> float:
    """Return the time limit of a script: that of its run, or the time of the last call if calls
    went on beyond it."""
    last_ms = max((call.at_ns for call in calls), default=0) // 10**6
    return max(limit_s, (last_ms + 1) / 1e3)


def _kind(given: str | None, name: str, judgement: Judgement) -> AnomalyKind:
    """Return the kind of anomaly to keep: the one given, or the gravest."""
    if given is None:
        found = gravest(judgement)
        assert found is not None, "the run is INVALID"
        return AnomalyKind(found[0].checker, found[1].kind, judgement.explanation)
    known = kinds_of(judgement)
    if given not in known:
        raise UsageError(f"--kind {quoted(given)}: run {name} has {' '.join(known)}")
    return replace(AnomalyKind.parse(given), cause=judgement.explanation)


def request_of(
    script: ScriptedRun,
    invocation: Invocation | None = None,
    path: Path | None = None,
    chosen: OptionValues | None = None,
) -> RunRequest:
    """Return the request of a scripted run, whose script is in a file if it has a `path`; `chosen`
    are options that override its own. Raises UsageError."""
    spec = with_options(RunSpec(), {**script.options, **(chosen or {})})
    spec = structs.replace(spec, script=None if path is None else str(path))
    return RunRequest(spec, invocation or Invocation(), script)


def played_spec(script: ScriptedRun, request: RunRequest) -> RunSpec:
    """Return the run of a script."""
    return structs.replace(
        request.spec(Seed(int(str(script.options["seed"]), 0))),
        time_limit_s=length_ns(script) / 1e9,
        concurrency=script.clients,
    )


@dataclass(slots=True)
class OnSimulatedServers:
    """Runs candidates on simulated servers, in memory."""

    kind: AnomalyKind
    budget: ShrinkBudget
    others: dict[str, ScriptedRun] = field(default_factory=dict)
    """The smallest candidate that showed the anomaly by another cause, by that cause."""
    _options: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    _request: RunRequest | None = None
    """The request of the options above; None: they cannot be run."""

    def __call__(self, candidate: ScriptedRun) -> CandidateResult:
        """Run a candidate and judge it by the checker that matters."""
        request = self._of(candidate)
        if request is None:
            return CandidateResult(None)
        spec = played_spec(candidate, request)
        cluster = request.simulated_cluster(spec, lambda _: None)
        try:
            cluster.up()
            return self._judge(candidate, spec, cluster)
        except HarnessError:
            return CandidateResult(None)
        finally:
            cluster.down()
            self.budget.events += cluster.simulation.world.events

    def _of(self, candidate: ScriptedRun) -> RunRequest | None:
        """Return the request of a candidate, whose seed and time limit may be another's."""
        options = {n: v for n, v in candidate.options.items() if n not in ("seed", "time-limit")}
        if self._options != options:
            self._options = options
            try:
                self._request = request_of(candidate)
            except UsageError:
                self._request = None
        return self._request

    def _judge(self, candidate: ScriptedRun, spec: RunSpec, cluster: SimCluster) -> CandidateResult:
        context = RunContext.of(spec, cluster, script=timetable(candidate.calls))
        history = record(context).history()
        own = [one for one in checkers_of(context) if one.name == self.kind.checker]
        explain = self.kind.cause is not None
        judgement = judge(
            history, applicable(own, history), spec.check_s, spec.promise, explain=explain
        )
        self._note_other(candidate, judgement, history)
        limit_ns = spec.time_limit_s * 1e9  # final reads begin later
        made = [pair for pair in history.pairs if pair.invoke.time_ns < limit_ns]
        ends_ns = [(pair.end or pair.invoke).time_ns for pair in made]
        return CandidateResult(self.kind.find_in(judgement, history), ends_ns)

    def _note_other(self, candidate: ScriptedRun, judgement: Judgement, history: History) -> None:
        """Note a candidate that shows the anomaly by another cause, if it is the smallest."""
        found = judgement.explanation
        if found is None or self.kind.keeps(found):
            return
        if replace(self.kind, cause=None).find_in(judgement, history) is None:
            return
        name = ",".join(one.name for one in found.defects) if found.status == KNOWN else "unknown"
        least = self.others.get(name)
        if least is None or len(candidate.calls) < len(least.calls):
            self.others[name] = candidate


@dataclass(slots=True)
class OnRealServers:
    """Runs candidates on one cluster, each until a sequential test has decided."""

    kind: AnomalyKind
    test: SequentialTest
    tries_max: int
    tries: int = 0
    """Number of tries of all candidates."""
    counts: dict[str, TryCounts] = field(default_factory=dict)
    """Tries of each candidate, by its text."""
    _play: Callable[[ScriptedRun], FinishedRun] | None = None
    """Plays a candidate, within `on_cluster`."""

    def __call__(self, candidate: ScriptedRun) -> CandidateResult:
        """Make tries of a candidate until the test has decided. Raises OutOfBudgetError if it has
        not when the tries are spent, or the shrink is stopped."""
        assert self._play is not None, "the shrinker runs within `on_cluster`"
        results: list[TryResult] = []
        shown: Reproduction | None = None
        while True:
            counts = TryCounts.of(results)
            decided = self.test.decided(counts.hits, counts.conclusive)
            if decided is not None or self.tries >= self.tries_max:
                break
            self.tries += 1
            run = self._play(candidate)
            results.append(self.kind.judge(run).result)
            if results[-1] is TryResult.REPRODUCED:
                shown = self.kind.find_in(run.outcome.judgement, run.outcome.history)
        self.counts[candidate.text] = counts
        if decided is None:
            raise OutOfBudgetError
        return CandidateResult(shown if decided else None)

    @contextmanager
    def on_cluster(self, red: RedRun, store: Path, stop: Stop) -> Iterator[None]:
        """Play candidates as runs of one campaign while the block runs."""
        request = request_of(red.script, Invocation(store=str(store), report="none"))
        played = red.script
        campaign = replace(request.campaign(None, stop), script=lambda _: timetable(played.calls))
        with campaign.trials() as trial:

            def play(candidate: ScriptedRun) -> FinishedRun:
                nonlocal played
                if stop:
                    raise OutOfBudgetError
                played = candidate
                return trial(played_spec(candidate, request))

            self._play = play
            yield
