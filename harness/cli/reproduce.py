"""`harness reproduce`: play a simulated INVALID run on real servers."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import ClassVar, Final

import rich_click as click
from msgspec import structs

from checkers.phrasing import number as counted
from harness.cli.parameter_types import WORD, image_options, json_option, number, store_option
from harness.cli.terminal import Terminal
from harness.core.errors import (
    EXIT_INVALID,
    EXIT_UNKNOWN,
    EXIT_VALID,
    HarnessError,
    UsageError,
)
from harness.core.op import Json, Op
from harness.core.protocols import Context, Generator, Step
from harness.core.verdict import Status
from harness.generators.script import broke_off
from harness.run.campaign import FinishedRun
from harness.run.phases import record, workers_of
from harness.run.rates import interval
from harness.run.run_request import Invocation
from harness.run.scripted import ScriptedRun, commented, read_script
from harness.run.stop import Stop
from harness.run.try_result import TryResult
from harness.search.candidates import (
    SCRIPT_FILE,
    AnomalyKind,
    OnSimulatedServers,
    RedRun,
    in_memory,
    played_spec,
    red_run,
    request_of,
)
from harness.search.constraints import constraints_of
from harness.search.message_log import key_messages
from harness.search.played_run import PlayedRun, calls_of, expected, outlasted
from harness.search.shrinking import ShrinkBudget
from harness.search.translation import Translation, alike, rule_of, translated, without_rules
from harness.sim.bugs import OF_SERVERS
from harness.sim.world import World
from harness.spec.catalogue import workload_entry
from harness.spec.run_spec import RunSpec
from harness.store.store import Store

FILE: Final = "reproduced.toml"
OTHER_SEEDS: Final = 40
"""Number of other seeds under which the usual order of messages is looked for."""
FIRST_OTHER: Final = 1_000
CONFIDENCE: Final = 0.95
REPAIRS_MAX: Final = 6
"""Number of rules that may be given up because a real server does not send their message."""
COUNTERPARTS: Final[Mapping[str, tuple[str, str]]] = {
    "protocol:quorum-too-small": ("quorum-durability", "durability:acknowledged-early"),
}
"""Workload and kind by which real servers are judged, for kinds that only the record of simulated
servers shows."""
SET_CALLS: Final = frozenset({"insert", "read", "where", "observe-quorum"})
"""Calls that the workloads of COUNTERPARTS have."""
PATIENCE_S: Final = 60
"""Time-out of clients whose calls last until a replica has started, which takes real servers tens
of seconds: the old session expires first."""
MODELLED: Final = "18.16"
"""Version that the simulator models."""


@dataclass(slots=True)
class _Clocked:
    """Generator that notes how far the world's clock is ahead of the history's."""

    inner: Generator
    world: World
    ahead_ns: int | None = None
    listens: ClassVar[bool] = False

    def op(self, context: Context) -> tuple[Step, Generator]:
        """Return what the generator returns."""
        if self.ahead_ns is None:
            self.ahead_ns = self.world.now_ns - context.time_ns
        return self.inner.op(context)

    def update(self, context: Context, event: Op) -> Generator:
        """Return the generator after an event."""
        return self.inner.update(context, event)


def simulated(script: ScriptedRun) -> PlayedRun:
    """Run a script on simulated servers and return what happened. Raises HarnessError."""
    request = request_of(script)
    spec = played_spec(script, request)
    cluster = request.simulated_cluster(spec, lambda _: None)
    try:
        cluster.up()
        cluster.simulation.servers.log_messages()
        clocked = _Clocked(script.generator, cluster.simulation.world)
        history = record(in_memory(spec, request, cluster, clocked)).history()
        replicas = cluster.topology.replicas
        workers = len(workers_of(spec.nodes or replicas, spec.concurrency, replicas)) - 1
        log = cluster.simulation.servers.messages(clocked.ahead_ns or 0)
        return PlayedRun(calls_of(history, workers), key_messages(log, since_ns=0))
    finally:
        cluster.down()


def translation_of(red: RedRun) -> tuple[Translation, AnomalyKind]:
    """Return the script of a simulated run for real servers, and what it must show there. Raises
    UsageError for a run that has no counterpart there."""
    script = red.script
    if not red.simulated:
        raise UsageError(f"run {red.name}: its servers were real; expected a simulated run")
    planted = [bug for bug in str(script.options.get("bug", "")).split(",") if bug]
    for bug in planted:
        if bug not in OF_SERVERS:
            raise UsageError(
                f"run {red.name}: real servers do not have the planted bug {bug}; expected one of "
                f"{' '.join(sorted(OF_SERVERS))}, or none"
            )
    kind, options = red.kind, dict(script.options)
    if str(kind) in COUNTERPARTS:
        workload, other = COUNTERPARTS[str(kind)]
        if not {one.call.f for one in script.calls if one.by >= 0} <= SET_CALLS:
            raise UsageError(f"run {red.name}: only simulated servers show {kind}")
        options["workload"], kind = workload, AnomalyKind(*other.split(":"))
    elif kind.checker == "protocol":
        raise UsageError(
            f"run {red.name}: only simulated servers show {kind}; expected another --kind"
        )
    if not OnSimulatedServers(red.kind, ShrinkBudget())(script).shown:
        raise UsageError(f"run {red.name}: its script does not show {red.kind} any more")
    faultless = replace(script, calls=tuple(one for one in script.calls if one.by >= 0))
    others = [
        simulated(replace(faultless, options={**faultless.options, "seed": str(FIRST_OTHER + n)}))
        for n in range(OTHER_SEEDS)
    ]
    what = expected(simulated(script))
    found = constraints_of(what, others)
    wanted: dict[str, str] = {}
    if any(message.what == "lose" for message in what.messages):
        wanted["short-log"] = "true"  # as simulated servers; otherwise no replica is lost
    if outlasted(what):
        wanted["timeout-s"] = str(PATIENCE_S)
    if wanted:
        options["option"] = _with_own_options(options, wanted)
    return translated(replace(script, options=options), what, found), kind


def _with_own_options(
    options: Mapping[str, str | tuple[str, ...]], wanted: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the workload's own options with those of `wanted` that it has and that are not
    given."""
    given = options.get("option", ())
    words = (given,) if isinstance(given, str) else given
    if "workload" not in options:
        return words
    known = {own.name for own in fields(workload_entry(str(options["workload"])).options)}
    known -= {word.partition("=")[0].replace("-", "_") for word in words}
    added = [f"{n}={value}" for n, value in wanted.items() if n.replace("-", "_") in known]
    return (*words, *added)


