"""What a run exercised, what it did not, and what to try next: a VALID verdict is worth as much as
the calls and faults that it rests on."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from checkers.fault_edges import edge_of
from checkers.judge import Judgement
from checkers.phrasing import listed, number
from harness.core.history import History
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
Ends: TypeAlias = Mapping[str, Sequence[int]]
"""Numbers of calls that ended ok, fail and info, by operation, in order of names."""


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
    by_f, by_node = history.columns.tally(())
    ends = {f: counts for f, counts, *_ in sorted(by_f) if f != FINAL}
    if not ends:
        return None
    nodes = sorted({node for node, f, _ in by_node if node and f != FINAL})
    under = _under_faults(history, ends)
    names = Counter(fault.name for fault in history.faults)
    return Exercise(
        tuple(_done(ends, nodes, under, names)),
        tuple(_missing(judgement, history, ends, under, names)),
        tuple(_next(names, judgement.ladder.promise.value)),
    )


def _under_faults(history: History, fs: Iterable[str]) -> dict[str, int]:
    """Return the number of ok calls that ended while a fault was in force, by operation."""
    spans: list[list[float]] = []
    for fault in sorted(history.faults, key=lambda one: one.begin_ns):
        end = float("inf") if fault.end_ns is None else float(fault.end_ns)
        if spans and fault.begin_ns <= spans[-1][1]:
            spans[-1][1] = max(spans[-1][1], end)
        else:
            spans.append([fault.begin_ns, end])
    begins = [begin for begin, _ in spans]

    def within(end_ns: int) -> bool:
        at = bisect_right(begins, end_ns) - 1
        return at >= 0 and end_ns < spans[at][1]

    return {f: sum(map(within, history.calls(f, kinds=(Kind.OK,)).spans[1])) for f in fs}


def _done(
    ends: Ends, nodes: Sequence[str], under: Mapping[str, int], names: Counter[str]
) -> list[str]:
    of = [f"{f} {counts[0]:,} ok of {sum(counts):,}" for f, counts in ends.items()]
    out = [f"{listed(of, NAMED_MAX)}, on {listed(nodes)}" if nodes else listed(of, NAMED_MAX)]
    if names:
        faults = [name if n == 1 else f"{name} ×{n}" for name, n in names.most_common()]
        while_ = [f"{f} {n:,}" for f, n in under.items() if n]
        out.append(
            f"{number(names.total(), 'fault')} ({listed(faults, NAMED_MAX)}); ok while one "
            f"was in force: {listed(while_, NAMED_MAX) or 'nothing'}"
        )
    return out


def _missing(
    judgement: Judgement,
    history: History,
    ends: Ends,
    under: Mapping[str, int],
    names: Counter[str],
) -> list[str]:
    out = []
    if not names:
        out.append("faults: none took effect")
    tried = {
        value.name or op.f
        for op in history.nemesis
        if (value := edge_of(op)).edge in ("begin", "once")
    }
    if failed := sorted(tried - names.keys()):
        out.append(f"faults that were tried without effect: {listed(failed, NAMED_MAX)}")
    if names and (quiet := [f for f, n in under.items() if not n]):
        out.append(f"under a fault: no ok {' or '.join(quiet)}")
    if not any(info for _, _, info in ends.values()):
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
