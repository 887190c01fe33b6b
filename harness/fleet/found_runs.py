"""The runs of a store, as a listing of its files shows them: nothing is read."""

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from stat import S_ISDIR
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from harness.core.bounded_json import loads
from harness.core.clock import utc_now
from harness.core.errors import UsageError
from harness.fleet.location import Location
from harness.store.store import directories

INFO: Final = "run.json"
RESULTS: Final = "results.json"
COLUMNS: Final = "history.parquet"
JOURNAL: Final = "history.jsonl"
_LEFT_BY_A_RUN: Final = (INFO, COLUMNS, JOURNAL)
SETTLED_S: Final = 2.0
"""Age from which on the time of a file tells a later change of it. A file system may give two
changes within a clock tick the same time."""


class FileState(NamedTuple):
    """What the file system says of a file."""

    bytes: int
    mtime_ns: int
    ctime_ns: int
    """Time of the last change of its inode; 0 if the file system has none."""


@dataclass(frozen=True, slots=True)
class Found:
    """Runs of one store."""

    root: Location
    files: Mapping[str, Mapping[str, FileState]]
    """The files of each run, by its path in the store, ascending."""
    listed_ns: int
    """Time of the listing, since 1970."""

    @property
    def runs(self) -> tuple[str, ...]:
        """Return the paths of the runs in the store, ascending."""
        return tuple(self.files)

    def stamp(self, run: str, asked: str) -> str:
        """Return a text that differs if the run's files do, or what is asked of them; "" if one was
        changed just now, so that a further change might leave the same text."""
        files = self.files[run]
        decisive = [files[name] for name in (INFO, self._decisive(run)) if name in files]
        latest_ns = max((file.mtime_ns for file in decisive), default=self.listed_ns)
        if self.listed_ns - latest_ns < SETTLED_S * 1e9:
            return ""
        text = f"{[tuple(file) for file in decisive]} {asked}"
        return blake2b(text.encode(), digest_size=16).hexdigest()

    def bytes_to_digest(self, run: str) -> int:
        """Return how much is read to digest the run."""
        files = self.files[run]
        return sum(files[name].bytes for name in (INFO, self._decisive(run)) if name in files)

    def bytes_to_judge(self, run: str) -> int:
        """Return the size of the history, which stands for the cost of judging it."""
        files = self.files[run]
        name = COLUMNS if COLUMNS in files else JOURNAL
        return files[name].bytes if name in files else 0

    def has_columns(self, run: str) -> bool:
        """Return whether the run has a history.parquet."""
        return COLUMNS in self.files[run]

    def has_history(self, run: str) -> bool:
        """Return whether the run has a file with a history."""
        return not self.files[run].keys().isdisjoint({COLUMNS, JOURNAL})

    def _decisive(self, run: str) -> str:
        return JOURNAL if JOURNAL in self.files[run] else COLUMNS


def found(target: Location | Path) -> Found | None:
    """Return all runs of a store, or of one of its folders, or the run that is there; None for
    anything else. Of a path, a run is not told from its folder. No link below the target is
    followed: it may lead out of the store, or to a run that is counted already. Raises OSError."""
    place = Location.of(target) if isinstance(target, Path) else target
    now_ns = int(utc_now().timestamp() * 1e9)
    if place.path is None:
        return _remote(place, now_ns)
    folder = place.path.resolve() if place.path.is_symlink() else place.path
    for root, folders in ((place.path, None), (folder.parent, [folder])):
        files = dict(sorted(_local(root, folders)))
        if files:
            return Found(Location.of(root), files, now_ns)
    return None


def found_again(root: Path, runs: Iterable[str]) -> Found:
    """Return these runs of a store on this machine."""
    files = {run: _states(root / run) for run in sorted(runs)}
    return Found(Location.of(root), files, int(utc_now().timestamp() * 1e9))


def runs_at(place: Location) -> Found:
    """Return the runs at a URI. Raises UsageError if there are none."""
    try:
        many = found(place)
    except OSError as error:
        why = str(error).strip().split("\n")[0]
        raise UsageError(f"store {place.shown}: cannot be listed: {why}") from error
    if many is None:
        raise UsageError(
            f"store {place.shown}: has no runs; expected a store, one of its folders "
            "(WORKLOAD+NEMESIS), or a run"
        )
    return many


def _local(root: Path, folders: list[Path] | None) -> Iterator[tuple[str, dict[str, FileState]]]:
    for folder in directories(root) if folders is None else folders:
        for path in directories(folder):
            if files := _states(path):
                yield f"{folder.name}/{path.name}", files


def _states(run: Path) -> dict[str, FileState]:
    states = {}
    for name in _LEFT_BY_A_RUN:
        try:
            seen = os.stat(f"{run}/{name}")
        except OSError:
            continue
        if not S_ISDIR(seen.st_mode):
            states[name] = FileState(seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)
    return states


def _remote(place: Location, now_ns: int) -> Found | None:
    by_depth: dict[int, dict[str, dict[str, FileState]]] = {}
    for file in place.files():
        run, _, name = file.name.rpartition("/")
        if name in _LEFT_BY_A_RUN:
            runs = by_depth.setdefault(len(run.split("/")) if run else 0, {})
            runs.setdefault(run, {})[name] = FileState(file.bytes, file.mtime_ns, 0)
    # The store, a folder of it, or a run.
    for depth, above in ((2, 0), (1, 1), (0, 2)):
        if depth not in by_depth:
            continue
        root, names = place, list[str]()
        for _ in range(above):
            root, names = root.parent, [root.name, *names]
        listed = {"/".join(filter(None, (*names, run))): f for run, f in by_depth[depth].items()}
        return Found(root, dict(sorted(listed.items())), now_ns)
    return None


def bring(run: Location, target: Path, *, whole: bool) -> None:
    """Copy the files of a run into a directory: with `whole` its history too, and of that the
    journal only if history.parquet is not certainly made from it. Raises OSError."""
    for name in (INFO, RESULTS, *([COLUMNS] if whole else [])):
        _copy(run.below(name), target / name)
    if whole and trusted_digest(run, target) is None:
        _copy(run.below(JOURNAL), target / JOURNAL)


def trusted_digest(run: Location, here: Path) -> str | None:
    """Return the digest of the journal from which history.parquet was made, if results.json, which
    is `here`, says that this is the journal that the run has."""
    try:
        judged = loads((here / RESULTS).read_bytes())["journal"]
        file = here / COLUMNS
        columns = file if file.exists() else run.below(COLUMNS).input()
        metadata = pq.read_schema(columns).metadata or {}
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException):
        return None
    made_from: str = metadata.get(b"harness.journal_digest", b"").decode(errors="replace")
    return made_from if made_from and made_from == judged else None


def _copy(file: Location, target: Path) -> None:
    try:
        with file.input() as source, target.open("wb") as out:
            shutil.copyfileobj(source, out)
    except FileNotFoundError:
        target.unlink(missing_ok=True)
