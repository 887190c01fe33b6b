"""Shrinks a stored run: its smallest script, and the run and the page that show it."""

import shlex
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from msgspec import structs

from checkers.phrasing import number
from harness.core.errors import UsageError
from harness.core.op import Json
from harness.run.campaign import FinishedRun
from harness.run.run_request import Invocation
from harness.run.scripted import ScriptedRun, write_script
from harness.run.stop import Stop
from harness.run.trial import TryCounts
from harness.search.candidates import (
    SCRIPT_FILE,
    OnRealServers,
    OnSimulatedServers,
    RedRun,
    request_of,
)
from harness.search.script_edits import Sizes, sizes_of
from harness.search.shrinking import OutOfBudgetError, ShrinkBudget, Shrinker
from harness.store.store import Store

CONFIDENCE: Final = 0.95
"""Confidence of the interval of a rate."""


@dataclass(frozen=True, slots=True)
class Shrunk:
    """Result of a shrink."""

    red: RedRun
    small: ScriptedRun
    before: Sizes
    after: Sizes
    budget: ShrinkBudget
    minimal: bool
    why: str
    """Reason why it is not known to be minimal; "" if it is."""
    tries: TryCounts | None
    """Tries of the result on real servers; None on simulated ones."""
    others: Mapping[str, ScriptedRun]
    """The smallest candidates that showed the anomaly by another cause, by that cause."""

    def other_path(self, cause: str) -> Path:
        """Return the path of the script of another cause."""
        return self.red.directory.path / f"other-{cause.replace(',', '+')}.toml"

    @property
    def path(self) -> Path:
        """Path of the script."""
        return self.red.directory.path / SCRIPT_FILE

    @property
    def command(self) -> str:
        """Command that plays the script."""
        return shlex.join(["harness", "run", "--script", str(self.path)])

    @property
    def comments(self) -> tuple[str, ...]:
        """Return what the file says above the script. It depends on the run alone."""
        before, after = self.before, self.after
        lines = [
            f"Shrunk from run {self.red.name}, seed {self.red.info.spec.seed}:",
            f"  {self.red.info.spec.command}",
            "",
            f"It is INVALID: {self.red.kind.checker} finds {self.red.kind.kind}.",
            f"Before: {describe_size(before)}.",
            f"After:  {describe_size(after)}.",
            self.why or "No call and no fault can be left out alone.",
        ]
        if self.tries is not None:
            low, high = self.tries.rate(CONFIDENCE)
            lines.append(
                f"It reproduced in {self.tries.hits} of {self.tries.conclusive} tries "
                f"(rate {low:.2f} to {high:.2f}, confidence {CONFIDENCE:g})."
            )
        return (*lines, "", "Play it with: harness run --script THIS-FILE")

    def json(self) -> dict[str, Json]:
        """Return the result as JSON."""
        tries = self.tries
        return {
            "run": str(self.red.directory.path),
            "kind": str(self.red.kind),
            "before": msgspec.to_builtins(self.before),
            "after": msgspec.to_builtins(self.after),
            "candidates": self.budget.candidates,
            "accepted": self.budget.accepted,
            "events": self.budget.events,
            "minimal": self.minimal,
            "why": self.why or None,
            "cause": None if self.red.kind.cause is None else self.red.kind.cause.text,
            "others": {cause: str(self.other_path(cause)) for cause in self.others},
            "tries": None if tries is None else {"hits": tries.hits, "tries": tries.conclusive},
            "script": str(self.path),
            "page": str(self.red.directory.shrunk_page),
            "command": self.command,
        }


def describe_size(sizes: Sizes) -> str:
    """Return "4 operations and 1 fault in 0.8 s on 4 servers"."""
    return (
        f"{number(sizes.calls, 'operation')} and {number(sizes.faults, 'fault')} in "
        f"{round(sizes.seconds, 4):g} s on {number(sizes.nodes, 'server')}"
    )


def shrink_run(
    red: RedRun,
    budget: ShrinkBudget,
    stop: Stop,
    progress: Callable[[Shrinker, str], None] = lambda *_: None,
    real: OnRealServers | None = None,
) -> Shrunk:
    """Shrink a run. `real` runs the candidates of a run on real servers. Raises HarnessError."""
    run = real or OnSimulatedServers(red.kind, budget)
    shrinker = Shrinker(
        red.script, run, budget, progress, stopped=lambda: bool(stop), fixed_cluster=bool(real)
    )
    store = red.directory.path.parent.parent
    with real.on_cluster(red, store, stop) if real else nullcontext():
        _shrink(shrinker)
    small = shrinker.best
    why = ""
    if stop:
        why = f"Interrupted: {stop.reason}; this is the smallest run until then."
    elif not shrinker.minimal:
        why = "The budget is spent; a larger one may find a smaller run."
    request = request_of(small)
    return Shrunk(
        red,
        small,
        sizes_of(red.script, len(red.info.topology.nodes)),
        sizes_of(small, len(request.topology.nodes)),
        budget,
        shrinker.minimal,
        why,
        real.counts.get(small.text) if real else None,
        run.others if isinstance(run, OnSimulatedServers) else {},
    )


def _shrink(shrinker: Shrinker) -> None:
    """Shrink, once the script of the run itself has reproduced. Raises UsageError."""
    try:
        shown = shrinker.first()
    except OutOfBudgetError:
        raise UsageError(
            "it is not decided whether the script of the run itself shows the anomaly, and all "
            "tries are spent; expected more --tries"
        ) from None
    if not shown:
        raise UsageError(
            "the script of the run itself does not show the anomaly, so that there is nothing to "
            "shrink; on real servers its rate may be below --accept-rate"
        )
    shrinker.shrink()


def _play(script: ScriptedRun, path: Path, store: Store) -> FinishedRun:
    """Play a script that was written, as a run of the store. Raises HarnessError."""
    request = request_of(script, Invocation(store=str(store.root)), path)
    command = shlex.join(["harness", "run", "--script", str(path)])
    again = structs.replace(request.spec(request.given.seed), command=command)
    return request.campaign(None, Stop()).run_once(again)


def store_shrunk(result: Shrunk, store: Store) -> str | None:
    """Write the scripts, play each once as a run of the store, and draw the page. Return why it was
    not drawn. Raises HarnessError."""
    from harness.report.run_files import facts_in
    from harness.report.shrunk import write_comparison  # its templates are slow to load

    for cause, other in result.others.items():
        path = result.other_path(cause)
        write_script(path, other, [f"Met while {result.red.name} was shrunk; explained: {cause}."])
        _play(other, path, store)
    text = write_script(result.path, result.small, result.comments)
    run = _play(result.small, result.path, store)
    return write_comparison(
        result.red.directory.shrunk_page,
        [facts_in(result.red.directory), facts_in(run.directory)],
        result.json(),
        text,
    )
