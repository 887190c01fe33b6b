"""A hunt in a store's directory, which goes on where it was killed."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec

from harness.core.clock import Clock, WallClock, utc_now
from harness.core.errors import HarnessError
from harness.core.op import Json
from harness.core.seed import Seed
from harness.run.stop import Stop
from harness.search.anomaly_kind import kinds_of
from harness.search.hunt_runs import HuntRuns
from harness.search.hunting import AHEAD, Hunt, HuntInput, HuntRun, HuntState, ranked
from harness.store.disk import why_unwritable

HUNTS: Final = "hunts"
"""Directory of the store with a directory for each hunt."""
STATE_FILE: Final = "hunt.json"
RUNS_FILE: Final = "runs.jsonl"
SAVE_S: Final = 10.0
"""Seconds after which the state is saved even if nothing was found."""


class StoredHunt(msgspec.Struct):
    """A hunt as its directory keeps it."""

    digest: str
    """Digest of the options."""
    options: dict[str, str | tuple[str, ...]]
    state: HuntState
    started_utc: str


class HuntedKind(msgspec.Struct, frozen=True):
    """What a hunt knows of a kind of anomaly."""

    runs: int
    """Number of runs that show it."""
    first: int
    """Number of the first of them, from 1."""
    stored: list[str]
    """Directories of those that were stored."""


class HuntReport(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a hunt, as --json prints it."""

    hunt: str
    """Directory of the hunt."""
    runs: int
    statuses: dict[str, int]
    """Number of runs by status."""
    kinds: dict[str, HuntedKind]
    """Kinds of anomalies, as CHECKER:KIND, the most frequent first."""
    elements: int
    """Number of elements that the runs covered."""
    distances: list[int]
    """Greatest distance of each kind."""
    troubles: dict[str, list[int]]
    """By the reason why runs did not reach their end: the numbers of these runs."""
    issues: list[str]
    """Sentences about what went wrong around the runs."""


