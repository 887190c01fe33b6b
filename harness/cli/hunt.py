"""`harness hunt`: search for anomalies on simulated servers, steered by what runs have covered."""

import gc
import json
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec
import rich_click as click
from rich.console import Console
from rich.status import Status as Spinner
from rich.table import Table

from checkers.phrasing import number as counted
from harness.cli.options import spec_of
from harness.cli.parameter_types import number
from harness.cli.progress import rate, span
from harness.cli.run import run
from harness.cli.terminal import Terminal
from harness.core.clock import Clock, WallClock, utc_now
from harness.core.errors import HarnessError, UsageError
from harness.core.op import Json
from harness.core.seed import Seed
from harness.core.verdict import Status, worst
from harness.run.stop import Stop
from harness.search.hunt_runs import HuntRuns, base_options, kinds_of
from harness.search.hunting import AHEAD, Hunt, HuntInput, HuntRun, HuntState, ranked
from harness.spec.option import Chooser, On
from harness.spec.run_options import OPTIONS
from harness.spec.run_spec import RunSpec
from harness.store.disk import why_unwritable
from harness.store.store import Store

HUNTS: Final = "hunts"
"""Directory of the store with a directory for each hunt."""
STATE_FILE: Final = "hunt.json"
RUNS_FILE: Final = "runs.jsonl"
SAVE_S: Final = 10.0
KEPT: Final = 3


class StoredHunt(msgspec.Struct):
    """A hunt as its directory keeps it."""

    digest: str
    """Digest of the options."""
    options: dict[str, str | tuple[str, ...]]
    state: HuntState
    started_utc: str


@dataclass
class _HuntCommand:
    """A hunt that goes on."""

    path: Path
    stored: StoredHunt
    made: HuntRuns
    keep: int
    jobs: int
    runs: int | None
    hours: float | None
    console: Console
    stop: Stop
    clock: Clock = field(default_factory=WallClock)
    issues: list[str] = field(default_factory=list)
    """Sentences about what went wrong around the runs."""

    def __post_init__(self) -> None:
        self.state = self.stored.state
        self.hunt = Hunt(self.stored.options, self.made.request.topology, self.state)
        self._before_s = self.state.spent_s
        self._saved_s = 0.0
        self._since = (0.0, self.state.taken)

    # --- the search -----------------------------------------------------------------------------

    def go(self) -> None:
        """Make runs until the budget is spent or a stop is requested."""
        from harness.cli.jobs import side_by_side  # slow to load

        shown = self.console.status("") if self.console.is_terminal else nullcontext()
        self._trim()
        with shown as spinner, self._file(RUNS_FILE).open("a", encoding="utf-8") as log:
            for run in side_by_side(self.made, self._inputs(), self.jobs, self.stop, AHEAD):
                if self.stop:
                    break  # what was cancelled is among the results that follow
                given, new = self.hunt.take(run)
                print(json.dumps(_line(self.state.taken, given, run, new)), file=log)
                found = self._keep(given, run)
                if found or self._now_s - self._saved_s > SAVE_S:
                    log.flush()
                    self._save()
                self._progress(spinner)
        self.state.over = not self.stop
        self._save()

    def _inputs(self) -> Iterator[HuntInput]:
        """Yield those that a resumed hunt has drawn already, then new ones."""
        yield from tuple(self.state.waiting)
        while not (self._spent or self.stop):
            yield self.hunt.draw()

    @property
    def _spent(self) -> bool:
        late = self.hours is not None and self._now_s >= self.hours * 3_600
        return late or (self.runs is not None and self.state.drawn >= self.runs)

    @property
    def _now_s(self) -> float:
        """Seconds that the hunt has lasted, without the time between a kill and its resumption."""
        return self._before_s + self.clock.now_ns() / 1e9

    def _keep(self, given: HuntInput, run: HuntRun) -> bool:
        """Store an INVALID run if one of its kinds was not stored often enough, and the script of a
        run that the model did not survive; return whether that was done."""
        state = self.state
        if run.trouble:
            if len(state.troubles[run.trouble]) > self.keep:
                return False
            self._script(given, [run.trouble])
            return True
        scarce = [kind for kind in run.kinds if len(state.stored.get(kind, [])) < self.keep]
        if not scarce:
            return False
        why = [f"Found by run {state.taken} of a hunt: {' '.join(run.kinds)}."]
        stored = self.made.stored(given, self._find, why)
        path = str(stored.directory.path)
        same = kinds_of(stored.outcome.judgement)
        if same != run.kinds:
            self.issues.append(f"{path} shows {' '.join(same) or 'nothing'}, run {state.taken} of "
                               f"the hunt {' '.join(run.kinds)}")  # fmt: skip
        for kind in run.kinds:
            state.stored.setdefault(kind, []).append(path)
        print(f"INVALID {path} run {state.taken}: {' '.join(run.kinds)}",
              file=self.console.file, flush=True)  # fmt: skip
        return True

    @property
    def _find(self) -> Path:
        """Script of the run whose result was taken last."""
        return self._file(f"finds/{self.state.taken}.toml")

    def _script(self, given: HuntInput, why: list[str]) -> None:
        self._find.parent.mkdir(exist_ok=True)
        self._find.write_text(self.made.text(given, why), encoding="utf-8")

    # --- the directory --------------------------------------------------------------------------

    def _file(self, name: str) -> Path:
        return self.path / name

    def _save(self) -> None:
        """Replace the state. Raises HarnessError."""
        self.state.spent_s = round(self._now_s, 3)
        self._saved_s = self._now_s
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

    # --- output ---------------------------------------------------------------------------------

    def _progress(self, spinner: Spinner | None) -> None:
        if spinner is None:
            return
        state, (since_s, since) = self.state, self._since
        passed_s = self.clock.now_ns() / 1e9 - since_s
        if passed_s < 1:
            return
        self._since = (since_s + passed_s, state.taken)
        per_s = (state.taken - since) / passed_s
        ends = [] if self.hours is None else [max(0.0, self.hours * 3_600 - self._now_s)]
        if self.runs is not None and per_s:
            ends.append((self.runs - state.taken) / per_s)
        left = f"{span(min(ends))} left" if ends else ""
        of = "" if self.runs is None else f" of {self.runs:,}"
        spinner.update(
            f"{state.taken:,}{of} runs, {rate(per_s)}; {len(state.counts):,} elements; "
            f"{len(state.kinds)} kinds of anomalies; {left}"
        )

    def show(self) -> None:
        """Print what was found; the last line is the answer."""
        state, console = self.state, self.console
        if state.kinds:
            table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
            for name in ("anomaly", "runs", "first"):
                table.add_column(name, justify="left" if name == "anomaly" else "right")
            table.add_column("stored", overflow="fold")
            for kind, runs in ranked(state.kinds):
                first = state.stored.get(kind, [""])[0]
                table.add_row(kind, f"{runs:,}", f"{state.first[kind]:,}", first)
            console.print(table)
        for text, numbers in state.troubles.items():
            script = self._file(f"finds/{numbers[0]}.toml")
            console.print(f"! {counted(len(numbers), 'run')}: {text.splitlines()[0]}; {script}",
                          style="yellow", soft_wrap=True)  # fmt: skip
        for text in self.issues:
            console.print(f"! {text}", style="yellow", soft_wrap=True)
        console.print(self.answer, soft_wrap=True)

    @property
    def answer(self) -> str:
        """Return the result as a line."""
        state = self.state
        status = worst(Status(name) for name in state.statuses).value
        tally = ", ".join(f"{state.statuses[s]:,} {s}" for s in Status if s in state.statuses)
        far = " ".join(map(str, state.distances))
        return (
            f"{status}: {counted(len(state.kinds), 'kind')} of anomalies in "
            f"{counted(state.taken, 'run')} ({tally}); {len(state.counts):,} elements covered, "
            f"distances {far}; {self.path}"
        )

    def json(self) -> dict[str, Json]:
        """Return the result as JSON."""
        state = self.state
        kinds: dict[str, Json] = {
            kind: {
                "runs": runs,
                "first": state.first[kind],
                "stored": list(state.stored.get(kind, [])),
            }
            for kind, runs in ranked(state.kinds)
        }
        return {
            "hunt": str(self.path),
            "runs": state.taken,
            "statuses": {**state.statuses},
            "kinds": kinds,
            "elements": len(state.counts),
            "distances": [*state.distances],
            "troubles": {text: list(runs) for text, runs in state.troubles.items()},
            "issues": list(self.issues),
        }


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


