"""The runs of a store, with search, filters and sorting."""

import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from harness.report.facts import RUNNING
from harness.run.store import RunDirectory, Store
from harness.web.summary import DEFAULTS, GROUPS, STATUSES, Summary, summary_of

SORTS: Final[Mapping[str, Callable[[Summary], Any]]] = {
    "started": lambda run: (run.started, run.name),
    "status": lambda run: (STATUSES.index(run.status), run.started),
    "workload": lambda run: (run.workload, run.started),
    "nemesis": lambda run: (run.nemesis, run.started),
    "version": lambda run: (run.versions, run.started),
    "seed": lambda run: (len(run.seed), run.seed),
    "settings": lambda run: (run.settings, run.started),
    "anomalies": lambda run: (not run.kinds, run.kinds, run.started),
    "first": lambda run: (run.first_s is None, run.first_s or 0.0, run.started),
}


ALL: Final = "all"
"""The group of a query that takes every kind of run."""


@dataclass(frozen=True, slots=True)
class Query:
    """Search, filters and order of the list; "" is no filter."""

    q: str = ""
    workload: str = ""
    nemesis: str = ""
    status: str = ""
    version: str = ""
    """Version of one server, or of all servers together."""
    since: str = ""
    """First day, "2026-11-20"; `until` is the last one."""
    until: str = ""
    settings: str = ""
    kind: str = ""
    """Kind of anomaly."""
    group: str = "run"
    """Kind of run, one of GROUPS; "all" is no filter."""
    sort: str = "started"
    """One of SORTS; a leading "-" sorts descending."""

    @staticmethod
    def of(given: Mapping[str, str]) -> "Query":
        """Return the query of a URL, without unknown parameters."""
        known = {name: given[name].strip() for name in Query.__slots__ if name in given}
        if known.get("sort", "").removeprefix("-") not in SORTS:
            known["sort"] = "-started"
        if known.get("group", "") not in (*GROUPS, ALL):
            known["group"] = GROUPS[0]
        return Query(**known)

    def fits(self, run: Summary) -> bool:
        """Return whether the run matches."""
        return (
            all(word in run.text for word in self.q.lower().split())
            and self.workload in ("", run.workload)
            and self.nemesis in ("", run.nemesis)
            and self.status in ("", run.status)
            and self.settings in ("", run.settings or DEFAULTS)
            and (not self.kind or self.kind in run.kinds)
            and self.group in (ALL, run.group)
            and (not self.version or self.version in (*run.versions, run.version))
            and (not self.since or run.date >= self.since)
            and (not self.until or run.date <= self.until)
        )

    def chosen(self, runs: Iterable[Summary]) -> Sequence[Summary]:
        """Return the matching runs in order."""
        key = SORTS[self.sort.removeprefix("-")]
        return sorted(filter(self.fits, runs), key=key, reverse=self.sort.startswith("-"))


@dataclass(slots=True)
class Runs:
    """The runs of a store. Files that have not changed on disk are not read again."""

    store: Store
    _known: dict[Path, tuple[tuple[int, int], Summary]] = field(default_factory=dict)

    def all(self) -> list[Summary]:
        """Return every run, the latest first."""
        return [self._summary(run) for run in self._own()]

    def find(self, folder: str, name: str) -> RunDirectory | None:
        """Return the run of that name, or None. No other path than a listed run is ever opened."""
        wanted = self.store.root / folder / name
        return next((run for run in self._own() if run.path == wanted), None)

    def _own(self) -> Iterable[RunDirectory]:
        """Yield the runs whose files are regular. The store may be writable by others: a link may
        lead elsewhere, and opening a FIFO would block for ever."""
        return (run for run in self.store.runs() if all(map(_regular_or_absent, _files(run))))

    def _summary(self, run: RunDirectory) -> Summary:
        stamps = _stamp(run.info_file), _stamp(run.results_file)
        known = self._known.get(run.path)
        if known and known[0] == stamps and known[1].status != RUNNING:
            return known[1]
        made = summary_of(run)
        self._known[run.path] = stamps, made
        return made


def _files(run: RunDirectory) -> Sequence[Path]:
    return run.info_file, run.results_file, run.journal, run.parquet_file


def _regular_or_absent(file: Path) -> bool:
    try:
        return stat.S_ISREG(file.lstat().st_mode)
    except OSError as error:
        return isinstance(error, FileNotFoundError)


def _stamp(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0
