"""`harness explore`: explore every interleaving of a small model of the protocol."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import rich_click as click
from click.core import ParameterSource
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn
from rich.table import Table
from rich.text import Text

from harness.cli.display import span
from harness.cli.parameter_types import Name, Number, json_option, number, store_option
from harness.cli.result import STATUS_STYLE
from harness.cli.terminal import Terminal
from harness.core.errors import HarnessError
from harness.core.op import Json
from harness.core.ranges import RANGES
from harness.core.verdict import Status
from harness.native.explorer import MODELS, Claim, Exploration
from harness.search.exploration import (
    BY_PROTOCOL,
    DEFAULTS,
    SCOPE,
    ExplorationResult,
    ModelSearch,
    scope_of,
    store_counterexample,
)
from harness.sim.bugs import PROTOCOLS
from harness.sim.counterexample import rows_of

_BOUNDS = {
    "states": "the limit of states",
    "memory": "the memory limit",
    "time": "the time limit",
    "violation": "stopped at the first broken claim",
}


def _named(change: str) -> str:
    """Return the models that have changes of this kind, each with their names."""
    of = {
        model: {"mutant": mutants, "fixes": fixes, "defects": defects}
        for model, mutants, fixes, defects in MODELS
    }
    named = {model: changes[change] for model, changes in of.items() if changes[change]}
    return "; ".join(f"{model}: {', '.join(names)}" for model, names in named.items())


RECENT: Final = "reads-are-recent"
AS_SERVERS: Final = "server"
KNOWN_ANSWER: Final = (
    "That is the known answer: a read of this model is as weak as the server's, and may be stale. "
    "Your ClickHouse was not asked. With --read linearizable the claim holds."
)
"""What is said of the claim that the model of servers breaks as it is."""


@click.command("explore")
@click.argument("model", type=Name(DEFAULTS))
@click.option(
    "--replicas", type=number("replicas"), help="Number of replicas. Default: 3; zero-copy: 2."
)
@click.option(
    "--records",
    type=number("records"),
    help="Number of inserts. Default: 2; truncation: 4, replication: 3.",
)
@click.option("--reads", type=number("reads"), help="quorum: maximum number of reads. Default: 2.")
@click.option(
    "--quorum",
    type=Number(replace(RANGES["quorum"], word="")),
    help="quorum: number of replicas that must have a part. Default: 2.",
)
@click.option(
    "--read",
    type=Name(["server", "linearizable"]),
    help="quorum: condition on which a replica answers a read. Default: server, or what the "
    "protocol says.",
)
@click.option(
    "--skip-failed",
    is_flag=True,
    help="quorum: replicas skip failed log entries, as real servers do.",
)
@click.option(
    "--protocol",
    type=Name(PROTOCOLS),
    help=f"Explore the rules of a server version: {', '.join(BY_PROTOCOL)}. "
    "Default: those of the thesis.",
)
@click.option(
    "--parallel", is_flag=True, help="quorum with --protocol: quorums are pending side by side."
)
@click.option(
    "--mutant",
    help=f"Plant a defect that a claim must catch. {_named('mutant')}. "
    f"With --protocol: {_named('defects')}.",
)
@click.option(
    "--fix",
    "fixes",
    multiple=True,
    help=f"Apply a fix of a race; may be repeated. {_named('fixes')}. With --protocol, mend one "
    f"of its defects.",
)
@click.option("--claim", "claims", multiple=True, help="Check only this claim; may be repeated.")
@click.option(
    "--symmetry", is_flag=True, help="Merge states that differ only in the names of the replicas."
)
@click.option("--first", is_flag=True, help="Stop at the first broken claim.")
@click.option(
    "--time-limit",
    type=number("time_limit"),
    default=600.0,
    help="Stop after this many seconds.",
    show_default=True,
)
@click.option(
    "--states-max",
    type=number("states_max"),
    help="Stop after this many states. Default: 2**32 - 1.",
)
@click.option(
    "--memory-mb",
    type=number("memory_mb"),
    default=4000.0,
    help="Memory budget of the states in megabytes.",
    show_default=True,
)
@store_option
@json_option
@click.pass_context
def explore(
    context: click.RichContext, /, model: str, store: str, as_json: bool, **given: Any
) -> int:
    """Explore every interleaving of a small model, breadth first.

    A shortest counterexample to a broken claim is printed, and stored as a run that `harness check`
    judges. Exit status: 0 every state was reached and every claim holds, 1 a claim is broken, 2 a
    bound was reached first.
    """
    scope = scope_of(model, {name: given[name] for name in SCOPE if _chosen(context, name)})
    console = Terminal(stderr=as_json)
    bounds = ("claims", "symmetry", "states_max", "memory_mb")
    search = ModelSearch.of(model, scope, **{name: given[name] for name in bounds})
    limit_s = given["time_limit"]
    with _progress(search.exploration, limit_s, console) as show:
        result = search.run(limit_s, first=given["first"], progress=show)
    run, trouble = None, None
    if result.steps:
        try:
            run = store_counterexample(result, Path(store))
        except HarnessError as error:  # the verdict is known anyway
            trouble = f"the counterexample is not stored: {error}"
    if as_json:
        stored = None if run is None else str(run)
        click.echo(json.dumps({**_json(result), "run": stored, "trouble": trouble}))
    else:
        _print_exploration(result, run, console)
        if trouble is not None:
            console.print(f"! {trouble}", style="yellow", markup=False, soft_wrap=True)
    return result.status.exit_status


def _chosen(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


@contextmanager
def _progress(
    search: Exploration, limit_s: float, console: Console
) -> Iterator[Callable[[float], None]]:
    """Yield what shows the state of the search, given the seconds that have passed."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("")

        def show(passed_s: float) -> None:
            progress.update(
                task,
                description=f"{search.states:,} states, depth {search.depth}, "
                f"{search.frontier:,} to explore, {search.states / passed_s:,.0f} per second, "
                f"{search.bytes / 1e6:,.0f} MB; stops within {span(max(0.0, limit_s - passed_s))}",
            )

        yield show


