"""Rate and latency over time, as SVG that keeps text as text and uses the page's colours."""

import io
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import matplotlib as mpl
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, LogFormatter, MaxNLocator

from harness.core.history import History
from harness.core.op import Kind

COLOURS: Final = {
    "ok": "#010101",
    "fail": "#020202",
    "info": "#030303",
    "fault": "#040404",
    "ink": "#050505",
    "rule": "#060606",
    "dim": "#070707",
}
"""Placeholder colours: in the SVG each becomes the page's variable of that name, light or dark."""
STYLES: Final = {"ok": "-", "fail": (0, (4, 2)), "info": (0, (1, 1.5))}
"""Line style of each outcome, so that colour is not the only difference."""
QUANTILES: Final = (
    (0.5, 2.0, "median"),
    (0.95, 1.2, "95 %"),
    (0.99, 0.8, "99 %"),
    (1.0, 0.4, "max"),
)
SETTINGS: Final[Any] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.titley": 1.0,  # otherwise each draw measures all labels to look for a better place
    "text.parse_math": False,  # names are text, whatever they hold
}
SIZE: Final = re.compile(r'(<svg[^>]*?) (?:width|height)="[^"]*"([^>]*?) (?:width|height)="[^"]*"')
SUPERFLUOUS: Final = re.compile(
    r'<metadata>.*?</metadata>\s*|<!--.*?-->\s*|(?<=<g) id="[^"]*"|font-family: [^;"]*; ?',
    re.DOTALL,
)
"""Parts of the SVG that are removed: the page sets the font, and nothing refers to groups."""
TAG: Final = re.compile(r"<[^>]+>")
FRACTION: Final = re.compile(r"(\.\d\d)\d+")
"""Digits of a coordinate that are cut: a hundredth of a point is finer than any screen."""
BINS_MAX: Final = 120
LEAST_BIN_S: Final = 0.25


@dataclass(frozen=True, slots=True)
class Plots:
    """The same three plots as `<svg>` elements for a wide and for a narrow page."""

    wide: Markup
    narrow: Markup


@dataclass(frozen=True, slots=True)
class _Shape:
    size: tuple[float, float]
    """Width and height in inches; the page scales the figure to its own width."""
    margins: Mapping[str, float]
    """Margins, chosen by hand: matplotlib would have to draw everything twice to compute them."""
    beside: bool
    """True if legends stand beside their plot, not above it."""
    ticks: int


WIDE: Final = _Shape(
    (11, 8), {"left": 0.075, "right": 0.85, "top": 0.96, "bottom": 0.065, "hspace": 0.22}, True, 12
)
NARROW: Final = _Shape(
    (4.6, 9.4),
    {"left": 0.19, "right": 0.97, "top": 0.93, "bottom": 0.055, "hspace": 0.48},
    False,
    5,
)
LEGEND_COLUMNS: Final = 3


def plots(history: History) -> Plots | None:
    """Return the plots, or None if no call was made."""
    if not history.pairs:
        return None
    data = _Data(history)
    with mpl.rc_context(SETTINGS):
        figure = Figure()
        top, middle, bottom = figure.subplots(3, 1, sharex=True)
        _rate(top, data)
        _quantiles(middle, data)
        _outcomes(bottom, data)
        bottom.set_xlabel("seconds since the run began")
        for axes in figure.axes:
            _style_axes(axes, history, data.end_s)
        return Plots(_render(figure, WIDE), _render(figure, NARROW))


def _render(figure: Figure, shape: _Shape) -> Markup:
    """Return the figure in a shape. Making a figure for each shape would take a third longer."""
    figure.set_size_inches(shape.size)
    figure.subplots_adjust(**shape.margins)
    for axes in figure.axes:
        _add_title_and_legend(axes, shape)
    figure.axes[-1].xaxis.set_major_locator(MaxNLocator(shape.ticks))
    # The salt keeps ids apart: a reference must not resolve to the other, hidden figure.
    with mpl.rc_context({"svg.hashsalt": str(shape.size)}):
        return Markup(_svg(figure))  # noqa: S704 # the library escapes what it draws


class _Data:
    """The calls as arrays, and how time is cut into bins."""

    def __init__(self, history: History) -> None:
        columns = history.columns
        calls = columns.pairs(range(columns.calls_count()))
        ended = np.array([end is not None for _, end in calls])
        time_ns = columns.time_ns
        times = [(time_ns(begin), time_ns(end)) for begin, end in calls if end is not None]
        begins_ns, ends_ns = np.array(times, dtype=np.int64).reshape(-1, 2).T
        self.end_s = max(history[-1].time_ns / 1e9, 0.001)
        self.done_s = ends_ns / 1e9
        self.latency_ms = np.maximum((ends_ns - begins_ns) / 1e6, 1e-3)
        f, kind = np.empty((2, len(calls)), dtype=object)
        for name in dict(columns.words())["f"]:
            for outcome in STYLES:
                at = np.frombuffer(columns.places([name], [outcome]), dtype=np.uint32)
                f[at], kind[at] = name, outcome
        self.f, self.kind = f[ended], kind[ended]
        bins = int(min(BINS_MAX, max(1, self.end_s / LEAST_BIN_S)))
        self.edges = np.linspace(0, self.end_s, bins + 1)
        self.middles = (self.edges[:-1] + self.edges[1:]) / 2
        self.bin_s = self.end_s / bins
        self.bin = np.clip((self.done_s / self.bin_s).astype(int), 0, bins - 1)

    def quantile(self, q: float, chosen: Any) -> Any:
        """Return the quantile of the chosen latencies, one number a bin; nan in an empty bin."""
        out = np.full(len(self.middles), np.nan)
        bins, latencies = self.bin[chosen], self.latency_ms[chosen]
        ascending = latencies[np.lexsort((latencies, bins))]  # bin by bin
        found, counts = np.unique(bins, return_counts=True)
        ranks = np.rint((counts - 1) * q).astype(int)
        out[found] = ascending[np.cumsum(counts) - counts + ranks]
        return out


