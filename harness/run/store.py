"""Where runs are kept: `store/<workload>+<nemesis>/<UTC time>-<seed>/`, a directory a run.

    run.json         what was run, and how it ended      history.jsonl    the journal
    results.json     what was concluded                  history.parquet  the same, by columns
    logs/<node>/     each server's logs                  report.html      compose.yml

`latest` in each folder is a link to its run that was begun last, and in the store to the `latest`
of the folder that has the last of all.

run.json is one object, see RunInfo. results.json is one object: "schema" 1, "troubles" (what
went wrong around the run, a list of sentences), and what Judgement.json gives: "status",
"ladder", and "verdicts", a list of objects with "checker", "status", "decides", "summary",
"checked", "seconds", "figures" and "anomalies". Both are written whole or not at all.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from threading import get_native_id
from typing import Final, Literal, TypeAlias

import msgspec

from checkers.judge import Judgement
from harness.core.clock import utc_now
from harness.core.errors import HarnessError, UsageError
from harness.core.history import History
from harness.core.op import Json
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.run.journal import Contents, read_journal
from harness.run.plan import Plan

SCHEMA_VERSION: Final = 1
LATEST: Final = "latest"
NAME_LENGTH_MAX: Final = 80
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False)

State: TypeAlias = Literal["running", "recorded", "finished", "crashed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """run.json: these fields by these names.

    "plan" is an object with the fields of Plan ("seed" as text such as "0x5eed"); "topology" an
    object with "nodes", a list of objects with the fields of Node; times are ISO 8601, UTC.
    """

    schema: int = SCHEMA_VERSION
    state: State
    """running: begun, and nobody said how it ended, which is also what a kill -9 leaves."""
    plan: Plan
    topology: Topology
    versions: Mapping[str, str] = field(default_factory=dict)
    """What each node runs."""
    started_utc: str
    zero_utc: str | None = None
    """The date at time 0 of the history: what servers log has dates. Virtual time has none."""
    ended_utc: str | None = None
    status: str | None = None
    """Of the judgement of a finished run: VALID, UNKNOWN or INVALID."""
    error: str | None = None
    """Why it crashed."""
    troubles: tuple[str, ...] = ()
    """Of a recorded run, which is judged later: what went wrong around it."""


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """One run's files."""

    path: Path
    durable: bool = field(default=True, compare=False)
    """Whether they outlive a loss of power. Those of simulated servers need not, for their seed
    makes them again, byte for byte; and waiting for a disk is a sixth of a command's time."""

    @property
    def info_file(self) -> Path:
        """run.json."""
        return self.path / "run.json"

    @property
    def journal(self) -> Path:
        """history.jsonl."""
        return self.path / "history.jsonl"

    @property
    def parquet_file(self) -> Path:
        """history.parquet, which may not be there yet: `parquet` makes it."""
        return self.path / "history.parquet"

    @property
    def results_file(self) -> Path:
        """results.json."""
        return self.path / "results.json"

    @property
    def report(self) -> Path:
        """report.html."""
        return self.path / "report.html"

    @property
    def logs(self) -> Path:
        """The directory of the servers' logs."""
        return self.path / "logs"

    def begin(self, plan: Plan, topology: Topology, versions: Mapping[str, str]) -> None:
        """Writes run.json, before anything happens."""
        info = RunInfo(
            state="running",
            plan=plan,
            topology=topology,
            versions=dict(versions),
            started_utc=_stamp(utc_now()),
        )
        raw = msgspec.to_builtins(info)
        raw["plan"]["seed"] = str(plan.seed)
        _write_json(self.info_file, raw, durable=self.durable)

    def began(self, utc: datetime) -> None:
        """Now is time 0 of the history."""
        self._change(zero_utc=utc.isoformat(timespec="microseconds"))

    @contextmanager
    def held(self) -> Iterator[None]:
        """While the block runs, `alive` is true, in every process; a kill -9 ends that too."""
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    @property
    def alive(self) -> bool:
        """Somebody holds it: the run goes on."""
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def finish(
        self,
        judgement: Judgement,
        troubles: Sequence[str] = (),
        history: History | None = None,
    ) -> None:
        """The run ended and was judged: writes results.json and run.json.

        `history`: what the journal holds, of which history.parquet is written, too. What Parquet
        cannot hold is a trouble, not a crash: the journal has it.
        """
        told = list(troubles)
        if history is not None:
            try:
                self.parquet(history)
            except HarnessError as error:
                told.append(str(error))
        self.save(judgement, told)
        self._change(state="finished", status=judgement.status.value, ended_utc=_stamp(utc_now()))

    def recorded(self, troubles: Sequence[str]) -> None:
        """The run ended, and its history is whole; it is judged later."""
        self._change(state="recorded", troubles=list(troubles), ended_utc=_stamp(utc_now()))

    def crash(self, error: str) -> None:
        """The run ended without a judgement: says so in run.json."""
        self._change(state="crashed", error=error, ended_utc=_stamp(utc_now()))

    def save(self, judgement: Judgement, troubles: Sequence[str] = ()) -> None:
        """Writes results.json, in the place of an earlier one."""
        results = {"schema": SCHEMA_VERSION, "troubles": list(troubles), **judgement.json()}
        _write_json(self.results_file, results, durable=self.durable)

    def info(self) -> RunInfo:
        """What run.json says. Raises HarnessError, naming the file."""
        raw = _read_json(self.info_file)
        try:
            plan = raw["plan"]
            assert isinstance(plan, dict)
            seed = {"value": int(plan["seed"], 16)}
            return msgspec.convert({**raw, "plan": {**plan, "seed": seed}}, RunInfo)
        except (AssertionError, KeyError, TypeError, ValueError) as error:
            raise HarnessError(
                f"{self.info_file}: is not what a run writes ({error}); was it edited, or written "
                "by another version?"
            ) from error

    def results(self) -> Mapping[str, Json]:
        """What results.json says. Raises HarnessError when the run was not judged."""
        return _read_json(self.results_file)

    def contents(self) -> Contents:
        """The history from the journal, and what was cut off; from Parquet when the journal is
        gone. Raises HistoryError."""
        if not self.journal.exists() and self.parquet_file.exists():
            from harness.run.parquet import read_parquet  # slow to load

            return Contents(read_parquet(self.parquet_file), None)
        return read_journal(self.journal)

    def history(self) -> History:
        """What happened. Raises HistoryError."""
        return self.contents().history

    def parquet(self, history: History | None = None) -> Path:
        """history.parquet, made from the journal when it is missing or older than the journal.
        `history`: what the journal holds, where it was read already. Raises HistoryError."""
        from harness.run.parquet import journal_bytes_of, write_parquet  # slow to load

        if not self.journal.exists() and self.parquet_file.exists():
            return self.parquet_file
        # Measured before reading: of a run that still writes, the next call makes it anew.
        length = self.journal.stat().st_size if self.journal.exists() else 0
        if journal_bytes_of(self.parquet_file) != length:
            known = self.history() if history is None else history
            write_parquet(known, self.parquet_file, journal_bytes=length)
        return self.parquet_file

    def _change(self, **fields: Json) -> None:
        """Writes run.json again, with other values in these fields."""
        _write_json(self.info_file, {**_read_json(self.info_file), **fields}, durable=self.durable)


