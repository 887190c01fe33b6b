"""Facts of a report, read from the files of a run's directory in whatever state they are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from checkers.judge import Judgement, judgement_of
from checkers.ladder import Level
from checkers.witness import witnesses
from harness.core.bounded_json import load
from harness.core.errors import HarnessError
from harness.core.history import History
from harness.core.verdict import Anomaly, Status, Verdict
from harness.spec.stored_spec import current

RUNNING: Final = "RUNNING"
CRASHED: Final = "CRASHED"
UNREADABLE: Final = "UNREADABLE"
"""Statuses that stand in place of a verdict for a run that has none."""

OF_ZOOKEEPER: Final = ("zk-register", "zookeeper")
"""Workloads whose calls are ZooKeeper's. Where another promises an order of calls, its reads have
`select_sequential_consistency`, whose name promises a sequential one."""

T = TypeVar("T")


class NodeInfo(msgspec.Struct, frozen=True):
    """Node of the topology in run.json."""

    name: str
    role: str = ""
    shard: int = 1
    replica: int = 1
    keepers: tuple[str, ...] = ()


class TopologyInfo(msgspec.Struct, frozen=True):
    """Topology in run.json."""

    nodes: tuple[NodeInfo, ...] = ()


class EngineInfo(msgspec.Struct, frozen=True):
    """Server of a node according to run.json; "" for what it does not say."""

    role: str = ""
    version: str = ""
    build: str = ""


class EnginesInfo(msgspec.Struct, frozen=True):
    """Servers by node, and the servers to which nodes were upgraded."""

    nodes: dict[str, EngineInfo] = {}
    others: tuple[EngineInfo, ...] = ()


class ReportedRun(msgspec.Struct, frozen=True):
    """Contents of run.json that a report needs; missing fields are empty."""

    state: str = "crashed"
    spec: dict[str, Any] = {}
    """Options by their long names."""
    workload_options: dict[str, Any] = {}
    command: str = msgspec.field(default="", name="again")
    """Command that repeats the run."""
    engines: EnginesInfo = EnginesInfo()
    topology: TopologyInfo = TopologyInfo()
    versions: dict[str, str] = {}
    started_utc: str | None = None
    zero_utc: str | None = None
    ended_utc: str | None = None
    error: str | None = None

    def said(self, option: str) -> str:
        """Return the value of an option as text; "?" if it is not known."""
        return str(self.spec.get(option, "?"))


@dataclass(frozen=True)
class Facts:
    """Everything known about a run. Nothing is invented for a missing file."""

    name: str
    """The run's path within its store."""
    info: ReportedRun
    judgement: Judgement | None
    """Verdicts of the run; None if it was never judged."""
    history: History | None
    """History of the run; None if it cannot be read."""
    troubles: tuple[str, ...]
    """Sentences about what went wrong around the run, or with one of its files."""
    logs: Path
    alive: bool = False
    """True if the run's process still exists."""
    unreadable: bool = False
    """True if run.json or results.json exists and cannot be read."""

    @property
    def status(self) -> str:
        """Return VALID, UNKNOWN or INVALID if judged, else RUNNING, UNREADABLE or CRASHED."""
        if self.judgement is not None:
            return self.judgement.status.value
        if self.unreadable:
            return UNREADABLE
        return RUNNING if self.alive else CRASHED

    @property
    def ended(self) -> bool:
        """Return whether the run finished."""
        return self.info.state == "finished"

    @cached_property
    def witnesses(self) -> tuple[tuple[Verdict, Anomaly], ...]:
        """Return the smallest deciding anomaly of each violated level with its verdict, the most
        telling first; none without a violation."""
        if self.judgement is None or self.judgement.status is not Status.INVALID:
            return ()
        of_setting = self.info.said("workload") not in OF_ZOOKEEPER
        return witnesses(self.judgement, Level.SEQUENTIAL if of_setting else None)

    @property
    def witness(self) -> tuple[Verdict, Anomaly] | None:
        """Return the first of the witnesses; None without one."""
        return next(iter(self.witnesses), None)

    @property
    def zero(self) -> datetime | None:
        """Return the date at time 0 of the history."""
        try:
            return datetime.fromisoformat(self.info.zero_utc) if self.info.zero_utc else None
        except ValueError:
            return None


def facts_of(
    directory: Path,
    history: History | None,
    troubles: Sequence[str] = (),
    *,
    alive: bool = False,
) -> Facts:
    """Read run.json and results.json. Never raises for what it finds there: a broken file becomes
    one of the troubles. The argument `troubles` says why there is no history, or not all of it."""
    found = list(troubles)
    raw_info, no_info = stored_object(directory / "run.json")
    raw_results, no_results = stored_object(directory / "results.json")
    found += [reason for reason in (no_info, no_results) if reason]
    if raw_info is None and not no_info:
        found.append("run.json is missing: its options are unknown")
    raw_info = None if raw_info is None else current(raw_info)
    info = _converted(raw_info, ReportedRun, directory / "run.json", found) or ReportedRun()
    results = raw_results or {}
    judgement = None
    if results:
        try:
            judgement = judgement_of(results)
        except HarnessError as error:
            found.append(f"results.json: {error}")
        stored = results.get("troubles")
        found += [str(text) for text in stored] if isinstance(stored, list) else []
    if judgement is None and history is not None and history.damage is not None:
        found.append(history.damage)
    return Facts(
        name=f"{directory.parent.name}/{directory.name}",
        info=info,
        judgement=judgement,
        history=history,
        troubles=tuple(dict.fromkeys(found)),
        logs=directory / "logs",
        alive=alive,
        unreadable=bool(no_info or no_results),
    )


def stored_object(path: Path) -> tuple[Mapping[str, Any] | None, str]:
    """Return the object in a JSON file, and why it cannot be read. A file that does not exist gives
    (None, "")."""
    try:
        value = load(path)
    except FileNotFoundError:
        return None, ""
    except (OSError, ValueError) as error:
        return None, f"{path.name} cannot be read: {error}"
    if not isinstance(value, dict):
        return None, f"{path.name}: expected a JSON object, found {type(value).__name__}"
    return value, ""


def _converted(
    value: Mapping[str, Any] | None, kind: type[T], path: Path, troubles: list[str]
) -> T | None:
    if value is None:
        return None
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        troubles.append(f"{path.name} is not what a run writes: {error}")
        return None
