"""`harness shrink`: make a red run small, as long as it shows the same anomaly."""

import json
import shlex
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rich_click as click
from msgspec import structs
from rich.console import Console
from rich.status import Status as Spinner
from rich.table import Table

from checkers.phrasing import number
from harness.cli.parameter_types import WORD, json_option, store_option
from harness.cli.parameter_types import number as number_type
from harness.cli.terminal import Terminal
from harness.core.errors import EXIT_UNKNOWN, EXIT_VALID, HarnessError, UsageError
from harness.core.op import Json
from harness.run.campaign import FinishedRun
from harness.run.rates import SequentialTest, interval
from harness.run.run_request import Invocation
from harness.run.scripted import ScriptedRun, commented
from harness.run.stop import Stop
from harness.search.candidates import (
    SCRIPT_FILE,
    OnRealServers,
    OnSimulatedServers,
    RedRun,
    on_cluster,
    red_run,
    request_of,
)
from harness.search.script_edits import Sizes, sizes_of
from harness.search.shrinking import CANDIDATES_MAX, EVENTS_MAX, ShrinkBudget, Shrinker
from harness.store.store import Store

TRIES_MAX = 100
CONFIDENCE = 0.95


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
    rate: tuple[int, int] | None
    """Hits and tries of the result on real servers; None on simulated ones."""

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
            f"Before: {_phrase(before)}.",
            f"After:  {_phrase(after)}.",
            self.why or "No call and no fault can be left out alone.",
        ]
        if self.rate is not None:
            hits, tries = self.rate
            low, high = interval(hits, tries, CONFIDENCE)
            lines.append(
                f"It reproduced in {hits} of {tries} tries (rate {low:.2f} to {high:.2f}, "
                f"confidence {CONFIDENCE:g})."
            )
        return (*lines, "", "Play it with: harness run --script THIS-FILE")

    def json(self) -> dict[str, Json]:
        """Return the result as JSON."""
        return {
            "run": str(self.red.directory.path),
            "kind": str(self.red.kind),
            "before": {**self.before.json()},
            "after": {**self.after.json()},
            "candidates": self.budget.candidates,
            "accepted": self.budget.accepted,
            "events": self.budget.events,
            "minimal": self.minimal,
            "why": self.why or None,
            "tries": None if self.rate is None else {"hits": self.rate[0], "tries": self.rate[1]},
            "script": str(self.path),
            "page": str(self.red.directory.shrunk_page),
            "command": self.command,
        }


def _phrase(sizes: Sizes) -> str:
    """Return "4 operations and 1 fault in 0.8 s on 4 servers"."""
    return (
        f"{number(sizes.calls, 'operation')} and {number(sizes.faults, 'fault')} in "
        f"{round(sizes.seconds, 4):g} s on {number(sizes.nodes, 'server')}"
    )


def shrunk(
    red: RedRun,
    budget: ShrinkBudget,
    stop: Stop,
    progress: Callable[[Shrinker, str], None] = lambda *_: None,
    real: OnRealServers | None = None,
) -> Shrunk:
    """Shrink a run. `real` runs the candidates of a run on real servers. Raises HarnessError."""
    judged = real or OnSimulatedServers(red.kind, budget)
    shrinker = Shrinker(
        red.script, judged, budget, progress, stopped=lambda: bool(stop), fixed_cluster=bool(real)
    )
    if real is None:
        on_cluster(shrinker)
    else:
        store = red.directory.path.parent.parent
        real.shrunk(shrinker, red, store, stop)
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
        real.rates.get(small.text) if real else None,
    )


