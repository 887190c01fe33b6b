"""The witness as a text timeline: time goes down, a rail for each process."""

from collections.abc import Iterator
from io import StringIO
from itertools import zip_longest

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from checkers.phrasing import seconds
from checkers.witness import causes
from harness.core.errors import HarnessError
from harness.report.facts import CRASHED, RUNNING, UNREADABLE, Facts
from harness.report.sql import sql_of_calls
from harness.report.story import duration, lifetime, promise_and_held, sentences
from harness.report.witness import (
    PAUSE_NS,
    UNVERIFIED,
    VERIFIED,
    Bar,
    Picture,
    TimelineRow,
    picture_of,
)
from harness.store.statement_file import read_statements

STATUS_STYLE = {
    "VALID": "bold green",
    "UNKNOWN": "bold yellow",
    "INVALID": "bold red",
    CRASHED: "bold red",
    UNREADABLE: "bold red",
    RUNNING: "bold cyan",
}
BAR_STYLE = {"ok": "green", "fail": "yellow", "info": "magenta"}
RAILS = {"begin": "┌", "on": "│", "end": "└", "": ""}
FAULTY = {VERIFIED: "▒", UNVERIFIED: "░", "": ""}
LANE_MAX = 12


def text_report(facts: Facts) -> RenderableType:
    """Return the top of the page for a terminal; print it without cropping."""
    parts: list[RenderableType] = [
        _line(facts.status, STATUS_STYLE[facts.status], facts.name),
        *([Text(promise_and_held(facts), "dim")] if promise_and_held(facts) else []),
        *(Text(f"! {trouble}", "yellow") for trouble in facts.troubles),
        Text(),
        *(Text(sentence) for sentence in sentences(facts)),
    ]
    if facts.witness is not None and facts.history is not None:
        picture = picture_of(facts.history, facts.witness[1])
        parts += [Text(), timeline(picture), *_faults(picture)]
    rows = causes(facts.judgement) if facts.judgement is not None else []
    parts += [Text(), *(Text(f"{label:<7}{text}") for label, text in rows)] if rows else []
    parts += _statements(facts)
    if facts.info.command:
        parts += [Text(), _line("again", "dim", facts.info.command)]
    return Group(*parts)


def plain_report(facts: Facts, width: int = 120) -> str:
    """Return the same as text without colours."""
    console = Console(file=StringIO(), width=width, color_system=None)
    with console.capture() as capture:
        console.print(text_report(facts), crop=False)
    return "\n".join(line.rstrip() for line in capture.get().rstrip().splitlines())


def _statements(facts: Facts) -> list[RenderableType]:
    """Return the statements of the witness' calls as they can be pasted; nothing of a run that kept
    none."""
    try:
        sent = read_statements(facts.logs.parent)
    except HarnessError as error:
        return [Text(), Text(f"! {error}", "yellow")]
    if sent is None or facts.history is None:
        return []
    ops = () if facts.witness is None else facts.witness[1].ops
    lines = [*sql_of_calls(facts.history, sent, ops)] if ops else []
    more = f"harness report {facts.name} --sql; of one call: --op N"
    return [Text(), *(Text(line) for line in lines), _line("sql", "dim", more)]


def _line(word: str, style: str, text: str) -> Text:
    """Return a line that only the terminal wraps, so that it can be copied."""
    return Text.assemble((word, style), f"  {text}", no_wrap=True, overflow="ignore")


def timeline(picture: Picture) -> Table:
    """Return a table with a row for every event, and one for every long gap."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
    table.add_column("time", justify="right", no_wrap=True, style="dim")
    if picture.bands:
        table.add_column("fault", no_wrap=True, style="red", justify="center")
    for node, process in picture.lanes:
        head = Text.assemble(node, (f"\n{process.replace('process ', 'p')}", "dim"))
        table.add_column(head, justify="center", min_width=3, max_width=LANE_MAX, overflow="fold")
    table.add_column("", overflow="fold")
    for row, after in zip_longest(picture.rows, picture.rows[1:]):
        faulty = [Text(FAULTY[row.faulty])] if picture.bands else []
        table.add_row(seconds(row.time_ns), *faulty, *_rails(row), _text(row))
        if after is not None and after.gap_ns > PAUSE_NS:
            goes_on = (
                Text("│", _style(b)) if rail in ("begin", "on") and b else ""
                for rail, b in row.rails
            )
            table.add_row(f"⋮ {duration(after.gap_ns)}", *faulty, *goes_on)
    return table


def _rails(row: TimelineRow) -> Iterator[Text]:
    for rail, bar in row.rails:
        yield Text(RAILS[rail], _style(bar) if bar else "")


def _text(row: TimelineRow) -> Text:
    return Text(row.text, _style(row.bar) if row.bar else "red")


def _style(bar: Bar) -> str:
    return "bold red" if bar.wrong else BAR_STYLE[bar.kind]


def _faults(picture: Picture) -> Iterator[Text]:
    """Yield every fault with its times, and a legend if both shades occur."""
    if picture.bands:
        yield Text()
    for band in picture.bands:
        yield Text(f"▒ {band.title}: {lifetime(band.fault)}", "red")
    if picture.unverified:
        yield Text("░ invoked, its effect not verified yet", "red")
