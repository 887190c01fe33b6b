"""The runs of a store, with search, filters and sorting."""

import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from harness.fleet.found_runs import COLUMNS, INFO, JOURNAL, RESULTS
from harness.report.facts import RUNNING
from harness.store.store import RunDirectory, Store
from harness.web.shared import Shared
from harness.web.summary import GROUPS, STATUSES, Summary, summary_of

SORTS: Final[Mapping[str, Callable[[Summary], Any]]] = {
    "started": lambda run: (run.started, run.name),
    "status": lambda run: (STATUSES.index(run.status), run.started),
    "workload": lambda run: (run.workload, run.started),
    "nemesis": lambda run: (run.nemesis, run.started),
    "version": lambda run: (run.version, run.started),
    "seed": lambda run: (len(run.seed), run.seed),
    "settings": lambda run: (run.settings, run.started),
    "calls": lambda run: (run.calls or 0, run.started),
    "took": lambda run: (run.took_s or 0.0, run.started),
    "anomalies": lambda run: (not run.kinds, run.kinds, run.started),
    "cause": lambda run: (not run.cause, run.cause, run.started),
    "first": lambda run: (run.first_s is None, run.first_s or 0.0, run.started),
}

Stamp: TypeAlias = tuple[int, ...]

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
            and self.status in ("", run.status, run.outcome)
            and self.settings in ("", run.settings)
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


class Runs:
    """The runs of a store. Files that have not changed on disk are not read again."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._known: dict[Path, tuple[Stamp, Summary]] = {}
        self._last: Sequence[Summary] = ()
        self._shared = Shared(self._read)

    def all(self) -> Sequence[Summary]:
        """Return every run, the latest first, as the store has them at this call or later; the same
        object as before if they are the same."""
        return self._shared.get()

    def find(self, folder: str, name: str) -> RunDirectory | None:
        """Return the run of that name, or None. No other path than a listed run is ever opened."""
        run = self.store.run(folder, name)
        return None if run is None or _stamp(run) is None else run

    def _read(self) -> Sequence[Summary]:
        known: dict[Path, tuple[Stamp, Summary]] = {}
        for run in self.store.runs():
            stamp = _stamp(run)
            if stamp is None:
                continue
            before = self._known.get(run.path)
            if before and before[0] == stamp and before[1].status != RUNNING:
                known[run.path] = before
            else:
                with suppress(FileNotFoundError):  # it was removed since it was listed
                    known[run.path] = stamp, summary_of(run)
        self._known = known
        summaries = [summary for _, summary in known.values()]
        if summaries != self._last:
            self._last = summaries
        return self._last


def _stamp(run: RunDirectory) -> Stamp | None:
    """Return the times of the run's files, 0 for a file that is not there; None if one of them is
    not regular. The store may be writable by others: a link may lead elsewhere, and opening a FIFO
    would block for ever."""
    times = []
    for name in (INFO, RESULTS, JOURNAL, COLUMNS):
        try:
            seen = os.lstat(f"{run.path}/{name}")
        except FileNotFoundError:
            times.append(0)
            continue
        except OSError:
            return None
        if not stat.S_ISREG(seen.st_mode):
            return None
        times.append(seen.st_mtime_ns)
    return tuple(times)
