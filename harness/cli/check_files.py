"""`harness check FILE… --model M`: judge histories of other systems."""

import glob
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pyporcupine.bounded_json import OutOfBoundsError
from pyporcupine.importers.files import format_of, reading_of, text_of
from pyporcupine.importers.formats import FORMATS
from pyporcupine.importers.record import Malformed, Reading
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from checkers.phrasing import number
from harness.cli.result import STATUS_STYLE
from harness.core.errors import EXIT_USAGE, UsageError
from harness.core.ranges import quoted
from harness.core.verdict import Status, worst
from harness.importers.judge import CheckParameters, FileVerdict, judge
from harness.importers.phrasing import explain, witness

SHARE_S_MIN = 1e-3
"""Time budget of a file when no time is left; enough for a history that needs no search."""
SHOWN_MAX = 5
"""Number of malformed lines and of keys of a file that are printed; the JSON has all."""


def files(targets: Sequence[str], format_: str | None) -> list[tuple[Path, str]]:
    """Return the files that paths, directories and patterns name, with their formats, each once.

    A directory stands for all files below it with a suffix of a known format, or of `format_` if
    that is given. Raises UsageError for a target that names no file.
    """
    found: dict[Path, str] = {}
    for target in targets:
        paths = [Path(target)]
        if not os.path.exists(target):  # unlike Path.exists, False if the name is too long
            paths = [Path(path) for path in sorted(glob.glob(target, recursive=True))]
        named = [(path, name) for path in paths for path, name in _within(path, format_)]
        if not named:
            raise UsageError(
                f"{quoted(target)} names no file; expected a file, a directory with files "
                f"ending in {_suffixes(format_)}, or a pattern such as 'logs/*.log'"
            )
        found.update(named)
    return list(found.items())


def check_files(
    paths: Sequence[tuple[Path, str]],
    parameters: CheckParameters,
    progress: Callable[[int], None] = lambda _: None,
    **reading: Any,
) -> list[FileVerdict]:
    """Return the verdict of every file, or why the file cannot be read. `progress` is called with
    the number of files that are done.

    A file gets at most half of the time that is left for it and the files after it.
    """
    judged: list[FileVerdict] = []
    for place, (path, name) in enumerate(paths):
        progress(place)
        left_s = parameters.time_s - sum(one.took_s for one in judged)
        share_s = left_s if place == len(paths) - 1 else left_s / 2
        own = replace(parameters, time_s=max(share_s, SHARE_S_MIN))
        history = _reading(path, name, reading)
        if parameters.initial is ... and history.format:
            own = replace(own, initial=FORMATS[history.format].initial(parameters.model))
        judged.append(judge(str(path), history, own))
    return judged


def exit_status(judged: Sequence[FileVerdict]) -> int:
    """Return the exit status of the worst verdict. An unreadable file counts as UNKNOWN; if no file
    is readable, the status is that of bad usage."""
    if not any(one.read for one in judged):
        return EXIT_USAGE
    return worst(one.status for one in judged).exit_status


def as_json(judged: Sequence[FileVerdict]) -> str:
    """Return all results as JSON."""
    status = worst(one.status for one in judged)
    results = [_json(one) for one in judged]
    return json.dumps({"status": status, "exit_status": exit_status(judged), "files": results})


def show(judged: Sequence[FileVerdict], console: Console) -> None:
    """Print a table with a row for each file, the reasons of those that are not VALID, and the
    answer."""
    console.print(Group(_table(judged), *_reasons(judged)))
    counts = Counter(one.status for one in judged)
    tally = ", ".join(f"{counts[status]:,} {status.value}" for status in Status if counts[status])
    unread = sum(not one.read for one in judged)
    status = worst(one.status for one in judged)
    text = f": {number(len(judged), 'file')}: {tally}{f', {unread} not readable' if unread else ''}"
    answer = Text.assemble((status.value, STATUS_STYLE[status]), text)
    console.print(answer, soft_wrap=True, highlight=False)


def _within(path: Path, format_: str | None) -> Iterator[tuple[Path, str]]:
    if not path.is_dir():
        yield path, format_ or _known_format_of(path)
        return
    for below in sorted(path.rglob("*")):
        name = format_ or format_of(below)
        if name is not None and below.suffix in FORMATS[name].suffixes and below.is_file():
            yield below, name


