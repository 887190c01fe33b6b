"""Retention: which runs of a store, and which of their files, are older than they are kept."""

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from harness.core.errors import HarnessError
from harness.core.verdict import Status
from harness.fleet.location import Location
from harness.fleet.verdicts import Verdicts
from harness.store.run_info import RunInfo
from harness.store.store import LATEST, RunDirectory, Store, held, point_latest

KEEP: Final = "keep"
"""File in a run's directory that keeps all of it."""
DAY_S: Final = 86_400.0
GONE: Final = "is gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Days for which things are kept after a run began; None: for ever."""

    logs: float | None = 14.0
    """Logs of the servers."""
    valid: float | None = 60.0
    """Runs that are VALID."""
    unknown: float | None = 60.0
    """Runs that are UNKNOWN, have crashed or were killed."""
    invalid: float | None = None
    """Runs that are INVALID."""

    def changed(self, days: Mapping[str, float | str]) -> "Retention":
        """Return the same with other days for some things; a text stands for ever."""
        given: dict[str, Any] = {
            rule: None if isinstance(value, str) else value for rule, value in days.items()
        }
        return replace(self, **given)

    def of(self, info: RunInfo) -> float | None:
        """Return the days for which a run is kept."""
        if info.status == Status.INVALID.value:
            return self.invalid
        return self.valid if info.status == Status.VALID.value else self.unknown


RULES: Final = tuple(field.name for field in fields(Retention))


@dataclass(frozen=True, slots=True)
class Removal:
    """A run, or its logs, that is kept no longer."""

    rule: str
    """The field of Retention that says so."""
    path: Path
    """The directory that goes."""
    bytes: int
    days: float
    """Age of the run."""

    @property
    def run(self) -> RunDirectory:
        """Return the run."""
        return RunDirectory(self.path.parent if self.rule == "logs" else self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreUsage:
    """What is in a store, and what of it is kept no longer; `harness prune --json` prints these
    fields by these names."""

    store: Path
    runs: int
    bytes: int
    """Size of everything in the store, the dataset of verdicts and the nights' records included."""
    logs_bytes: int
    days: Retention
    deleted: bool = False
    """Whether what is kept no longer has been deleted."""
    removals: tuple[Removal, ...]
    spared: Mapping[str, int]
    """Number of runs that would go and stay, by the reason."""


def usage(store: Store, retention: Retention, now: datetime) -> StoreUsage:
    """Return what is in a store, and what of it is kept no longer at this time."""
    found: list[Removal] = []
    spared: dict[str, int] = {}
    logs = 0
    runs = store.runs()
    for run in runs:
        logs_bytes = _size(run.logs)
        logs += logs_bytes
        removal = _removal(run, logs_bytes, retention, now)
        why = "" if removal is None else _why_spared(run)
        if why == GONE:
            continue
        if why:
            spared[why] = spared.get(why, 0) + 1
        elif removal is not None:
            found.append(removal)
    return StoreUsage(
        store=store.root,
        runs=len(runs),
        bytes=_size(store.root),
        logs_bytes=logs,
        days=retention,
        removals=tuple(found),
        spared=spared,
    )


def _removal(
    run: RunDirectory, logs_bytes: int, retention: Retention, now: datetime
) -> Removal | None:
    try:
        info = run.info()
        days = (now - datetime.fromisoformat(info.started_utc)).total_seconds() / DAY_S
    except (HarnessError, TypeError, ValueError):
        return None  # what cannot be read is kept: nobody knows what it is
    kept = retention.of(info)
    if kept is not None and days > kept:
        status = (info.status or Status.UNKNOWN.value).lower()
        return Removal(status, run.path, _size(run.path), days)
    if retention.logs is not None and days > retention.logs and logs_bytes:
        return Removal("logs", run.logs, logs_bytes, days)
    return None


def _why_spared(run: RunDirectory) -> str:
    if (run.path / KEEP).exists():
        return f"has a file {KEEP}"
    alive = run.may_be_alive
    if alive:
        return "still runs"
    try:
        state = run.info().state
    except HarnessError:
        return "cannot be read" if run.path.exists() else GONE
    if state == "running" and alive is None:
        return "may still run: there are no file locks"
    return "waits to be judged" if state == "recorded" else ""


def remove(store: Store, removals: Iterable[Removal]) -> tuple[Removal, ...]:
    """Remove these runs and logs, and the verdicts on runs that are gone, after any other process
    that does so in this store. Return what it removed itself. Raises HarnessError."""
    with held(store.root):
        return tuple(_remove(store, removals))


def _remove(store: Store, removals: Iterable[Removal]) -> list[Removal]:
    done: list[Removal] = []
    gone: set[str] = set()
    folders: set[Path] = set()
    for one in removals:
        if _why_spared(one.run):  # it may have begun again, or been marked, since it was listed
            continue
        try:
            shutil.rmtree(one.path)
        except FileNotFoundError:  # another process removes it
            continue
        except OSError as error:
            raise HarnessError(f"{one.path}: cannot be removed: {error.strerror}") from error
        done.append(one)
        if one.rule != "logs":
            gone.add(one.run.path.relative_to(store.root).as_posix())
            folders.add(one.run.path.parent)
    for folder in folders:
        _relink(folder)
    if gone:
        _relink_store(store)
        _forget(store, gone)
    return done


def _relink(folder: Path) -> None:
    """Let `latest` of a folder lead to its last run, and remove a folder that has none."""
    runs = sorted(path.parent.name for path in folder.glob("*/run.json") if _is_own(path.parent))
    if runs:
        point_latest(folder, runs[-1])
        return
    (folder / LATEST).unlink(missing_ok=True)
    if not os.listdir(folder):
        folder.rmdir()


def _relink_store(store: Store) -> None:
    runs = store.runs()
    if (store.root / LATEST).exists():
        return
    if runs:
        point_latest(store.root, f"{runs[0].path.parent.name}/{LATEST}")
    else:
        (store.root / LATEST).unlink(missing_ok=True)


def _is_own(path: Path) -> bool:
    return not path.is_symlink()


def _forget(store: Store, runs: set[str]) -> None:
    for place in sorted(store.root.glob("verdicts*")):
        if place.is_dir():
            try:
                Verdicts(Location.of(place)).compact(forgotten=runs)
            except OSError as error:
                raise HarnessError(f"{place}: cannot be written: {error.strerror}") from error


def _size(path: Path) -> int:
    """Return the bytes of all files below a path; links count as nothing."""
    total, left = 0, [str(path)]
    while left:
        try:
            with os.scandir(left.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        left.append(entry.path)
                    elif entry.is_file(follow_symlinks=False):
                        total += entry.stat(follow_symlinks=False).st_size
        except OSError:  # it went meanwhile, or may not be read
            continue
    return total
