"""`harness explore`: every interleaving of a small model of the protocol."""

import json
import shlex
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import rich_click as click
from click.core import ParameterSource
from pyexplorer import MODELS, Claim, Exploration, Step
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn

from checkers.judge import judge
from checkers.ladder import Level
from harness.cli.explore_result import print_exploration
from harness.cli.parameter_types import Number, number, store_option
from harness.cli.terminal import Terminal
from harness.cli.workload import EXPLORED, workload_of
from harness.core.errors import HarnessError, UsageError
from harness.core.op import Json
from harness.core.ranges import RANGES
from harness.core.seed import Seed
from harness.core.verdict import Status
from harness.run.journal import Journal
from harness.run.plan import Plan
from harness.run.store import Store
from harness.sim.counterexample import history_of, topology_of

DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "quorum": {
        "replicas": 3, "records": 2, "reads": 2, "quorum": 2, "read": "server",
        "skip_failed": False, "mutant": None,
    },
    "truncation": {"replicas": 3, "records": 4, "mutant": None},
    "replication": {"replicas": 3, "records": 3, "mutant": None},
    "zero-copy": {"replicas": 3, "fixes": ()},
}  # fmt: skip
"""Of each model, what bounds and changes it."""
SCOPE = ("replicas", "records", "reads", "quorum", "read", "skip_failed", "mutant", "fixes")
SLICE_S = 0.1


def _named(change: str) -> str:
    """The models that can be changed so, and by which names."""
    named = {model: names for model, names in MODELS if change in DEFAULTS[model]}
    return "; ".join(f"{model}: {', '.join(names)}" for model, names in named.items())


@dataclass(frozen=True, slots=True)
class Explored:
    """What a search came to."""

    model: str
    scope: Mapping[str, Any]
    symmetry: bool
    status: Status
    ended: str
    """whole; else what stopped it: states, memory, time, violation."""
    states: int
    depth: int
    transitions: int
    frontier: int
    memory_mb: float
    seconds: float
    claims: tuple[Claim, ...]
    """The ones that were asked for."""
    shown: str | None
    """The broken claim with the shortest counterexample."""
    steps: tuple[Step, ...]
    """That counterexample; the first is the initial state."""

    @property
    def states_per_s(self) -> float:
        """Over the whole search."""
        return self.states / max(self.seconds, 1e-9)


@click.command("explore")
@click.argument("model", type=click.Choice(list(DEFAULTS)))
@click.option("--replicas", type=number("replicas"), help="Default: 3.")
@click.option(
    "--records", type=number("records"), help="Inserts. Default: 2; of truncation 4, replication 3."
)
@click.option("--reads", type=number("reads"), help="quorum: reads, at most. Default: 2.")
@click.option(
    "--quorum",
    type=Number(replace(RANGES["quorum"], word="")),
    help="quorum: replicas that must have a part. Default: 2.",
)
@click.option(
    "--read",
    type=click.Choice(["server", "linearizable"]),
    help="quorum: when a replica answers. Default: server.",
)
@click.option(
    "--skip-failed", is_flag=True, help="quorum: replicas pass failed entries, as servers do."
)
@click.option("--mutant", help=f"One wrong line, as proof that it is found. {_named('mutant')}.")
@click.option(
    "--fix", "fixes", multiple=True, help=f"What mends a race; may be repeated. {_named('fixes')}."
)
@click.option("--claim", "claims", multiple=True, help="Only these claims; may be repeated.")
@click.option("--symmetry", is_flag=True, help="One state for all that differ by who is who.")
@click.option("--first", is_flag=True, help="Stop at the first broken claim.")
@click.option(
    "--time-limit", type=number("time_limit"), default=600.0, help="Seconds.", show_default=True
)
@click.option("--states-max", type=number("states_max"), help="Default: 2**32 - 1.")
@click.option(
    "--memory-mb",
    type=number("memory_mb"),
    default=4000.0,
    help="Megabytes for states.",
    show_default=True,
)
@store_option
@click.option("--json", "as_json", is_flag=True, help="Results as JSON on standard output.")
@click.pass_context
def explore(
    context: click.RichContext, /, model: str, store: str, as_json: bool, **given: Any
) -> int:
    """Look at every interleaving of a small model, breadth first.

    Exit 0: every state was reached and every claim holds. 1: a claim is broken; the shortest way
    there is printed, and kept as a history that `harness check` opens. 2: a bound was met first.
    """
    chosen = {name for name in SCOPE if _chosen(context, name)}
    for name in sorted(chosen - DEFAULTS[model].keys()):
        flag = {"fixes": "fix"}.get(name, name).replace("_", "-")
        raise UsageError(f"--{flag} is not of {model}; see harness explore --help")
    scope = {**DEFAULTS[model], **{name: given[name] for name in chosen}}
    console = Terminal(stderr=as_json)
    explored = _search(model, scope, console, **{k: v for k, v in given.items() if k not in SCOPE})
    run, trouble = None, None
    if explored.steps:
        try:
            run = _kept(explored, Path(store))
        except HarnessError as error:  # the verdict is known all the same
            trouble = f"the counterexample is not stored: {error}"
    if as_json:
        stored = None if run is None else str(run)
        click.echo(json.dumps({**_json(explored), "run": stored, "trouble": trouble}))
    else:
        print_exploration(explored, run, console)
        if trouble is not None:
            console.print(f"! {trouble}", style="yellow", markup=False, soft_wrap=True)
    return explored.status.exit_status


