"""`harness scenario`: run scripts that reproduce one known anomaly each."""

import json
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import rich_click as click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from compose.releases import ImageChoice, ImageOptions
from compose.settings import Settings, Storage
from harness.cli.bring_up import attached, fresh_cluster, kept_cluster, met_choice
from harness.cli.display import live_display, no_display
from harness.cli.parameter_types import SEED, WORD, image_options, json_option, number, store_option
from harness.cli.terminal import Terminal
from harness.clusters.docker_cluster import DockerCluster
from harness.core.dialect import Dialect
from harness.core.errors import EXIT_INVALID, EXIT_UNKNOWN, EXIT_VALID
from harness.core.op import Json
from harness.core.protocols import ANY_NODE, Cluster
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.generators.script import script
from harness.run.bisection import TryResult
from harness.run.campaign import Campaign, ClusterSource, FinishedRun
from harness.run.monitor import Monitor
from harness.run.stop import Stop
from harness.run.store import Store
from harness.run.torture import TortureCell
from harness.spec.run_spec import RunSpec
from harness.spec.workload_options import SCENARIO, scenario_of, workload_of
from harness.web.run_files import draw
from workloads.scenarios.catalogue import SCENARIOS
from workloads.scenarios.scenario import Scenario, Shown

STYLE = {
    TryResult.REPRODUCED: "bold green",
    TryResult.NOT_REPRODUCED: "bold red",
    TryResult.BROKE_OFF: "bold yellow",
    TryResult.UNKNOWN: "bold yellow",
}


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """Result of one run of a scenario."""

    scenario: Scenario
    run: FinishedRun
    result: TryResult
    witness: Shown | None
    why: str | None
    """Reason of BROKE OFF or UNKNOWN."""

    @staticmethod
    def of(run: FinishedRun) -> "ScenarioResult":
        """Return how a run ended: REPRODUCED if it shows the finding, even where a step did not
        end as it must."""
        one = _of(run.spec)
        witness = one.found(run.outcome.judgement)
        if witness:
            return ScenarioResult(one, run, TryResult.REPRODUCED, witness, None)
        if why := one.broke_off(run.outcome.history):
            return ScenarioResult(one, run, TryResult.BROKE_OFF, None, why)
        why = one.undecided(run.outcome.judgement)
        result = TryResult.UNKNOWN if why else TryResult.NOT_REPRODUCED
        return ScenarioResult(one, run, result, None, why)

    def json(self) -> dict[str, Json]:
        """Return the result as JSON."""
        return {
            "scenario": self.scenario.name,
            "result": self.result.value.upper(),
            "finding": str(self.scenario.finding),
            "witness": None if self.witness is None else self.witness.text,
            "why": self.why,
            "run": str(self.run.directory.path),
            "status": self.run.outcome.judgement.status.value,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioOptions(ImageOptions):
    """Values of the options of `harness scenario`; a field has the name that click gives it."""

    count: int
    seed: Seed | None
    keep_cluster: bool
    reuse: str | None
    store: str


@click.command("scenario")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--count",
    type=number("count"),
    default=1,
    help="Number of runs of each scenario, on one cluster. Default: 1.",
)
@click.option(
    "--seed", type=SEED, help="Seed in the names of the runs; scripts make no random choices."
)
@image_options
@click.option("--keep-cluster", is_flag=True, help="Leave the cluster running.")
@click.option("--reuse", type=WORD, metavar="CLUSTER", help="Run on a kept cluster.")
@store_option
@json_option
def scenario(names: tuple[str, ...], as_json: bool, **values: Any) -> int:
    """Run a script that reproduces one known anomaly; without a NAME list them all.

    A scenario is a run like any other, judged by the same checkers and stored. Exit status:
    0 every run reproduced the anomaly, 1 one did not, 2 a step did not end as the script requires
    or the checker reached no conclusion, so the result is unknown.
    """
    console = Terminal(stderr=as_json, highlight=False)
    if not names:
        return _listed(Terminal(highlight=False), as_json=as_json)
    chosen = [scenario_of(name) for name in names]
    options = ScenarioOptions(**values)
    store = Store(Path(options.store))
    console.warn(store.prepare())
    reused = kept_cluster(store, options.reuse) if options.reuse else None
    choice = met_choice(reused) if reused else ImageChoice.of(options)
    first = options.seed or Seed(1)
    results: list[ScenarioResult] = []

    def finished(run: FinishedRun) -> None:
        results.append(ScenarioResult.of(run))
        if not as_json:
            _show(console, results[-1])

    stop = Stop()
    with stop.obeying_signals():
        for several in _by_cluster(chosen):
            campaign = campaign_of(
                several,
                store,
                choice,
                partial(live_display, console=console),
                stop,
                reused=reused,
                keep=options.keep_cluster,
            )
            campaign.run(
                [
                    scenario_spec(one, first.after(i), choice)
                    for one in several
                    for i in range(options.count)
                ],
                finished,
            )
            if stop:
                break
    if as_json:
        click.echo(json.dumps([one.json() for one in results]))
    else:
        for one in chosen:
            _print_tally(console, one, [t for t in results if t.scenario is one])
    return _exit_status([one.result for one in results])


