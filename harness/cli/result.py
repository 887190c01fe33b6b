"""Printed result of a run: the verdicts, the ladder, the smallest witness."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from checkers.judge import Judgement
from checkers.witness import Explanation, explained
from harness.core.history import History
from harness.core.op import Json, Kind
from harness.core.verdict import Status

STATUS_STYLE = {
    Status.VALID: "bold green",
    Status.UNKNOWN: "bold yellow",
    Status.INVALID: "bold red",
}
WIDTH_MAX = 120
ENDS = (Kind.OK.value, Kind.FAIL.value, Kind.INFO.value)


@dataclass(frozen=True, slots=True)
class RunReport:
    """Output of the command about a finished run."""

    path: Path
    status: Status
    report: dict[str, Json] | None
    """Result as JSON; None without --json."""
    panel: RenderableType | None
    """Result for the terminal; None if one line is enough."""
    troubles: tuple[str, ...] = ()
    """Troubles to print below that line."""
    headline: str = ""
    """Conclusion without the status, for the answer."""


def result(
    judgement: Judgement,
    history: History,
    *,
    title: str,
    workload: str,
    repro_command: str,
    troubles: Sequence[str],
) -> RenderableType:
    """Return a panel with the result of a run."""
    style = STATUS_STYLE[judgement.status]
    parts: list[RenderableType] = [
        _totals(history),
        Text(),
        _verdicts(judgement),
        Text(),
        *((_ladder(judgement), Text()) if judgement.ladder.rungs else ()),
        *_explanation(
            explained(judgement, history, workload=workload, repro_command=repro_command)
        ),
    ]
    if troubles:
        parts += [Text(), *(Text(f"! {trouble}", "yellow") for trouble in troubles)]
    return Panel(
        Group(*parts),
        title=Text.assemble(" ", (judgement.status.value, style), f"  {title} "),
        title_align="left",
        border_style=style.removeprefix("bold "),
        padding=(1, 2),
        width=WIDTH_MAX,
    )


def print_result(console: Console, panel: RenderableType) -> None:
    """Print the panel as wide as the console, at most WIDTH_MAX."""
    console.print(panel, width=min(console.width, WIDTH_MAX))


def _totals(history: History) -> Text:
    """Return "insert 212 ok 400 fail 3 info · read 1,902 ok …, 6 faults, 41 s"."""
    by_f, _ = history.columns.tally(())
    counts = [
        f"{f} " + " ".join([f"{n:,} {kind}" for kind, n in zip(ENDS, ends, strict=True) if n])
        for f, ends, _, _ in sorted(by_f)
    ]
    length_s = history[-1].time_ns / 1e9 if len(history) else 0.0
    faults = len(history.faults)
    return Text(
        " · ".join([*counts, f"{faults} fault{'' if faults == 1 else 's'}", f"{length_s:.0f} s"]),
        style="dim",
    )


def _verdicts(judgement: Judgement) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("checker", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("what was found", overflow="fold")
    deciding = {verdict.checker for verdict in judgement.deciding}
    for verdict in judgement.verdicts:
        decides = verdict.checker in deciding
        table.add_row(
            Text(verdict.checker, "default" if decides else "dim"),
            Text(verdict.status.value, STATUS_STYLE[verdict.status] if decides else "dim"),
            Text(verdict.summary, "default" if decides else "dim"),
        )
    return table


def _explanation(explanation: Explanation) -> Iterable[RenderableType]:
    yield Text(explanation.head, "bold")
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for label, text in explanation.rows:
        grid.add_row(Text(label), Text(text))
    yield grid


def _ladder(judgement: Judgement) -> Text:
    """Return "promised linearizable · ✗ linearizable ✗ sequential ✓ session ✓ eventual"."""
    marks = {Status.VALID: "✓", Status.UNKNOWN: "?", Status.INVALID: "✗"}
    promise = judgement.ladder.promise.value
    text = Text.assemble(("promised ", "dim"), promise, ("   levels ", "dim"))
    for rung in judgement.ladder.rungs:
        text.append(
            f" {marks[rung.status]}\N{NO-BREAK SPACE}{rung.level.value} ", STATUS_STYLE[rung.status]
        )
    return text