def _chosen(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


def _search(
    model: str,
    scope: Mapping[str, Any],
    console: Console,
    *,
    claims: tuple[str, ...],
    symmetry: bool,
    first: bool,
    time_limit: float,
    states_max: int | None,
    memory_mb: float,
) -> Explored:
    try:
        search = Exploration(
            model, **scope, symmetry=symmetry, memory_mb=memory_mb,
            states_max=states_max,
        )  # fmt: skip
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{model}: {error}") from error
    known = [claim.name for claim in search.claims()]
    for name in claims:
        if name not in known:
            raise UsageError(f"--claim {name!r}: expected some of {' '.join(known)}")
    wanted = claims or tuple(known)
    begin = time.perf_counter()
    stopped = None
    with _progress(search, begin, console) as show:
        while not search.advance(SLICE_S):
            show()
            if first and any(c.broken_after is not None for c in _of(search, wanted)):
                stopped = "violation"
                break
            if time.perf_counter() - begin > time_limit:
                stopped = "time"
                break
    seconds = time.perf_counter() - begin
    judged = _of(search, wanted)
    broken = sorted(
        (claim.broken_after, at, claim.name)
        for at, claim in enumerate(judged)
        if claim.broken_after is not None
    )
    shown = broken[0][2] if broken else None
    ended = stopped or search.ended or "time"
    return Explored(
        model=model,
        scope=scope,
        symmetry=symmetry,
        status=_status(judged, ended, all_must_apply=bool(claims)),
        ended=ended,
        states=search.states,
        depth=search.depth,
        transitions=search.transitions,
        frontier=search.frontier,
        memory_mb=search.bytes / 1e6,
        seconds=seconds,
        claims=judged,
        shown=shown,
        steps=tuple(search.trace(shown) or ()) if shown else (),
    )


def _of(search: Exploration, names: tuple[str, ...]) -> tuple[Claim, ...]:
    return tuple(claim for claim in search.claims() if claim.name in names)


def _status(claims: tuple[Claim, ...], ended: str, *, all_must_apply: bool) -> Status:
    """A claim that said nothing of any state proves nothing."""
    if any(claim.broken_after is not None for claim in claims):
        return Status.INVALID
    spoke = [claim.applied > 0 for claim in claims]
    enough = all(spoke) if all_must_apply else any(spoke)
    return Status.VALID if ended == "whole" and enough else Status.UNKNOWN


@contextmanager
def _progress(search: Exploration, begin: float, console: Console) -> Iterator[Any]:
    columns = (SpinnerColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("")

        def show() -> None:
            per_s = search.states / (time.perf_counter() - begin)
            progress.update(
                task,
                description=f"{search.states:,} states, depth {search.depth}, "
                f"{search.frontier:,} to look at, {per_s:,.0f} a second, "
                f"{search.bytes / 1e6:,.0f} MB",
            )

        yield show


def command_line(explored: Explored) -> str:
    """The command that finds it again."""
    words = ["harness", "explore", explored.model]
    for name, value in explored.scope.items():
        flag = "--" + {"fixes": "fix"}.get(name, name).replace("_", "-")
        if value == DEFAULTS[explored.model][name]:
            continue
        if isinstance(value, bool):
            words.append(flag)
        elif isinstance(value, tuple):
            words += [word for one in value for word in (flag, one)]
        else:
            words += [flag, str(value)]
    if explored.symmetry:
        words.append("--symmetry")
    return shlex.join(words)


def _kept(explored: Explored, root: Path) -> Path:
    """Keeps the counterexample as a run, judged."""
    history = history_of(explored.model, explored.steps)
    level = Level.LINEARIZABLE if explored.model == "quorum" else Level.EVENTUAL
    plan = Plan(
        workload=f"{EXPLORED}{explored.model}",
        nemesis="none",
        seed=Seed(0),
        again=command_line(explored),
        promise=level.value,
        options={"explored": explored.model, "claim": explored.shown},
    )
    change = explored.scope.get("mutant") or "+".join(explored.scope.get("fixes", ())) or "none"
    directory = Store(root).create(plan.workload, change, plan.seed)
    directory.begin(plan, topology_of(explored.steps), {})
    journal = Journal(directory.journal)
    for op in history:
        journal.append(op)
    journal.close()
    judgement = judge(history, workload_of(plan).checkers(), plan.check_s, level)
    directory.finish(judgement, history=history)
    return directory.path


def _json(explored: Explored) -> dict[str, Json]:
    return {
        "model": explored.model,
        "scope": {k: list(v) if isinstance(v, tuple) else v for k, v in explored.scope.items()},
        "symmetry": explored.symmetry,
        "status": explored.status.value,
        "ended": explored.ended,
        "states": explored.states,
        "depth": explored.depth,
        "transitions": explored.transitions,
        "frontier": explored.frontier,
        "memory_mb": round(explored.memory_mb, 1),
        "seconds": round(explored.seconds, 3),
        "states_per_s": round(explored.states_per_s),
        "claims": [
            {
                "name": claim.name,
                "text": claim.text,
                "applied": claim.applied,
                "broken_after": claim.broken_after,
            }
            for claim in explored.claims
        ],
        "counterexample": None
        if explored.shown is None
        else {
            "claim": explored.shown,
            "actions": len(explored.steps) - 1,
            "steps": [
                {
                    "action": step.action,
                    "who": step.who,
                    "replica": step.replica,
                    "other": step.other,
                    "state": dict(step.state),
                }
                for step in explored.steps
            ],
        },
    }
