"""Exploration of every interleaving of a small model of the protocol, and its counterexample as a
stored run."""

import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from checkers.ladder import Level
from harness.core.dialect import Dialect, Mechanism, Version, dialect_of
from harness.core.engines import Engines
from harness.core.errors import UsageError
from harness.core.ranges import did_you_mean, quoted
from harness.core.seed import Seed
from harness.core.verdict import Status
from harness.native.explorer import Claim, Exploration, Step
from harness.run.made_history import Origin, store_history
from harness.sim.bugs import PROTOCOLS
from harness.sim.counterexample import history_of, topology_of
from harness.spec.run_spec import RunSpec
from harness.spec.workload_options import EXPLORED
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
SLICE_S: Final = 0.1
"""Seconds between two reports of progress."""


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


@dataclass(frozen=True, slots=True)
class ModelSearch:
    """Search through the states of a model, which has yet to begin."""

    model: str
    scope: Mapping[str, Any]
    symmetry: bool
    exploration: Exploration
    claims: tuple[str, ...]
    """Claims to check; () for all."""

    @staticmethod
    def of(
        model: str,
        scope: Mapping[str, Any],
        *,
        claims: tuple[str, ...],
        symmetry: bool,
        states_max: int | None,
        memory_mb: float,
    ) -> "ModelSearch":
        """Return the search of a scope. Raises UsageError for what the model does not know."""
        protocol = PROTOCOLS[scope["protocol"]] if "protocol" in scope else None
        rules = (
            None if protocol is None else (sorted(protocol.mechanisms), sorted(protocol.defects))
        )
        try:
            exploration = Exploration(
                model, **{**scope, "protocol": rules}, symmetry=symmetry, memory_mb=memory_mb,
                states_max=states_max,
            )  # fmt: skip
        except (ValueError, OverflowError) as error:
            raise UsageError(f"{model}: {error}") from error
        known = [claim.name for claim in exploration.claims()]
        for name in claims:
            if name not in known:
                meant = did_you_mean(name, known)
                expected = f"{meant}expected some of {' '.join(known)}"
                raise UsageError(f"--claim {quoted(name)}: {expected}")
        return ModelSearch(model, scope, symmetry, exploration, claims)

    def run(
        self, time_limit_s: float, *, first: bool, progress: Callable[[float], None]
    ) -> ExplorationResult:
        """Explore until every state was reached, a bound is met or, with `first`, a claim is
        broken; report the seconds since the begin meanwhile."""
        search, begin, stopped = self.exploration, time.perf_counter(), None
        while not search.advance(SLICE_S):
            progress(time.perf_counter() - begin)
            if first and any(claim.broken_after is not None for claim in self._judged):
                stopped = "violation"
                break
            if time.perf_counter() - begin > time_limit_s:
                stopped = "time"
                break
        seconds = time.perf_counter() - begin
        judged = self._judged
        broken = sorted(
            (claim.broken_after, at, claim.name)
            for at, claim in enumerate(judged)
            if claim.broken_after is not None
        )
        shown = broken[0][2] if broken else None
        ended = stopped or search.ended or "time"
        return ExplorationResult(
            model=self.model,
            scope=self.scope,
            symmetry=self.symmetry,
            status=_status(judged, ended, all_must_apply=bool(self.claims)),
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

    @property
    def _judged(self) -> tuple[Claim, ...]:
        """The claims to check, as far as they are known."""
        claims = self.exploration.claims()
        return tuple(one for one in claims if not self.claims or one.name in self.claims)


def _status(claims: tuple[Claim, ...], ended: str, *, all_must_apply: bool) -> Status:
    """Return the status of a search. A claim that applied to no state proves nothing."""
    if any(claim.broken_after is not None for claim in claims):
        return Status.INVALID
    applied = [claim.applied > 0 for claim in claims]
    enough = all(applied) if all_must_apply else any(applied)
    return Status.VALID if ended == "whole" and enough else Status.UNKNOWN


def scope_of(model: str, chosen: Mapping[str, Any]) -> Mapping[str, Any]:
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


def _command_of(result: ExplorationResult) -> str:
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


def store_counterexample(result: ExplorationResult, root: Path) -> Path:
    """Store the counterexample as a judged run. Raises HarnessError."""
    history = history_of(result.model, result.steps)
    level = Level.LINEARIZABLE if result.model == "quorum" else Level.EVENTUAL
    spec = RunSpec(
        workload=f"{EXPLORED}{result.model}",
        nemesis="none",
        seed=Seed(0),
        cluster="sim",
        promise=level.value,
        command=_command_of(result),
    )
    scope = result.scope
    named = [scope[name] for name in ("protocol", "mutant") if scope.get(name)]
    change = "+".join([*named, *scope.get("fixes", ())]) or "none"
    origin = Origin(topology=topology_of(result.steps), engines=Engines(), versions={})
    return store_history(Store(root), spec, change, history, origin).directory.path
