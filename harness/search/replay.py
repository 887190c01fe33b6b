"""Replays of a scenario or a stored run on several server versions."""

import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final, Protocol

import msgspec
from msgspec import structs

from checkers.judge import judgement_of
from compose.releases import (
    CLICKHOUSE,
    DEFAULT_ZOOKEEPER,
    ZOOKEEPER,
    ImageChoice,
    Release,
    clickhouse_release,
)
from harness.core.dialect import Version
from harness.core.engines import Engine, Engines
from harness.core.errors import HarnessError, MissingMechanismError, UsageError
from harness.core.op import Json
from harness.core.protocols import ANY_NODE
from harness.core.ranges import quoted
from harness.core.seed import Seed
from harness.core.topology import Role
from harness.core.verdict import Status
from harness.run.campaign import Campaign, FinishedRun
from harness.run.monitor import Show
from harness.run.run_request import Invocation, RunRequest
from harness.run.scenario_runs import campaign_of, judge_scenario, scenario_spec
from harness.run.stop import InterruptedRun, Stop
from harness.run.trial import Trial, TryCounts, TryResult
from harness.spec.run_spec import RunSpec
from harness.spec.workload_options import SCENARIO, options_of, scenario_of
from harness.store.run_info import RunInfo
from harness.store.store import RunDirectory, Store
from workloads.scenarios.catalogue import SCENARIOS
from workloads.scenarios.scenario import Scenario

CRASHES_MAX: Final = 2
"""Number of crashes in a row after which a version is given up; the next would crash too."""