def _print_tally(console: Console, one: Scenario, own: Sequence[ScenarioResult]) -> None:
    """Print the answer on one scenario: how often each result occurred, and a report."""
    counts = Counter(t.result for t in own)
    if not counts:
        return
    worst_ = next(kind for kind in reversed(TryResult) if counts[kind])
    if len(own) == 1:
        text = f"{worst_.value.upper()}: {one.name}"
    else:
        tally = ", ".join(f"{counts[kind]} {kind.upper()}" for kind in TryResult if counts[kind])
        text = f"{one.name}: {tally} of {len(own)} runs"
    shown = next((t for t in own if t.result is TryResult.REPRODUCED), own[-1])
    report = shown.run.directory.report
    page = f"; report: {report}" if report.exists() else ""
    console.print(Text.assemble((text, STYLE[worst_]), page), soft_wrap=True)


def _of(spec: RunSpec) -> Scenario:
    return scenario_of(spec.workload.removeprefix(SCENARIO))


def _topology(one: Scenario, versions: Mapping[str, str] | None = None) -> Topology:
    named = versions or {}
    return Topology.of(
        shards=one.shards,
        replicas=one.replicas,
        store=one.store,
        clickhouse=named.get("clickhouse", ""),
        zookeeper=named.get("zookeeper", ""),
    )


def _by_cluster(chosen: Sequence[Scenario]) -> list[list[Scenario]]:
    """Group the scenarios by topology and kind of disks; those of a group share a cluster."""
    groups: dict[tuple[Topology, bool], list[Scenario]] = {}
    for one in chosen:
        groups.setdefault((_topology(one), one.disks), []).append(one)
    return list(groups.values())


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


def campaign_of(
    several: Sequence[Scenario],
    store: Store,
    choice: ImageChoice,
    shown: Callable[[Monitor], AbstractContextManager[None]] | None,
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
            _topology(several[0], choice.versions),
            files,
            note,
            name=name,
            keep=keep,
            choice=replace(choice, store=several[0].store),
            accept=accept,
            settings=Settings(storage=Storage.FAULTY) if several[0].disks else None,
        )

    return Campaign(
        store=store,
        clusters=ClusterSource(make=make, files=files, leave=bool(reused or keep)),
        workload=workload_of,
        commands={},
        shown=shown or no_display,
        draw=draw,
        stop=stop,
        script=lambda spec: script(_of(spec).steps),
    )


def cell_of(
    cell: str,
    name: str,
    images: ImageOptions,
    store: Store,
    shown: Callable[[Monitor], AbstractContextManager[None]],
    stop: Stop,
) -> TortureCell:
    """Return a scenario, on the servers that these options choose, as a cell of a matrix."""
    one, choice = scenario_of(name), ImageChoice.of(images)
    campaign = campaign_of([one], store, choice, shown, stop)
    kind = f"scenario {choice.arguments} {one.shards}x{one.replicas} {one.store} {one.disks}"
    spec = partial(scenario_spec, one, choice=choice)
    return TortureCell(cell, kind, campaign, spec, choice.dialect)


def _show(console: Console, result: ScenarioResult) -> None:
    console.print(
        Text.assemble(
            (result.result.value.upper(), STYLE[result.result]), f"  {result.scenario.name}"
        )
    )
    if result.witness is not None:
        for line in (result.witness.text, *result.witness.steps):
            console.print(f"  {line}", markup=False)
    if result.why is not None:
        console.print(f"  {result.why}", markup=False)
    console.print(f"  {result.run.directory.path}", style="dim", markup=False)
    for trouble in result.run.outcome.troubles:
        console.print(f"  ! {trouble}", style="yellow", markup=False)


def _listed(console: Console, *, as_json: bool) -> int:
    if as_json:
        click.echo(json.dumps({name: one.text for name, one in SCENARIOS.items()}))
        return EXIT_VALID
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="cyan", no_wrap=True)
    for one in SCENARIOS.values():
        table.add_row(one.name, one.text)
    console.print(table)
    return EXIT_VALID


def _exit_status(results: Sequence[TryResult]) -> int:
    unknown = {TryResult.BROKE_OFF, TryResult.UNKNOWN}
    if not results or unknown.intersection(results):
        return EXIT_UNKNOWN
    return EXIT_INVALID if TryResult.NOT_REPRODUCED in results else EXIT_VALID
