"""What can be played on several server versions: a scenario, or a stored run."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Protocol

from msgspec import structs

from checkers.judge import judgement_of
from compose.releases import (
    CLICKHOUSE,
    DEFAULT_CLICKHOUSE,
    DEFAULT_ZOOKEEPER,
    ZOOKEEPER,
    ImageChoice,
    ImageOptions,
    Release,
)
from harness.core.engines import Engines
from harness.core.errors import UsageError
from harness.core.protocols import ANY_NODE
from harness.core.ranges import quoted
from harness.core.seed import Seed
from harness.core.topology import Role
from harness.core.verdict import Status
from harness.run.campaign import Campaign, FinishedRun
from harness.run.monitor import Show
from harness.run.run_request import Invocation, RunRequest
from harness.run.scenario_runs import campaign_of, judge_scenario, scenario_spec
from harness.run.stop import Stop
from harness.run.trial import Trial, TryResult
from harness.spec.run_spec import RunSpec
from harness.spec.workload_options import SCENARIO, options_of, scenario_of
from harness.store.run_info import RunInfo
from harness.store.store import RunDirectory, Store
from workloads.scenarios.catalogue import SCENARIOS
from workloads.scenarios.scenario import Scenario


class Replay(Protocol):
    """Something that can be played on any version."""

    @property
    def name(self) -> str:
        """Name that the user gave."""
        ...

    @property
    def criterion(self) -> str:
        """Condition under which a try counts as reproduced."""
        ...

    @property
    def met(self) -> str | None:
        """The exact version that is known to have shown it; None: no version is known."""
        ...

    def open(
        self,
        options: ImageOptions,
        store: Store,
        shown: Show | None,
        stop: Stop,
    ) -> tuple[Campaign, Callable[[int], RunSpec]]:
        """Return the campaign on these servers, and what makes the spec of a try by its number;
        servers that `options` do not choose are as they were. Raises MissingMechanismError if they
        lack what is needed."""
        ...

    def judge(self, run: FinishedRun) -> Trial:
        """Return what a run says about the anomaly."""
        ...


@dataclass(frozen=True, slots=True)
class ScenarioReplay:
    """Replay of a scenario; a try that shows its finding counts as reproduced."""

    scenario: Scenario
    engines: Engines | None = None
    """The servers of the stored run that was named; None: the scenario was."""

    @property
    def name(self) -> str:
        """Return the scenario's name."""
        return self.scenario.name

    @property
    def met(self) -> str | None:
        """The version of the stored run."""
        return _version(self.engines, Role.CLICKHOUSE)

    @property
    def criterion(self) -> str:
        """The finding."""
        return f"what the scenario is about ({self.scenario.finding})"

    def open(
        self,
        options: ImageOptions,
        store: Store,
        shown: Show | None,
        stop: Stop,
    ) -> tuple[Campaign, Callable[[int], RunSpec]]:
        """Return the campaign of `harness scenario --count`, and its runs."""
        choice = ImageChoice.of(options)
        if not (options.clickhouse or options.clickhouse_image):
            choice = replace(choice, clickhouse=self._was(CLICKHOUSE, DEFAULT_CLICKHOUSE))
        if not (options.zookeeper or options.zookeeper_image):
            choice = replace(choice, zookeeper=self._was(ZOOKEEPER, DEFAULT_ZOOKEEPER))
        campaign = campaign_of([self.scenario], store, choice, shown, stop)
        return campaign, lambda number: scenario_spec(self.scenario, Seed(1).after(number), choice)

    def _was(self, known: Sequence[Release], default: str) -> str:
        """Return the version of the stored run's servers if it is known, else the default."""
        was = _version(self.engines, Role(known[0].server))
        return was if was and was in {release.version for release in known} else default

    def judge(self, run: FinishedRun) -> Trial:
        """Return the try as `harness scenario` counts it."""
        return judge_scenario(run)