@dataclass(slots=True)
class VersionTries:
    """Tries on one version."""

    name: str
    """The version as the user named it."""
    release: Release
    tries: list[Trial] = field(default_factory=list)
    engines: Engines | None = None
    """The servers that were met; None: no try began."""
    missing: str | None = None
    """The mechanisms that the version lacks and the replay needs."""

    @property
    def exact(self) -> str:
        """The version that the servers report."""
        met = self._met
        return met.version if met else self.release.version

    @property
    def build(self) -> str:
        """Return how these servers were built; "" if it is not known."""
        met = self._met
        return met.build if met else self.release.build

    @property
    def _met(self) -> Engine | None:
        return self.engines.only(Role.CLICKHOUSE) if self.engines else None

    @property
    def tally(self) -> TryCounts:
        """Return the number of tries by result."""
        return TryCounts.of(one.result for one in self.tries)

    @property
    def statuses(self) -> Counter[str]:
        """Return the number of tries by verdict; those that broke off have none."""
        return Counter(one.status.value if one.status else "no verdict" for one in self.tries)

    @property
    def kinds(self) -> Counter[str]:
        """Return the number of tries by kind of anomaly."""
        return Counter(kind for one in self.tries for kind in one.kinds)

    def json(self, confidence: float) -> dict[str, Json]:
        """Return the tries as JSON; `confidence` is that of the interval of the rate."""
        tally = self.tally
        low, high = tally.rate(confidence)
        return {
            "version": self.exact,
            "engine": str(self.engines) if self.engines else None,
            "tries": tally.total,
            **{result.name.lower(): tally.counts[result] for result in TryResult},
            "rate": {"low": low, "high": high, "confidence": confidence},
            "statuses": dict(self.statuses),
            "kinds": dict(self.kinds),
            "not_applicable": self.missing,
            "runs": msgspec.to_builtins(self.tries),
        }


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

    def opened(
        self,
        clickhouse: str,
        zookeeper: str | None,
        store: Store,
        shown: Show | None,
        stop: Stop,
    ) -> tuple[Campaign, Callable[[int], RunSpec]]:
        """Return the campaign on servers of these versions (ZooKeeper's: None is as it was), and
        what makes the spec of a try by its number. Raises MissingMechanismError if they lack what
        is needed."""
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

    def opened(
        self,
        clickhouse: str,
        zookeeper: str | None,
        store: Store,
        shown: Show | None,
        stop: Stop,
    ) -> tuple[Campaign, Callable[[int], RunSpec]]:
        """Return the campaign of `harness scenario --count`, and its runs."""
        was = _version(self.engines, Role.ZOOKEEPER)
        listed = was if was in {release.version for release in ZOOKEEPER} else DEFAULT_ZOOKEEPER
        choice = ImageChoice(clickhouse=clickhouse, zookeeper=zookeeper or listed)
        campaign = campaign_of([self.scenario], store, choice, shown, stop)
        return campaign, lambda number: scenario_spec(self.scenario, Seed(1).after(number), choice)

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

    def opened(
        self,
        clickhouse: str,
        zookeeper: str | None,
        store: Store,
        shown: Show | None,
        stop: Stop,
    ) -> tuple[Campaign, Callable[[int], RunSpec]]:
        """Return the campaign of the run's options, which must mean what they did, and its run."""
        request = self._request(clickhouse, zookeeper, store)
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

    def _request(self, clickhouse: str, zookeeper: str | None, store: Store) -> RunRequest:
        spec = repeatable_spec(self.name, self.info)
        if spec.cluster == "sim":
            raise UsageError(
                f"run {self.name}: its servers were simulated, and have one version only; expected "
                "a run on real servers"
            )
        spec = structs.replace(spec, clickhouse=clickhouse, clickhouse_image=None)
        if zookeeper:
            spec = structs.replace(
                spec, zookeeper=zookeeper, zookeeper_image=None, keeper_image=None
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
    """Return the replay of a scenario, or else of a stored run. Raises UsageError."""
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


def versions_of(names: Sequence[str]) -> list[VersionTries]:
    """Return the versions that were named, or all known ones, from old to new. Raises UsageError
    for an unknown name, and for two names of one version."""
    found = [
        VersionTries(name, clickhouse_release(name, "--versions"))
        for name in names or [release.alias for release in CLICKHOUSE]
    ]
    by_version: dict[str, str] = {}
    for one in found:
        other = by_version.setdefault(one.release.version, one.name)
        if other is not one.name:
            raise UsageError(f"--versions {other},{one.name}: expected each version once")
    return sorted(found, key=lambda one: Version.of(one.release.version))


@dataclass(frozen=True, slots=True, kw_only=True)
class Player:
    """Runs the tries, each version on a cluster of its own."""

    replay: Replay
    store: Store
    zookeeper: str | None
    shown: Show | None
    """Shows each run in progress; None: no display."""
    stop: Stop
    on_try: Callable[[VersionTries, Trial], None]
    """Called after every try."""

    def play(self, on: VersionTries, more: Callable[[], bool]) -> None:
        """Play tries while `more` asks for another; it is asked before each one. After a crash
        the next try has a fresh cluster."""
        crashes = 0
        while crashes < CRASHES_MAX and not self.stop and more():
            before = len(on.tries)
            try:
                self._on_one_cluster(on, more)
            except MissingMechanismError as error:
                on.missing = error.missing
                return
            except InterruptedRun:
                return
            except UsageError:
                raise
            except HarnessError as error:
                crashes = 1 if len(on.tries) > before else crashes + 1
                self._take(on, Trial(TryResult.BROKE_OFF, str(error)))

    def _on_one_cluster(self, on: VersionTries, more: Callable[[], bool]) -> None:
        campaign, spec = self.replay.opened(
            on.name, self.zookeeper, self.store, self.shown, self.stop
        )
        with campaign.trials() as trial:
            while not self.stop and more():
                run = trial(spec(len(on.tries)))
                on.engines = run.directory.info().engines
                self._take(on, self._judge(run))

    def _judge(self, run: FinishedRun) -> Trial:
        judged = self.replay.judge(run)
        if not self.stop or judged.result is not TryResult.NOT_REPRODUCED:
            return judged
        # It ended early, and might have reproduced the anomaly later.
        why = f"interrupted: {self.stop.reason}"
        return structs.replace(judged, result=TryResult.UNKNOWN, why=why)

    def _take(self, on: VersionTries, one: Trial) -> None:
        on.tries.append(one)
        self.on_try(on, one)
