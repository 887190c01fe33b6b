"""Judges the runs of a store that have changed, and stores a summary of all beside the verdicts."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import msgspec

from harness.core.clock import WallClock
from harness.core.errors import UsageError
from harness.core.protocols import Checker
from harness.core.verdict import Status, worst
from harness.fleet import processes
from harness.fleet.engine import EngineName, choose_engine, judge_on_spark
from harness.fleet.found_runs import Found
from harness.fleet.location import Location
from harness.fleet.plan import Item
from harness.fleet.rows import RunSummary
from harness.fleet.stored_runs import Checked, StoredRuns, check_fleet
from harness.fleet.task import Job
from harness.spec.catalogue import CHECKERS, plugin_checkers
from harness.spec.workload_options import workload_of
from harness.store.conditions import Servers
from harness.store.disk import why_unwritable

ShowProgress: TypeAlias = Callable[[int, str], AbstractContextManager[Callable[[int], None]]]
"""Function of the number of items and of what begins. While its block runs, the function that it
yields gets the number of judged items."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCheckOptions:
    """How to judge the runs of a store."""

    engine: EngineName
    spark: str | None
    """Master of the Spark that judges; None for that of its configuration."""
    force: bool
    """Whether to judge also runs that have not changed."""
    checkers: str | None
    """Names of the only checkers to run, separated by commas."""
    promise: str | None
    """Level to judge against; None for each run's own."""
    check_s: float | None
    """Time budget of each run; None for its own."""


class RunRemark(msgspec.Struct, frozen=True):
    """A run that is not VALID, or with whose files something is wrong."""

    run: str
    status: Status
    reason: str
    note: str


class UnbegunRun(msgspec.Struct, frozen=True):
    """A run in which nothing happened, so that it has no verdict."""

    run: str
    why: str


class ServersReport(msgspec.Struct, frozen=True, kw_only=True):
    """What the runs on servers of one kind and version came to."""

    servers: str | None
    """One of Servers; None if the run.json of the runs cannot be read."""
    version: str | None
    runs: int
    statuses: dict[Status, int]
    """Number of runs of each status."""
    anomalies: dict[str, int]
    """Number of runs with each kind of anomaly, the most frequent first."""

    @property
    def on(self) -> str:
        """The servers in words."""
        return " ".join(filter(None, (self.servers, self.version))) or "unknown"


class StoreReport(msgspec.Struct, frozen=True, kw_only=True):
    """Result of judging a store, as it is stored and as --json prints it."""

    store: str
    verdicts: str
    """Place of the dataset of verdicts."""
    promise: str | None
    runs: int
    """Number of runs on servers; those of models count apart."""
    explorations: dict[Status, int]
    """Number of explorations of models by status, if there are runs on servers, too."""
    judged: int
    unchanged: int
    bytes_read: int
    """Bytes that were read to know which runs are unchanged."""
    seconds: float
    status: Status
    statuses: dict[Status, int]
    """Number of runs of each status."""
    by_servers: list[ServersReport]
    """The same runs by their servers."""
    not_valid: list[RunRemark]
    never_began: list[UnbegunRun]
    unstored: str
    """Why the verdicts are not stored; "" if they are."""
    checkers: list[str] | None
    """The only checkers that judged; None if all did."""
    engine: str
    """What judged."""

    @property
    def not_valid_by_severity(self) -> list[RunRemark]:
        """Runs that are not VALID, those with damaged files first, then the worst."""
        return sorted(self.not_valid, key=lambda one: (not one.note, -one.status.severity, one.run))


