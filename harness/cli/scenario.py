"""`harness scenario`: scripts that bring one known anomaly about, every time."""

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

import rich_click as click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from compose.releases import ImageChoice
from harness.cli.bring_up import attached, fresh_cluster, kept_cluster, met_choice
from harness.cli.display import shown, unseen
from harness.cli.image_options import image_options
from harness.cli.options import SeedType
from harness.cli.parameter_types import WORD, number, store_option
from harness.cli.terminal import Terminal
from harness.cli.workload import SCENARIO, scenario_of, workload_of
from harness.clusters.docker_cluster import DockerCluster
from harness.core.dialect import Dialect
from harness.core.errors import EXIT_INVALID, EXIT_UNKNOWN, EXIT_VALID
from harness.core.op import Json
from harness.core.protocols import ANY_NODE, Cluster, Nemesis
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.generators.script import script
from harness.run.campaign import Campaign, Finished
from harness.run.plan import Plan
from harness.run.stop import Stop
from harness.run.store import Store
from harness.web.drawing import draw
from nemesis.catalogue import parse_nemesis
from nemesis.composed import check_capabilities, interposed
from nemesis.options import FaultOptions
from workloads.scenarios.catalogue import SCENARIOS
from workloads.scenarios.scenario import Scenario, Shown


class Said(StrEnum):
    """What a scenario came to."""

    REPRODUCED = "REPRODUCED"
    NOT_REPRODUCED = "NOT REPRODUCED"
    BROKE_OFF = "BROKE OFF"


STYLE = {
    Said.REPRODUCED: "bold green",
    Said.NOT_REPRODUCED: "bold red",
    Said.BROKE_OFF: "bold yellow",
}


@dataclass(frozen=True, slots=True)
class Told:
    """One run of one scenario."""

    scenario: Scenario
    run: Finished
    said: Said
    witness: Shown | None
    why: str | None
    """Of BROKE OFF."""

    @staticmethod
    def of(run: Finished) -> "Told":
        """Reproduced is what shows the finding, even where a step did not end as it must."""
        one = _of(run.plan)
        witness = one.found(run.outcome.judgement)
        why = None if witness else one.broke_off(run.outcome.history)
        said = Said.REPRODUCED if witness else Said.BROKE_OFF if why else Said.NOT_REPRODUCED
        return Told(one, run, said, witness, why)

    def json(self) -> dict[str, Json]:
        """For machines."""
        return {
            "scenario": self.scenario.name,
            "result": self.said.value,
            "finding": str(self.scenario.finding),
            "witness": None if self.witness is None else self.witness.text,
            "why": self.why,
            "run": str(self.run.directory.path),
            "status": self.run.outcome.judgement.status.value,
        }


@click.command("scenario")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--count", type=number("count"), default=1, help="Runs of each, on one cluster.")
@click.option("--seed", type=SeedType(), help="Only names runs: a script leaves nothing to draw.")
@image_options
@click.option("--keep-cluster", is_flag=True, help="Leave it running afterwards.")
@click.option("--reuse", type=WORD, metavar="CLUSTER", help="Run on a cluster that was kept.")
@store_option
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def scenario(names: tuple[str, ...], as_json: bool, **options: Any) -> int:
    """Play a script that brings one known anomaly about; without a NAME list them all.

    A scenario is a run like any other, judged by the same checkers and kept in the store. Exit
    status: 0 reproduced every time, 1 not reproduced, 2 a step did not end as the script wants,
    so that nothing can be said.
    """
    console = Terminal(stderr=as_json, highlight=False)
    if not names:
        return _listed(Terminal(highlight=False), as_json=as_json)
    chosen = [scenario_of(name) for name in names]
    store = Store(Path(options["store"]))
    store.prepare()
    reused = kept_cluster(store, options["reuse"]) if options["reuse"] else None
    choice = met_choice(reused) if reused else ImageChoice.of(options)
    first = options["seed"] or Seed(1)
    told: list[Told] = []

    def finished(run: Finished) -> None:
        told.append(Told.of(run))
        if not as_json:
            _show(console, told[-1])

    stop = Stop()
    with stop.obeying_signals():
        for several in _by_topology(chosen):
            campaign = campaign_of(
                several,
                store,
                choice,
                console,
                stop,
                finished,
                reused=reused,
                keep=options["keep_cluster"],
            )
            campaign.run(
                [
                    plan_of(one, first.after(i), choice)
                    for one in several
                    for i in range(options["count"])
                ]
            )
            if stop:
                break
    if as_json:
        click.echo(json.dumps([one.json() for one in told]))
    elif len(told) > 1:
        for one in chosen:
            own = [t.said for t in told if t.scenario is one]
            tally = ", ".join(f"{own.count(said)} {said}" for said in Said if said in own)
            console.print(f"{one.name}: {tally}")
    return _exit_status([one.said for one in told])


