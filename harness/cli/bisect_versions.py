"""`harness bisect`: find the server version in which a bug was introduced or fixed.

Not called bisect.py: where this directory is the first on Python's path, as under spark-submit,
that name would hide the standard library's module.
"""

import json
from collections.abc import Sequence
from functools import partial
from math import floor
from pathlib import Path

import rich_click as click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from compose.releases import zookeeper_release
from harness.cli.compare import (
    print_try,
    reproduced_cell,
    title,
    version_cell,
    versions_option,
    zookeeper_option,
)
from harness.cli.display import live_display
from harness.cli.parameter_types import WORD, json_option, number, store_option
from harness.cli.terminal import Terminal
from harness.core.errors import EXIT_UNKNOWN, EXIT_VALID, UsageError
from harness.core.op import Json
from harness.run.stop import Stop
from harness.run.trial import Trial
from harness.search.bisection import CONFIDENCE, TRIES_MAX, Answer, Bisection, Boundary, Standing
from harness.search.replay import Player, Replay, VersionTries, replay_of, versions_of
from harness.store.store import Store

STANDING_STYLE = {
    Standing.BAD: "bold red",
    Standing.GOOD: "bold green",
    Standing.UNDECIDED: "bold yellow",
    Standing.OPEN: "dim",
}


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
@store_option
@json_option
def bisect(
    what: str,
    versions: tuple[str, ...],
    confidence: float | None,
    tries: int | None,
    zookeeper: str | None,
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
    kept = Store(Path(store))
    if zookeeper:
        zookeeper_release(zookeeper)
    replay, columns = replay_of(what, kept), versions_of(versions)
    if len(columns) < 2:
        raise UsageError(f"--versions {','.join(versions)}: expected two versions or more")
    console.warn(kept.prepare())
    by_name = {on.name: on for on in columns}
    met = [on.name for on in columns if on.release.version == replay.met]
    decision = Bisection(
        list(by_name),
        confidence=CONFIDENCE if confidence is None and tries is None else confidence,
        tries=tries or TRIES_MAX,
        suspect=met[0] if met else None,
    )
    stop = Stop()

    def on_try(on: VersionTries, one: Trial) -> None:
        decision.take(on.name, one.result)
        print_try(console, kept, on, one)

    player = Player(
        replay=replay,
        store=kept,
        zookeeper=zookeeper,
        shown=partial(live_display, console=console) if console.is_terminal else None,
        stop=stop,
        on_try=on_try,
    )
    with stop.obeying_signals():
        while not stop and (name := decision.next()) is not None:
            on = by_name[name]
            player.play(on, lambda name=name: decision.next() == name)  # type: ignore[misc]
            if not stop and decision.next() == name:
                decision.refuse(name, on.missing or "its cluster crashes")
    answer = decision.answer()
    lines = [*([f"interrupted: {stop.reason}"] if stop else []), *_conclusions(answer, by_name)]
    if as_json:
        click.echo(json.dumps(_json(replay, decision, answer, by_name, lines)))
    else:
        _show(console, replay, decision, by_name)
        style = "bold" if answer.decided and not stop else "bold yellow"
        for line in lines:
            console.print(line, style=style)
    return EXIT_VALID if answer.decided and not stop else EXIT_UNKNOWN


def _conclusions(answer: Answer, by_name: dict[str, VersionTries]) -> list[str]:
    """Return the conclusion of all tries, a line for each boundary."""
    exact = {name: on.exact for name, on in by_name.items()}
    names = list(by_name)
    if answer.reference is None:
        return ["not reproduced on any version, so that there is nothing to bisect"]
    if not answer.boundaries:
        return [f"neither introduced nor fixed: {exact[names[0]]} and {exact[names[-1]]} are bad"]
    return [_boundary(one, exact, answer.confidence) for one in answer.boundaries]


def _boundary(one: Boundary, exact: dict[str, str], confidence: float) -> str:
    what, last = ("fixed", "last bad") if one.fixed else ("introduced", "last good")
    unknown = ", ".join(exact[name] for name in one.between)
    if one.good is None:
        way = "after" if one.fixed else "before"
        return f"undecided {way} {exact[one.bad]}, which is bad: {unknown} UNKNOWN"
    first, second = (one.good, one.bad) if one.fixed else (one.bad, one.good)
    sure = f"confidence {_rounded(confidence)}"
    if one.between:
        old, new = second, first
        return (
            f"{what} between {exact[old]} and {exact[new]}, {sure}; undecided where: {unknown} "
            "UNKNOWN"
        )
    return f"{what} in {exact[first]} ({last} {exact[second]}), {sure}"


def _rounded(confidence: float) -> str:
    """Return the confidence with two to six digits, without trailing zeros, rounded down."""
    digits = 3 if confidence < 0.999 else 6
    units = floor(confidence * 10**digits + 1e-6)
    whole, _, rest = f"{units / 10**digits:.{digits}f}".partition(".")
    return f"{whole}.{rest.rstrip('0'):0<2}"


def _show(
    console: Console, replay: Replay, decision: Bisection, by_name: dict[str, VersionTries]
) -> None:
    title(console, replay)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for name in ("ClickHouse", "reproduced"):
        table.add_column(name, no_wrap=True)
    table.add_column("conclusion", overflow="fold")
    for name, on in by_name.items():
        table.add_row(version_cell(on), reproduced_cell(on), _conclusion(decision, name, on))
    console.print(table)
    console.print()


def _conclusion(decision: Bisection, name: str, on: VersionTries) -> Text:
    standing = decision.standing(name)
    text = Text(standing.value, STANDING_STYLE[standing])
    if on.missing:
        return Text(f"NOT APPLICABLE: needs {on.missing}", STANDING_STYLE[Standing.UNDECIDED])
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
