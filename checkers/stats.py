"""How much was done, how it ended and how long it took; too little is UNKNOWN."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from checkers.words import listed, number
from harness.core.history import History, Pair
from harness.core.op import Json, Kind
from harness.core.verdict import Status, Verdict

MIN_OK: Mapping[str, int] = {"insert": 10, "read": 10}
"""Fewer answered calls than these say too little about a database."""
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}

Group: TypeAlias = tuple[Kind, list[Pair]]
"""Calls that ended so."""


@dataclass(frozen=True, slots=True)
class Tally:
    """The calls, by what is told of them."""

    by_f: dict[str, list[Group]] = field(default_factory=dict)
    by_node: dict[str, dict[str, list[Group]]] = field(default_factory=dict)
    """By node, "" of none, and f."""


class Stats:
    """Figures, and whether there is enough for a conclusion.

    `min_ok`: least number of ok calls by f; `min_ok_total`: of all clients' calls together;
    `faults_expected`: a nemesis was meant to break something, so a run in which no fault took
    effect while calls were made says nothing. Never INVALID.
    """

    name = "stats"

    def __init__(
        self,
        *,
        min_ok: Mapping[str, int] = MIN_OK,
        min_ok_total: int = 20,
        faults_expected: bool = False,
    ) -> None:
        self.min_ok = dict(min_ok)
        self.min_ok_total = min_ok_total
        self.faults_expected = faults_expected

    def check(self, history: History, *, deadline_s: float) -> Verdict:  # noqa: ARG002
        """VALID or UNKNOWN, with every reason."""
        tally = _tallied(history.pairs)
        ok = Counter({f: _ended(groups)[Kind.OK] for f, groups in tally.by_f.items()})
        doubts = [
            f"{number(ok[f], f'ok {f}')}, at least {least:,} expected"
            for f, least in sorted(self.min_ok.items())
            if ok[f] < least
        ]
        if ok.total() < self.min_ok_total:
            doubts.append(
                f"{number(ok.total(), 'ok call')} in all, at least {self.min_ok_total:,} expected"
            )
        if not history.pairs:
            doubts.append("nothing was called")
        if self.faults_expected:
            doubts += _idle_faults(history)
        return Verdict(
            checker=self.name,
            status=Status.UNKNOWN if doubts else Status.VALID,
            summary="; ".join(doubts) or _summary(tally),
            checked=len(history.pairs),
            figures=_figures(history, tally) | {"doubts": list[Json](doubts)},
        )


def _idle_faults(history: History) -> list[str]:
    if not history.faults:
        ended = [op for op in history.nemesis if op.kind in (Kind.FAIL, Kind.INFO)]
        why = f": {ended[0].f} ended {ended[0].kind.value}, {ended[0].error}" if ended else ""
        return [f"no fault took effect{why}"]
    for fault in history.faults:
        end_ns = history[-1].time_ns if fault.end_ns is None else fault.end_ns
        for pair in history.pairs:
            ended_ns = end_ns if pair.end is None else pair.end.time_ns
            if pair.invoke.time_ns <= end_ns and ended_ns >= fault.begin_ns:
                return []
    return ["no call was made while a fault was in force"]


def _tallied(pairs: Sequence[Pair]) -> Tally:
    groups: defaultdict[tuple[str, str | None, Kind], list[Pair]] = defaultdict(list)
    for pair in pairs:
        invoke = pair.invoke
        groups[invoke.f, invoke.node, pair.kind].append(pair)
    tally = Tally()
    for (f, node, kind), alike in groups.items():
        tally.by_f.setdefault(f, []).append((kind, alike))
        tally.by_node.setdefault(node or "", {}).setdefault(f, []).append((kind, alike))
    return tally


def _ended(groups: Sequence[Group]) -> dict[Kind, int]:
    """How many, OK, FAIL and INFO in this order."""
    ends = {Kind.OK: 0, Kind.FAIL: 0, Kind.INFO: 0}
    for kind, pairs in groups:
        ends[kind] += len(pairs)
    return ends


def _summary(tally: Tally) -> str:
    return "; ".join(
        f"{f}: " + listed([f"{n:,} {kind.value}" for kind, n in _ended(groups).items() if n])
        for f, groups in sorted(tally.by_f.items())
    )


def _figures(history: History, tally: Tally) -> dict[str, Json]:
    span_s = (history[-1].time_ns - history[0].time_ns) / 1e9 if len(history) else 0.0
    by_f = sorted(tally.by_f.items())
    return {
        "ops": len(history),
        "calls": len(history.pairs),
        "duration_s": span_s,
        "faults": len(history.faults),
        "by_f": {f: _figures_of(groups, span_s) for f, groups in by_f},
        "by_node": {
            node: {f: _json(_ended(groups)) for f, groups in sorted(of_node.items())}
            for node, of_node in sorted(tally.by_node.items())
        },
        "errors": {f: _errors(groups) for f, groups in by_f},
    }


def _figures_of(groups: Sequence[Group], span_s: float) -> dict[str, Json]:
    ends = _ended(groups)
    ok = ends[Kind.OK]
    return {
        **_json(ends),
        "ok_ratio": ok / sum(ends.values()),
        "ok_per_s": ok / span_s if span_s else None,
        "latency_ms": _latencies(groups),
    }


def _json(ends: Mapping[Kind, int]) -> dict[str, Json]:
    return {kind.value: count for kind, count in ends.items()}


def _errors(groups: Sequence[Group]) -> dict[str, Json]:
    """By "CODE NAME", the most frequent first; a call that never ended has none."""
    told = [
        (pair.invoke.index, pair.end.error.partition(":")[0])
        for _, pairs in groups
        for pair in pairs
        if pair.end is not None and pair.end.error is not None
    ]
    told.sort()
    return dict(Counter([code for _, code in told]).most_common())


def _latencies(groups: Sequence[Group]) -> dict[str, Json]:
    """Of the ok calls, in ms, by nearest rank; none without an ok call."""
    took = [
        pair.end.time_ns - pair.invoke.time_ns
        for kind, pairs in groups
        if kind is Kind.OK
        for pair in pairs
        if pair.end is not None
    ]
    if not took:
        return {}
    took.sort()
    last = len(took) - 1
    return {name: took[round(q * last)] / 1e6 for name, q in QUANTILES.items()}
