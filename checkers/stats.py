"""Counts calls, how they ended and how long they took; too few are UNKNOWN.

Nothing is violated by numbers, so that the verdict is never INVALID. Doubtful: fewer ok calls of a
function, or of all together, than expected; no call at all; a key without an answer to its final
read, because without it nobody knows whether what was acknowledged is still there; and a run that
was to have faults, if none took effect, or none of them while calls were made. That one was tried
is not enough, since a nemesis reports a fault whose effect it did not see as info:
    partition → info, "ch1 still reaches zk2"     insert 1 → ok
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from checkers.conclusion import Findings
from checkers.phrasing import listed, number
from harness.core.history import History
from harness.core.op import Json, Kind
from harness.core.verdict import Verdict

NAME: Final = "stats"
MIN_OK: Mapping[str, int] = {"insert": 10, "read": 10}
"""Minimum number of answered calls for a conclusion about a database."""
QUANTILES: Mapping[str, float] = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
"""Quantiles, by nearest rank."""


class Ends(NamedTuple):
    """Numbers of calls by how they ended."""

    ok: int
    fail: int
    info: int


@dataclass(frozen=True, slots=True)
class FunctionCalls:
    """Statistics of the calls of one f."""

    ends: Ends
    took_ns: Mapping[str, int]
    """Durations of the calls that ended ok, by quantile; empty if there are none."""
    errors: Mapping[str, int]
    """Number of errors by "CODE NAME", the most frequent first; a call that never ended has
    none."""


@dataclass(frozen=True, slots=True)
class CallStatistics:
    """Statistics of all calls."""

    by_f: Mapping[str, FunctionCalls]
    by_node: Mapping[str, Mapping[str, Ends]]
    """Statistics by node ("" for none) and f."""


class Stats:
    """Counts calls and decides whether they suffice for a conclusion.

    `min_ok`: minimum number of ok calls by f; `min_ok_total`: the same for all calls of clients
    together; `faults_expected`: a run in which no fault took effect while calls were made is
    UNKNOWN; `final_read`: name of a read that must have an answer for each key.
    """

    name = NAME

    def __init__(
        self,
        *,
        min_ok: Mapping[str, int] = MIN_OK,
        min_ok_total: int = 20,
        faults_expected: bool = False,
        final_read: str = "",
    ) -> None:
        self.min_ok = dict(min_ok)
        self.min_ok_total = min_ok_total
        self.faults_expected = faults_expected
        self.final_read = final_read

    def check(self, history: History) -> Verdict:
        """Return VALID, or UNKNOWN with every reason."""
        statistics = _statistics_of(history)
        calls = history.columns.calls_count()
        ok = Counter({f: of_f.ends.ok for f, of_f in statistics.by_f.items()})
        found = Findings(self.name, counted=False)
        found.doubts += self.lacking(ok)
        if not calls:
            found.add_doubt("no call was made")
        if self.final_read:
            answered = {invoke.key for invoke, _ in history.answered(self.final_read)}
            if unread := [str(key) for key in history.keys if key not in answered]:
                found.add_doubt(f"no {self.final_read} of key {listed(unread)}")
        if self.faults_expected:
            found.doubts += _idle_faults(history)
        return found.verdict(
            checked=calls,
            held=_summary(statistics),
            figures=_figures(history, statistics) | {"doubts": list[Json](found.doubts)},
        )

    def lacking(self, ok: Mapping[str, int]) -> list[str]:
        """Return what is lacking for a conclusion, one sentence each, given the number of ok calls
        by f."""
        found = [
            f"{number(ok.get(f, 0), 'ok call')} of {f}, at least {least:,} expected"
            for f, least in sorted(self.min_ok.items())
            if ok.get(f, 0) < least
        ]
        total = sum(ok.values())
        if total < self.min_ok_total:
            found.append(
                f"{number(total, 'ok call')} in total, at least {self.min_ok_total:,} expected"
            )
        return found


def _idle_faults(history: History) -> list[str]:
    if not history.faults:
        ended = [op for op in history.nemesis if op.kind in (Kind.FAIL, Kind.INFO)]
        why = f": {ended[0].f} ended {ended[0].kind.value}, {ended[0].error}" if ended else ""
        return [f"no fault took effect{why}"]
    for fault in history.faults:
        end_ns = history[-1].time_ns if fault.end_ns is None else fault.end_ns
        if history.columns.called_between(fault.begin_ns, end_ns):
            return []
    return ["no call was made while a fault was in force"]


def _statistics_of(history: History) -> CallStatistics:
    by_f, by_node = history.columns.tally(list(QUANTILES.values()))
    of_f = {
        f: FunctionCalls(
            Ends(*ends),
            dict(zip(QUANTILES, took_ns, strict=False)),
            dict(Counter(dict(errors)).most_common()),
        )
        for f, ends, took_ns, errors in by_f
    }
    of_node: dict[str, dict[str, Ends]] = {}
    for node, f, ends in by_node:
        of_node.setdefault(node or "", {})[f] = Ends(*ends)
    return CallStatistics(of_f, of_node)


def _summary(statistics: CallStatistics) -> str:
    return "; ".join(
        f"{f}: " + listed([f"{n:,} {kind}" for kind, n in of_f.ends._asdict().items() if n])
        for f, of_f in sorted(statistics.by_f.items())
    )


def _figures(history: History, statistics: CallStatistics) -> dict[str, Json]:
    span_s = (history[-1].time_ns - history[0].time_ns) / 1e9 if len(history) else 0.0
    by_f = sorted(statistics.by_f.items())
    return {
        "ops": len(history),
        "calls": history.columns.calls_count(),
        "duration_s": span_s,
        "faults": len(history.faults),
        "by_f": {f: _figures_of(of_f, span_s) for f, of_f in by_f},
        "by_node": {
            node: {f: ends._asdict() for f, ends in sorted(of_node.items())}
            for node, of_node in sorted(statistics.by_node.items())
        },
        "errors": {f: dict(of_f.errors) for f, of_f in by_f},
    }


def _figures_of(of_f: FunctionCalls, span_s: float) -> dict[str, Json]:
    ends = of_f.ends
    return {
        **ends._asdict(),
        "ok_ratio": ends.ok / sum(ends),
        "ok_per_s": ends.ok / span_s if span_s else None,
        "latency_ms": {name: took_ns / 1e6 for name, took_ns in of_f.took_ns.items()},
    }