@dataclass(frozen=True, slots=True)
class Try:
    """Result of one try."""

    result: TryResult
    why: str | None
    """Reason of BROKE OFF or UNKNOWN."""
    run: str
    """Directory of its run."""
    versions: Mapping[str, str]

    def json(self) -> dict[str, Json]:
        """Return the result as JSON."""
        return {"result": self.result.value.upper(), "why": self.why, "run": self.run}


@dataclass(slots=True)
class Tries:
    """Tries of a translated script on real servers.

    A real server may not send a message that a simulated one sends. A try that waits for it in vain
    is not counted, and its rule is given up: the script has a constraint less.
    """

    script: ScriptedRun
    kind: AnomalyKind
    tries_max: int
    shown: Callable[[str], None]
    tries: list[Try] = field(default_factory=list)
    given_up: list[str] = field(default_factory=list)
    repairs: int = 0
    """Number of tries after which rules were given up."""

    def finished(self, run: FinishedRun) -> None:
        """Note the result of a try, or give up the rule that was in its way."""
        one = self._result(run)
        rules = {name for step in self.script.steps if (name := rule_of(step))}
        lost = [name for name in sorted(rules) if one.why and f"{name} on " in one.why]
        if one.result is TryResult.BROKE_OFF and lost and self.repairs < REPAIRS_MAX:
            names = alike(self.script, max(lost, key=len))
            self.given_up += names
            self.repairs += 1
            self.script = without_rules(self.script, names)
            self.shown(f"gave up {', '.join(names)}: {one.why}")
            return
        self.tries.append(one)
        self.shown(f"{one.result.value.upper()} {one.run}" + (f": {one.why}" if one.why else ""))

    def _result(self, run: FinishedRun) -> Try:
        judgement, history = run.outcome.judgement, run.outcome.history
        path, versions = str(run.directory.path), run.directory.info().versions
        if self.kind.in_(judgement, history) is not None:
            return Try(TryResult.REPRODUCED, None, path, versions)
        if why := broke_off(self.script.steps, history):
            return Try(TryResult.BROKE_OFF, why, path, versions)
        own = [one for one in judgement.verdicts if one.checker == self.kind.checker]
        if not own or any(one.status is Status.UNKNOWN for one in own):
            why = f"{self.kind.checker} reached no conclusion"
            return Try(TryResult.UNKNOWN, why, path, versions)
        return Try(TryResult.NOT_REPRODUCED, None, path, versions)

    def specs(self, spec: RunSpec) -> Iterator[RunSpec]:
        """Yield the run of each try, until there are enough."""
        made = 0
        while len(self.tries) < self.tries_max:
            yield structs.replace(spec, seed=spec.seed.after(made), concurrency=self.script.clients)
            made += 1

    @property
    def hits(self) -> int:
        """Return how many tries reproduced."""
        return sum(one.result is TryResult.REPRODUCED for one in self.tries)

    @property
    def sentence(self) -> str:
        """Return "reproduced in 7 of 10 tries on ClickHouse 18.16.1 (…)"."""
        low, high = interval(self.hits, len(self.tries), CONFIDENCE)
        versions = {
            version
            for one in self.tries
            for node, version in one.versions.items()
            if node.startswith("ch")
        }
        broken = sum(one.result is TryResult.BROKE_OFF for one in self.tries)
        return (
            f"reproduced in {self.hits} of {counted(len(self.tries), 'try', 'tries')} on "
            f"ClickHouse {' '.join(sorted(versions))} (rate {low:.2f} to {high:.2f}, confidence "
            f"{CONFIDENCE:g}{f'; {broken} broke off' if broken else ''})"
        )

    @property
    def exit_status(self) -> int:
        """Return 0 if a try reproduced; 1 if none of those that were decided did; else 2."""
        if self.hits:
            return EXIT_VALID
        decided = any(one.result is TryResult.NOT_REPRODUCED for one in self.tries)
        return EXIT_INVALID if decided else EXIT_UNKNOWN


