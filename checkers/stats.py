"""How much was done, how it ended and how long it took; too little is UNKNOWN."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from checkers.words import listed, number
from harness.core.history import History, Pair
from harness.core.op import Json, Kind
from harness.core.verdict import Status, Verdict

MIN_OK: Mapping[str, int] = {"insert": 10, "read": 10}
"""Fewer answered calls than these say too little about a database."""
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}


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
        ok = Counter([pair.invoke.f for pair in history.pairs if pair.kind is Kind.OK])
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
            summary="; ".join(doubts) or _summary(history.pairs),
            checked=len(history.pairs),
            figures=_figures(history) | {"doubts": list[Json](doubts)},
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


def _summary(pairs: Sequence[Pair]) -> str:
    by_f: defaultdict[str, Counter[Kind]] = defaultdict(Counter)
    for pair in pairs:
        by_f[pair.invoke.f][pair.kind] += 1
    return "; ".join(
        f"{f}: " + listed([f"{kinds[kind]:,} {kind.value}" for kind in _ENDS if kinds[kind]])
        for f, kinds in sorted(by_f.items())
    )


_ENDS = (Kind.OK, Kind.FAIL, Kind.INFO)


def _figures(history: History) -> dict[str, Json]:
    by_f: dict[str, list[Pair]] = {}
    by_node: dict[str, dict[str, list[Pair]]] = {}
    for pair in history.pairs:
        by_f.setdefault(pair.invoke.f, []).append(pair)
        node = by_node.setdefault(pair.invoke.node or "", {})
        node.setdefault(pair.invoke.f, []).append(pair)
    span_s = (history[-1].time_ns - history[0].time_ns) / 1e9 if len(history) else 0.0
    return {
        "ops": len(history),
        "calls": len(history.pairs),
        "duration_s": span_s,
        "faults": len(history.faults),
        "by_f": {f: _figures_of(pairs, span_s) for f, pairs in sorted(by_f.items())},
        "by_node": {
            node: {f: _ended(pairs) for f, pairs in sorted(of_node.items())}
            for node, of_node in sorted(by_node.items())
        },
        "errors": {f: _errors(pairs) for f, pairs in sorted(by_f.items())},
    }


def _figures_of(pairs: Sequence[Pair], span_s: float) -> dict[str, Json]:
    ended = _ended(pairs)
    ok = sum(pair.kind is Kind.OK for pair in pairs)
    return {
        **ended,
        "ok_ratio": ok / len(pairs),
        "ok_per_s": ok / span_s if span_s else None,
        "latency_ms": _latencies(pairs),
    }


def _ended(pairs: Sequence[Pair]) -> dict[str, Json]:
    kinds = Counter([pair.kind for pair in pairs])
    return {kind.value: kinds[kind] for kind in _ENDS}


def _errors(pairs: Sequence[Pair]) -> dict[str, Json]:
    """By "CODE NAME", the most frequent first; a call that never ended has none."""
    codes: Counter[str] = Counter(
        pair.end.error.partition(":")[0]
        for pair in pairs
        if pair.end is not None and pair.end.error is not None
    )
    return dict(codes.most_common())


def _latencies(pairs: Sequence[Pair]) -> dict[str, Json]:
    """Of the ok calls, in ms, by nearest rank; none without an ok call."""
    took = sorted(
        pair.end.time_ns - pair.invoke.time_ns
        for pair in pairs
        if pair.end is not None and pair.kind is Kind.OK
    )
    if not took:
        return {}
    last = len(took) - 1
    return {name: took[round(q * last)] / 1e6 for name, q in QUANTILES.items()}
