"""`harness compare`: run a scenario or a stored run on several server versions."""

import json
from functools import partial
from math import ceil, floor
from pathlib import Path

import rich_click as click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from compose.releases import CLICKHOUSE, ZOOKEEPER, known, zookeeper_release
from harness.cli.display import live_display
from harness.cli.parameter_types import WORD, WORDS, json_option, number, store_option
from harness.cli.result import STATUS_STYLE
from harness.cli.terminal import Terminal
from harness.core.errors import EXIT_UNKNOWN, EXIT_VALID
from harness.run.stop import Stop
from harness.run.trial import Trial, TryResult
from harness.search.replay import Player, Replay, VersionTries, replay_of, versions_of
from harness.store.store import Store

CONFIDENCE = 0.95
"""Confidence of the interval of a rate."""
RESULT_STYLE = {
    TryResult.REPRODUCED: "bold red",
    TryResult.NOT_REPRODUCED: "bold green",
    TryResult.UNKNOWN: "bold yellow",
    TryResult.BROKE_OFF: "bold yellow",
}

_STYLES = {status.value: style for status, style in STATUS_STYLE.items()}

versions_option = click.option(
    "--versions",
    type=WORDS,
    default=(),
    metavar="VERSION,…",
    help=f"ClickHouse versions, separated by commas. Default: {known(CLICKHOUSE)}.",
)
zookeeper_option = click.option(
    "--zookeeper",
    type=WORD,
    metavar="VERSION",
    help=f"ZooKeeper version: {known(ZOOKEEPER)}. Default: that of the stored run, else the "
    "default of `harness run`.",
)


@click.command("compare")
@click.argument("what", type=WORD)
@versions_option
@click.option(
    "--tries",
    type=number("tries"),
    default=3,
    show_default=True,
    help="Number of runs on each version, on one cluster.",
)
@zookeeper_option
@store_option
@json_option
def compare(
    what: str,
    versions: tuple[str, ...],
    tries: int,
    zookeeper: str | None,
    store: str,
    as_json: bool,
) -> int:
    """Play a scenario, or repeat a stored run, on several server versions.

    WHAT is the name of a scenario (`harness scenario` lists them) or a stored INVALID run:
    a directory, a path within the store, or latest. A run is repeated with its own seed, workload,
    nemesis and options.

    A try of a scenario counts as reproduced if it shows the scenario's finding; a try of a run, if
    it is INVALID with an anomaly of a kind that the stored run has. Tries that are UNKNOWN or broke
    off count as neither. Each try is stored as a run.

    Ctrl-C ends the current try and shows the results so far. Exit status: 0 if each version that
    has the needed mechanisms has a conclusive try, else 2.
    """
    console = Terminal(stderr=as_json, highlight=False)
    kept = Store(Path(store))
    if zookeeper:
        zookeeper_release(zookeeper)
    replay, columns = replay_of(what, kept), versions_of(versions)
    console.warn(kept.prepare())
    stop = Stop()
    player = Player(
        replay=replay,
        store=kept,
        zookeeper=zookeeper,
        shown=partial(live_display, console=console) if console.is_terminal else None,
        stop=stop,
        on_try=lambda on, one: print_try(console, kept, on, one),
    )
    with stop.obeying_signals():
        for on in columns:
            player.play(on, lambda on=on: len(on.tries) < tries)  # type: ignore[misc]
            if stop:
                break
    if as_json:
        click.echo(json.dumps(_json(replay, columns)))
    else:
        _show(console, replay, columns)
        if stop:
            console.print(f"interrupted: {stop.reason}", style="yellow")
        console.print(_answer(replay, columns), style="bold", soft_wrap=True)
    answered = all(on.missing or on.tally.conclusive for on in columns)
    return EXIT_VALID if answered and not stop else EXIT_UNKNOWN


