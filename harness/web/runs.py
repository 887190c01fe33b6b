"""Summaries of the runs of a store, with search, filters and sorting."""

import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from checkers.triage.explanation import KNOWN, NOT_EXPLAINED
from harness.core.verdict import Status
from harness.report.facts import CRASHED, RUNNING, UNREADABLE, stored_object
from harness.run.store import RunDirectory, Store

STATUSES: Final = (*(status.value for status in Status), CRASHED, UNREADABLE, RUNNING)


@dataclass(frozen=True, slots=True)
class Summary:
    """Summary of a run: a row of the list."""

    name: str
    """Folder and directory: "quorum-set+partition/20261120T174509Z-0x5eed"."""
    workload: str
    nemesis: str
    seed: str
    status: str
    promise: str
    """The level that decides the verdict; "" when unknown."""
    held: str
    """The strongest level that held; "" when none is known, and of an UNKNOWN run."""
    versions: tuple[str, ...]
    """Versions of the servers, each once."""
    cause: str
    """Known defects that explain an INVALID run, or "not explained"; "" for another run."""
    trouble: str
    """Reason why one of its files cannot be read; "" if all can."""
    started: str
    """UTC, "2026-11-20 17:45:09"; "" when unknown."""
    text: str
    """Text that a search looks at, in lower case."""

    @property
    def version(self) -> str:
        """Return the versions of all its servers, joined: "25.8.2.1 3.8.0"."""
        return " ".join(self.versions).strip()

    @property
    def date(self) -> str:
        """Return the day on which the run started."""
        return self.started[:10]


SORTS: Final[Mapping[str, Callable[[Summary], Any]]] = {
    "started": lambda run: (run.started, run.name),
    "status": lambda run: (STATUSES.index(run.status), run.started),
    "workload": lambda run: (run.workload, run.started),
    "nemesis": lambda run: (run.nemesis, run.started),
    "version": lambda run: (run.versions, run.started),
    "seed": lambda run: (len(run.seed), run.seed),
}


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
    sort: str = "started"
    """One of SORTS; a leading "-" sorts descending."""

    @staticmethod
    def of(given: Mapping[str, str]) -> "Query":
        """Return the query of a URL, without unknown parameters."""
        known = {name: given[name].strip() for name in Query.__slots__ if name in given}
        if known.get("sort", "").removeprefix("-") not in SORTS:
            known["sort"] = "-started"
        return Query(**known)

    def fits(self, run: Summary) -> bool:
        """Return whether the run matches."""
        return (
            all(word in run.text for word in self.q.lower().split())
            and self.workload in ("", run.workload)
            and self.nemesis in ("", run.nemesis)
            and self.status in ("", run.status)
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
        made = _summary(run)
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


def _summary(run: RunDirectory) -> Summary:
    (raw_info, no_info), (raw_results, no_results) = map(
        stored_object, (run.info_file, run.results_file)
    )
    info, results = raw_info or {}, raw_results or {}
    plan, ladder = _inner(info, "plan"), _inner(results, "ladder")
    trouble = "; ".join(filter(None, (no_info, no_results)))
    status = str(results.get("status", ""))
    if status not in STATUSES:
        status = UNREADABLE if trouble else RUNNING if run.alive else CRASHED
    name = f"{run.path.parent.name}/{run.path.name}"
    folder = run.path.parent.name.partition("+")
    versions = tuple(sorted({str(version) for version in _inner(info, "versions").values()}))
    started = str(info.get("started_utc") or "")[:19].replace("T", " ")
    workload = str(plan.get("workload", folder[0] if no_info else "?"))
    nemesis = str(plan.get("nemesis", folder[2] if no_info else "?"))
    seed = str(plan.get("seed", "?"))
    held = "" if status == Status.UNKNOWN.value else str(ladder.get("held") or "")
    promise = str(ladder.get("promise") or plan.get("promise", ""))
    cause = _cause(_inner(results, "explanation"))
    words = (
        name, workload, nemesis, seed, status, promise, held, cause, trouble, started,
        *versions, plan.get("again", ""),
    )  # fmt: skip
    return Summary(
        name=name, workload=workload, nemesis=nemesis, seed=seed, status=status,
        promise=promise, held=held, cause=cause, trouble=trouble,
        versions=versions, started=started, text=" ".join(map(str, words)).lower(),
    )  # fmt: skip


def _cause(explanation: Mapping[str, Any]) -> str:
    defects = explanation.get("defects")
    if explanation.get("status") != KNOWN or not isinstance(defects, list):
        return NOT_EXPLAINED if explanation else ""
    return ", ".join(str(one.get("name")) for one in defects if isinstance(one, dict))


def _inner(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    inner = value.get(name)
    return inner if isinstance(inner, dict) else {}