def _of(plan: Plan) -> Scenario:
    return scenario_of(plan.workload.removeprefix(SCENARIO))


def _topology(one: Scenario, versions: Mapping[str, str] | None = None) -> Topology:
    named = versions or {}
    return Topology.of(
        shards=one.shards,
        replicas=one.replicas,
        clickhouse=named.get("clickhouse", ""),
        zookeeper=named.get("zookeeper", ""),
    )


def _by_topology(chosen: Sequence[Scenario]) -> list[list[Scenario]]:
    """Those that can share a cluster, together."""
    groups: dict[Topology, list[Scenario]] = {}
    for one in chosen:
        groups.setdefault(_topology(one), []).append(one)
    return list(groups.values())


def plan_of(one: Scenario, seed: Seed, choice: ImageChoice) -> Plan:
    """Return the plan of one run, which the seed only names."""
    words = ["harness", "scenario", one.name, *choice.words]
    return Plan(
        workload=SCENARIO + one.name,
        nemesis=one.nemesis,
        seed=seed,
        again=shlex.join(words),
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
    console: Console | None,
    stop: Stop,
    finished: Callable[[Finished], None],
    *,
    reused: DockerCluster | None = None,
    keep: bool = False,
) -> Campaign:
    """Return what the runs of scenarios with one topology share. Without a console nothing is
    shown of them. Raises MissingMechanismError if a scenario needs more than the servers have."""

    def accept(dialect: Dialect) -> None:
        for one in several:
            dialect.require(f"scenario {one.name}", one.needs)

    known = reused.engines.dialect if reused else choice.dialect
    if known is not None:
        accept(known)
    name = reused.name if reused else f"harness-{Seed.fresh().value:08x}"
    files = store.cluster(name)
    make_cluster: Callable[[Callable[[str], None]], Cluster] = (
        partial(attached, reused)
        if reused
        else partial(
            fresh_cluster,
            _topology(several[0], choice.versions),
            files,
            name=name,
            keep=keep,
            choice=choice,
            accept=accept,
        )
    )
    return Campaign(
        store=store,
        make_cluster=make_cluster,
        files=files,
        workload=workload_of,
        nemesis=_nemesis,
        leave=bool(reused or keep),
        shown=partial(shown, console=console) if console else unseen,
        finished=finished,
        draw=draw,
        stop=stop,
        script=lambda plan: script(_of(plan).steps),
    )


def _nemesis(plan: Plan, cluster: Cluster) -> Nemesis:
    nemesis = parse_nemesis(plan.nemesis, cluster.topology, plan.seed, FaultOptions())
    check_capabilities(nemesis, cluster)
    interposed(nemesis, cluster)
    return nemesis


def _show(console: Console, told: Told) -> None:
    console.print(Text.assemble((told.said.value, STYLE[told.said]), f"  {told.scenario.name}"))
    if told.witness is not None:
        for line in (told.witness.text, *told.witness.steps):
            console.print(f"  {line}", markup=False)
    if told.why is not None:
        console.print(f"  {told.why}", markup=False)
    console.print(f"  {told.run.directory.path}", style="dim", markup=False)
    for trouble in told.run.outcome.troubles:
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


def _exit_status(said: Sequence[Said]) -> int:
    if Said.BROKE_OFF in said or not said:
        return EXIT_UNKNOWN
    return EXIT_INVALID if Said.NOT_REPRODUCED in said else EXIT_VALID
