"""What the servers logged at the time of the anomaly, or last."""

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

_STAMP: Final = re.compile(r"(\d{4})[.-](\d\d)[.-](\d\d)[ T](\d\d):(\d\d):(\d\d)[.,](\d{3,6})")
"""How ClickHouse ("2026.11.21 12:00:31.123456") and ZooKeeper ("2026-11-21 12:00:31,123") date a
line; both in UTC, as the containers are."""
LINES_MAX: Final = 60
LINE_LENGTH_MAX: Final = 600
TAIL_BYTES: Final = 256 * 1024
AROUND: Final = timedelta(seconds=1.5)


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A few lines of one file."""

    node: str
    file: str
    lines: tuple[tuple[str, bool], ...]
    """A line, and whether it tells of a warning or an error."""
    left_out: int
    """Lines of that time that were too many."""


def excerpts(logs: Path, around: datetime | None) -> tuple[Excerpt, ...]:
    """Of every node's log: the lines near `around`; the last ones when that is None."""
    found = []
    for file in sorted(logs.glob("*/*.log")) if logs.is_dir() else ():
        # What is in the log of errors is in the whole log too.
        if (
            file.name.endswith(".err.log")
            and file.with_name(file.name.replace(".err.log", ".log")).is_file()
        ):
            continue
        lines = _last(file) if around is None else _near(file, around)
        middle = len(lines) // 2
        begin = (
            0 if len(lines) <= LINES_MAX else (middle if around else len(lines)) - LINES_MAX // 2
        )
        begin = max(0, min(begin, len(lines) - LINES_MAX))
        shown = lines[begin : begin + LINES_MAX]
        if shown:
            told = tuple((line[:LINE_LENGTH_MAX], _grave(line)) for line in shown)
            found.append(Excerpt(file.parent.name, file.name, told, len(lines) - len(shown)))
    return tuple(found)


def _grave(line: str) -> bool:
    return any(word in line for word in ("<Error>", "<Fatal>", "<Warning>", " ERROR ", " WARN "))


def _last(file: Path) -> list[str]:
    with file.open("rb") as raw:
        raw.seek(max(0, file.stat().st_size - TAIL_BYTES))
        return raw.read().decode(errors="replace").splitlines()[-LINES_MAX:]


def _near(file: Path, around: datetime) -> list[str]:
    """The lines from AROUND before to AROUND after; those without a date go with the one above."""
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

        begin = bisect_left(range(size), around - AROUND, key=stamp_at)
        raw.seek(begin)
        if begin:
            raw.readline()
        return list(_until(raw.read(TAIL_BYTES).decode(errors="replace"), around + AROUND))


def _until(text: str, end: datetime) -> Iterator[str]:
    for line in text.splitlines():
        stamp = _stamp(line)
        if stamp is not None and stamp > end:
            return
        yield line


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
