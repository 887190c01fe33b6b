"""The runs of a store in short: searched, filtered, sorted."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from harness.core.verdict import Status
from harness.report.facts import CRASHED, RUNNING
from harness.run.store import RunDirectory, Store

STATUSES: Final = (*(status.value for status in Status), CRASHED, RUNNING)


@dataclass(frozen=True, slots=True)
class Summary:
    """One row of the list."""

    name: str
    """Folder and directory: "quorum-set+partition/20261120T174509Z-0x5eed"."""
    workload: str
    nemesis: str
    seed: str
    status: str
    held: str
    """The strongest level that held; "" when none is known."""
    versions: tuple[str, ...]
    """Of the servers, each once."""
    started: str
    """UTC, "2026-11-20 17:45:09"; "" when unknown."""
    text: str
    """All that a search looks at, in small letters."""

    @property
    def date(self) -> str:
        """The day."""
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
    """What is asked of the list; "" asks nothing."""

    q: str = ""
    workload: str = ""
    nemesis: str = ""
    status: str = ""
    version: str = ""
    since: str = ""
    """A day, "2026-11-20", inclusive; so is `until`."""
    until: str = ""
    sort: str = "started"
    """One of SORTS; with "-" before it from the greatest."""

    @staticmethod
    def of(given: Mapping[str, str]) -> "Query":
        """From a URL; what is not known there is left out."""
        known = {name: given[name].strip() for name in Query.__slots__ if name in given}
        if known.get("sort", "").removeprefix("-") not in SORTS:
            known["sort"] = "-started"
        return Query(**known)

    def fits(self, run: Summary) -> bool:
        """Whether the run is among those asked for."""
        return (
            all(word in run.text for word in self.q.lower().split())
            and self.workload in ("", run.workload)
            and self.nemesis in ("", run.nemesis)
            and self.status in ("", run.status)
            and (not self.version or self.version in run.versions)
            and (not self.since or run.date >= self.since)
            and (not self.until or run.date <= self.until)
        )

    def chosen(self, runs: Iterable[Summary]) -> Sequence[Summary]:
        """Those that fit, in order."""
        key = SORTS[self.sort.removeprefix("-")]
        return sorted(filter(self.fits, runs), key=key, reverse=self.sort.startswith("-"))


@dataclass(slots=True)
class Runs:
    """The runs of a store now. What has not changed on disk is not read again."""

    store: Store
    _known: dict[Path, tuple[tuple[int, int], Summary]] = field(default_factory=dict)

    def all(self) -> list[Summary]:
        """Every run, the latest first."""
        return [self._summary(run) for run in self._own()]

    def find(self, folder: str, name: str) -> RunDirectory | None:
        """Only what the store lists as a run: no other path can be named."""
        wanted = self.store.root / folder / name
        return next((run for run in self._own() if run.path == wanted), None)

    def _own(self) -> Iterable[RunDirectory]:
        """The store may be of other people: a run with a file that leads elsewhere is none."""
        return (run for run in self.store.runs() if not any(map(Path.is_symlink, _files(run))))

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


def _stamp(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0


def _summary(run: RunDirectory) -> Summary:
    info, results = _object(run.info_file), _object(run.results_file)
    plan, ladder = _inner(info, "plan"), _inner(results, "ladder")
    status = str(results.get("status", ""))
    if status not in STATUSES:
        status = RUNNING if run.alive else CRASHED
    name = f"{run.path.parent.name}/{run.path.name}"
    versions = tuple(sorted({str(version) for version in _inner(info, "versions").values()}))
    started = str(info.get("started_utc") or "")[:19].replace("T", " ")
    workload, nemesis = str(plan.get("workload", "?")), str(plan.get("nemesis", "?"))
    seed, held = str(plan.get("seed", "?")), str(ladder.get("held") or "")
    words = (name, workload, nemesis, seed, status, held, started, *versions, plan.get("again", ""))
    return Summary(
        name=name, workload=workload, nemesis=nemesis, seed=seed, status=status, held=held,
        versions=versions, started=started, text=" ".join(map(str, words)).lower(),
    )  # fmt: skip


def _object(file: Path) -> Mapping[str, Any]:
    try:
        value = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _inner(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    inner = value.get(name)
    return inner if isinstance(inner, dict) else {}