@click.command("reproduce")
@click.argument("run", type=WORD, default="latest")
@click.option(
    "--kind",
    metavar="CHECKER:KIND",
    help="Anomaly that must show. Default: the gravest one of the run.",
)
@click.option(
    "--tries", type=number("tries"), default=10, help="Number of runs on one cluster. Default: 10."
)
@click.option(
    "--dry-run", is_flag=True, help="Translate the run and write the script, but do not play it."
)
@image_options
@click.option("--keep-cluster", is_flag=True, help="Leave the cluster running.")
@click.option("--reuse", type=WORD, metavar="CLUSTER", help="Run on a kept cluster.")
@store_option
@json_option
def reproduce(
    run: str,
    kind: str | None,
    tries: int,
    dry_run: bool,
    keep_cluster: bool,
    reuse: str | None,
    store: str,
    as_json: bool,
    **images: str | None,
) -> int:
    """Translate a simulated INVALID run into a script for real servers, and play it there.

    The script has the calls of the run, or of its shrunk.toml, and rules by which proxies hold back
    single messages, in place of times. It is written to the run's directory as reproduced.toml,
    which `harness run --script` plays too. The servers are ClickHouse 18.16, which the simulator
    models, unless --clickhouse says otherwise.

    Exit status: 0 at least one try reproduced the anomaly, 1 none did, 2 no try was decided.
    """
    console = Terminal(stderr=as_json, highlight=False)
    kept = Store(Path(store))
    red = red_run(run, kept, kind)
    shrunk = red.directory.path / SCRIPT_FILE
    if shrunk.exists():
        red = replace(red, script=read_script(shrunk))
    found, wanted = translation_of(red)
    path = red.directory.path / FILE
    _write(path, red, found.run, wanted, found, ())
    console.print(
        f"{red.name}: {wanted}; {counted(len(found.constraints), 'constraint')}", markup=False
    )
    if dry_run:
        console.print(f"script  {path}", soft_wrap=True)
        return EXIT_VALID
    chosen = {name.replace("_", "-"): value for name, value in images.items() if value}
    if not reuse and "clickhouse-image" not in chosen:
        chosen = {"clickhouse": MODELLED, **chosen}
    invocation = Invocation(keep_cluster=keep_cluster, reuse=reuse, store=str(kept.root))
    played = Tries(
        found.run,
        wanted,
        tries,
        lambda text: console.print(text, markup=False, soft_wrap=True),
    )
    stop = Stop()
    with stop.obeying_signals():
        request = request_of(found.run, invocation, path, chosen)
        console.warn(request.store.prepare())
        campaign = replace(
            request.campaign(None, stop),
            reported=frozenset(),
            script=lambda _: played.script.generator,
        )
        with campaign.trials() as trial:
            for spec in played.specs(request.spec(request.given.seed)):
                played.finished(trial(spec))
                if stop:
                    break
    lines = [played.sentence[0].upper() + played.sentence[1:] + "."]
    lines += [f"Given up, as real servers do not send it: {name}." for name in played.given_up]
    _write(path, red, played.script, wanted, found, lines)
    console.print(f"{played.sentence}; script: {path}", soft_wrap=True)
    if as_json:
        click.echo(json.dumps(_json(red, wanted, found, played, path)))
    return played.exit_status


def _write(
    path: Path,
    red: RedRun,
    script: ScriptedRun,
    kind: AnomalyKind,
    found: Translation,
    lines: Sequence[str],
) -> None:
    """Write the script. Raises HarnessError."""
    comments = [
        f"Translated from the simulated run {red.name}, seed {red.script.options['seed']}, for",
        "real servers.",
        "",
        f"It must show: {kind.checker} finds {kind.kind}.",
        *lines,
        "",
        "A message takes effect after another:" if found.constraints else "No constraint.",
        *(f"  {one}" for one in found.constraints),
        "",
        "Play it with: harness run --script THIS-FILE --clickhouse VERSION",
    ]
    try:
        path.write_text(commented(script, comments), encoding="utf-8")
    except OSError as error:
        raise HarnessError(f"{path}: cannot be written: {error.strerror}") from error


def _json(
    red: RedRun, kind: AnomalyKind, found: Translation, played: Tries, path: Path
) -> dict[str, Json]:
    return {
        "run": str(red.directory.path),
        "kind": str(kind),
        "constraints": [str(one) for one in found.constraints],
        "given_up": list(played.given_up),
        "hits": played.hits,
        "tries": [one.json() for one in played.tries],
        "script": str(path),
    }
