"""The witness as a text timeline: time goes down, a column for each process."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from checkers.words import seconds
from harness.core.history import Fault
from harness.report.facts import CRASHED, RUNNING, Facts
from harness.report.story import duration, sentences
from harness.report.witness import Bar, Picture, picture_of

STATUS_STYLE = {
    "VALID": "bold green",
    "UNKNOWN": "bold yellow",
    "INVALID": "bold red",
    CRASHED: "bold red",
    RUNNING: "bold cyan",
}
BAR_STYLE = {"ok": "green", "fail": "yellow", "info": "magenta"}
PAUSE_NS = 10_000_000
"""A longer gap between two marks is told."""


def text_report(facts: Facts) -> RenderableType:
    """What the page says at its top, for a terminal."""
    parts: list[RenderableType] = [
        Text.assemble((facts.status, STATUS_STYLE[facts.status]), f"  {facts.name}"),
        *(Text(f"! {trouble}", "yellow") for trouble in facts.troubles),
        Text(),
        *(Text(sentence) for sentence in sentences(facts)),
    ]
    if facts.witness is not None and facts.history is not None:
        picture = picture_of(facts.history, facts.witness[1])
        begin_ns, end_ns = picture.axis.marks[0][0], picture.axis.marks[-1][0]
        in_force = [
            fault
            for fault in facts.history.faults
            if fault.begin_ns <= end_ns and (fault.end_ns is None or fault.end_ns >= begin_ns)
        ]
        parts += [Text(), timeline(picture), *_faults(in_force)]
    if facts.info.plan.again:
        parts += [Text(), Text.assemble(("again  ", "dim"), facts.info.plan.again)]
    return Group(*parts)


def timeline(picture: Picture) -> Table:
    """A row a mark of the axis, and one for every long gap between two."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
    table.add_column("time", justify="right", no_wrap=True, style="dim")
    if picture.bands:
        table.add_column("fault", no_wrap=True, style="red")
    for node, process in picture.lanes:
        table.add_column(
            Text.assemble(node, (f"\n{process}", "dim")), overflow="fold", min_width=12
        )
    before_ns = picture.axis.marks[0][0]
    for time_ns, x in picture.axis.marks:
        if time_ns - before_ns > PAUSE_NS:
            table.add_row(f"⋮ {duration(time_ns - before_ns)}", *_between(picture, x))
        table.add_row(seconds(time_ns), *_at(picture, time_ns, x))
        before_ns = time_ns
    return table


def _at(picture: Picture, time_ns: int, x: float) -> Iterator[Text]:
    if picture.bands:
        yield Text("▒" if any(band.begin <= x <= band.end for band in picture.bands) else "")
    for lane in range(len(picture.lanes)):
        lines: list[Text] = []
        for bar in picture.bars:
            if bar.lane == lane:
                lines += _edges(bar, time_ns)
        yield Text("\n").join(lines)


def _edges(bar: Bar, time_ns: int) -> Iterator[Text]:
    """What is to be said of a call at a time."""
    begin_ns = bar.pair.invoke.time_ns
    end_ns = begin_ns if bar.pair.end is None else bar.pair.end.time_ns
    style = "bold red" if bar.wrong else BAR_STYLE[bar.kind]
    if time_ns == begin_ns:
        yield Text(f"┌ {bar.title} #{bar.pair.invoke.index}", style)
    if time_ns == end_ns:
        yield Text(f"└ {bar.note}", style)
    if begin_ns < time_ns < end_ns:
        yield Text("│", style)


def _between(picture: Picture, x: float) -> Iterator[Text]:
    if picture.bands:
        yield Text("▒" if any(band.begin < x <= band.end for band in picture.bands) else "")
    for lane in range(len(picture.lanes)):
        goes_on = any(bar.lane == lane and bar.begin < x <= bar.end for bar in picture.bars)
        yield Text("│" if goes_on else "")


def _faults(faults: list[Fault]) -> Iterator[Text]:
    if faults:
        yield Text()
    for fault in faults:
        end = "the end" if fault.end_ns is None else seconds(fault.end_ns)
        said = f"▒ {fault.name} {fault.text}, from {seconds(fault.begin_ns)} to {end}"
        yield Text(said, "red")
