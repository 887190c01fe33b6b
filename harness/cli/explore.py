"""`harness explore`: explore every interleaving of a small model of the protocol."""

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
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn

from checkers.judge import judge
from checkers.ladder import Level
from harness.cli.explore_result import print_exploration
from harness.cli.parameter_types import Name, Number, json_option, number, store_option
from harness.cli.progress import span
from harness.cli.terminal import Terminal
from harness.core.dialect import Dialect, Mechanism, Version, dialect_of
from harness.core.engines import Engines
from harness.core.errors import HarnessError, UsageError
from harness.core.op import Json
from harness.core.ranges import RANGES, did_you_mean, quoted
from harness.core.seed import Seed
from harness.core.verdict import Status
from harness.native.explorer import MODELS, Claim, Exploration, Step
from harness.sim.bugs import PROTOCOLS
from harness.sim.counterexample import history_of, topology_of
from harness.spec.run_spec import RunSpec
from harness.spec.workload_options import EXPLORED, workload_of
from harness.store.journal import Journal
from harness.store.store import Store

DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "quorum": {
        "replicas": 3, "records": 2, "reads": 2, "quorum": 2, "read": "server",
        "skip_failed": False, "mutant": None,
    },
    "truncation": {"replicas": 3, "records": 4, "mutant": None},
    "replication": {"replicas": 3, "records": 3, "mutant": None},
    "zero-copy": {"replicas": 2, "records": 2, "mutant": None, "fixes": ()},
}  # fmt: skip
"""Default scope of each model: the parameters that bound or change it."""
BY_PROTOCOL: Mapping[str, Mapping[str, Any]] = {
    "quorum": {
        "replicas": 3, "records": 2, "quorum": 2, "read": None, "parallel": False, "mutant": None,
        "fixes": (),
    },
    "replication": DEFAULTS["replication"],
}  # fmt: skip
"""The same of the models that know protocols, with `--protocol`. Without `--read` the protocol
decides."""
SCOPE = (
    "replicas", "records", "reads", "quorum", "read", "skip_failed", "protocol", "parallel",
    "mutant", "fixes",
)  # fmt: skip
SLICE_S = 0.1


def _named(change: str) -> str:
    """Return the models that have changes of this kind, each with their names."""
    of = {
        model: {"mutant": mutants, "fixes": fixes, "defects": defects}
        for model, mutants, fixes, defects in MODELS
    }
    named = {model: changes[change] for model, changes in of.items() if changes[change]}
    return "; ".join(f"{model}: {', '.join(names)}" for model, names in named.items())


@dataclass(frozen=True, slots=True)
class ExplorationResult:
    """Result of a search."""

    model: str
    scope: Mapping[str, Any]
    symmetry: bool
    status: Status
    ended: str
    """Reason why the search ended: whole, states, memory, time or violation."""
    states: int
    depth: int
    transitions: int
    frontier: int
    memory_mb: float
    seconds: float
    claims: tuple[Claim, ...]
    """The chosen claims."""
    shown: str | None
    """Broken claim with the shortest counterexample."""
    steps: tuple[Step, ...]
    """Steps of that counterexample; the first is the initial state."""

    @property
    def states_per_s(self) -> float:
        """Average rate over the whole search."""
        return self.states / max(self.seconds, 1e-9)


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
    scope = _scope(model, {name: given[name] for name in SCOPE if _chosen(context, name)})
    console = Terminal(stderr=as_json)
    result = _search(model, scope, console, **{k: v for k, v in given.items() if k not in SCOPE})
    run, trouble = None, None
    if result.steps:
        try:
            run = _store(result, Path(store))
        except HarnessError as error:  # the verdict is known anyway
            trouble = f"the counterexample is not stored: {error}"
    if as_json:
        stored = None if run is None else str(run)
        click.echo(json.dumps({**_json(result), "run": stored, "trouble": trouble}))
    else:
        print_exploration(result, run, console)
        if trouble is not None:
            console.print(f"! {trouble}", style="yellow", markup=False, soft_wrap=True)
    return result.status.exit_status


