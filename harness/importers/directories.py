"""Finds the histories below a directory: those of Jepsen's stores, reports of etcd's robustness
tests, and all files whose suffix fits."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pyporcupine.importers.etcd import REPORT_FILES
from pyporcupine.importers.files import BINARY, format_of, why_binary
from pyporcupine.importers.formats import FORMATS

from harness.core.errors import UsageError

ETCD: Final = "etcd"
HISTORIES: Final = {"edn": "history.edn", "history-txt": "history.txt", "jepsen-log": "jepsen.log"}
"""Files with the history of a test of Jepsen or Maelstrom, by format, the best first: a directory
has the same history in each of them."""
_BESIDE: Final = {"jepsen.log", "results.edn", "timeline.html", "test.jepsen", "test.fressian"}
"""Other files of a test, by which its directory is known."""


def histories_below(path: Path, format_: str | None) -> Iterator[tuple[Path, str]]:
    """Yield the histories below a directory, in the order of their paths, with their formats; only
    those of `format_` if that is given.

    Of the directory of a test, only its history counts, and not its results or the logs of its
    nodes. Symbolic links to directories, such as Jepsen's `latest`, are not followed. Raises
    UsageError if a test has nothing but Jepsen's binary store.
    """
    for folder, folders, names in os.walk(path):
        folders.sort()
        directory = Path(folder)
        found = _of_report(directory, format_) or _of_test(directory, set(names), format_)
        if found is not None:
            folders.clear()
            yield directory / found[0], found[1]
            continue
        for below in map(directory.joinpath, sorted(names)):
            name = format_ or format_of(below)
            if name is not None and below.suffix in FORMATS[name].suffixes and below.is_file():
                yield below, name


def _of_report(directory: Path, format_: str | None) -> tuple[str, str] | None:
    if format_ in (None, ETCD) and any(directory.glob(REPORT_FILES)):
        return "", ETCD
    return None


def _of_test(directory: Path, names: set[str], format_: str | None) -> tuple[str, str] | None:
    """Return the name and the format of the history of a test; None if this is not a directory of a
    test, or the test has no history of `format_`."""
    for name, file in HISTORIES.items():
        if file in names and format_ in (None, name) and names & _BESIDE - {file}:
            return file, name
    binary = sorted(name for name in names if Path(name).suffix in BINARY)
    if binary and format_ is None:
        only = directory / binary[0]
        raise UsageError(f"{str(only)!r}: {why_binary(only)}")
    return None
