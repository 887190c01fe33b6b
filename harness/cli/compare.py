"""`harness compare` and `harness bisect`: play a scenario or a stored run on several server
versions."""

import json
import shlex
from collections.abc import Sequence
from functools import partial
from math import ceil, floor
from pathlib import Path
from typing import Final

import rich_click as click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from compose.releases import CLICKHOUSE, ZOOKEEPER, ImageOptions, known
from harness.cli.display import live_display
from harness.cli.parameter_types import WORD, WORDS, json_option, number, store_option
from harness.cli.result import STATUS_STYLE
from harness.cli.terminal import Terminal
from harness.core.errors import EXIT_UNKNOWN, EXIT_VALID, UsageError
from harness.core.op import Json
from harness.core.topology import Role
from harness.run.stop import Stop
from harness.run.trial import Trial, TryResult
from harness.search.bisection import CONFIDENCE, TRIES_MAX, Answer, Bisection, Standing
from harness.search.replay import Replay, replay_of
from harness.search.tried_servers import TriedServers, tried_servers
from harness.search.version_bisection import bisect_versions, conclude
from harness.search.version_tries import Player, VersionTries, compare_versions
from harness.store.store import Store

RATE_CONFIDENCE: Final = 0.95
"""Confidence of the interval of a rate that `harness compare` prints."""
RESULT_STYLE = {
    TryResult.REPRODUCED: "bold red",
    TryResult.NOT_REPRODUCED: "bold green",
    TryResult.UNKNOWN: "bold yellow",
    TryResult.BROKE_OFF: "bold yellow",
}

_STYLES = {status.value: style for status, style in STATUS_STYLE.items()}

STANDING_STYLE = {
    Standing.BAD: "bold red",
    Standing.GOOD: "bold green",
    Standing.UNDECIDED: "bold yellow",
    Standing.OPEN: "dim",
}

versions_option = click.option(
    "--versions",
    type=WORDS,
    default=(),
    metavar="VERSION|IMAGE,…",
    help=f"ClickHouse versions ({known(CLICKHOUSE)}) or images such as my/clickhouse:before, "
    "separated by commas. Versions alone are sorted; with an image or a revision among them they "
    "go from old to new as given. Default: all known versions.",
)
build_option = click.option(
    "--build",
    type=WORD,
    metavar="COMMAND",
    help="Command that builds a revision: names of --versions that are neither a version nor have "
    "a colon are revisions, and take the place of {revision} in it. Its last line on standard "
    "output is the name of the image. A revision that it fails to build is left out.",
)
zookeeper_option = click.option(
    "--zookeeper",
    type=WORDS,
    default=(),
    metavar="VERSION|IMAGE,…",
    help=f"ZooKeeper version ({known(ZOOKEEPER)}) or image. Several are compared with each other, "
    "on one version of ClickHouse. Default: that of the stored run, else the default of `harness "
    "run`.",
)