@dataclass
class HuntSession:
    """A hunt that goes on."""

    path: Path
    stored: StoredHunt
    made: HuntRuns
    keep: int
    """Number of runs to store of each kind of anomaly."""
    jobs: int
    runs: int | None
    """Number of runs after which it ends; None: it has a time budget alone."""
    hours: float | None
    stop: Stop
    announce: Callable[[str], None]
    """Called with a line about every run that is stored."""
    clock: Clock = field(default_factory=WallClock)
    issues: list[str] = field(default_factory=list)
    """Sentences about what went wrong around the runs."""

    def __post_init__(self) -> None:
        self.state = self.stored.state
        self.hunt = Hunt(self.stored.options, self.made.request.topology, self.state)
        self._before_s = self.state.spent_s
        self._saved_s = 0.0

    # --- the search -----------------------------------------------------------------------------

    def run(self, progress: Callable[[], None]) -> None:
        """Make runs until the budget is spent or a stop is requested; `progress` is called after
        each. Raises HarnessError."""
        from harness.run.jobs import side_by_side  # slow to load

        self._trim()
        with self._file(RUNS_FILE).open("a", encoding="utf-8") as log:
            for run in side_by_side(self.made, self._inputs(), self.jobs, self.stop, AHEAD):
                if self.stop:
                    break  # what was cancelled is among the results that follow
                given, new = self.hunt.take(run)
                print(json.dumps(_line(self.state.taken, given, run, new)), file=log)
                kept = self._keep(given, run)
                if kept or self.spent_s - self._saved_s > SAVE_S:
                    log.flush()
                    self._save()
                progress()
        self.state.over = not self.stop
        self._save()

    def _inputs(self) -> Iterator[HuntInput]:
        """Yield those that a resumed hunt has drawn already, then new ones."""
        yield from tuple(self.state.waiting)
        while not (self._is_spent or self.stop):
            yield self.hunt.draw()

    @property
    def _is_spent(self) -> bool:
        late = self.hours is not None and self.spent_s >= self.hours * 3_600
        return late or (self.runs is not None and self.state.drawn >= self.runs)

    @property
    def spent_s(self) -> float:
        """Seconds that the hunt has lasted, without the time between a kill and its resumption."""
        return self._before_s + self.clock.now_ns() / 1e9

    def _keep(self, given: HuntInput, run: HuntRun) -> bool:
        """Store an INVALID run if one of its kinds was not stored often enough, and the script of a
        run that the model did not survive; return whether that was done."""
        state = self.state
        if run.trouble:
            if len(state.troubles[run.trouble]) > self.keep:
                return False
            self._write_script(given, [run.trouble])
            return True
        scarce = [kind for kind in run.kinds if len(state.stored.get(kind, [])) < self.keep]
        if not scarce:
            return False
        why = [f"Found by run {state.taken} of a hunt: {' '.join(run.kinds)}."]
        stored = self.made.store_run(given, self._find, why)
        path = str(stored.directory.path)
        same = kinds_of(stored.outcome.judgement)
        if same != run.kinds:
            self.issues.append(f"{path} shows {' '.join(same) or 'nothing'}, run {state.taken} of "
                               f"the hunt {' '.join(run.kinds)}")  # fmt: skip
        for kind in run.kinds:
            state.stored.setdefault(kind, []).append(path)
        self.announce(f"INVALID {path} run {state.taken}: {' '.join(run.kinds)}")
        return True

    @property
    def _find(self) -> Path:
        """Script of the run whose result was taken last."""
        return self._file(f"finds/{self.state.taken}.toml")

    def _write_script(self, given: HuntInput, why: list[str]) -> None:
        self._find.parent.mkdir(exist_ok=True)
        self._find.write_text(self.made.text(given, why), encoding="utf-8")

    # --- the directory --------------------------------------------------------------------------

    def _file(self, name: str) -> Path:
        return self.path / name

    def _save(self) -> None:
        """Replace the state. Raises HarnessError."""
        self.state.spent_s = round(self.spent_s, 3)
        self._saved_s = self.spent_s
        file = self._file(STATE_FILE)
        fresh = file.with_suffix(".new")
        try:
            fresh.write_bytes(msgspec.json.encode(self.stored))
            fresh.replace(file)
        except OSError as error:
            why = why_unwritable(file, error)
            raise HarnessError(f"{file}: cannot be written: {why}") from error

    def _trim(self) -> None:
        """Drop lines of runs that the state does not know, because the hunt was killed: they are
        made again."""
        file = self._file(RUNS_FILE)
        lines = file.read_text().splitlines(keepends=True) if file.exists() else []
        file.write_text("".join(lines[: self.state.taken]))

    @property
    def report(self) -> HuntReport:
        """Return what is known up to now."""
        state = self.state
        return HuntReport(
            hunt=str(self.path),
            runs=state.taken,
            statuses=state.statuses,
            kinds={
                kind: HuntedKind(runs, state.first[kind], state.stored.get(kind, []))
                for kind, runs in ranked(state.kinds)
            },
            elements=len(state.counts),
            distances=state.distances,
            troubles=state.troubles,
            issues=self.issues,
        )


def _line(taken: int, given: HuntInput, run: HuntRun, new: int) -> Mapping[str, Json]:
    """Return what runs.jsonl says of a run."""
    return {
        "run": taken,
        "how": given.how,
        "parent": given.parent,
        "options": dict(given.options),
        "status": run.status,
        "kinds": list(run.kinds),
        "new": new,
        "elements": len(run.elements) // 4,
        "distances": list(run.distances),
        "events": run.events,
    }


def begin_hunt(
    store: Path, base: Mapping[str, str | tuple[str, ...]], seed: Seed | None, fresh: bool
) -> tuple[Path, StoredHunt]:
    """Return the last hunt of these options if it is not over, else a new one, and its directory.
    Raises HarnessError."""
    wanted = msgspec.json.encode((sorted(base.items()), None if seed is None else seed.value))
    digest = blake2b(wanted, digest_size=16).hexdigest()
    last = max((store / HUNTS).glob(f"*/{STATE_FILE}"), default=None)
    if last is not None and not fresh:
        try:
            found = msgspec.json.decode(last.read_bytes(), type=StoredHunt)
        except (OSError, msgspec.MsgspecError) as error:
            raise HarnessError(f"{last}: is no hunt: {error}; expected --fresh") from error
        if found.digest == digest and not found.state.over:
            return last.parent, found
    now = utc_now()
    path = store / HUNTS / f"{now:%Y%m%dT%H%M%S%fZ}"
    try:
        path.mkdir(parents=True)
    except OSError as error:
        raise HarnessError(f"{path}: cannot be made: {why_unwritable(path, error)}") from error
    chosen = Seed.fresh() if seed is None else seed
    state = HuntState(seed=chosen.value)
    return path, StoredHunt(digest, dict(base), state, now.isoformat(timespec="seconds"))
