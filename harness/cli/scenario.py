"""`harness scenario`: run scripts that reproduce one known anomaly each."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import rich_click as click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from compose.releases import ImageChoice, ImageOptions
from harness.cli.display import live_display
from harness.cli.parameter_types import SEED, WORD, image_options, json_option, number, store_option
from harness.cli.result import print_kept_cluster
from harness.cli.terminal import Terminal, print_json
from harness.core.errors import EXIT_INVALID, EXIT_UNKNOWN, EXIT_VALID
from harness.core.seed import Seed
from harness.core.verdict import Status
from harness.run.bring_up import kept_cluster, met_choice
from harness.run.campaign import FinishedRun
from harness.run.scenario_runs import (
    campaign_of,
    group_by_cluster,
    judge_scenario,
    scenario_in,
    scenario_spec,
)
from harness.run.stop import Stop
from harness.run.trial import Trial, TryCounts, TryResult
from harness.spec.workload_options import scenario_of
from harness.store.store import Store
from workloads.scenarios.catalogue import SCENARIOS
from workloads.scenarios.scenario import Scenario, Shown

STYLE = {
    TryResult.REPRODUCED: "bold green",
    TryResult.NOT_REPRODUCED: "bold red",
    TryResult.BROKE_OFF: "bold yellow",
    TryResult.UNKNOWN: "bold yellow",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioOptions(ImageOptions):
    """Values of the options of `harness scenario`; a field has the name that click gives it."""

    count: int
    seed: Seed | None
    keep_cluster: bool
    reuse: str | None
    store: str


@dataclass(frozen=True, slots=True)
class PlayedScenario:
    """One run of a scenario, and what it showed."""

    scenario: Scenario
    run: FinishedRun
    trial: Trial

    @property
    def witness(self) -> Shown | None:
        """The finding; None if the run did not show it."""
        return self.scenario.found(self.run.outcome.judgement)


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
    results: list[PlayedScenario] = []

    def finished(run: FinishedRun) -> None:
        results.append(PlayedScenario(scenario_in(run.spec), run, judge_scenario(run)))
        if not as_json:
            _show(console, results[-1])

    stop = Stop()
    with stop.obeying_signals():
        for several in group_by_cluster(chosen):
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
            print_kept_cluster(console, campaign.clusters.kept)
            if stop:
                break
    if as_json:
        print_json([ScenarioAnswer.of(one) for one in results])
    else:
        for one in chosen:
            _print_tally(console, one, [t for t in results if t.scenario is one])
    return _exit_status(TryCounts.of(one.trial.result for one in results))


class ScenarioAnswer(msgspec.Struct, frozen=True):
    """What `scenario --json` prints of a run."""

    scenario: str
    result: str
    finding: str
    witness: str | None
    why: str | None
    run: str | None
    status: Status

    @staticmethod
    def of(played: PlayedScenario) -> "ScenarioAnswer":
        """Return the answer of a run that was played."""
        trial, witness = played.trial, played.witness
        return ScenarioAnswer(
            scenario=played.scenario.name,
            result=trial.result.value.upper(),
            finding=str(played.scenario.finding),
            witness=None if witness is None else witness.text,
            why=trial.why,
            run=trial.run,
            status=played.run.outcome.judgement.status,
        )


def _print_tally(console: Console, one: Scenario, played: Sequence[PlayedScenario]) -> None:
    """Print the answer on one scenario: how often each result occurred, and a report."""
    if not played:
        return
    counts = TryCounts.of(each.trial.result for each in played).counts
    worst_ = next(kind for kind in reversed(TryResult) if counts[kind])
    if len(played) == 1:
        text = f"{worst_.value.upper()}: {one.name}"
    else:
        tally = ", ".join(f"{counts[kind]} {kind.upper()}" for kind in TryResult if counts[kind])
        text = f"{one.name}: {tally} of {len(played)} runs"
    hits = (each for each in played if each.trial.result is TryResult.REPRODUCED)
    report = next(hits, played[-1]).run.directory.report
    page = f"; report: {report}" if report.exists() else ""
    console.print(Text.assemble((text, STYLE[worst_]), page), soft_wrap=True)


def _show(console: Console, played: PlayedScenario) -> None:
    trial, witness = played.trial, played.witness
    heading = (trial.result.value.upper(), STYLE[trial.result])
    console.print(Text.assemble(heading, f"  {played.scenario.name}"))
    if witness is not None:
        for line in (witness.text, *witness.steps):
            console.print(f"  {line}", markup=False)
    if trial.why is not None:
        console.print(f"  {trial.why}", markup=False)
    console.print(f"  {trial.run}", style="dim", markup=False)
    for trouble in played.run.outcome.troubles:
        console.print(f"  ! {trouble}", style="yellow", markup=False)


def _listed(console: Console, *, as_json: bool) -> int:
    if as_json:
        print_json({name: one.text for name, one in SCENARIOS.items()})
        return EXIT_VALID
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="cyan", no_wrap=True)
    for one in SCENARIOS.values():
        table.add_row(one.name, one.text)
    console.print(table)
    return EXIT_VALID


def _exit_status(counts: TryCounts) -> int:
    if not counts.total or counts.total > counts.conclusive:
        return EXIT_UNKNOWN
    return EXIT_INVALID if counts.misses else EXIT_VALID
