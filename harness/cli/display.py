"""What a terminal shows of work in progress: a run, redrawn from its monitor several times per
second, and in words how much of several things is done, the rate, and the time that is left."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console, Group, RenderableType
from rich.live import Live as RichLive
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from checkers.phrasing import number
from harness.core.clock import Clock, WallClock
from harness.core.op import Kind
from harness.core.printable import printable
from harness.run.monitor import Monitor, Phase

KIND_STYLE = {Kind.OK: "green", Kind.FAIL: "yellow", Kind.INFO: "magenta"}
REFRESHES_PER_S = 5
WIDTH_MAX = 100


class Display:
    """Panel that shows the state of a monitor."""

    def __init__(self, monitor: Monitor, position: str = "") -> None:
        self._monitor = monitor
        self._position = position
        """Place of the run among several: "run 3 of 10, 2.1 a minute"; "" if it is the only one."""
        self._last_ns = 0
        self._last = dict.fromkeys(KIND_STYLE, 0)
        self._per_s = dict.fromkeys(KIND_STYLE, 0.0)

    def __rich__(self) -> RenderableType:
        monitor = self._monitor
        body = Group(
            self._phases(),
            Text(),
            self._clock(),
            *self._stopping(),
            Text(),
            self._operations(),
            Text(),
            self._faults(),
            *self._anomalies(),
            *self._model(),
        )
        return Panel(
            body,
            title=Text(f" {monitor.title} ", style="bold"),
            title_align="left",
            subtitle=Text(f" {self._position} ") if self._position else None,
            subtitle_align="left",
            border_style="cyan",
            padding=(1, 2),
            width=WIDTH_MAX,
        )

    def _phases(self) -> Text:
        order = tuple(Phase)
        now = order.index(self._monitor.phase)
        text = Text()
        for at, phase in enumerate(order):
            mark, style = ("✓ ", "green") if at < now else ("○ ", "dim")
            if at == now:
                mark, style = "● ", "bold cyan"
            text.append(f"{mark}{phase.value}   ", style)
        return text

    def _clock(self) -> RenderableType:
        monitor = self._monitor
        if monitor.phase is not Phase.FAULTS:
            return Text(monitor.note or " ", style="italic", overflow="ellipsis", no_wrap=True)
        elapsed_s = min(monitor.clock.now_ns() / 1e9, monitor.time_limit_s)
        grid = Table.grid(padding=(0, 2))
        grid.add_row(
            ProgressBar(
                total=monitor.time_limit_s,
                completed=elapsed_s,
                width=60,
                complete_style="cyan",
                finished_style="cyan",
            ),
            f"{elapsed_s:.0f} of {monitor.time_limit_s:g} s",
        )
        return grid

    def _stopping(self) -> Iterator[Text]:
        """Yield lines about a requested stop, and about a repeated one."""
        stop = self._monitor.stop
        if not stop:
            return
        yield Text(f"{stop.reason}: ending the run and cleaning up", "bold yellow")
        if stop.signals > 1:
            yield Text(
                f"received {stop.signals} times; to end at once: kill -9 {os.getpid()}, then "
                "harness clean",
                "yellow",
            )

    def _operations(self) -> Table:
        figures = self._monitor.live.read()
        self._measure({kind: figures.kind(kind) for kind in KIND_STYLE})
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        table.add_column("operation", min_width=12)
        for kind in KIND_STYLE:
            table.add_column(kind.value, justify="right", min_width=7)
        for f in sorted({f for f, _ in figures.ended}) or ["–"]:
            table.add_row(
                f,
                *(
                    Text(f"{figures.ended.get((f, kind), 0):,}", style)
                    for kind, style in KIND_STYLE.items()
                ),
            )
        table.add_row(
            Text("per second", "dim"),
            *(Text(f"{self._per_s[kind]:,.0f}", "dim") for kind in KIND_STYLE),
        )
        table.caption = Text(f"{figures.in_flight} in flight", style="dim")
        table.caption_justify = "left"
        return table

    def _measure(self, totals: Mapping[Kind, int]) -> None:
        """Measure the operations per second by outcome, over the last second or more."""
        now_ns = self._monitor.clock.now_ns()
        passed_ns = now_ns - self._last_ns
        if 0 <= passed_ns < 1_000_000_000:
            return
        for kind, total in totals.items():
            # Another clock: the faults have begun.
            self._per_s[kind] = 0 if passed_ns < 0 else (total - self._last[kind]) / passed_ns * 1e9
        self._last_ns, self._last = now_ns, dict(totals)

    def _faults(self) -> Text:
        figures = self._monitor.live.read()
        text = Text("faults      ", "dim", overflow="ellipsis", no_wrap=True)
        text.append(f"{figures.injected} so far, now: ", "default")
        if figures.faults:
            return text.append("; ".join(figures.faults), "bold red")
        return text.append("none", "default")

    def _model(self) -> Iterator[Text]:
        """Yield what the model of the protocol says, once there is something."""
        figures = self._monitor.live.read()
        if figures.covered:
            text = Text("model       ", "dim")
            yield text.append(f"{number(figures.covered, 'element')} covered", "default")
        if figures.departures:
            found = f"{number(figures.departures, 'step')} that the model does not allow"
            yield Text.assemble(("departures  ", "dim"), (found, "bold red"))

    def _anomalies(self) -> Iterator[Text]:
        anomalies = self._monitor.anomalies
        if anomalies is None:
            return
        first = anomalies.first_ns
        text = Text("anomalies   ", style="dim")
        yield text
        if first is None:
            text.append("none so far", "default")
            return
        text.append(
            f"{number(anomalies.stale_reads, 'stale read')}, "
            f"{number(anomalies.missed, 'acknowledged value')} missing",
            "bold red",
        )
        if anomalies.duplicated:
            text.append(f", {anomalies.duplicated:,} values twice in a read", "bold red")
        text.append(f", first at {first / 1e9:.3f} s", "red")


@contextmanager
def live_display(monitor: Monitor, console: Console, position: str = "") -> Iterator[None]:
    """Show the monitor while the block runs: a live panel on a terminal, else a line per phase.
    `position` is the place of the run among several."""
    if console.is_terminal:
        with RichLive(
            Display(monitor, position),
            console=console,
            refresh_per_second=REFRESHES_PER_S,
            transient=True,
        ):
            yield
        return
    monitor.anomalies = None  # nobody would see them
    if position:
        print(position, file=console.file, flush=True)
    printed: list[tuple[Phase, str]] = []

    def print_phase(phase: Phase, note: str) -> None:
        if printed[-1:] != [(phase, note)]:
            line = f"{phase.value}{': ' + note if note else ''}"
            # Styled, it would take ten times as long.
            print(printable(line), file=console.file, flush=True)
        printed.append((phase, note))

    monitor.listeners.append(print_phase)
    yield


@dataclass(slots=True)
class Pace:
    """Rate of something that is counted, on the wall clock."""

    noun: str
    """What is counted, in the plural: "runs"."""
    total: int | None = None
    seconds: float | None = None
    """Time budget; None if the total alone ends it."""
    before: int = 0
    """Number that was done before the clock began."""
    clock: Clock = field(default_factory=WallClock)

    def text(self, done: int) -> str:
        """Return "3 of 6 runs, 12 a minute, 15 s left"."""
        of = f" of {self.total:,}" if self.total is not None else ""
        return ", ".join([f"{done:,}{of} {self.noun}", *self.rest(done)])

    def rest(self, done: int) -> list[str]:
        """Return "12 a minute" and "15 s left", as far as they are known."""
        passed_s = self.clock.now_ns() / 1e9
        parts = []
        per_s = (done - self.before) / passed_s if passed_s > 0 else 0.0
        if per_s:
            parts.append(rate(per_s))
        ends = [] if self.seconds is None else [max(0.0, self.seconds - passed_s)]
        if self.total is not None and per_s:
            ends.append(max(0.0, (self.total - done) / per_s))
        if ends:
            parts.append(f"{span(min(ends))} left")
        return parts


def rate(per_s: float) -> str:
    """Return "3.1 a second", "12 a minute" or "4.5 an hour"."""
    for unit, of in (("a second", 1), ("a minute", 60)):
        if per_s * of >= 1:
            return f"{per_s * of:,.3g} {unit}" if per_s * of < 1000 else f"{per_s * of:,.0f} {unit}"
    return f"{per_s * 3600:.3g} an hour"


def span(seconds: float) -> str:
    """Return "15 s", "4 min" or "2 h 10 min"."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