def _answer(replay: Replay, columns: list[VersionTries]) -> str:
    """Return on which versions it was reproduced, on which not, and on which nobody knows."""
    of: dict[str, list[str]] = {"reproduced on": [], "not on": [], "unknown on": []}
    for on in columns:
        tally = on.tally
        hits = f"{on.exact} ({tally.hits} of {tally.conclusive})"
        where = "not on" if tally.conclusive else "unknown on"
        of["reproduced on" if tally.hits else where].append(hits if tally.conclusive else on.exact)
    said = "; ".join(f"{where} {', '.join(names)}" for where, names in of.items() if names)
    return f"{replay.name}: {said}"


def print_try(console: Console, store: Store, on: VersionTries, one: Trial) -> None:
    """Print a line about a try, and why it is inconclusive unless an earlier line said so."""
    path = one.run or ""
    within = path.removeprefix(f"{store.root}/")
    line = Text.assemble(
        f"{on.exact:<10}", (f"{one.result.value:<15}", RESULT_STYLE[one.result]), (within, "dim")
    )
    console.print(line, soft_wrap=True)
    if one.why and one.why not in [other.why for other in on.tries if other is not one]:
        console.print(f"  {one.why}", style="yellow")


def title(console: Console, replay: Replay) -> None:
    """Print the heading of the table: what is repeated, and what counts as reproduced."""
    console.print()
    console.print(replay.name, style="bold")
    console.print(f"reproduced: {replay.criterion}", style="dim")


def version_cell(on: VersionTries) -> Text:
    """Return a cell with the exact version, and below it how it was built."""
    return Text.assemble(on.exact, *([("\n" + on.build, "dim")] if on.build else []))


def reproduced_cell(on: VersionTries) -> Text:
    """Return a cell with the share of conclusive tries that reproduced, and the other tries."""
    tally = on.tally
    if not tally.total:
        return Text("–", "dim")
    text = Text(f"{tally.hits} of {tally.conclusive}" if tally.conclusive else "–")
    if tally.conclusive:
        hit = TryResult.REPRODUCED if tally.hits else TryResult.NOT_REPRODUCED
        text.stylize(RESULT_STYLE[hit])
    for result in (TryResult.UNKNOWN, TryResult.BROKE_OFF):
        if tally.counts[result]:
            text.append(f"\n{tally.counts[result]} {result.value}", RESULT_STYLE[result])
    return text


def percent(low: float, high: float) -> str:
    """Return the interval of a rate in per cent, rounded outwards."""
    return f"{floor(100 * low)}–{ceil(100 * high)} %"


def _json(replay: Replay, columns: list[VersionTries]) -> dict[str, object]:
    return {
        "what": replay.name,
        "reproduced_if": replay.criterion,
        "versions": [on.json(CONFIDENCE) for on in columns],
    }


def _show(console: Console, replay: Replay, columns: list[VersionTries]) -> None:
    title(console, replay)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("ClickHouse", no_wrap=True)
    table.add_column("reproduced", no_wrap=True)
    table.add_column(f"rate, {100 * CONFIDENCE:g}\N{NO-BREAK SPACE}%", no_wrap=True)
    table.add_column("verdicts, anomalies", overflow="fold")
    for on in columns:
        if on.missing:
            table.add_row(
                version_cell(on), "–", "", Text(f"NOT APPLICABLE: needs {on.missing}", "yellow")
            )
            continue
        rate = percent(*on.tally.rate(CONFIDENCE)) if on.tally.conclusive else "–"
        table.add_row(version_cell(on), reproduced_cell(on), rate, _verdicts(on))
    console.print(table)


def _verdicts(on: VersionTries) -> Text:
    parts = [
        Text(f"{count} {status}", _STYLES.get(status, "bold yellow"))
        for status, count in sorted(on.statuses.items())
    ]
    text = Text(", ").join(parts)
    if on.kinds:
        kinds = ", ".join(f"{kind} {count}" for kind, count in on.kinds.most_common())
        text.append(f"\n{kinds}", "default")
    return text