def _chosen(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


def _scope(model: str, chosen: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the scope of a search. Raises UsageError for what the model does not know."""
    protocol = chosen.get("protocol")
    if protocol is not None and model not in BY_PROTOCOL:
        models = " or ".join(BY_PROTOCOL)
        raise UsageError(f"--protocol: model {model} has no protocols; expected {models}")
    defaults = _defaults(model, protocol)
    for name in sorted(chosen.keys() - defaults.keys()):
        flag = _flag(name)
        without = "" if protocol is None else f" with --protocol {protocol}"
        text = f"model {model} has no such option{without}; see harness explore --help"
        raise UsageError(f"{flag}: {text}")
    scope = {**defaults, **chosen}
    parallel = (Mechanism.PARALLEL_QUORUM,)
    if scope.get("parallel"):
        assert protocol is not None, "the rules of the thesis have no such option"
        able = [name for name in PROTOCOLS if not _dialect(name).lacks(parallel)]
        if protocol not in able:
            expected = " or ".join(able)
            raise UsageError(
                f"--parallel: {protocol} lacks {parallel[0]}; expected --protocol {expected}"
            )
    return scope


def _dialect(protocol: str) -> Dialect:
    return dialect_of(Version.of(PROTOCOLS[protocol].version))


def _defaults(model: str, protocol: str | None) -> Mapping[str, Any]:
    """Return the default scope of a model."""
    if protocol is None:
        return DEFAULTS[model]
    defaults = {**BY_PROTOCOL[model], "protocol": protocol}
    return {**defaults, "read": PROTOCOLS[protocol].reading} if "read" in defaults else defaults


def _flag(name: str) -> str:
    return "--" + {"fixes": "fix"}.get(name, name).replace("_", "-")


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
) -> ExplorationResult:
    protocol = PROTOCOLS[scope["protocol"]] if "protocol" in scope else None
    rules = None if protocol is None else (sorted(protocol.mechanisms), sorted(protocol.defects))
    try:
        search = Exploration(
            model, **{**scope, "protocol": rules}, symmetry=symmetry, memory_mb=memory_mb,
            states_max=states_max,
        )  # fmt: skip
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{model}: {error}") from error
    known = [claim.name for claim in search.claims()]
    for name in claims:
        if name not in known:
            meant = did_you_mean(name, known)
            raise UsageError(f"--claim {quoted(name)}: {meant}expected some of {' '.join(known)}")
    wanted = claims or tuple(known)
    begin = time.perf_counter()
    stopped = None
    with _progress(search, begin, time_limit, console) as show:
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
    return ExplorationResult(
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
    """Return the status of a search. A claim that applied to no state proves nothing."""
    if any(claim.broken_after is not None for claim in claims):
        return Status.INVALID
    applied = [claim.applied > 0 for claim in claims]
    enough = all(applied) if all_must_apply else any(applied)
    return Status.VALID if ended == "whole" and enough else Status.UNKNOWN


@contextmanager
def _progress(search: Exploration, begin: float, limit_s: float, console: Console) -> Iterator[Any]:
    columns = (SpinnerColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("")

        def show() -> None:
            per_s = search.states / (time.perf_counter() - begin)
            progress.update(
                task,
                description=f"{search.states:,} states, depth {search.depth}, "
                f"{search.frontier:,} to explore, {per_s:,.0f} per second, "
                f"{search.bytes / 1e6:,.0f} MB; stops within "
                f"{span(max(0.0, limit_s - (time.perf_counter() - begin)))}",
            )

        yield show


def command_line(result: ExplorationResult) -> str:
    """Return the command that repeats the search."""
    words = ["harness", "explore", result.model]
    protocol = result.scope.get("protocol")
    defaults = _defaults(result.model, protocol)
    for name, value in result.scope.items():
        flag = _flag(name)
        if value == defaults[name] and name != "protocol":
            continue
        if isinstance(value, bool):
            words.append(flag)
        elif isinstance(value, tuple):
            words += [word for one in value for word in (flag, one)]
        else:
            words += [flag, str(value)]
    if result.symmetry:
        words.append("--symmetry")
    return shlex.join(words)


def _store(result: ExplorationResult, root: Path) -> Path:
    """Store the counterexample as a judged run."""
    history = history_of(result.model, result.steps)
    level = Level.LINEARIZABLE if result.model == "quorum" else Level.EVENTUAL
    spec = RunSpec(
        workload=f"{EXPLORED}{result.model}",
        nemesis="none",
        seed=Seed(0),
        cluster="sim",
        promise=level.value,
        command=command_line(result),
    )
    scope = result.scope
    named = [scope[name] for name in ("protocol", "mutant") if scope.get(name)]
    change = "+".join([*named, *scope.get("fixes", ())]) or "none"
    directory = Store(root).create(spec.workload, change, spec.seed)
    directory.begin(spec, Engines(), topology_of(result.steps), {})
    journal = Journal(directory.journal)
    for op in history:
        journal.append(op)
    journal.close()
    judgement = judge(history, workload_of(spec).checkers(), spec.check_s, level)
    directory.finish(judgement, history=history)
    return directory.path


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