@dataclass(frozen=True, slots=True)
class Store:
    """All runs, in one directory, which is made when it is needed."""

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
        """A fresh directory, and the `latest` links to it. Runs of the same second and seed get
        a number after their name. `utc` is now unless given. Raises HarnessError."""
        utc = utc_now() if utc is None else utc
        assert utc.utcoffset() == timedelta(0), "the time of a run is UTC"
        folder = self.root / f"{_safe(workload)}+{_safe(nemesis)}"
        name = f"{utc:%Y%m%dT%H%M%SZ}-{seed}"
        try:
            path = _fresh(folder, name)
            _link(folder / LATEST, path.name)
            _link(self.root / LATEST, f"{folder.name}/{LATEST}")
        except OSError as error:
            raise HarnessError(
                f"store {self.root}: cannot be written: {error.strerror}; give another --store"
            ) from error
        return RunDirectory(path, durable)

    def cluster(self, name: str) -> Path:
        """Where the files of the cluster of this name are."""
        return self.root / "clusters" / name

    def runs(self) -> tuple[RunDirectory, ...]:
        """Every run, the latest first."""
        found = [file.parent for file in self.root.glob("*/*/run.json")]
        kept = {path for path in found if not path.is_symlink()}
        return tuple(RunDirectory(p) for p in sorted(kept, key=lambda p: (p.name, p), reverse=True))

    def find(self, run: str | Path) -> RunDirectory:
        """A run by its path, by its path within the store, or by "latest"; also "latest" of one
        folder: "quorum-set+partition/latest". Raises UsageError."""
        places = dict.fromkeys((Path(run), self.root / run))
        for path in places:
            if (path / "run.json").is_file():
                return RunDirectory(path.resolve())
        known = [str(r.path.relative_to(self.root)) for r in self.runs()[:3]]
        raise UsageError(
            f"run {str(run)!r}: no run.json in {' nor in '.join(map(str, places))}; expected a "
            f"run's directory or latest; the store has {', '.join(known) or 'no runs'}"
        )


def _safe(name: str) -> str:
    """A name that is safe as a directory's: what is not a letter, a digit or one of "._,=-"
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


def _link(link: Path, target: str) -> None:
    """Points a link elsewhere in one step, so that it always leads somewhere."""
    with suppress(OSError):  # there is none yet
        if os.readlink(link) == target:
            return
    partial = link.with_name(f".{link.name}.{get_native_id()}.partial")
    partial.unlink(missing_ok=True)
    partial.symlink_to(target)
    partial.replace(link)


def _stamp(utc: datetime) -> str:
    return utc.isoformat(timespec="seconds")


def _write_json(path: Path, value: Mapping[str, object], *, durable: bool) -> None:
    """Whole or not at all: written beside, made durable if it is to be, then moved into place."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            file.write(_indented(value).encode() + b"\n")
            file.flush()
            if durable:
                os.fsync(file.fileno())
        partial.replace(path)
    except BaseException as error:
        partial.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise HarnessError(f"{path}: cannot be written: {error.strerror}") from error
        raise


def _indented(value: Mapping[str, object]) -> str:
    """As json.dumps with indent=2 writes it, which without C takes four times as long."""
    text = _ENCODER.encode(value)
    try:
        return msgspec.json.format(text, indent=2)
    except msgspec.DecodeError:  # a number that is not finite is no JSON to it
        return json.dumps(value, indent=2, ensure_ascii=False)


def _read_json(path: Path) -> dict[str, Json]:
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise HarnessError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise HarnessError(f"{path}: is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise HarnessError(f"{path}: expected a JSON object, found {type(value).__name__}")
    return value
