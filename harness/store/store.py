"""Store of runs, in a directory per run: `store/<workload>+<nemesis>/<UTC time>-<seed>/`.

    run.json         the options, and how the run ended     history.jsonl    the journal
    results.json     the judgement                       history.parquet  the history by columns
    logs/<node>/     each server's logs                  report.html      compose.yml

`latest` in each folder is a link to the run that began last; in the store it is a link to the
`latest` of the folder with the last run of all.

run.json is one object, see `RunInfo`. results.json is one object: "schema" 1, "troubles" (what went
wrong around the run, a list of sentences), "journal" (the digest of the journal that was judged),
and the fields of Judgement.json: "status", "ladder", and "verdicts", a list of objects with
"checker", "status", "decides", "summary", "checked", "seconds", "figures" and "anomalies". Both are
written atomically.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from shutil import copyfile
from threading import get_native_id
from typing import Final, TypeVar

from checkers.judge import Judgement
from harness import clusters
from harness.core.clock import utc_now
from harness.core.engines import Engines
from harness.core.errors import HarnessError, UsageError
from harness.core.file_lock import MEANING, is_locked, lock
from harness.core.history import History
from harness.core.op import Json
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.core.verdict import Status
from harness.spec.run_spec import RunSpec
from harness.store.disk import why_unwritable
from harness.store.history_files import BEFORE, HistoryFiles
from harness.store.journal import Contents
from harness.store.json_file import read_json, unwritable, write_json
from harness.store.named import named, path_hint
from harness.store.run_info import RunInfo, run_info_of

RESULTS_SCHEMA: Final = 1
LATEST: Final = "latest"
NAME_LENGTH_MAX: Final = 80
RESERVE_BYTES: Final = 1 << 16
"""Size of the file that reserves disk space during a run: on a full disk run.json can still record
how the run ended."""
ERROR_LENGTH_MAX: Final = 8_000
"""Maximum length of an error in run.json, which has to fit into the reserve."""
LEAST_BYTES: Final = 1 << 20
"""Free space in bytes below which a store counts as full before a run begins."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """Files of one run."""

    path: Path
    durable: bool = field(default=True, compare=False)
    """True if its files survive a loss of power. Those of simulated servers need not: their seed
    reproduces them byte for byte, and waiting for the disk is a sixth of a command's time."""

    @property
    def info_file(self) -> Path:
        """Path of run.json."""
        return self.path / "run.json"

    @property
    def journal(self) -> Path:
        """Path of history.jsonl."""
        return self.path / "history.jsonl"

    @property
    def parquet_file(self) -> Path:
        """Path of history.parquet, which `parquet` creates."""
        return self.path / "history.parquet"

    @property
    def results_file(self) -> Path:
        """Path of results.json."""
        return self.path / "results.json"

    @property
    def report(self) -> Path:
        """Path of report.html."""
        return self.path / "report.html"

    @property
    def shrunk_page(self) -> Path:
        """Path of shrunk.html."""
        return self.path / "shrunk.html"

    @property
    def logs(self) -> Path:
        """Directory of the servers' logs."""
        return self.path / "logs"

    def begin(
        self, spec: RunSpec, engines: Engines, topology: Topology, versions: Mapping[str, str]
    ) -> None:
        """Write run.json, before anything happens."""
        info = RunInfo(
            state="running",
            spec=spec,
            engines=engines,
            topology=topology,
            versions=dict(versions),
            started_utc=_stamp(utc_now()),
        )
        try:
            with self._reserve.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, RESERVE_BYTES)
            write_json(self.info_file, info.stored(), durable=self.durable)
        except (OSError, HarnessError) as error:
            # Nothing is left of a run that could not say that it began.
            self._reserve.unlink(missing_ok=True)
            with suppress(OSError):
                self.path.rmdir()
            if isinstance(error, OSError):
                raise HarnessError(unwritable(self.info_file, error)) from error
            raise

    def began(self, utc: datetime) -> None:
        """Record the date of time 0 of the history."""
        self._change(zero_utc=utc.isoformat(timespec="microseconds"))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Lock the run while the block runs, so that `alive` is true in every process; a kill -9
        releases it too."""
        with held(self.path):
            yield

    @property
    def alive(self) -> bool:
        """Return whether a process holds the run, so that it goes on."""
        return self.may_be_alive is True

    @property
    def may_be_alive(self) -> bool | None:
        """Return whether a process holds the run; None if its file system has no locks, so that
        nobody knows."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY)
        except FileNotFoundError:  # it was removed meanwhile
            return False
        try:
            return is_locked(descriptor)
        finally:
            os.close(descriptor)

    def finish(
        self,
        judgement: Judgement,
        troubles: Sequence[str] = (),
        history: History | None = None,
    ) -> tuple[str, ...]:
        """Record the judgement of a run that has ended: write results.json and run.json. Return
        what could not be written, a sentence each; never raise for it, because the verdict is
        known, and a run without results.json counts as recorded and can be judged again.

        `history` is the contents of the journal, from which history.parquet is written. What
        Parquet cannot hold is a trouble, not a crash: the journal has it.
        """
        found = list(troubles)
        if history is not None:
            try:
                self.parquet(history)
            except HarnessError as error:
                found.append(str(error))
        try:
            found += self.save(judgement, found)
            ended: dict[str, Json] = {"state": "finished", "status": judgement.status.value}
        except HarnessError as error:
            found.append(f"the verdict is not stored: {error}")
            ended = {"state": "recorded", "troubles": list(found)}
        try:
            self._end(**ended)
        except HarnessError as error:
            found.append(str(error))
        return tuple(found[len(troubles) :])

    def recorded(self, troubles: Sequence[str]) -> None:
        """Record that the run ended with a complete history, and is judged later."""
        self._end(state="recorded", troubles=list(troubles))

    def crash(self, error: str) -> None:
        """Record that the run ended without a judgement."""
        self._end(state="crashed", error=error[:ERROR_LENGTH_MAX])

    def save(self, judgement: Judgement, troubles: Sequence[str] = ()) -> tuple[str, ...]:
        """Write results.json, replacing an earlier one. One that is VALID or INVALID is kept beside
        a judgement that is UNKNOWN, as after a shorter `--check-time`; return a sentence about
        that, which is among the stored troubles."""
        kept = self._keep_results() if judgement.status is Status.UNKNOWN else ()
        results = {
            "schema": RESULTS_SCHEMA,
            "troubles": [*troubles, *kept],
            "journal": self.history_files.digest(),
            **judgement.results(),
        }
        write_json(self.results_file, results, durable=self.durable)
        return kept

    def _keep_results(self) -> tuple[str, ...]:
        try:
            status = self.results().get("status")
            if status not in (Status.VALID, Status.INVALID):
                return ()
            before = self.results_file.with_name(f"{self.results_file.name}.{BEFORE}")
            copyfile(self.results_file, before)
        except (HarnessError, OSError):  # there is none, or its disk takes no new one either
            return ()
        return (f"{self.results_file.name} was {status} before; it is kept as {before.name}",)

    def info(self) -> RunInfo:
        """Read run.json. Raises HarnessError, which names the file."""
        raw = read_json(self.info_file)
        try:
            return run_info_of(raw)
        except (AssertionError, AttributeError, KeyError, TypeError, ValueError) as error:
            raise HarnessError(
                f"{self.info_file}: is not what a run writes ({error}); was it edited, or written "
                "by another version?"
            ) from error

    def results(self) -> Mapping[str, Json]:
        """Read results.json. Raises HarnessError if the run was not judged."""
        return read_json(self.results_file)

    def outdated(self) -> str:
        """Return why results.json says nothing of the history as it is now; "" if it does, or if
        that is unknown, as when it has no digest. Raises HistoryError for a journal that
        cannot be read."""
        files = self.history_files
        if files.judged is None or not self.journal.exists() or files.digest() == files.judged:
            return ""
        return (
            f"{self.journal.name} has changed since it was judged: the verdict is that of other "
            "operations; harness check judges it again"
        )

    def why_never_began(self) -> str:
        """Return why nothing happened in the run, such as a cluster that does not know its first
        statement; "" if something may have happened. Raises HarnessError."""
        info = self.info()
        files = (self.journal, self.parquet_file, self.results_file)
        has_begun = info.zero_utc is not None or any(file.exists() for file in files)
        if has_begun or info.state not in ("running", "crashed"):
            return ""
        killed = "it is being set up" if self.alive else "it was killed while it was set up"
        return info.error or killed

    @property
    def history_files(self) -> HistoryFiles:
        """Return the files with the history, of which that with all of it is read."""
        try:
            judged = self.results().get("journal")
        except HarnessError:
            judged = None
        return HistoryFiles(self.journal, self.parquet_file, judged)

    def contents(self) -> Contents:
        """Read the history, and what is wrong with the journal. Raises HistoryError."""
        return self.history_files.contents()

    def history(self) -> History:
        """Return the history. Raises HistoryError."""
        return self.contents().history

    def parquet(self, history: History | None = None) -> Path:
        """Return history.parquet, which is written first if it is not up to date, see
        `HistoryFiles.write_columns`. Raises HistoryError."""
        return self.history_files.write_columns(history)

    @property
    def _reserve(self) -> Path:
        return self.path / ".run.json.reserve"

    def _change(self, **fields: Json) -> None:
        """Write run.json again with other values of these fields."""
        value = {**read_json(self.info_file), **fields}
        write_json(self.info_file, value, durable=self.durable, reserve=self._reserve)

    def _end(self, **fields: Json) -> None:
        """Record how the run ended, and remove its reserve."""
        self._change(**fields, ended_utc=_stamp(utc_now()))
        self._reserve.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Store:
    """Directory of all runs, which is created on first use."""

    root: Path

    def create(
        self,
        workload: str,
        nemesis: str,
        seed: Seed,
        utc: datetime | None = None,
        *,
        durable: bool = True,
    ) -> RunDirectory:
        """Create a directory, and the `latest` links to it. Runs of the same second and seed get a
        number after their name. `utc` is now by default. Raises HarnessError."""
        utc = utc_now() if utc is None else utc
        assert utc.utcoffset() == timedelta(0), "the time of a run is UTC"
        folder = self.root / f"{_safe(workload)}+{_safe(nemesis)}"
        name = f"{utc:%Y%m%dT%H%M%SZ}-{seed}"
        try:
            path = _fresh(folder, name)
            point_latest(folder, path.name)
            point_latest(self.root, f"{folder.name}/{LATEST}")
        except OSError as error:
            raise self._unwritable(error) from error
        return RunDirectory(path, durable)

    def prepare(self) -> str:
        """Create the directory, and check that it takes a file of LEAST_BYTES, before a cluster is
        brought up or anything is searched. Return what its file system lacks, "" if nothing.
        Raises HarnessError."""
        probe = self.root / f".{os.getpid()}.probe"
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            try:
                with probe.open("wb") as file:
                    file.write(bytes(LEAST_BYTES))
                    file.flush()
                    has_locks = lock(file)
            finally:
                probe.unlink(missing_ok=True)
        except OSError as error:
            raise self._unwritable(error) from error
        return f"the file system of the store {self.root} {MEANING}" if has_locks is None else ""

    def _unwritable(self, error: OSError) -> HarnessError:
        why = why_unwritable(self.root, error)
        return HarnessError(f"store {self.root}: cannot be written: {why}; give another --store")

    def cluster(self, name: str) -> Path:
        """Return the directory of the files of a cluster."""
        return self.root / clusters.FOLDER / name

    def runs(self) -> tuple[RunDirectory, ...]:
        """Return every run, the latest first."""
        found: list[Path] = []
        for folder in directories(self.root):
            with suppress(PermissionError):
                found += filter(_has_info, directories(folder))
        found.sort(key=lambda path: (path.name, str(path)), reverse=True)
        return tuple(map(RunDirectory, found))

    def run(self, folder: str, name: str) -> RunDirectory | None:
        """Return the run of this name if `runs` has it, without a look at the others; else None."""
        for place in directories(self.root):
            if place.name == folder:
                runs = (RunDirectory(path) for path in directories(place) if path.name == name)
                return next((run for run in runs if _has_info(run.path)), None)
        return None

    def find(self, run: str | Path) -> RunDirectory:
        """Return the run that a word means: `latest`, also of one folder, as in
        "quorum-set+partition/latest"; a run's name; or a path (see `harness.store.named`). A Path
        is always a path. Raises UsageError."""
        return self.look(run, run_in)

    def look(self, run: str | Path, look: Callable[[Path], T | None]) -> T:
        """Return what `look` finds in the place that a word means, see `find`. Raises
        UsageError."""
        word = str(run.absolute() if isinstance(run, Path) else run)
        try:
            return named(self.root, word, look)
        except UsageError as error:
            known = [str(r.path.relative_to(self.root)) for r in self.runs()[:3]]
            raise UsageError(
                f"{error}; expected a run's directory or latest; the store has "
                f"{', '.join(known) or 'no runs'}{path_hint(word)}"
            ) from error


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """Wait for the lock of a directory, and hold it while the block runs."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        lock(descriptor)
        yield
    finally:
        os.close(descriptor)


def directories(path: Path) -> list[Path]:
    """Return the directories in a directory, without hidden ones and without links, such as
    `latest`: one may lead out of the store. Raises OSError; what is no directory has none."""
    try:
        with os.scandir(path) as entries:
            return [
                Path(entry.path)
                for entry in entries
                if entry.name[0] != "." and entry.is_dir(follow_symlinks=False)
            ]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _has_info(run: Path) -> bool:
    return os.path.exists(f"{run}/run.json")


def run_in(place: Path) -> RunDirectory | None:
    """Return the run whose directory this is; None if it is none."""
    return RunDirectory(place.resolve()) if (place / "run.json").is_file() else None


def _safe(name: str) -> str:
    """Return a name that is safe for a directory: any character but letters, digits and "._,=-"
    becomes "_", and it never starts with a dot."""
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "._,=-") else "_" for c in name)
    return (kept.lstrip(".") or "_")[:NAME_LENGTH_MAX]


def _fresh(folder: Path, name: str) -> Path:
    number = 1
    while True:
        path = folder / (name if number == 1 else f"{name}.{number}")
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            number += 1
        else:
            return path


def point_latest(folder: Path, target: str) -> None:
    """Point the link `latest` of a folder to another target atomically, so that it never
    dangles. Raises OSError."""
    link = folder / LATEST
    with suppress(OSError):  # there is none yet
        if os.readlink(link) == target:
            return
    partial = link.with_name(f".{link.name}.{get_native_id()}.partial")
    partial.unlink(missing_ok=True)
    partial.symlink_to(target)
    partial.replace(link)


def _stamp(utc: datetime) -> str:
    return utc.isoformat(timespec="seconds")
