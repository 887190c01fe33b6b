"""The kind of anomaly that a search looks for."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from checkers.judge import Judgement
from checkers.triage.explanation import KNOWN, Cause
from harness.core.history import History
from harness.core.verdict import Status
from harness.generators.script import ScriptStep, broke_off
from harness.run.campaign import FinishedRun
from harness.run.trial import Trial, TryResult
from harness.search.shrinking import Reproduction


@dataclass(frozen=True, slots=True)
class AnomalyKind:
    """What a candidate must show: an anomaly of this kind, found by this checker."""

    checker: str
    kind: str
    cause: Cause | None = field(default=None, compare=False)
    """Explanation that a candidate must keep; None: any will do."""

    def __str__(self) -> str:
        return f"{self.checker}:{self.kind}"

    @staticmethod
    def parse(text: str) -> "AnomalyKind":
        """Return the kind that CHECKER:KIND names."""
        checker, _, kind = text.partition(":")
        return AnomalyKind(checker, kind)

    def find_in(self, judgement: Judgement, history: History) -> Reproduction | None:
        """Return when it was seen and by which calls, if it decides the verdict and has the
        cause."""
        if not self.keeps(judgement.explanation):
            return None
        found = [
            anomaly
            for verdict in judgement.deciding
            if verdict.status is Status.INVALID and verdict.checker == self.checker
            for anomaly in verdict.anomalies
            if anomaly.kind == self.kind
        ]
        if not found:
            return None
        first = min(found, key=lambda anomaly: (history[anomaly.ops[-1]].time_ns, len(anomaly.ops)))
        ops = set(first.ops)
        proof = frozenset(
            place
            for place, pair in enumerate(history.pairs)
            if pair.invoke.index in ops or (pair.end is not None and pair.end.index in ops)
        )
        return Reproduction(max(history[op].time_ns for op in ops), proof)

    def keeps(self, found: Cause | None) -> bool:
        """Return whether an explanation has no other cause: known defects must be among those of
        the run itself, and what is not explained must not be explained."""
        if self.cause is None:
            return True
        if found is None:
            return False
        if self.cause.status != KNOWN:
            return found.status != KNOWN
        names = {one.name for one in self.cause.defects}
        return found.status == KNOWN and names >= {one.name for one in found.defects}

    def judge(self, run: FinishedRun, steps: Sequence[ScriptStep] = ()) -> Trial:
        """Return the try that a run was; it is inconclusive if it broke off in these steps."""
        judgement, history = run.outcome.judgement, run.outcome.history
        if self.find_in(judgement, history) is not None:
            return Trial.of(run, TryResult.REPRODUCED)
        if steps and (why := broke_off(steps, history)):
            return Trial.of(run, TryResult.BROKE_OFF, why)
        verdicts = [one for one in judgement.verdicts if one.checker == self.checker]
        if not verdicts or any(one.status is Status.UNKNOWN for one in verdicts):
            return Trial.of(run, TryResult.UNKNOWN, f"{self.checker} reached no conclusion")
        return Trial.of(run, TryResult.NOT_REPRODUCED)


def kinds_of(judgement: Judgement) -> tuple[str, ...]:
    """Return the kinds of anomalies that make a run INVALID, as CHECKER:KIND."""
    found = {
        f"{verdict.checker}:{anomaly.kind}"
        for verdict in judgement.deciding
        if verdict.status is Status.INVALID
        for anomaly in verdict.anomalies
    }
    return tuple(sorted(found))