@dataclass(frozen=True, slots=True)
class RunReplay:
    """Replay of a stored INVALID run with its seed; a try that is INVALID with an anomaly of a kind
    that the stored run has counts as reproduced."""

    name: str
    info: RunInfo
    kinds: frozenset[str]

    @property
    def criterion(self) -> str:
        """The kinds of anomalies."""
        return f"INVALID with {' or '.join(sorted(self.kinds))}"

    @property
    def met(self) -> str | None:
        """The version of the stored run."""
        return _version(self.info.engines, Role.CLICKHOUSE)

    def open(
        self,
        options: ImageOptions,
        store: Store,
        shown: Show | None,
        stop: Stop,
    ) -> tuple[Campaign, Callable[[int], RunSpec]]:
        """Return the campaign of the run's options, which must mean what they did, and its run."""
        request = self._request(options, store)
        check_same(self.name, self.info, request)
        seed = self.info.spec.seed
        return request.campaign(shown, stop), lambda _: request.spec(seed)

    def judge(self, run: FinishedRun) -> Trial:
        """Return the try, by the run's verdict and the kinds of its anomalies."""
        judgement = run.outcome.judgement
        if judgement.status is Status.UNKNOWN:
            verdicts = [v for v in judgement.deciding if v.status is Status.UNKNOWN]
            why = "; ".join(f"{v.checker}: {v.summary}" for v in verdicts)
            return Trial.of(run, TryResult.UNKNOWN, why)
        shown = self.kinds & set(judgement.broken_kinds)
        return Trial.of(run, TryResult.REPRODUCED if shown else TryResult.NOT_REPRODUCED)

    def _request(self, options: ImageOptions, store: Store) -> RunRequest:
        spec = repeatable_spec(self.name, self.info)
        if spec.cluster == "sim":
            raise UsageError(
                f"run {self.name}: its servers were simulated, and have one version only; expected "
                "a run on real servers"
            )
        if options.clickhouse or options.clickhouse_image:
            spec = structs.replace(
                spec, clickhouse=options.clickhouse, clickhouse_image=options.clickhouse_image
            )
        if options.zookeeper or options.zookeeper_image:
            spec = structs.replace(
                spec,
                zookeeper=options.zookeeper,
                zookeeper_image=options.zookeeper_image,
                keeper_image=None,
            )
        return RunRequest(spec, Invocation(store=str(store.root)))


def repeatable_spec(name: str, info: RunInfo) -> RunSpec:
    """Return the options of a stored run that is to be repeated. Raises UsageError if `harness run`
    did not make it, or if it ran commands of a user."""
    spec, made_by = info.spec, shlex.split(info.spec.command)[:2]
    if made_by != ["harness", "run"]:
        raise UsageError(
            f"run {name}: was made by {' '.join(made_by) or 'an unknown command'}; "
            "expected a run of harness run, harness torture or harness scenario"
        )
    if spec.servers is not None:
        raise UsageError(
            f"run {name}: a file with --servers has commands that are executed: trust it, and type "
            "the command line yourself"
        )
    if spec.promise == options_of(spec).promise:
        spec = structs.replace(spec, promise="")  # as it was not given
    if spec.nodes == (ANY_NODE,):  # of a script, which has the number of its clients as well
        spec = structs.replace(spec, nodes=(), concurrency=RunSpec().concurrency)
    return spec


def check_same(name: str, info: RunInfo, request: RunRequest) -> None:
    """Raise UsageError if the options of a stored run mean something else than they did then."""
    # An option that is younger than the run had no other value then than its default.
    younger = asdict(type(request.workload_options)())
    meant = request.spec(info.spec.seed).workload_options
    for what, was, now in (
        ("workload options", {**younger, **info.spec.workload_options}, meant),
        ("topology", info.topology.unversioned, request.topology.unversioned),
    ):
        if was != now:
            raise UsageError(
                f"run {name}: {what}: it had {was}, and its options mean {now} now; it cannot be "
                "repeated as it was"
            )


def _version(engines: Engines | None, role: Role) -> str | None:
    """Return the version of all servers of a role; None if there are several, or none is known."""
    only = engines.only(role) if engines else None
    return only.version if only else None


def replay_of(what: str, store: Store) -> Replay:
    """Return what plays a scenario again, or else a stored run, by its name. Raises UsageError."""
    if what in SCENARIOS:
        return ScenarioReplay(SCENARIOS[what])
    try:
        directory = store.find(what)
    except UsageError as error:
        raise UsageError(
            f"{quoted(what)} is no scenario (`harness scenario` lists them); {error}"
        ) from None
    info = directory.info()
    if info.spec.workload.startswith(SCENARIO):
        one = scenario_of(info.spec.workload.removeprefix(SCENARIO))
        return ScenarioReplay(one, info.engines)
    name = f"{directory.path.parent.name}/{directory.path.name}"  # `latest` is soon another run
    return RunReplay(name, info, _kinds_of(directory, what))


def _kinds_of(directory: RunDirectory, name: str) -> frozenset[str]:
    judgement = judgement_of(directory.results())
    if judgement.status is not Status.INVALID or not judgement.broken_kinds:
        raise UsageError(
            f"run {name}: is {judgement.status.value}, so that there is nothing to reproduce; "
            "expected a run that is INVALID"
        )
    return frozenset(judgement.broken_kinds)