def player_of(what: str, beside: ImageOptions, store: str, console: Console) -> Player:
    """Return what plays the tries, shows each run, and prints a line about each try and each build.
    Raises UsageError."""
    kept = Store(Path(store))
    return Player(
        replay=replay_of(what, kept),
        store=kept,
        beside=beside,
        shown=partial(live_display, console=console),
        stop=Stop(),
        on_try=partial(_print_try, console, kept),
        on_build=partial(_print_build, console),
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
@build_option
@store_option
@json_option
def compare(
    what: str,
    versions: tuple[str, ...],
    tries: int,
    zookeeper: tuple[str, ...],
    build: str | None,
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
    servers, beside = tried_servers(versions, zookeeper, build or "")
    player, columns = player_of(what, beside, store, console), [*map(VersionTries, servers)]
    replay, stop = player.replay, player.stop
    console.warn(player.store.prepare())
    with stop.obeying_signals():
        compare_versions(player, columns, tries)
    if as_json:
        shown = {"what": replay.name, "reproduced_if": replay.criterion}
        click.echo(json.dumps({**shown, "versions": [on.json(RATE_CONFIDENCE) for on in columns]}))
    else:
        _show_compared(console, replay, columns)
        if stop:
            console.print(f"interrupted: {stop.reason}", style="yellow")
        console.print(_answer(replay, columns), style="bold", soft_wrap=True)
    answered = all(on.missing or on.tally.conclusive for on in columns)
    return EXIT_VALID if answered and not stop else EXIT_UNKNOWN


@click.command("bisect")
@click.argument("what", type=WORD)
@versions_option
@click.option(
    "--confidence",
    type=number("confidence"),
    help="Probability with which the answer must be right before a version counts as good. "
    f"Default: {CONFIDENCE}, unless --tries is given.",
)
@click.option(
    "--tries",
    type=number("tries"),
    help="Decide each version by this many tries; the answer states its confidence. With "
    f"--confidence: maximum number of tries before a version is UNKNOWN. Default: {TRIES_MAX}.",
)
@zookeeper_option
@build_option
@store_option
@json_option
def bisect(
    what: str,
    versions: tuple[str, ...],
    confidence: float | None,
    tries: int | None,
    zookeeper: tuple[str, ...],
    build: str | None,
    store: str,
    as_json: bool,
) -> int:
    """Find the server version in which a bug was introduced or fixed.

    WHAT is the name of a scenario or a stored INVALID run. A try counts as reproduced as with
    `harness compare`, and is stored as a run.

    One reproduction makes a version bad. To call a version good, the rate of reproduction is first
    measured on the oldest or newest version that shows the bug (for a stored run, on its own
    version). A version is good after enough tries without a reproduction that the bug would have
    shown with the requested confidence. A version whose tries are too few, break off or end UNKNOWN
    is UNKNOWN, and the answer names the versions between which it is undecided. This assumes that
    every version with the bug shows it at least at the measured rate, and that the bug was
    introduced at most once and fixed at most once.

    Ctrl-C ends the current try and shows the results so far. Exit status: 0 decided, 2 undecided.
    """
    console = Terminal(stderr=as_json, highlight=False)
    servers, beside = tried_servers(versions, zookeeper, build or "")
    player, columns = player_of(what, beside, store, console), [*map(VersionTries, servers)]
    replay, stop = player.replay, player.stop
    if len(columns) < 2:
        raise UsageError(f"--versions {','.join(versions)}: expected two versions or more")
    console.warn(player.store.prepare())
    by_name = {on.name: on for on in columns}
    met = [on.name for on in columns if on.servers.identity == replay.met]
    decision = Bisection(
        list(by_name),
        confidence=CONFIDENCE if confidence is None and tries is None else confidence,
        tries=tries or TRIES_MAX,
        suspect=met[0] if met else None,
    )
    with stop.obeying_signals():
        bisect_versions(player, decision, by_name)
    answer = decision.answer()
    lines = [*([f"interrupted: {stop.reason}"] if stop else []), *conclude(answer, by_name)]
    if as_json:
        click.echo(json.dumps(_json(replay, decision, answer, by_name, lines)))
    else:
        _show_bisected(console, replay, decision, by_name)
        style = "bold" if answer.decided and not stop else "bold yellow"
        for line in lines:
            console.print(line, style=style)
    return EXIT_VALID if answer.decided and not stop else EXIT_UNKNOWN


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


def _print_build(console: Console, servers: TriedServers) -> None:
    line = f"building {servers.name}: {shlex.join(servers.build_words)}"
    console.print(line, style="dim", soft_wrap=True)


def _print_try(console: Console, store: Store, on: VersionTries, one: Trial) -> None:
    """Print a line about a try, and why it is inconclusive unless an earlier line said so."""
    path = one.run or ""
    within = path.removeprefix(f"{store.root}/")
    line = Text.assemble(
        f"{on.exact:<10} ", (f"{one.result.value:<15}", RESULT_STYLE[one.result]), (within, "dim")
    )
    console.print(line, soft_wrap=True)
    if one.why and one.why not in [other.why for other in on.tries if other is not one]:
        console.print(f"  {one.why}", style="yellow")


def _print_title(console: Console, replay: Replay) -> None:
    """Print the heading of the table: what is repeated, and what counts as reproduced."""
    console.print()
    console.print(replay.name, style="bold")
    console.print(f"reproduced: {replay.criterion}", style="dim")


def _product(columns: Sequence[VersionTries]) -> str:
    return "ZooKeeper" if columns[0].servers.role is Role.ZOOKEEPER else "ClickHouse"


def _unplayed(on: VersionTries) -> str:
    """Return why nothing was played on a version; "" if something could be."""
    if on.missing:
        return f"NOT APPLICABLE: needs {on.missing}"
    return f"NOT BUILT: {on.unbuilt}" if on.unbuilt else ""


def _version_cell(on: VersionTries) -> Text:
    """Return a cell with the exact version, and below it how it was built."""
    return Text.assemble(on.exact, *([("\n" + on.build, "dim")] if on.build else []))


def _reproduced_cell(on: VersionTries) -> Text:
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


def _show_compared(console: Console, replay: Replay, columns: list[VersionTries]) -> None:
    _print_title(console, replay)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column(_product(columns), no_wrap=True)
    table.add_column("reproduced", no_wrap=True)
    table.add_column(f"rate, {100 * RATE_CONFIDENCE:g}\N{NO-BREAK SPACE}%", no_wrap=True)
    table.add_column("verdicts, anomalies", overflow="fold")
    for on in columns:
        if why := _unplayed(on):
            table.add_row(_version_cell(on), "–", "", Text(why, "yellow"))
            continue
        rate = percent(*on.tally.rate(RATE_CONFIDENCE)) if on.tally.conclusive else "–"
        table.add_row(_version_cell(on), _reproduced_cell(on), rate, _verdicts(on))
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


def _show_bisected(
    console: Console, replay: Replay, decision: Bisection, by_name: dict[str, VersionTries]
) -> None:
    _print_title(console, replay)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for name in (_product([*by_name.values()]), "reproduced"):
        table.add_column(name, no_wrap=True)
    table.add_column("conclusion", overflow="fold")
    for name, on in by_name.items():
        table.add_row(_version_cell(on), _reproduced_cell(on), _conclusion(decision, name, on))
    console.print(table)
    console.print()


def _conclusion(decision: Bisection, name: str, on: VersionTries) -> Text:
    standing = decision.standing(name)
    text = Text(standing.value, STANDING_STYLE[standing])
    if why := _unplayed(on):
        return Text(why, STANDING_STYLE[Standing.UNDECIDED])
    tally, confidence = on.tally, decision.confidence or CONFIDENCE
    if not tally.total:
        return Text("not tried", "dim")
    if name == decision.reference:
        low, _ = tally.rate(confidence)
        return text.append(f": rate at least {low:.2g}, measured here", "default")
    if standing is Standing.BAD or not tally.conclusive:
        return text
    above, sure = tally.excluded_above(confidence), 100 * confidence
    text.append(f": excludes a rate above {above:.2g} ({sure:.6g}\N{NO-BREAK SPACE}%)", "default")
    if standing is not Standing.GOOD and decision.needed is not None:
        text.append(f", needs {decision.needed:g} tries", "default")
    return text


def _json(
    replay: Replay,
    decision: Bisection,
    answer: Answer,
    by_name: dict[str, VersionTries],
    lines: Sequence[str],
) -> dict[str, Json]:
    confidence = decision.confidence or CONFIDENCE
    exact = {name: on.exact for name, on in by_name.items()}
    return {
        "what": replay.name,
        "reproduced_if": replay.criterion,
        "decided": answer.decided,
        "measured_on": None if answer.reference is None else exact[answer.reference],
        "confidence": answer.confidence,
        "boundaries": [
            {
                "change": "fixed" if one.fixed else "introduced",
                "bad": exact[one.bad],
                "good": None if one.good is None else exact[one.good],
                "undecided": [exact[name] for name in one.between],
            }
            for one in answer.boundaries
        ],
        "text": "; ".join(lines),
        "versions": [
            {**on.json(confidence), "standing": decision.standing(name).value}
            for name, on in by_name.items()
        ],
    }
