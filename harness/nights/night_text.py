"""A night in a few lines for a chat, and as Markdown for a page of CI, from its summary.json."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import PurePath
from typing import Any, Final

from harness.core.printable import printable
from harness.core.verdict import Status

RUNS_MAX: Final = 10
"""Number of failed runs that are named."""
ALARMS_MAX: Final = 20
CELLS_MAX: Final = 200
"""Number of rows of the table of cells; GitHub shows a summary of at most 1 MiB."""
_CHARS_MAX: Final = 300
"""Length of a reason."""


def lines(report: Mapping[str, Any]) -> list[str]:
    """Return what a night came to, the runs that fail it, its alarms and its place, as lines of
    plain text."""
    found = [str(report["headline"])]
    found += _some([_run(one) for one in _failed(report)], RUNS_MAX, "failed runs")
    found += _some([f"alarm: {one['text']}" for one in report["alarms"]], ALARMS_MAX, "alarms")
    return [printable(line) for line in (*found, f"night: {report['night']}")]


def markdown(report: Mapping[str, Any]) -> str:
    """Return the same as GitHub's Markdown, with a table of cells and one of alarms."""
    matrix = PurePath(report["night"]).parent.name
    found = [f"## {_text(matrix)}: {_text(report['headline'])}", ""]
    found += _table(("cell", "runs", *map(str, reversed(Status)), "findings"), _cells(report))
    if report["alarms"]:
        rows = map(_alarm, report["alarms"][:ALARMS_MAX])
        found += ["", "### Alarms", "", *_table(("cell", "figure", "now", "before"), rows)]
    failed = _some([_run(one) for one in _failed(report)], RUNS_MAX, "failed runs")
    if failed:
        found += ["", "### Runs that fail the night", "", *(f"- {_text(one)}" for one in failed)]
    return "\n".join(found) + "\n"


def _failed(report: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [run for run in report["runs_by_number"] if run["run"] in report["failed"]]


def _run(run: Mapping[str, Any]) -> str:
    why = ", ".join(run["causes"]) + ": " + str(run["why"])
    return f"run {run['run']}, {run['cell']}, seed {run['seed']}: {why[:_CHARS_MAX]}"


def _alarm(alarm: Mapping[str, Any]) -> Sequence[str]:
    now = f"{alarm['now']}, {alarm['window']}"
    return alarm["cell"], f"{alarm['figure']} {alarm['verb']}", now, alarm["past"]


def _some(texts: Sequence[str], most: int, name: str) -> list[str]:
    more = len(texts) - most
    return [*texts[:most], *([f"and {more} more {name}"] if more > 0 else [])]


def _cells(report: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    """Yield the rows of cells that ran, those with findings that are not accepted first."""
    ran = [cell for cell in report["cells"] if cell["runs"]]
    ran.sort(key=lambda cell: not ({*cell["findings"]} - {*cell["accepted"]}))
    for cell in ran[:CELLS_MAX]:
        findings = (
            f"{name} {count}"
            + (" (accepted)" if name in cell["accepted"] else "")
            + (" (new)" if name in (*cell["new"], *cell["health_new"]) else "")
            for name, count in (*cell["findings"].items(), *cell["health"].items())
        )
        gone = (f"{name} (accepted, gone)" for name in cell["gone"])
        counts = (str(cell[status.value]) for status in reversed(Status))
        yield cell["name"], str(cell["runs"]), *counts, ", ".join((*findings, *gone))
    if len(ran) > CELLS_MAX:
        yield (f"and {len(ran) - CELLS_MAX} more cells",)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield _row(columns)
    yield _row(["---"] * len(columns))
    for row in rows:
        yield _row([_text(value) for value in row])


def _row(values: Sequence[str]) -> str:
    return f"| {' | '.join(values)} |"


def _text(text: str) -> str:
    """Return a text on one line that Markdown shows as it is."""
    shown = escape(printable(str(text)).replace("\n", " "), quote=False)
    return "".join(f"\\{char}" if char in r"\`*_[]|~#" else char for char in shown)