def _rate(axes: Axes, data: _Data) -> None:
    for kind in Kind:
        chosen = data.kind == kind.value
        if kind is Kind.INVOKE or not chosen.any():
            continue
        counts, _ = np.histogram(data.done_s[chosen], data.edges)
        axes.step(data.middles, counts / data.bin_s, where="mid", label=kind.value,
                  color=COLOURS[kind.value], linestyle=STYLES[kind.value])  # fmt: skip
    axes.set_ylabel("calls a second")
    axes.set_ylim(bottom=0)
    axes.set_title("Rate, by outcome")


def _quantiles(axes: Axes, data: _Data) -> None:
    chosen = data.kind == Kind.OK.value
    for q, width, label in QUANTILES:
        axes.plot(data.middles, data.quantile(q, chosen), label=label, color=COLOURS["ok"],
                  linewidth=width, marker=".", markersize=2 + width)  # fmt: skip
    axes.set_title("Latency of answered calls")
    _logarithmic(axes)


def _outcomes(axes: Axes, data: _Data) -> None:
    marks = dict(zip(sorted(set(data.f)), "osv^D*x+" * 8, strict=False))
    for f, mark in marks.items():
        for kind in STYLES:
            chosen = (data.f == f) & (data.kind == kind)
            if chosen.any():
                axes.plot(data.middles, data.quantile(0.5, chosen), label=f"{f} {kind}",
                          color=COLOURS[kind], linewidth=1, linestyle=STYLES[kind],
                          marker=mark, markersize=3.5)  # fmt: skip
    axes.set_title("Median latency by operation")
    _logarithmic(axes)


def _logarithmic(axes: Axes) -> None:
    axes.set_yscale("log")
    axes.set_ylabel("milliseconds")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,g}"))
    axes.yaxis.set_minor_formatter(_Minor(labelOnlyBase=False, minor_thresholds=(1, 0.5)))


class _Minor(LogFormatter):
    """Labels between powers of ten, as plain numbers, for an axis that spans less than two."""

    def __call__(self, x: float, pos: Any = None) -> str:
        return f"{x:,g}" if super().__call__(x, pos) else ""


def _style_axes(axes: Axes, history: History, end_s: float) -> None:
    for fault in history.faults:
        until = end_s if fault.end_ns is None else fault.end_ns / 1e9
        begin = fault.begin_ns / 1e9
        _band(axes, begin, max(until, begin + end_s / 500), color=COLOURS["fault"], alpha=0.16)
        if fault.invoked_ns < fault.begin_ns:
            _band(axes, fault.invoked_ns / 1e9, begin, facecolor="none", hatch="////",
                  edgecolor=COLOURS["fault"], alpha=0.35)  # fmt: skip
    axes.set_xlim(0, end_s)
    axes.grid(color=COLOURS["rule"], linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(colors=COLOURS["dim"], which="both")
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set_color(COLOURS["dim"])
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(COLOURS["rule"])


def _band(axes: Axes, begin_s: float, end_s: float, **style: Any) -> None:
    """Add a band over the whole height. `axvspan` would find new limits of the axes each time."""
    across = axes.get_xaxis_transform()
    width = end_s - begin_s
    axes.add_artist(Rectangle((begin_s, 0), width, 1, transform=across, linewidth=0, **style))


def _add_title_and_legend(axes: Axes, shape: _Shape) -> None:
    """Add the title and the legend; a legend above the plot moves the title further up."""
    handles, labels = axes.get_legend_handles_labels()
    rows = 0 if shape.beside else -(-len(labels) // LEGEND_COLUMNS)
    axes.set_title(axes.get_title("left"), pad=6 + 14 * rows, color=COLOURS["ink"])
    if not handles:
        return
    place: dict[str, Any] = (
        {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
        if shape.beside
        else {"loc": "lower left", "bbox_to_anchor": (-0.02, 0.98), "ncols": LEGEND_COLUMNS,
              "columnspacing": 1.2, "handlelength": 1.6, "borderpad": 0.2, "labelspacing": 0.25}
    )  # fmt: skip
    axes.legend(handles, labels, frameon=False, labelcolor=COLOURS["ink"], **place)


def _svg(figure: Figure) -> str:
    buffer = io.StringIO()
    with warnings.catch_warnings():
        # The browser draws the text with its own fonts.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure.savefig(
            buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None}
        )
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    for name, stand_in in COLOURS.items():
        text = text.replace(stand_in, f"var(--{name})")
    text = SIZE.sub(r"\1\2", SUPERFLUOUS.sub("", text), count=1)
    return TAG.sub(lambda tag: FRACTION.sub(r"\1", tag[0]), text)
