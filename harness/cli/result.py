"""What a command prints of its result: the panel of a run, with the verdicts, the ladder and the
smallest witness; and the answer, the last line, whatever scrolled away above it."""

import webbrowser
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from checkers.headline import headline
from checkers.judge import Judgement
from checkers.phrasing import number
from checkers.witness import Explanation, explained
from harness.clusters.manifest import ClusterManifest
from harness.core.errors import ClusterError
from harness.core.history import History
from harness.core.op import Kind
from harness.core.topology import Role
from harness.core.verdict import Status, worst

STATUS_STYLE = {
    Status.VALID: "bold green",
    Status.UNKNOWN: "bold yellow",
    Status.INVALID: "bold red",
}
WIDTH_MAX = 120
ENDS = (Kind.OK.value, Kind.FAIL.value, Kind.INFO.value)


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


@dataclass(frozen=True, slots=True)
class CommandAnswer:
    """Result of a command in one line: "INVALID: stale read, 35 of 80 inserts; report: …"."""

    status: Status
    text: str
    page: Path | None = None
    """Page that shows it."""
    run: Path | None = None
    """Directory of the run that it is about, named if there is no page."""
    word: str | None = None
    """Word in place of the status."""

    @staticmethod
    def of(judgement: Judgement, page: Path | None = None) -> "CommandAnswer":
        """Return the answer on one run."""
        return CommandAnswer(judgement.status, headline(judgement), page)

    @staticmethod
    def of_all(answers: Sequence["CommandAnswer"]) -> "CommandAnswer":
        """Return the answer on several runs: the number of each status, then the answer on the
        first of the worst. There must be a run."""
        status = worst(one.status for one in answers)
        first = next(one for one in answers if one.status is status)
        if len(answers) == 1:
            return first
        counts = Counter(one.status for one in answers)
        tally = ", ".join(f"{counts[s]} {s.value}" for s in Status if counts[s])
        texts = Counter(one.text for one in answers if one.status is status)
        detail = "" if status is Status.VALID else f"; first: {first.text}"
        same = f" (in {number(texts[first.text], 'run')})" if texts[first.text] > 1 else ""
        return CommandAnswer(
            status,
            f"{len(answers)} runs: {tally}{detail}{same if detail else ''}",
            first.page,
            first.run if detail else None,
        )

    def line(self) -> Text:
        """Return the line."""
        page = f"; report: {_shortest(self.page)}" if self.page is not None else ""
        if not page and self.run is not None:
            page = f"; run: {_shortest(self.run)}"
        word = self.word or self.status.value
        return Text.assemble((word, STATUS_STYLE[self.status]), f": {self.text}{page}")


def _shortest(page: Path) -> Path:
    """Return the path relative to the working directory if it is within."""
    here = Path.cwd()
    return page.relative_to(here) if page.is_relative_to(here) else page


def print_answer(console: Console, answer: CommandAnswer) -> None:
    """Print the answer, which the terminal wraps, so that its path can be copied."""
    console.print(answer.line(), soft_wrap=True, highlight=False)


def open_page(console: Console, page: Path | str | None) -> None:
    """Open a page, a file or an address, in a browser; say so if there is none to open, or no
    browser."""
    if page is None:
        console.print("! --open: there is no page to open", style="yellow", soft_wrap=True)
        return
    address = page.absolute().as_uri() if isinstance(page, Path) else page
    if not webbrowser.open(address):
        text = f"! --open: no browser can be started; open {address}"
        console.print(text, style="yellow", soft_wrap=True)


def print_kept_cluster(console: Console, files: Path | None) -> None:
    """Print how to reach, to use and to remove a cluster that was kept, if one was: that of the
    directory `files`."""
    if files is None:
        return
    name = files.name
    try:
        found = ClusterManifest.load(files)
    except ClusterError as error:
        console.print(f"the cluster {name} may still be running: {error}", soft_wrap=True)
        return
    console.print(
        f"the cluster is still running: harness run --reuse {name} uses it, "
        f"harness clean {name} removes it",
        soft_wrap=True,
    )
    for node, address in found.addresses.items():
        host, _, port = address.rpartition(":")
        connect = f"  clickhouse client --host {host} --port {port}"
        replica = found.topology.node(node).role is Role.CLICKHOUSE
        console.print(f"  {node:4} {address}{connect if replica else ''}", soft_wrap=True)
