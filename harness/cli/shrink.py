"""`harness shrink`: make a red run small, as long as it shows the same anomaly."""

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

import rich_click as click
from rich.console import Console
from rich.status import Status as Spinner
from rich.table import Table

from harness.cli.parameter_types import WORD, json_option, number, store_option
from harness.cli.terminal import Terminal
from harness.core.errors import EXIT_UNKNOWN, EXIT_VALID, UsageError
from harness.run.rates import SequentialTest
from harness.run.stop import Stop
from harness.search.candidates import OnRealServers, RedRun, red_run
from harness.search.shrinking import CANDIDATES_MAX, EVENTS_MAX, ShrinkBudget, Shrinker
from harness.search.shrunk_run import Shrunk, describe_size, shrink_run, store_shrunk
from harness.store.store import Store

TRIES_MAX: Final = 100


@click.command("shrink")
@click.argument("run", type=WORD, default="latest")
@click.option(
    "--kind",
    metavar="CHECKER:KIND",
    help="Anomaly that must remain. Default: the gravest one of the run.",
)
@click.option(
    "--candidates",
    type=number("candidates"),
    default=CANDIDATES_MAX,
    help=f"Maximum number of candidates to run. Default: {CANDIDATES_MAX}.",
)
@click.option(
    "--events",
    type=number("sim_events"),
    default=EVENTS_MAX,
    help=f"Maximum number of simulated events of all candidates. Default: {EVENTS_MAX:,}.",
)
@click.option(
    "--tries",
    type=number("tries"),
    default=TRIES_MAX,
    help=f"On real servers: maximum number of runs of all candidates. Default: {TRIES_MAX}.",
)
@click.option(
    "--accept-rate",
    type=number("accept_rate"),
    default=0.7,
    help="On real servers: rate of reproduction at which a candidate is accepted, except with a "
    "probability of 0.05. Default: 0.7.",
)
@click.option(
    "--reject-rate",
    type=number("reject_rate"),
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

    It remains with its cause: it must be explained by known defects of the run alone, or not at all
    if the run is not. What shows the anomaly by another cause on the way is stored as a script and
    a run of its own.

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
            result = shrink_run(red, budget, stop, _progress(spinner, red), real)
        page = store_shrunk(result, kept)
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
    if result.tries is not None:
        console.print(f"reproduced in {result.tries.hits} of {result.tries.conclusive} tries")
    if result.why:
        console.print(f"! {result.why}", style="yellow")
    if page is not None:
        console.print(f"! {page}", style="yellow", markup=False)
    for cause in result.others:
        console.print(f"other   {cause}: {result.other_path(cause)}", soft_wrap=True)
    console.print(f"script  {result.path}", soft_wrap=True)
    console.print(f"again   {result.command}", soft_wrap=True)
    word = "shrunk" if result.minimal else "cut short"
    console.print(
        f"{word}: {result.red.kind} in {describe_size(result.after)}, of "
        f"{describe_size(result.before)}; page: {result.red.directory.shrunk_page}",
        style="bold green" if result.minimal else "bold yellow",
        soft_wrap=True,
    )
