"""Reproduction of a simulated run on real servers: the script that plays it there, and its
tries."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import ClassVar, Final

from msgspec import structs

from checkers.phrasing import number as counted
from harness.core.errors import EXIT_INVALID, EXIT_UNKNOWN, EXIT_VALID, UsageError
from harness.core.op import Op
from harness.core.protocols import Context, Generator, Step
from harness.run.campaign import FinishedRun
from harness.run.phases import record, workers_of
from harness.run.rates import interval
from harness.run.run_context import RunContext
from harness.run.run_request import RunRequest
from harness.run.scripted import ScriptedRun, read_script, write_script
from harness.run.stop import Stop
from harness.run.trial import Trial, TryCounts, TryResult
from harness.search.anomaly_kind import AnomalyKind
from harness.search.candidates import (
    SCRIPT_FILE,
    OnSimulatedServers,
    RedRun,
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


def simulate(script: ScriptedRun) -> PlayedRun:
    """Run a script on simulated servers and return what happened. Raises HarnessError."""
    request = request_of(script)
    spec = played_spec(script, request)
    cluster = request.simulated_cluster(spec, lambda _: None)
    try:
        cluster.up()
        cluster.simulation.servers.log_messages()
        clocked = _Clocked(script.generator, cluster.simulation.world)
        history = record(RunContext.of(spec, cluster, script=clocked)).history()
        replicas = cluster.topology.replicas
        workers = len(workers_of(spec.nodes or replicas, spec.concurrency, replicas)) - 1
        log = cluster.simulation.servers.messages(clocked.ahead_ns or 0)
        return PlayedRun(calls_of(history, workers), key_messages(log, since_ns=0))
    finally:
        cluster.down()


def translate_run(red: RedRun) -> tuple[Translation, AnomalyKind]:
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
        options["workload"], kind = workload, AnomalyKind.parse(other)
    elif kind.checker == "protocol":
        raise UsageError(
            f"run {red.name}: only simulated servers show {kind}; expected another --kind"
        )
    if not OnSimulatedServers(red.kind, ShrinkBudget())(script).shown:
        raise UsageError(f"run {red.name}: its script does not show {red.kind} any more")
    faultless = replace(script, calls=tuple(one for one in script.calls if one.by >= 0))
    others = [
        simulate(replace(faultless, options={**faultless.options, "seed": str(FIRST_OTHER + n)}))
        for n in range(OTHER_SEEDS)
    ]
    what = expected(simulate(script))
    found = constraints_of(what, others)
    wanted: dict[str, str] = {}
    if any(message.what == "lose" for message in what.messages):
        wanted["short-log"] = "true"  # as simulated servers; otherwise no replica is lost
    if outlasted(what):
        wanted["timeout-s"] = str(PATIENCE_S)
    if wanted:
        options["option"] = _add_own_options(options, wanted)
    return translated(replace(script, options=options), what, found), kind


def _add_own_options(
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
class RunReproduction:
    """A simulated INVALID run as a script for real servers, which its directory keeps."""

    red: RedRun
    translation: Translation
    kind: AnomalyKind
    """What it must show on real servers."""

    @staticmethod
    def of(name: str, store: Store, kind: str | None) -> "RunReproduction":
        """Translate a stored run, or what it was shrunk to. Raises UsageError."""
        red = red_run(name, store, kind)
        red = replace(red, kind=replace(red.kind, cause=None))  # other servers, other defects
        shrunk = red.directory.path / SCRIPT_FILE
        if shrunk.exists():
            red = replace(red, script=read_script(shrunk))
        return RunReproduction(red, *translate_run(red))

    @property
    def path(self) -> Path:
        """Path of the script."""
        return self.red.directory.path / FILE

    def write(self, script: ScriptedRun, lines: Sequence[str] = ()) -> None:
        """Write the script, with these lines about its tries above it. Raises HarnessError."""
        red, constraints = self.red, self.translation.constraints
        comments = [
            f"Translated from the simulated run {red.name}, seed {red.script.options['seed']}, for",
            "real servers.",
            "",
            f"It must show: {self.kind.checker} finds {self.kind.kind}.",
            *lines,
            "",
            "A message takes effect after another:" if constraints else "No constraint.",
            *(f"  {one}" for one in constraints),
            "",
            "Play it with: harness run --script THIS-FILE --clickhouse VERSION",
        ]
        write_script(self.path, script, comments)


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
    tries: list[Trial] = field(default_factory=list)
    versions: set[str] = field(default_factory=set)
    """Versions of the ClickHouse servers of these tries."""
    given_up: list[str] = field(default_factory=list)
    repairs: int = 0
    """Number of tries after which rules were given up."""
    kept: Path | None = None
    """Directory of the cluster, if it keeps running."""

    def play(self, request: RunRequest, stop: Stop) -> None:
        """Play the script on one cluster until there are enough tries, or a stop is requested.
        Raises HarnessError, with the cluster down."""
        campaign = replace(request.campaign(None, stop), script=lambda _: self.script.generator)
        with campaign.trials() as trial:
            self.kept = campaign.clusters.kept
            for spec in self._specs(request.spec(request.given.seed)):
                self._take(trial(spec))
                if stop:
                    break

    def _specs(self, spec: RunSpec) -> Iterator[RunSpec]:
        """Yield the run of each try, until there are enough."""
        made = 0
        while len(self.tries) < self.tries_max:
            yield structs.replace(spec, seed=spec.seed.after(made), concurrency=self.script.clients)
            made += 1

    def _take(self, run: FinishedRun) -> None:
        """Note the result of a try, or give up the rule that was in its way."""
        one = self.kind.judge(run, self.script.steps)
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
        versions = run.directory.info().versions
        self.versions |= {v for node, v in versions.items() if node.startswith("ch")}
        self.shown(f"{one.result.value.upper()} {one.run}" + (f": {one.why}" if one.why else ""))

    @property
    def counts(self) -> TryCounts:
        """Number of tries by result."""
        return TryCounts.of(one.result for one in self.tries)

    @property
    def sentence(self) -> str:
        """Return "reproduced in 7 of 10 tries on ClickHouse 18.16.1 (…)"."""
        counts = self.counts
        low, high = interval(counts.hits, counts.total, CONFIDENCE)
        broken = counts.counts[TryResult.BROKE_OFF]
        return (
            f"reproduced in {counts.hits} of {counted(counts.total, 'try', 'tries')} on "
            f"ClickHouse {' '.join(sorted(self.versions))} (rate {low:.2f} to {high:.2f}, "
            f"confidence {CONFIDENCE:g}{f'; {broken} broke off' if broken else ''})"
        )

    @property
    def lines(self) -> list[str]:
        """Lines above the script about its tries."""
        given_up = [f"Given up, as real servers do not send it: {n}." for n in self.given_up]
        return [f"{self.sentence[0].upper()}{self.sentence[1:]}.", *given_up]

    @property
    def exit_status(self) -> int:
        """Return 0 if a try reproduced; 1 if none of those that were decided did; else 2."""
        if self.counts.hits:
            return EXIT_VALID
        return EXIT_INVALID if self.counts.misses else EXIT_UNKNOWN
