"""Scenarios: scripts that reproduce one anomaly or one rare path, and the finding that proves
it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from checkers.judge import Judgement
from compose.settings import Settings, Storage
from harness.core.dialect import Mechanism
from harness.core.history import History
from harness.core.protocols import Workload
from harness.core.verdict import Status, Verdict
from harness.generators.script import ScriptStep, broke_off

DEFAULT_SETTINGS: Final = Settings()
FAULTY_DISKS: Final = Settings(storage=Storage.FAULTY)


@dataclass(frozen=True, slots=True)
class Shown:
    """Text and steps of a finding, as a checker reported them."""

    text: str
    steps: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """Anomaly that a checker must find."""

    checker: str
    kind: str
    """Kind of the anomaly."""

    def shown(self, verdict: Verdict) -> Shown | None:
        """Return the witness; None if the anomaly was not found."""
        if verdict.status is not Status.INVALID:
            return None
        witness = next((one for one in verdict.anomalies if one.kind == self.kind), None)
        return None if witness is None else Shown(witness.text, witness.steps)

    def __str__(self) -> str:
        return f"{self.checker}: {self.kind}"


@dataclass(frozen=True, slots=True)
class Held:
    """Promise that a checker must have tested and found kept."""

    checker: str
    figures: Sequence[str]
    """Figures of the verdict that must not be 0; otherwise the rare path was not taken."""

    def shown(self, verdict: Verdict) -> Shown | None:
        """Return the verdict's summary; None if the promise was broken or not tested."""
        met = all(verdict.figures.get(name) for name in self.figures)
        return Shown(verdict.summary) if verdict.status is Status.VALID and met else None

    def __str__(self) -> str:
        return f"{self.checker}: holds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Script of a known anomaly, or of a rare path on which the server keeps its promise."""

    name: str
    text: str
    """Sentence that says what clients see."""
    workload: Workload
    steps: Sequence[ScriptStep]
    finding: Finding | Held
    needs: tuple[Mechanism, ...] = ()
    """Mechanisms without which the servers cannot show it."""
    nemesis: str = "none"
    """Families of the faults in its steps."""
    clients: int = 1
    """Number of clients. They roam: each of their calls names its replica."""
    time_limit_s: float = 60.0
    quiesce_s: float = 30.0
    shards: int = 1
    replicas: int = 3
    """Number of replicas per shard."""
    keepers: int = 3
    """Number of ZooKeeper servers. Replica i reads through server i."""
    store: bool = False
    """True if the cluster has an object store."""
    settings: Settings = DEFAULT_SETTINGS
    """Settings of the servers."""

    @property
    def disks(self) -> bool:
        """Return whether the servers have faulty disks."""
        return self.settings.storage is Storage.FAULTY

    def found(self, judgement: Judgement) -> Shown | None:
        """Return the finding; None if it was not reproduced."""
        verdicts = [v for v in judgement.verdicts if v.checker == self.finding.checker]
        return next((shown for v in verdicts if (shown := self.finding.shown(v))), None)

    def undecided(self, judgement: Judgement) -> str | None:
        """Return why the finding's checker reached no conclusion; None if it reached one."""
        checker = self.finding.checker
        verdicts = [v for v in judgement.verdicts if v.checker == checker]
        if not verdicts:
            return f"checker {checker} does not judge these servers"
        unknown = next((v for v in verdicts if v.status is Status.UNKNOWN), None)
        return f"{checker}: {unknown.summary}" if unknown else None

    def broke_off(self, history: History) -> str | None:
        """Return why its steps were not played to the end, so that nothing is known."""
        return broke_off(self.steps, history)
