"""Lines of the servers' logs about calls. A server names the query in every line that it logs for
one, and the harness names the run and the op in the query id. Of an insert there are also the lines
about its part, on every replica."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Final

from harness.report.node_logs import line_around, log_files
from harness.report.part_logs import LoggedPart, lines_of_parts, parts_of_queries

LOG_BYTES_MAX: Final = 512 * 1024**2
"""Number of bytes of a run's logs that are searched; files that exceed it are named instead."""
LINES_MAX: Final = 200
"""Number of lines that are kept of one query in each file."""
_WORD: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")


@dataclass(frozen=True, slots=True)
class FileLines:
    """Lines of one log file."""

    file: str
    """Node and name: "ch1/clickhouse-server.log"."""
    lines: tuple[str, ...]
    left_out: int
    """Number of further lines."""
    part: str = ""
    """Part that the lines name; "": they have the query's id."""

    @property
    def title(self) -> str:
        """Return the file, and the part."""
        return f"{self.file}, part {self.part}" if self.part else self.file


@dataclass(frozen=True, slots=True)
class QueryLogs:
    """What the servers logged of some queries."""

    by_query: Mapping[str, tuple[FileLines, ...]]
    """Lines of each query by its id; ids of which nothing was logged are missing."""
    unread: tuple[str, ...]
    """Files that were not searched, since the logs are too large."""


def logs_of_queries(logs: Path, query_ids: Collection[str]) -> QueryLogs:
    """Return the lines of these queries, and then of their parts, from the logs in a run's
    directory."""
    files, unread = _files_within(logs)
    wanted = frozenset(filter(None, query_ids))
    found: dict[str, list[FileLines]] = defaultdict(list)
    for file in files if wanted else ():
        for query, lines in _lines_of(file, wanted).items():
            found[query].append(_kept(file, lines))
    own = {query: [line for one in of for line in one.lines] for query, of in found.items()}
    parts = parts_of_queries(logs, own)
    named = {part for several in parts.values() for part in several}
    for file in files if named else ():
        lines_by_part = lines_of_parts(file, named)
        for query, several in parts.items():
            found[query] += _of_parts(file, several, lines_by_part, own[query])
    return QueryLogs({query: tuple(lines) for query, lines in found.items()}, unread)


def _of_parts(
    file: Path,
    parts: Sequence[LoggedPart],
    lines_by_part: Mapping[LoggedPart, Sequence[str]],
    own: Collection[str],
) -> Iterator[FileLines]:
    """Yield the lines of each part of a query that are not its own."""
    for part in parts:
        if lines := [line for line in lines_by_part.get(part, ()) if line not in own]:
            yield _kept(file, lines, part.name)


def _kept(file: Path, lines: Sequence[str], part: str = "") -> FileLines:
    kept = tuple(lines[:LINES_MAX])
    return FileLines(_name(file), kept, len(lines) - len(kept), part)


def _files_within(logs: Path) -> tuple[list[Path], tuple[str, ...]]:
    """Return the log files that are searched, and the names of the largest ones if all are too
    many bytes."""
    left = LOG_BYTES_MAX
    searched: list[Path] = []
    unread: list[str] = []
    for size, file in sorted((file.stat().st_size, file) for file in log_files(logs)):
        left -= size
        if left < 0:
            unread.append(_name(file))
        elif size:
            searched.append(file)
    return sorted(searched), tuple(sorted(unread))


def _name(file: Path) -> str:
    return f"{file.parent.name}/{file.name}"


def _lines_of(file: Path, wanted: Collection[str]) -> Mapping[str, list[str]]:
    """Return the lines with each of these ids."""
    found: dict[str, list[str]] = defaultdict(list)
    # Ids differ in what follows the last dash, so that one search finds all of a run.
    heads = {query[: query.rfind("-") + 1] or query for query in wanted}
    pattern = re.compile(b"|".join(re.escape(head.encode()) for head in sorted(heads)))
    with file.open("rb") as raw, mmap(raw.fileno(), 0, access=ACCESS_READ) as text:
        for word, line in _words(text, pattern):
            lines = found[word] if word in wanted else None
            if lines is not None and not (lines and lines[-1] is line):
                lines.append(line)
    return found


def _words(text: mmap, pattern: re.Pattern[bytes]) -> Iterator[tuple[str, str]]:
    """Yield each word that begins with a match, with its line; two words of one line have the same
    object."""
    line, line_end = "", -1
    for match in pattern.finditer(text):
        start, end = match.span()
        if start and text[start - 1] in _WORD:
            continue
        while end < len(text) and text[end] in _WORD:
            end += 1
        if start > line_end:
            line, line_end = line_around(text, start)
        yield text[start:end].decode(errors="replace").rstrip(".-"), line
