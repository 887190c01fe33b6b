"""What a run exercised, what it did not, and what to try next: a VALID verdict is worth as much as
the calls and faults that it rests on."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from checkers.judge import Judgement
from checkers.phrasing import listed, number
from harness.core.history import History, Pair
from harness.core.op import Kind
from harness.core.verdict import Status

FINAL: Final = "final-read"
NAMED_MAX: Final = 4
"""Number of names that a line lists."""
FAMILIES: Final[Mapping[str, str]] = {
    "partition": "cut links",
    "kill": "killed servers",
    "pause": "servers that stand still",
}
"""Kinds of faults that every cluster can have, by the nemesis that injects them."""


@dataclass(frozen=True, slots=True)
class Exercise:
    """What the verdict on a history rests on."""

    done: tuple[str, ...]
    """What was exercised, a phrase each."""
    missing: tuple[str, ...]
    """What was not."""
    next: tuple[str, ...]
    """Options of `harness run` that would exercise more, each with its reason."""

    @property
    def rows(self) -> list[tuple[str, str]]:
        """Return pairs of a label ("" continues the one above) and a text."""
        of = {"exercised": self.done, "not exercised": self.missing, "try next": self.next}
        return [
            ("" if at else label, text)
            for label, some in of.items()
            for at, text in enumerate(some)
        ]


def exercise_of(judgement: Judgement, history: History) -> Exercise | None:
    """Return what a VALID history exercised; None for another, which says enough by itself, and
    for one without calls."""
    if judgement.status is not Status.VALID:
        return None
    calls = [pair for pair in history.pairs if pair.invoke.f != FINAL]
    if not calls:
        return None
    under = _under_faults(history, calls)
    names = Counter(fault.name for fault in history.faults)
    return Exercise(
        tuple(_done(history, calls, under, names)),
        tuple(_missing(judgement, history, calls, under, names)),
        tuple(_next(names, judgement.ladder.promise.value)),
    )


def _under_faults(history: History, calls: Sequence[Pair]) -> Counter[str]:
    """Return the number of ok calls that ended while a fault was in force, by operation."""
    spans: list[list[float]] = []
    for fault in sorted(history.faults, key=lambda one: one.begin_ns):
        end = float("inf") if fault.end_ns is None else float(fault.end_ns)
        if spans and fault.begin_ns <= spans[-1][1]:
            spans[-1][1] = max(spans[-1][1], end)
        else:
            spans.append([fault.begin_ns, end])
    begins = [begin for begin, _ in spans]
    out: Counter[str] = Counter()
    for pair in calls:
        if pair.kind is Kind.OK and pair.end is not None:
            at = bisect_right(begins, pair.end.time_ns) - 1
            if at >= 0 and pair.end.time_ns < spans[at][1]:
                out[pair.invoke.f] += 1
    return out


def _done(
    history: History, calls: Sequence[Pair], under: Counter[str], names: Counter[str]
) -> list[str]:
    ends: dict[str, Counter[Kind]] = {}
    for pair in calls:
        ends.setdefault(pair.invoke.f, Counter())[pair.kind] += 1
    nodes = sorted({pair.invoke.node for pair in calls if pair.invoke.node})
    of = [f"{f} {counts[Kind.OK]:,} ok of {counts.total():,}" for f, counts in sorted(ends.items())]
    out = [f"{listed(of, NAMED_MAX)}, on {listed(nodes)}" if nodes else listed(of, NAMED_MAX)]
    if names:
        faults = [name if n == 1 else f"{name} ×{n}" for name, n in names.most_common()]
        while_ = [f"{f} {n:,}" for f, n in sorted(under.items())]
        out.append(
            f"{number(len(history.faults), 'fault')} ({listed(faults, NAMED_MAX)}); ok while one "
            f"was in force: {listed(while_, NAMED_MAX) or 'nothing'}"
        )
    return out


def _missing(
    judgement: Judgement,
    history: History,
    calls: Sequence[Pair],
    under: Counter[str],
    names: Counter[str],
) -> list[str]:
    out = []
    if not names:
        out.append("faults: none took effect")
    tried = {
        str(op.value.get("name", op.f))
        for op in history.nemesis
        if isinstance(op.value, Mapping) and op.value.get("edge") in ("begin", "once")
    }
    if failed := sorted(tried - names.keys()):
        out.append(f"faults that were tried without effect: {listed(failed, NAMED_MAX)}")
    fs = sorted({pair.invoke.f for pair in calls})
    if names and (quiet := [f for f in fs if not under[f]]):
        out.append(f"under a fault: no ok {' or '.join(quiet)}")
    if not any(pair.kind is Kind.INFO for pair in calls):
        out.append("calls of unknown outcome: there were none")
    untested = [v.checker for v in judgement.verdicts if v.status is Status.UNKNOWN]
    if untested:
        out.append(f"not decided: {listed(untested, NAMED_MAX)}")
    return out


def _next(names: Counter[str], promise: str) -> list[str]:
    absent = [family for family in FAMILIES if not any(name.startswith(family) for name in names)]
    out = []
    if absent:
        out.append(f"--nemesis {','.join(absent)}: {listed([FAMILIES[one] for one in absent])}")
    if promise == "eventual":
        out.append("--promise linearizable: what the same calls do not promise")
    return [*out, "--count 20: other seeds", "--time-limit 120: more faults in one run"]
