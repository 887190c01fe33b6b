"""What a scenario is: a script that brings one anomaly about, and the finding that proves it."""

from collections.abc import Sequence
from dataclasses import dataclass

from checkers.judge import Judgement
from harness.core.history import History
from harness.core.op import Call, Json, Op
from harness.core.protocols import Workload
from harness.core.verdict import Anomaly, Status
from harness.generators.script import ScriptStep, broke_off


@dataclass(frozen=True, slots=True)
class Finding:
    """What a checker must find."""

    checker: str
    kind: str
    """Of the anomaly."""

    def __str__(self) -> str:
        return f"{self.checker}: {self.kind}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One known anomaly."""

    name: str
    text: str
    """What is seen, a sentence."""
    workload: Workload
    steps: Sequence[ScriptStep]
    finding: Finding
    nemesis: str = "none"
    """The families of faults that its steps use."""
    clients: int = 1
    """They roam: each of their calls names its replica."""
    time_limit_s: float = 60.0
    quiesce_s: float = 30.0
    shards: int = 1
    replicas: int = 3
    """Of a shard."""

    def found(self, judgement: Judgement) -> Anomaly | None:
        """The witness of the finding; None: not reproduced."""
        for verdict in judgement.verdicts:
            if verdict.checker == self.finding.checker and verdict.status is Status.INVALID:
                for anomaly in verdict.anomalies:
                    if anomaly.kind == self.finding.kind:
                        return anomaly
        return None

    def broke_off(self, history: History) -> str | None:
        """Why its steps were not played to the end, so that nothing can be said."""
        return broke_off(self.steps, history)


def begin(f: str, number: int, name: str, **plan: Json) -> Call:
    """The beginning of a fault; `plan` is what its family wants."""
    return Call(f=f, nemesis=True, value={"fault": number, "edge": "begin", "name": name, **plan})


def end(f: str, number: int, name: str) -> Call:
    """Its end."""
    return Call(f=f, nemesis=True, value={"fault": number, "edge": "end", "name": name})


def insert(value: int, node: str, key: int = 0) -> Call:
    """One value."""
    return Call(f="insert", value=value, key=key, node=node)


def read(node: str, key: int = 0) -> Call:
    """Every value of the key."""
    return Call(f="read", key=key, node=node)


def shows(*values: int) -> "Shows":
    """Whether a read returned all of these."""
    return Shows(frozenset(values))


@dataclass(frozen=True, slots=True)
class Shows:
    """See `shows`."""

    values: frozenset[int]

    def __call__(self, op: Op) -> bool:
        """Of the end of a read."""
        return isinstance(op.value, tuple) and self.values <= set(op.value)
