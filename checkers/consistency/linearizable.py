"""Decides linearizability and sequential consistency of every key with `pyporcupine`.

The calls of a key that constrain it are those that may have happened: writes that were not refused,
and answered reads. A history of them is *linearizable* if there is one order of the calls that
explains every answer, in which a call comes before each that began after it had ended and after
each earlier one of its own process (Herlihy & Wing 1990); it is *sequential* if the order has to
keep only that of each process (Lamport 1979). A call that never ended, or whose outcome is unknown,
may stand anywhere after its begin, or nowhere.

Violated: a key without such an order. Doubtful: a key of which time or memory did not suffice to
say, and a history without an answered read. Each key is judged on its own. For linearizability
this equals a check of all keys together; for sequential consistency it is weaker: here each key has
an order, and both together have none:
    p0 write x 1 → ok, write y 1 → ok     p1 read y → 1, read x → nothing

Times are intervals that include their ends, so calls that touch in one nanosecond are concurrent,
except that a process makes its own calls one after the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf, isfinite
from typing import Final

import pyporcupine

from checkers.conclusion import Findings, anomaly
from checkers.consistency.calls import Consistency, ConstrainingCalls
from checkers.consistency.objects import ObjectModel, SetObject
from checkers.phrasing import during, listed, number
from harness.core.clock import WallClock
from harness.core.history import History, Pair, memoize_per_history
from harness.core.verdict import Anomaly, Status, Verdict

REMAINING_SHARE: Final = 0.05
"""Share of the whole time that remains for the other keys after one is INVALID."""
LEAST_S: Final = 1e-3
"""Time for the second check of a key if the first took the whole budget."""


@dataclass(frozen=True, slots=True)
class KeyCalls:
    """The constraining calls of a key, and what is already decided about them."""

    calls: ConstrainingCalls
    decided: dict[Consistency, pyporcupine.ObjectResult] = field(default_factory=dict)
    """Results found so far, within any budget."""


@dataclass(frozen=True, slots=True)
class KeyVerdict:
    """The verdict on one key."""

    calls: ConstrainingCalls
    result: pyporcupine.ObjectResult | None
    """pyporcupine's result; None if no time was left for the key."""
    anomaly: Anomaly | None = None
    """What is wrong, if the key is INVALID."""

    @property
    def key(self) -> int | None:
        """Return the key; None for calls without a key."""
        return self.calls.key

    @property
    def status(self) -> Status:
        """Return the status of the key."""
        return Status.UNKNOWN if self.result is None else Status(self.result.status)

    @property
    def reason(self) -> str:
        """Return why the key has this status."""
        return "no time left" if self.result is None else self.result.reason