def check_store(
    found: Found, options: StoreCheckOptions, show_progress: ShowProgress
) -> tuple[StoreReport, str]:
    """Judge the runs that have changed. Return a report on all, and why that or the verdicts cannot
    be stored; "" if they are. Raises HarnessError."""
    only, more = _checkers(options.checkers)
    runs = StoredRuns(workload_of, options.promise, options.check_s, more)
    clock = WallClock()
    used: list[str] = []

    def engine(job: Job, items: Sequence[Item]) -> list[Location]:
        chosen = choose_engine(options.engine, options.spark, len({item.run for item in items}))
        used.append(chosen.text)
        with show_progress(len(items), "starting Spark" if chosen.on_spark else "judging") as shown:
            if not chosen.on_spark:
                return processes.judge(job, items, shown)
            return judge_on_spark(chosen.master, job, items, shown)

    checked = check_fleet(found, runs, engine, force=options.force, only=only)
    every = list(checked.runs.values())
    models = [one for one in every if _is_of_model(one)]
    of = [one for one in every if not _is_of_model(one)]
    if not of:  # models alone were asked for
        models, of = [], models
    report = StoreReport(
        store=found.root.shown,
        verdicts=checked.verdicts.place.shown,
        promise=options.promise,
        runs=len(of),
        explorations=_statuses(models) if models else {},
        judged=len(checked.judged),
        unchanged=len(checked.unchanged),
        bytes_read=checked.bytes_read,
        seconds=round(clock.now_ns() / 1e9, 3),
        status=worst(one.status for one in of),
        statuses=_statuses(of),
        by_servers=_by_servers(of),
        not_valid=[_remark(one) for one in of if one.status is not Status.VALID or one.note],
        never_began=[UnbegunRun(run, why) for run, why in checked.never_began.items()],
        unstored=checked.unstored,
        checkers=None if only is None else [*sorted(only)],
        engine=used[0] if used else "none: nothing changed",
    )
    return report, checked.unstored or _write(report, checked)


def _is_of_model(run: RunSummary) -> bool:
    return run.conditions is not None and run.conditions.servers is Servers.MODEL


def _statuses(runs: Sequence[RunSummary]) -> dict[Status, int]:
    return {status: sum(one.status is status for one in runs) for status in Status}


def _by_servers(runs: Sequence[RunSummary]) -> list[ServersReport]:
    """Return what runs came to by kind and version of their servers; unknown ones come last."""
    found: dict[tuple[str | None, str | None], list[RunSummary]] = {}
    for one in runs:
        known = one.conditions
        place = (None, None) if known is None else (known.servers.value, known.version)
        found.setdefault(place, []).append(one)
    return [
        ServersReport(
            servers=servers,
            version=version,
            runs=len(of),
            statuses=_statuses(of),
            anomalies=dict(Counter(kind for one in of for kind in one.kinds).most_common()),
        )
        for (servers, version), of in sorted(
            found.items(), key=lambda item: (item[0][0] is None, item[0])
        )
    ]


def _remark(run: RunSummary) -> RunRemark:
    return RunRemark(run.run, run.status, run.reason, run.note)


def _checkers(
    words: str | None,
) -> tuple[frozenset[str] | None, Callable[[], Sequence[Checker]]]:
    """Return the names of the only checkers to run, None for all, and the function that returns
    those of plug-ins among them. Raises UsageError."""
    names = tuple(name for name in (words or "").split(",") if name)
    if words is not None and not names:
        raise UsageError(
            f"--checkers {words!r}: names no checker; expected names, separated by "
            "commas; harness list checkers lists them"
        )
    try:
        more = plugin_checkers(names)
    except UsageError as error:
        raise UsageError(f"--checkers {error}") from error
    # A plug-in is named by its place, its verdicts by the name that it gives them.
    known = {name for name in names if name in CHECKERS}
    only = frozenset({*known, *(one.name for one in more)}) if names else None
    return only, partial(plugin_checkers, names)


def _write(report: StoreReport, checked: Checked) -> str:
    """Write the report beside the verdicts, and return why it cannot be written; "" if it is."""
    summary = Location(f"{checked.verdicts.place.uri}.json")
    try:
        with summary.output() as stream:
            stream.write(json.dumps(msgspec.to_builtins(report), indent=2).encode() + b"\n")
    except OSError as error:
        why = str(error) if summary.path is None else why_unwritable(summary.path, error)
        return f"{summary.shown}: cannot be written: {why}"
    return ""
