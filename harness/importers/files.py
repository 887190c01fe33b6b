"""Judges files with histories of other systems: which files are named, and the verdict on each."""

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from pyporcupine.bounded_json import OutOfBoundsError
from pyporcupine.importers.files import (
    format_of,
    reading_of,
    text_of,
    transactions_of,
    why_binary,
)
from pyporcupine.importers.formats import FORMATS
from pyporcupine.importers.record import Malformed, Reading

from harness.core.errors import EXIT_USAGE, UsageError
from harness.core.ranges import quoted
from harness.core.verdict import worst
from harness.importers.directories import histories_below
from harness.importers.invariants import InvariantParameters, judge_invariant
from harness.importers.judge import CheckParameters, FileVerdict, judge
from harness.importers.transactions import TransactionParameters, judge_transactions

SHARE_S_MIN: Final = 1e-3
"""Time budget of a file when no time is left; enough for a history that needs no search."""


def files(targets: Sequence[str], format_: str | None) -> list[tuple[Path, str]]:
    """Return the files that paths, directories and patterns name, with their formats, each once.

    A directory stands for all histories below it (`histories_below`). Raises UsageError for a
    target that names no file.
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
    parameters: CheckParameters | InvariantParameters | TransactionParameters,
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
        if isinstance(own, TransactionParameters):
            history = _reading(path, partial(transactions_of, name=name))
            judged.append(judge_transactions(str(path), history, own))
            continue
        history = _reading(path, partial(reading_of, name=name, **reading))
        if isinstance(own, InvariantParameters):
            judged.append(judge_invariant(str(path), history, own))
            continue
        if own.initial is ... and history.format:
            own = replace(own, initial=FORMATS[history.format].initial(own.model))
        judged.append(judge(str(path), history, own))
    return judged


def exit_status(judged: Sequence[FileVerdict]) -> int:
    """Return the exit status of the worst verdict. An unreadable file counts as UNKNOWN; if no file
    is readable, the status is that of bad usage."""
    if not any(one.read for one in judged):
        return EXIT_USAGE
    return worst(one.status for one in judged).exit_status


def _within(path: Path, format_: str | None) -> Iterator[tuple[Path, str]]:
    if path.is_dir():
        yield from histories_below(path, format_)
    else:
        yield path, format_ or _known_format_of(path)


def _known_format_of(path: Path) -> str:
    if name := format_of(path):
        return name
    why = why_binary(path) or f"unknown suffix; expected --format {'|'.join(FORMATS)}"
    raise UsageError(f"{str(path)!r}: {why}")


def _suffixes(format_: str | None) -> str:
    formats = FORMATS.values() if format_ is None else [FORMATS[format_]]
    return ", ".join(suffix for one in formats for suffix in (*one.suffixes, one.files) if suffix)


def _reading(path: Path, read: Callable[[str], Reading]) -> Reading:
    try:
        return read(text_of(path))
    except OutOfBoundsError as error:
        return Reading(malformed=[Malformed(0, "the file", str(error), "at most that", "split it")])
    except (OSError, UnicodeDecodeError) as error:
        expected = "a file of text in UTF-8"
        return Reading(malformed=[Malformed(0, "the file", str(error), expected, "is it another?")])
