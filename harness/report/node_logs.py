"""Excerpts of the servers' logs around the anomaly, or else of their last lines."""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from mmap import mmap
from pathlib import Path
from typing import Final
from urllib.parse import quote

_STAMP: Final = re.compile(r"(\d{4})[.-](\d\d)[.-](\d\d)[ T](\d\d):(\d\d):(\d\d)[.,](\d{3,6})")
"""Date of a line of ClickHouse ("2026.11.21 12:00:31.123456") or ZooKeeper ("2026-11-21
12:00:31,123"); both in UTC, as the containers are."""
ROUTINE: Final = re.compile(
    r"executeQuery: (\(from|Query pipeline|Read )|SelectExecutor|InterpreterSelectQuery"
    r"|MemoryTracker|TCPHandler|InterserverIOHTTPHandler: Done"
)
"""Messages that ClickHouse writes for every query; they are left out first."""
GRAVE: Final = ("<Error>", "<Fatal>", "<Warning>", " ERROR ", " WARN ")
VARYING: Final = re.compile(r"\{[0-9a-f-]*\}|\d+")
"""Times, threads, queries, numbers of parts and rows: what varies between similar lines."""
ROUTINE_RANK: Final = 2
ALIKE_MAX: Final = 3
LINES_MAX: Final = 60
LINE_LENGTH_MAX: Final = 600
TAIL_BYTES: Final = 256 * 1024
AROUND: Final = timedelta(seconds=1.5)


def line_around(text: mmap, start: int) -> tuple[str, int]:
    """Return the line of a log that has a position, cut at its greatest length, and its end."""
    first, end = text.rfind(b"\n", 0, start) + 1, text.find(b"\n", start)
    end = len(text) if end < 0 else end
    return text[first : min(end, first + LINE_LENGTH_MAX)].decode(errors="replace"), end


@dataclass(frozen=True, slots=True)
class LogLine:
    """Line of a server's log."""

    text: str

    @property
    def grave(self) -> bool:
        """Return whether the line is a warning or an error."""
        return any(word in self.text for word in GRAVE)

    @property
    def rank(self) -> int:
        """Return 0 for a grave line, 1 for an event, 2 for what is logged of every query or
        continues a message."""
        if self.grave:
            return 0
        return ROUTINE_RANK if _stamp(self.text) is None or ROUTINE.search(self.text) else 1

    @property
    def gist(self) -> str:
        """Return the text without what varies between lines that say the same."""
        return VARYING.sub("", self.text)


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Excerpt of one log file."""

    node: str
    file: str
    lines: tuple[LogLine, ...]
    left_out: int
    """Number of lines of that time that were left out."""
    middle: int | None
    """Index of the first line at or after the requested time; None if no time was requested."""

    @property
    def path(self) -> str:
        """Return the path of the file within the run's directory, as part of a URL."""
        return quote(f"logs/{self.node}/{self.file}")

    @property
    def grave(self) -> int:
        """Return the number of warnings and errors."""
        return sum(line.grave for line in self.lines)


def excerpts(logs: Path, around: datetime | None) -> tuple[Excerpt, ...]:
    """Return the lines of every node's log near `around`, or its last lines if that is None."""
    found = []
    for file in log_files(logs):
        texts, middle = _last(file) if around is None else _near(file, around)
        lines = [LogLine(text[:LINE_LENGTH_MAX]) for text in texts]
        chosen = _chosen(lines, middle)
        if chosen:
            shown = tuple(lines[at] for at in chosen)
            now = None if around is None else sum(at < middle for at in chosen)
            left_out = len(lines) - len(shown)
            found.append(Excerpt(file.parent.name, file.name, shown, left_out, now))
    return tuple(found)


def log_files(logs: Path) -> Iterator[Path]:
    """Yield the files of every node's log. The full log contains the lines of the error log, which
    is left out beside it."""
    run = logs.parent.resolve()
    for file in sorted(logs.glob("*/*.log")) if logs.is_dir() else ():
        if not file.resolve().is_relative_to(run) or not file.is_file():
            continue  # a link that leads out of the run, a FIFO that would block
        full = file.with_name(file.name.replace(".err.log", ".log"))
        if file.name.endswith(".err.log") and full.is_file():
            continue
        yield file


def _chosen(lines: Sequence[LogLine], middle: int) -> list[int]:
    """Return which of too many lines to show. Events precede routine messages, lines near the
    middle precede distant ones, and few similar lines are kept. Warnings and errors take at most a
    third, unless there is room."""
    if len(lines) <= LINES_MAX:
        return list(range(len(lines)))
    occurrences: Counter[str] = Counter()
    ranked: list[list[int]] = [[], [], [], []]
    for at in sorted(range(len(lines)), key=lambda at: abs(at - middle)):
        rank = lines[at].rank
        gist = lines[at].gist
        occurrences[gist] += rank < ROUTINE_RANK
        ranked[3 if occurrences[gist] > ALIKE_MAX else rank].append(at)
    grave, events, routine, alike = ranked
    first, later = grave[: LINES_MAX // 3], grave[LINES_MAX // 3 :]
    return sorted([*first, *events, *later, *alike, *routine][:LINES_MAX])


def _last(file: Path) -> tuple[list[str], int]:
    with file.open("rb") as raw:
        raw.seek(max(0, file.stat().st_size - TAIL_BYTES))
        lines = _texts(raw.read())[-LINES_MAX:]
    return lines, len(lines)


def _texts(raw: bytes, *, keepends: bool = False) -> list[str]:
    """Split into lines as bytes, because Unicode line separators do not end a log line."""
    return [line.decode(errors="replace") for line in raw.splitlines(keepends)]


def _near(file: Path, around: datetime) -> tuple[list[str], int]:
    """Return the lines within AROUND of the time, and how many of them are earlier. A line without
    a date belongs to the line above. A file without dates yields no lines."""
    size = file.stat().st_size
    with file.open("rb") as raw:

        def stamp_at(offset: int) -> datetime:
            raw.seek(offset)
            if offset:
                raw.readline()
            for line in raw:
                if stamp := _stamp(line.decode(errors="replace")):
                    return stamp
            return datetime.max.replace(tzinfo=UTC)

        middle = bisect_left(range(size), around, key=stamp_at)
        raw.seek(max(0, middle - TAIL_BYTES))
        before = _texts(raw.read(middle - raw.tell()), keepends=True)
        after = _texts(raw.read(TAIL_BYTES), keepends=True)
    if middle and after:
        # `middle` may lie within a line: the rest belongs to the line before.
        rest = after.pop(0)
        if before and not before[-1].endswith("\n"):
            before[-1] += rest
        else:
            before.append(rest)
    earlier = [*takewhile(lambda line: not _dated(line, latest=around - AROUND), reversed(before))]
    later = [*takewhile(lambda line: not _dated(line, earliest=around + AROUND), after)]
    if not any(_stamp(line) for line in (*earlier, *later)):
        return [], 0
    return [line.rstrip("\n") for line in (*reversed(earlier), *later)], len(earlier)


def _dated(line: str, *, latest: datetime | None = None, earliest: datetime | None = None) -> bool:
    stamp = _stamp(line)
    if stamp is None:
        return False
    return (latest is not None and stamp < latest) or (earliest is not None and stamp > earliest)


def _stamp(line: str) -> datetime | None:
    found = _STAMP.search(line[:80])
    if found is None:
        return None
    *whole, part = found.groups()
    year, month, day, hour, minute, second = (int(n) for n in whole)
    try:
        micro = int(part.ljust(6, "0"))
        return datetime(year, month, day, hour, minute, second, micro, tzinfo=UTC)
    except ValueError:
        return None
