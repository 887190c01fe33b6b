"""Summary of a run: what the list, the heat map and the trends know of it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from checkers.triage.explanation import KNOWN, NOT_EXPLAINED
from harness.core.verdict import Status
from harness.report.facts import CRASHED, RUNNING, UNREADABLE, stored_object
from harness.spec.stored_spec import current
from harness.spec.workload_options import SCENARIO
from harness.store.conditions import Conditions, Servers, conditions_of
from harness.store.store import RunDirectory

STATUSES: Final = (*(status.value for status in Status), CRASHED, UNREADABLE, RUNNING)
EXPLAINED: Final = "KNOWN"
"""Outcome of an INVALID run that known defects explain, as JUnit has it."""
OUTCOMES: Final = (
    *(Status.INVALID.value, CRASHED, UNREADABLE, EXPLAINED, Status.UNKNOWN.value, RUNNING),
    Status.VALID.value,
)
"""How runs end, the gravest first."""
GROUPS: Final = ("run", "scenario", "exploration")
"""Kinds of runs, which lists keep apart."""


@dataclass(frozen=True, slots=True)
class Staleness:
    """How stale the reads of a run on sets were."""

    inserts: int
    """Number of acknowledged inserts."""
    stale: int
    """Number of them that some read begun later missed at first."""
    lost: int
    median_ms: float | None
    max_ms: float | None


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
    conditions: Conditions
    versions: tuple[str, ...]
    """Versions of the servers, each once."""
    modes: tuple[str, str, str] | None
    """How quorum-set inserts, with which quorum, and how it reads; None for another workload."""
    kinds: tuple[str, ...]
    """Kinds of the anomalies that break the promise."""
    first_s: float | None
    """Time of the first of them."""
    calls: int | None
    """Number of calls; None when unknown."""
    took_s: float | None
    """Time from its first event to the last."""
    staleness: Staleness | None
    cause: str
    """Known defects that explain an INVALID run, or "not explained"; "" for another run."""
    trouble: str
    """Reason why one of its files cannot be read; "" if all can."""
    started: str
    """UTC, "2026-11-20 17:45:09"; "" when unknown."""
    text: str
    """Text that a search looks at, in lower case."""

    @property
    def settings(self) -> str:
        """Return the options that say what is tested: "insert plain, read plain", "defaults"."""
        return self.conditions.settings

    @property
    def version(self) -> str:
        """Return the kind and versions of its servers: "25.8.2.1 3.8.0", "simulated 18.16.1"."""
        return self.conditions.on

    @property
    def outcome(self) -> str:
        """Return the status, or EXPLAINED if it is INVALID by known defects alone."""
        explained = self.status == Status.INVALID.value and self.cause not in ("", NOT_EXPLAINED)
        return EXPLAINED if explained else self.status

    @property
    def has_logs(self) -> bool:
        """Return whether its servers wrote logs."""
        return self.conditions.servers is Servers.REAL

    @property
    def date(self) -> str:
        """Return the day on which the run started."""
        return self.started[:10]

    @property
    def group(self) -> str:
        """Return "run", "scenario" or "exploration"."""
        if self.workload.startswith(SCENARIO):
            return "scenario"
        return "exploration" if self.conditions.servers is Servers.MODEL else "run"

    @property
    def cell(self) -> tuple[str, str, str, str]:
        """Return what runs have in common that differ in their seeds alone."""
        return self.workload, self.nemesis, self.settings, self.version


def summary_of(run: RunDirectory) -> Summary:
    """Return the summary of a run, whatever state its files are in."""
    (raw_info, no_info), (raw_results, no_results) = map(
        stored_object, (run.info_file, run.results_file)
    )
    info, results = current(raw_info or {}), raw_results or {}
    spec, ladder = _inner(info, "spec"), _inner(results, "ladder")
    trouble = "; ".join(filter(None, (no_info, no_results)))
    status = str(results.get("status", ""))
    if status not in STATUSES:
        status = UNREADABLE if trouble else RUNNING if run.alive else CRASHED
    name = f"{run.path.parent.name}/{run.path.name}"
    folder = run.path.parent.name.partition("+")
    versions = tuple(sorted({str(version) for version in _inner(info, "versions").values()}))
    started = str(info.get("started_utc") or "")[:19].replace("T", " ")
    workload = str(spec.get("workload", folder[0] if no_info else "?"))
    nemesis = str(spec.get("nemesis", folder[2] if no_info else "?"))
    seed = str(spec.get("seed", "?"))
    held = "" if status == Status.UNKNOWN.value else str(ladder.get("held") or "")
    promise = str(ladder.get("promise") or spec.get("promise", ""))
    cause = _cause(_inner(results, "explanation"))
    conditions = conditions_of(info)
    kinds, first_s = _anomalies(results)
    calls, took_s = _size(results)
    words = (
        name, workload, nemesis, seed, status, promise, held, conditions.settings,
        conditions.on, *kinds, cause, trouble, started, info.get("again", ""),
    )  # fmt: skip
    return Summary(
        name=name, workload=workload, nemesis=nemesis, seed=seed, status=status,
        promise=promise, held=held, conditions=conditions, modes=_modes(workload, info),
        kinds=kinds, first_s=first_s, calls=calls, took_s=took_s, staleness=_staleness(results),
        cause=cause, trouble=trouble, versions=versions, started=started,
        text=" ".join(map(str, words)).lower(),
    )  # fmt: skip


def _cause(explanation: Mapping[str, Any]) -> str:
    defects = explanation.get("defects")
    if explanation.get("status") != KNOWN or not isinstance(defects, list):
        return NOT_EXPLAINED if explanation else ""
    return ", ".join(str(one.get("name")) for one in defects if isinstance(one, dict))


def _modes(workload: str, info: Mapping[str, Any]) -> tuple[str, str, str] | None:
    own = _inner(info, "workload_options")
    if workload != "quorum-set" or not {"insert", "read"} <= own.keys():
        return None
    return str(own["insert"]), str(own.get("quorum", "")), str(own["read"])


def _verdicts(results: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    verdicts = results.get("verdicts")
    yield from (
        one for one in (verdicts if isinstance(verdicts, list) else ()) if isinstance(one, dict)
    )


def _anomalies(results: Mapping[str, Any]) -> tuple[tuple[str, ...], float | None]:
    """Return the kinds of the deciding anomalies, and the time of the first."""
    found: list[Mapping[str, Any]] = []
    for verdict in _verdicts(results):
        own = verdict.get("anomalies")
        broken = verdict.get("decides") and verdict.get("status") == Status.INVALID.value
        if broken and isinstance(own, list):
            found += [one for one in own if isinstance(one, dict)]
    times = [one["time_ns"] / 1e9 for one in found if isinstance(one.get("time_ns"), int)]
    return tuple(dict.fromkeys(str(one.get("kind")) for one in found)), min(times, default=None)


def _size(results: Mapping[str, Any]) -> tuple[int | None, float | None]:
    """Return the number of calls and the time that they took."""
    figures = _figures(results, "stats")
    calls, took_s = figures.get("calls"), figures.get("duration_s")
    return (
        calls if isinstance(calls, int) else None,
        float(took_s) if isinstance(took_s, int | float) else None,
    )


def _figures(results: Mapping[str, Any], checker: str) -> Mapping[str, Any]:
    """Return the figures of a checker, which are empty if the run has none."""
    own = (one for one in _verdicts(results) if one.get("checker") == checker)
    return next((_inner(one, "figures") for one in own), {})


def _staleness(results: Mapping[str, Any]) -> Staleness | None:
    figures = _figures(results, "set-full")
    counts = [figures.get(name) for name in ("acknowledged", "stale", "lost")]
    if not all(isinstance(count, int) for count in counts):
        return None
    inserts, stale, lost = (int(count or 0) for count in counts)
    spans = [figures.get(name) for name in ("stale_ms_median", "stale_ms_max")]
    median, most = (float(span) if isinstance(span, int | float) else None for span in spans)
    return Staleness(inserts, stale, lost, median, most)


def _inner(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    inner = value.get(name)
    return inner if isinstance(inner, dict) else {}