@click.command("shrink")
@click.argument("run", type=WORD, default="latest")
@click.option(
    "--kind",
    metavar="CHECKER:KIND",
    help="Anomaly that must remain. Default: the gravest one of the run.",
)
@click.option(
    "--candidates",
    type=number_type("candidates"),
    default=CANDIDATES_MAX,
    help=f"Maximum number of candidates to run. Default: {CANDIDATES_MAX}.",
)
@click.option(
    "--events",
    type=number_type("sim_events"),
    default=EVENTS_MAX,
    help=f"Maximum number of simulated events of all candidates. Default: {EVENTS_MAX:,}.",
)
@click.option(
    "--tries",
    type=number_type("tries"),
    default=TRIES_MAX,
    help=f"On real servers: maximum number of runs of all candidates. Default: {TRIES_MAX}.",
)
@click.option(
    "--accept-rate",
    type=number_type("accept_rate"),
    default=0.7,
    help="On real servers: rate of reproduction at which a candidate is accepted, except with a "
    "probability of 0.05. Default: 0.7.",
)
@click.option(
    "--reject-rate",
    type=number_type("reject_rate"),
    default=0.3,
    help="On real servers: rate of reproduction at which a candidate is rejected, except with a "
    "probability of 0.05. Default: 0.3.",
)
@store_option
@json_option
def shrink(
    run: str,
    kind: str | None,
    candidates: int,
    events: int,
    tries: int,
    accept_rate: float,
    reject_rate: float,
    store: str,
    as_json: bool,
) -> int:
    """Make a stored INVALID run small: remove calls, faults, time, servers and options as long as
    the same anomaly remains.

    The smallest run is written to the run's directory: shrunk.toml, a script that `harness run
    --script` plays, and shrunk.html, which shows both runs. On simulated servers the same run
    always shrinks to the same script. On real servers a candidate is played until a sequential
    test accepts or rejects its rate of reproduction.

    Ctrl-C ends the search and keeps the smallest run so far. Exit status: 0 no call and no fault
    can be left out, 2 the search was cut short.
    """
    console = Terminal(stderr=as_json, highlight=False)
    if reject_rate >= accept_rate:
        raise UsageError(
            f"--reject-rate {reject_rate:g}: expected less than --accept-rate {accept_rate:g}"
        )
    kept = Store(Path(store))
    red = red_run(run, kept, kind)
    budget = ShrinkBudget(candidates, events)
    real = None
    if not red.simulated:
        test = SequentialTest(reject_rate, accept_rate)
        real = OnRealServers(red.kind, test, tries)
    stop = Stop()
    with stop.obeying_signals():
        with _shown(console) as spinner:
            result = shrunk(red, budget, stop, _progress(spinner, red), real)
        page = _stored(result, kept)
    if as_json:
        click.echo(json.dumps(result.json()))
    else:
        _show(console, result, page)
    return EXIT_VALID if result.minimal else EXIT_UNKNOWN


def _shown(console: Console) -> Any:
    return console.status("the run itself") if console.is_terminal else nullcontext()


def _progress(spinner: Spinner | None, red: RedRun) -> Callable[[Shrinker, str], None]:
    """Return what shows the state of the search."""

    def show(shrinker: Shrinker, name: str) -> None:
        if spinner is None:
            return
        budget, best = shrinker.budget, shrinker.best
        spent = max(budget.candidates / budget.candidates_max, budget.events / budget.events_max)
        spinner.update(
            f"{name}: {len(best.calls)} of {len(red.script.calls)} calls and faults, "
            f"{best.options['time-limit']} s; {budget.candidates} candidates, "
            f"{budget.accepted} accepted; {100 * spent:.0f} % of the budget"
        )

    return show


def _stored(result: Shrunk, store: Store) -> str | None:
    """Write the script, play it once as a run of the store, and draw the page. Return why that was
    not drawn."""
    from harness.report.run_files import facts_in
    from harness.report.shrunk import write_comparison  # its templates are slow to load

    text = commented(result.small, result.comments)
    try:
        result.path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise HarnessError(f"{result.path}: cannot be written: {error.strerror}") from error
    runs: list[FinishedRun] = []
    request = request_of(result.small, Invocation(store=str(store.root)), result.path)
    again = structs.replace(request.spec(request.given.seed), command=result.command)
    request.campaign(None, Stop()).run([again], runs.append)
    return write_comparison(
        result.red.directory.shrunk_page,
        [facts_in(result.red.directory), facts_in(runs[0].directory)],
        result.json(),
        text,
    )


def _show(console: Console, result: Shrunk, page: str | None) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for name in ("", "operations", "faults", "seconds", "servers"):
        table.add_column(name, justify="left" if not name else "right")
    for name, sizes in (("before", result.before), ("after", result.after)):
        table.add_row(
            name,
            f"{sizes.calls:,}",
            str(sizes.faults),
            f"{round(sizes.seconds, 4):g}",
            str(sizes.nodes),
        )
    console.print(f"{result.red.name}: {result.red.kind}", markup=False)
    console.print(table)
    budget = result.budget
    console.print(f"{budget.candidates} candidates, {budget.accepted} accepted")
    if result.rate is not None:
        console.print(f"reproduced in {result.rate[0]} of {result.rate[1]} tries")
    if result.why:
        console.print(f"! {result.why}", style="yellow")
    if page is not None:
        console.print(f"! {page}", style="yellow", markup=False)
    console.print(f"script  {result.path}", soft_wrap=True)
    console.print(f"again   {result.command}", soft_wrap=True)
    word = "shrunk" if result.minimal else "cut short"
    console.print(
        f"{word}: {result.red.kind} in {_phrase(result.after)}, of {_phrase(result.before)}; "
        f"page: {result.red.directory.shrunk_page}",
        style="bold green" if result.minimal else "bold yellow",
        soft_wrap=True,
    )