class Linearizable:
    """Checks every key on its own: one checker is "linearizable", the other "sequential".

    `memory_mb` is the budget of each key, because keys are judged one after the other; the time
    that `check_within` gets is for all keys.
    """

    def __init__(
        self,
        consistency: Consistency,
        model: ObjectModel | None = None,
        *,
        memory_mb: float = pyporcupine.MEMORY_MB,
    ) -> None:
        """Create a checker; `model` None stands for sets."""
        self.name: str = consistency
        self.model = model or SetObject()
        self.consistency: Consistency = consistency
        self.memory_mb = memory_mb

    def sharing(self, tasks: int) -> "Linearizable":
        """Return the same checker for one of `tasks` tasks that a machine runs at the same time."""
        share_mb = self.memory_mb / tasks
        return Linearizable(self.consistency, self.model, memory_mb=share_mb)

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs an answered read; a key that runs out of memory is
        UNKNOWN."""
        return self.check_within(history, inf)

    def check_within(self, history: History, budget_s: float) -> Verdict:
        """Return the verdict. VALID needs an answered read; a key that runs out of time or memory
        is UNKNOWN.
        """
        return self.verdict_of(self.judged_keys(history, budget_s))

    def judged_keys(self, history: History, budget_s: float) -> Sequence[KeyVerdict]:
        """Return the verdict on each key, in the order in which keys are first called.

        A key gets no more than half of the time that is left for it and those after it. Once one is
        INVALID, so is the history: the others get as much time again as it took until then, or a
        twentieth of the whole if that is more.
        """
        clock, judged = WallClock(), list[KeyVerdict]()
        keys, end_s = _by_key(history, self.model), budget_s
        for one in keys:
            left_s = end_s - clock.now_ns() / 1e9
            if left_s <= 0:
                judged.append(KeyVerdict(one.calls, None))
                continue
            judged.append(self._judge(history, one, left_s / 2 if one is not keys[-1] else left_s))
            if judged[-1].status is Status.INVALID and end_s == budget_s:
                took_s = clock.now_ns() / 1e9
                end_s = min(budget_s, took_s + max(took_s, budget_s * REMAINING_SHARE))
        return judged

    def verdict_of(self, keys: Sequence[KeyVerdict]) -> Verdict:
        """Return the verdict on a history whose keys have these verdicts."""
        judged = [one for one in keys if one.result is not None]
        reads = sum([one.calls.reads for one in judged])
        broken = [one.anomaly for one in judged if one.anomaly is not None]
        found = Findings(self.name, kinds=sorted({a.kind for a in broken}), smallest_first=True)
        for one in sorted(broken, key=lambda a: (len(a.ops), a.time_ns)):
            found.add_anomalies(one.kind, [one])
        for reason in _doubts(keys):
            found.add_doubt(reason)
        of, answers = number(len(keys), "key"), number(reads, self.model.answer)
        return found.verdict(
            checked=sum([len(one.calls) for one in judged]) if reads else 0,
            broken=f"{len(broken)} of {of} not {self.name} ({answers})",
            nothing=f"no {self.model.answer} was answered",
            held=f"{of} {self.name} ({answers})",
            figures={
                "keys": len(keys),
                "reads_ok": reads,
                "writes": sum([len(one.calls) for one in judged]) - reads,
                "by_key": {str(one.key): one.status.value for one in judged},
            },
            cut_short=any(one.status is Status.UNKNOWN for one in keys),
        )

    def _judge(self, history: History, one: KeyCalls, time_s: float) -> KeyVerdict:
        clock = WallClock()
        result = self._check(one, self.consistency, time_s)
        if self.consistency == "linearizable" and result.status == "VALID" and one.calls.ties:
            # Two calls of one process may touch in one nanosecond: concurrent in real time, though
            # the process made one after the other. A violation needs an edge of only one of the
            # two orders, so checking each order alone decides both.
            left_s = max(time_s - clock.now_ns() / 1e9, LEAST_S)
            result = self._check(one, "sequential", left_s)
        broken = result.status == "INVALID"
        witness = _witness(history, one.calls, result, self.model) if broken else None
        return KeyVerdict(one.calls, result, witness)

    def _check(
        self, one: KeyCalls, consistency: Consistency, time_s: float
    ) -> pyporcupine.ObjectResult:
        known = one.decided.get(consistency)
        if known is not None:
            return known
        stronger = one.decided.get("linearizable")
        if stronger is not None and stronger.status == "VALID" and not one.calls.ties:
            return stronger  # an order that keeps real time also keeps the order of each process
        (result,) = pyporcupine.check(
            one.calls.operations,
            self.model.name,
            consistency=consistency,
            time_s=time_s if isfinite(time_s) else None,
            memory_mb=self.memory_mb,
            threads=1,  # one object: counting the cores takes longer than most checks
        ).objects
        if result.status != "UNKNOWN":
            one.decided[consistency] = result
        return result


def _doubts(keys: Sequence[KeyVerdict]) -> list[str]:
    """Return which keys are not decided, and why."""
    unknown = [one for one in keys if one.status is Status.UNKNOWN]
    doubts = [f"key {one.key}: {one.reason}" for one in unknown if one.result is not None]
    late = [one.key for one in unknown if one.result is None]
    return [*doubts, f"no time left for key {listed(late)}"] if late else doubts


@memoize_per_history
def _calls_by_model(history: History) -> dict[type[ObjectModel], tuple[KeyCalls, ...]]:  # noqa: ARG001
    """Return the cache of constraining calls by model, empty at first."""
    return {}


def _by_key(history: History, model: ObjectModel) -> tuple[KeyCalls, ...]:
    known = _calls_by_model(history)
    found = known.get(type(model))
    if found is None:
        found = known[type(model)] = tuple([KeyCalls(calls) for calls in model.calls(history)])
    return found


def _witness(
    history: History, calls: ConstrainingCalls, result: pyporcupine.ObjectResult, model: ObjectModel
) -> Anomaly:
    """Return the anomaly with its witness in words: the calls in order of time, then why no order
    explains them."""
    pairs = calls.pairs
    members = [pairs[at] for at in result.witness]
    steps = [model.describe(history, pairs[at], result.explanation, at) for at in result.witness]
    cycle = [
        f"#{_index(pairs[step.from_op])} before #{_index(pairs[step.to_op])} ({_why(step)})"
        for step in result.explanation
        if step.from_op != step.to_op
    ]
    if cycle:
        steps.append(f"no order explains them: {', '.join(cycle)}")
    first = next((s.value for s in result.explanation if s.value is not None), None)
    seen = max((pair.end or pair.invoke for pair in members), key=lambda op: op.index)
    named = ", ".join(f"#{_index(pair)}" for pair in members)
    of = "" if calls.key is None else f"key {calls.key}: "
    return anomaly(
        _kind(result),
        f"{of}{result.reason} (op {named}){during(history, seen.time_ns)}",
        *members,
        key=members[0].invoke.key,
        value=first,
        steps=steps,
    )


def _kind(result: pyporcupine.ObjectResult) -> str:
    whys = {step.why for step in result.explanation}
    if "read never-added value" in whys:
        return "phantom"
    return "duplicate" if "duplicate in read" in whys else "cycle"


def _index(pair: Pair) -> int:
    """Return the index that names a call."""
    return pair.invoke.index


def _why(step: pyporcupine.Step) -> str:
    if step.why == "real-time":
        return "it had ended before the other began"
    if step.why == "process-order":
        return "earlier in the same process"
    return step.why if step.value is None else f"{step.why.replace(' add', '')} {step.value}"
