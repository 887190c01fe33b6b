"""What a scenario is: a script that brings one anomaly or one rare path about, and the finding that
proves it."""

from collections.abc import Sequence
from dataclasses import dataclass

from checkers.judge import Judgement
from harness.core.dialect import Mechanism
from harness.core.history import History
from harness.core.protocols import Workload
from harness.core.verdict import Status, Verdict
from harness.generators.script import ScriptStep, broke_off


@dataclass(frozen=True, slots=True)
class Shown:
    """What a checker said that a scenario is about."""

    text: str
    steps: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """What a checker must find."""

    checker: str
    kind: str
    """Of the anomaly."""

    def shown(self, verdict: Verdict) -> Shown | None:
        """The witness; None: it is not there."""
        if verdict.status is not Status.INVALID:
            return None
        witness = next((one for one in verdict.anomalies if one.kind == self.kind), None)
        return None if witness is None else Shown(witness.text, witness.steps)

    def __str__(self) -> str:
        return f"{self.checker}: {self.kind}"


@dataclass(frozen=True, slots=True)
class Held:
    """What a checker must have met and found kept."""

    checker: str
    figures: Sequence[str]
    """Of the verdict: none of them may be 0, or the rare path was not taken."""

    def shown(self, verdict: Verdict) -> Shown | None:
        """The verdict's summary; None: it does not hold, or nothing was met."""
        met = all(verdict.figures.get(name) for name in self.figures)
        return Shown(verdict.summary) if verdict.status is Status.VALID and met else None

    def __str__(self) -> str:
        return f"{self.checker}: holds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One known anomaly, or one rare path on which the server keeps its word."""

    name: str
    text: str
    """What is seen, a sentence."""
    workload: Workload
    steps: Sequence[ScriptStep]
    finding: Finding | Held
    needs: tuple[Mechanism, ...] = ()
    """Without one of these the servers cannot show it."""
    nemesis: str = "none"
    """The families of faults that its steps use."""
    clients: int = 1
    """They roam: each of their calls names its replica."""
    time_limit_s: float = 60.0
    quiesce_s: float = 30.0
    shards: int = 1
    replicas: int = 3
    """Of a shard."""

    def found(self, judgement: Judgement) -> Shown | None:
        """What shows the finding; None: not reproduced."""
        told = [v for v in judgement.verdicts if v.checker == self.finding.checker]
        return next((shown for v in told if (shown := self.finding.shown(v))), None)

    def broke_off(self, history: History) -> str | None:
        """Why its steps were not played to the end, so that nothing can be said."""
        return broke_off(self.steps, history)