def _begun(
    store: Path, base: Mapping[str, str | tuple[str, ...]], seed: Seed | None, fresh: bool
) -> tuple[Path, StoredHunt]:
    """Return the last hunt of these options if it is not over, else a new one."""
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


@click.command("hunt")
@click.option("--hours", type=number("hours"), help="Time budget; no run starts after it is spent.")
@click.option("--runs", type=number("hunt_runs"), help="Stop after this number of runs.")
@click.option(
    "--jobs",
    type=number("jobs"),
    default=1,
    help="Number of parallel runs, each in a process. It does not change the runs. Default: 1.",
)
@click.option(
    "--keep",
    type=number("kept"),
    default=KEPT,
    help=f"Number of runs to store of each kind of anomaly. Default: {KEPT}.",
)
@click.option("--fresh", is_flag=True, help="Start a new hunt even if the last one is not over.")
@click.pass_context
def hunt(
    context: click.RichContext,
    /,
    hours: float | None,
    runs: int | None,
    jobs: int,
    keep: int,
    fresh: bool,
    **_: object,
) -> int:
    """Search for anomalies on simulated servers, steered by what earlier runs have covered.

    Inputs are mutations of earlier ones that reached something new: other seeds, other options of
    the nemesis, other faults. Every kind of anomaly is stored a few times, as runs that `harness
    report` shows and `harness shrink` makes small. The same command resumes a hunt that was killed.
    """
    if hours is None and runs is None:
        raise UsageError("neither --hours nor --runs; expected at least one of them")
    as_json = bool(context.params["as_json"])
    console = Terminal(stderr=as_json, highlight=False)
    given = spec_of(context.params, RunSpec(cluster="sim"))
    base = {name: value for name, value in base_options(given).items() if name != "seed"}
    store = Path(str(context.params["store"]))
    console.warn(Store(store).prepare())
    stop = Stop()
    made = HuntRuns(base, store)
    assert made.request.simulated, "it was refused otherwise"
    path, stored = _begun(store, base, context.params["seed"], fresh)
    command = _HuntCommand(path, stored, made, keep, jobs, runs, hours, console, stop)
    gc.freeze()  # exempt the loaded modules from every later collection
    with stop.obeying_signals():
        command.go()
    if as_json:
        click.echo(json.dumps(command.json()))
    else:
        command.show()
    return worst(Status(name) for name in stored.state.statuses).exit_status


_OF_RUNS = {
    entry.parameter
    for entry in OPTIONS.values()
    if On.SIMULATED in entry.option.on and Chooser.HUNT not in entry.option.chosen_by
}
hunt.params += [param for param in run.params if param.name in _OF_RUNS | {"store", "as_json"}]
