"""Runs of scenarios: scripts that reproduce one known anomaly each."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from compose.releases import ImageChoice
from compose.settings import Settings
from harness.clusters.docker_cluster import DockerCluster
from harness.core.dialect import Dialect
from harness.core.protocols import ANY_NODE, Cluster
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.generators.script import script
from harness.report.run_files import draw
from harness.run.bring_up import attached, fresh_cluster
from harness.run.campaign import Campaign, ClusterSource, FinishedRun
from harness.run.monitor import Show, show_nothing
from harness.run.stop import Stop
from harness.run.trial import Trial, TryResult
from harness.spec.run_spec import RunSpec
from harness.spec.workload_options import SCENARIO, scenario_of, workload_of
from harness.store.store import Store
from workloads.scenarios.scenario import Scenario


def judge_scenario(run: FinishedRun) -> Trial:
    """Return the try that a scenario's run was: REPRODUCED if it shows the finding, even where a
    step did not end as it must."""
    one, judgement = scenario_in(run.spec), run.outcome.judgement
    if one.found(judgement):
        return Trial.of(run, TryResult.REPRODUCED)
    if why := one.broke_off(run.outcome.history):
        return Trial.of(run, TryResult.BROKE_OFF, why)
    why = one.undecided(judgement)
    return Trial.of(run, TryResult.UNKNOWN if why else TryResult.NOT_REPRODUCED, why)


def scenario_spec(one: Scenario, seed: Seed, choice: ImageChoice) -> RunSpec:
    """Return one run of a scenario, which the seed only names."""
    words = ["harness", "scenario", one.name, *choice.arguments]
    return RunSpec(
        workload=SCENARIO + one.name,
        nemesis=one.nemesis,
        seed=seed,
        extend=1,
        command=shlex.join(words),
        promise="linearizable",
        time_limit_s=one.time_limit_s,
        concurrency=one.clients,
        nodes=(ANY_NODE,),
        quiesce_s=one.quiesce_s,
    )


def group_by_cluster(chosen: Sequence[Scenario]) -> list[list[Scenario]]:
    """Group the scenarios by topology and settings; those of a group share a cluster."""
    groups: dict[tuple[Topology, Settings], list[Scenario]] = {}
    for one in chosen:
        groups.setdefault((topology_of(one), one.settings), []).append(one)
    return list(groups.values())


def campaign_of(
    several: Sequence[Scenario],
    store: Store,
    choice: ImageChoice,
    shown: Show | None,
    stop: Stop,
    *,
    reused: DockerCluster | None = None,
    keep: bool = False,
) -> Campaign:
    """Return what the runs of scenarios on one kind of cluster share; `shown` shows a run in
    progress, None for no display. Raises MissingMechanismError if a scenario needs more than the
    servers have."""

    def accept(dialect: Dialect) -> None:
        for one in several:
            dialect.require(f"scenario {one.name}", one.needs)

    known = reused.engines.dialect if reused else choice.dialect
    if known is not None:
        accept(known)
    name = reused.name if reused else f"harness-{Seed.fresh().value:08x}"
    files = store.cluster(name)

    def make(_: RunSpec, note: Callable[[str], None]) -> Cluster:
        if reused:
            return attached(reused, note)
        return fresh_cluster(
            topology_of(several[0], choice.versions),
            files,
            note,
            name=name,
            keep=keep,
            choice=replace(choice, store=several[0].store),
            accept=accept,
            settings=several[0].settings,
        )

    return Campaign(
        store=store,
        clusters=ClusterSource(make=make, files=files, leave=bool(reused or keep)),
        workload=workload_of,
        commands={},
        shown=shown or show_nothing,
        draw=draw,
        stop=stop,
        script=lambda spec: script(scenario_in(spec).steps),
    )


def topology_of(one: Scenario, versions: Mapping[str, str] | None = None) -> Topology:
    """Return the servers of a scenario, of these versions."""
    named = versions or {}
    return Topology.of(
        shards=one.shards,
        replicas=one.replicas,
        keepers=one.keepers,
        store=one.store,
        clickhouse=named.get("clickhouse", ""),
        zookeeper=named.get("zookeeper", ""),
    )


def scenario_in(spec: RunSpec) -> Scenario:
    """Return the scenario that a run plays."""
    return scenario_of(spec.workload.removeprefix(SCENARIO))