def _known_format_of(path: Path) -> str:
    if name := format_of(path):
        return name
    raise UsageError(f"{str(path)!r}: unknown suffix; expected --format {'|'.join(FORMATS)}")


def _suffixes(format_: str | None) -> str:
    formats = FORMATS.values() if format_ is None else [FORMATS[format_]]
    return ", ".join(suffix for one in formats for suffix in one.suffixes)


def _reading(path: Path, name: str, options: dict[str, Any]) -> Reading:
    try:
        return reading_of(text_of(path), name, **options)
    except OutOfBoundsError as error:
        return Reading(malformed=[Malformed(0, "the file", str(error), "at most that", "split it")])
    except (OSError, UnicodeDecodeError) as error:
        expected = "a file of text in UTF-8"
        return Reading(malformed=[Malformed(0, "the file", str(error), expected, "is it another?")])


def _json(one: FileVerdict) -> dict[str, Any]:
    operations = one.reading.operations
    deciding = [] if one.status is Status.VALID else one.deciding
    return {
        "file": one.path,
        "status": one.status,
        "reason": one.reason,
        "operations": len(operations),
        "lost": one.reading.lost,
        "left_out": one.reading.left_out,
        "keys": len(one.objects),
        "took_ms": round(1e3 * one.took_s, 3),
        "malformed": [{**asdict(bad), "text": bad.text} for bad in one.reading.malformed],
        "failures": [
            {
                "key": result.key,
                "status": one.status_of(result),
                "reason": one.reason_of(result),
                "witness": [asdict(line) for line in witness(one.reading, result)],
                "why": explain(one.reading, result),
            }
            for result in deciding
        ],
    }


def _table(judged: Sequence[FileVerdict]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("verdict", no_wrap=True)
    above = _above(judged)
    table.add_column(f"file in {above}" if above else "file", overflow="fold")
    for name in ("operations", "lost", "processes", "keys", "ms"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in judged:
        if not one.read:
            table.add_row(Text("not read", "bold yellow"), _below(above, one))
            continue
        operations = one.reading.operations
        counts = [
            len(operations),
            one.reading.lost,
            len({operation.process for operation in operations}),
            len(one.objects),
        ]
        status = Text(one.status.value, STATUS_STYLE[one.status])
        table.add_row(
            status, _below(above, one), *(f"{n:,}" for n in counts), f"{1e3 * one.took_s:.1f}"
        )
    return table


def _above(judged: Sequence[FileVerdict]) -> str:
    """Return the common directory of the files; "" for a single file."""
    above = os.path.commonpath([os.path.dirname(os.path.abspath(one.path)) for one in judged])
    return above if len(judged) > 1 and above != "/" else ""


def _below(above: str, one: FileVerdict) -> str:
    return os.path.relpath(one.path, above) if above else one.path


def _reasons(judged: Sequence[FileVerdict]) -> Iterator[RenderableType]:
    for one in judged:
        if not one.read:
            yield from _malformed(one)
        elif one.status is not Status.VALID:
            if one.reason:
                yield Text()
                head = f"  {one.path}: {one.reason}"
                yield Text.assemble((one.status.value, STATUS_STYLE[one.status]), head)
            for result in one.deciding[:SHOWN_MAX]:
                yield Text()
                key = "" if result.key is None else f", key {result.key!r}"
                head = f"  {one.path}{key}: {one.reason_of(result)}"
                yield Text.assemble((one.status.value, STATUS_STYLE[one.status]), head)
                yield _witness(one.reading, result)
            if len(one.deciding) > SHOWN_MAX:
                yield Text(f"and {number(len(one.deciding) - SHOWN_MAX, 'more key')}", "dim")


def _witness(reading: Reading, result: Any) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", justify="right", no_wrap=True)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for line in witness(reading, result):
        table.add_row(f"  {line.where}", f"process {line.process}", line.what)
    for step in explain(reading, result):
        table.add_row("", "why", step)
    return table


def _malformed(one: FileVerdict) -> Iterator[RenderableType]:
    yield Text()
    bad = one.reading.malformed
    for line in bad[:SHOWN_MAX]:
        yield Text.assemble((f"{one.path}:{line.line}: ", "bold"), line.text)
    if len(bad) > SHOWN_MAX:
        yield Text(f"and {number(len(bad) - SHOWN_MAX, 'more malformed line')}", "dim")