def _print_exploration(result: ExplorationResult, run: Path | None, console: Console) -> None:
    """Print the claims, then the counterexample, then the size of the search."""
    console.print(
        Text.assemble(
            (result.status.value, STATUS_STYLE[result.status]),
            f"  {result.model}: {_scope_text(result)}",
        )
    )
    console.print(_claims(result))
    if result.shown:
        console.print()
        actions = len(result.steps) - 1
        console.print(f"{result.shown} is broken after {actions} actions:", style="bold")
        console.print(_table(result))
        console.print(f"as a history: harness check {run}", soft_wrap=True, highlight=False)
    planted = result.scope.get("mutant") or result.scope.get("protocol")
    if result.shown == RECENT and result.scope.get("read") == AS_SERVERS and not planted:
        console.print(KNOWN_ANSWER, soft_wrap=True, highlight=False)
    console.print()
    answer = (result.status.value, STATUS_STYLE[result.status])
    broken = (
        f"{result.shown} is broken after {len(result.steps) - 1} actions; " if result.shown else ""
    )
    said = Text.assemble(answer, f": {broken}{_totals(result)}")
    console.print(said, soft_wrap=True, highlight=False)


def _totals(result: ExplorationResult) -> str:
    """Return a line with the size of the search, and whether it is complete."""
    seen = f"{result.states:,} states, depth {result.depth}"
    prefix = "every state was reached: " if result.ended == "whole" else "not finished: "
    rest = (
        ""
        if result.ended == "whole"
        else f", {result.frontier:,} of them not explored ({_BOUNDS[result.ended]})"
    )
    return (
        f"{prefix}{seen}{rest}; {result.transitions:,} steps, {result.seconds:.2f} s, "
        f"{result.states_per_s:,.0f} states per second, {result.memory_mb:,.0f} MB"
        + (
            ", states merged that differ only in the names of the replicas"
            if result.symmetry
            else ""
        )
    )


def _scope_text(result: ExplorationResult) -> str:
    words = []
    for name, value in result.scope.items():
        if value is None or value is False or value == ():
            continue
        if isinstance(value, int) and not isinstance(value, bool):
            words.append(f"quorum {value}" if name == "quorum" else f"{value} {name}")
        elif value is True:
            words.append(name.replace("_", " "))
        else:
            text = " ".join(value) if isinstance(value, tuple) else value
            words.append(f"{name} {text}")
    return ", ".join(words)


def _claims(result: ExplorationResult) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("claim", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("states", justify="right", no_wrap=True)
    table.add_column("meaning")
    for claim in result.claims:
        verdict, style = _verdict(claim, result.ended)
        of = f"{claim.applied:,}" + (" steps" if claim.name == "comes-to-rest" else "")
        table.add_row(claim.name, Text(verdict, style), of, claim.text)
    return table


def _verdict(claim: Claim, ended: str) -> tuple[str, str]:
    if claim.broken_after is not None:
        return f"broken after {claim.broken_after}", STATUS_STYLE[Status.INVALID]
    if not claim.applied:
        return "never applied", STATUS_STYLE[Status.UNKNOWN]
    if ended != "whole":
        return "not broken so far", STATUS_STYLE[Status.UNKNOWN]
    return "holds", STATUS_STYLE[Status.VALID]


def _table(result: ExplorationResult) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for column in ("", "who", "action", *(name for name, _ in result.steps[0].state)):
        table.add_column(column, no_wrap=column in ("", "who", "action"))
    for row in rows_of(result.steps):
        table.add_row(*row)
    return table


def _json(result: ExplorationResult) -> dict[str, Json]:
    return {
        "model": result.model,
        "scope": {k: list(v) if isinstance(v, tuple) else v for k, v in result.scope.items()},
        "symmetry": result.symmetry,
        "status": result.status.value,
        "ended": result.ended,
        "states": result.states,
        "depth": result.depth,
        "transitions": result.transitions,
        "frontier": result.frontier,
        "memory_mb": round(result.memory_mb, 1),
        "seconds": round(result.seconds, 3),
        "states_per_s": round(result.states_per_s),
        "claims": [
            {
                "name": claim.name,
                "text": claim.text,
                "applied": claim.applied,
                "broken_after": claim.broken_after,
            }
            for claim in result.claims
        ],
        "counterexample": None
        if result.shown is None
        else {
            "claim": result.shown,
            "actions": len(result.steps) - 1,
            "steps": [
                {
                    "action": step.action,
                    "who": step.who,
                    "replica": step.replica,
                    "other": step.other,
                    "state": dict(step.state),
                }
                for step in result.steps
            ],
        },
    }
