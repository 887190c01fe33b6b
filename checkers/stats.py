"""How much was done, how it ended and how long it took; too little is UNKNOWN."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from checkers.words import listed, number
from harness.core.history import History
from harness.core.op import Json, Kind
from harness.core.verdict import Status, Verdict

MIN_OK: Mapping[str, int] = {"insert": 10, "read": 10}
"""Fewer answered calls than these say too little about a database."""
QUANTILES: Mapping[str, float] = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
"""By nearest rank."""


class Ends(NamedTuple):
    """How many calls ended so."""

    ok: int
    fail: int
    info: int

    def json(self) -> dict[str, Json]:
        """By name."""
        return {"ok": self.ok, "fail": self.fail, "info": self.info}


@dataclass(frozen=True, slots=True)
class OfF:
    """The calls of one f."""

    ends: Ends
    took_ns: Mapping[str, int]
    """Those that ended ok, by quantile; none without one."""
    errors: Mapping[str, int]
    """By "CODE NAME", the most frequent first; a call that never ended has none."""


@dataclass(frozen=True, slots=True)
class Tally:
    """The calls, by what is told of them."""

    by_f: Mapping[str, OfF]
    by_node: Mapping[str, Mapping[str, Ends]]
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
        tally = _tallied(history)
        calls = history.columns.calls_count()
        ok = Counter({f: of_f.ends.ok for f, of_f in tally.by_f.items()})
        doubts = self.lacking(ok)
        if not calls:
            doubts.append("nothing was called")
        if self.faults_expected:
            doubts += _idle_faults(history)
        return Verdict(
            checker=self.name,
            status=Status.UNKNOWN if doubts else Status.VALID,
            summary="; ".join(doubts) or _summary(tally),
            checked=calls,
            figures=_figures(history, tally) | {"doubts": list[Json](doubts)},
        )

    def lacking(self, ok: Mapping[str, int]) -> list[str]:
        """Return what is lacking for a conclusion, a sentence each, if so many calls were
        acknowledged by f."""
        found = [
            f"{number(ok.get(f, 0), f'ok {f}')}, at least {least:,} expected"
            for f, least in sorted(self.min_ok.items())
            if ok.get(f, 0) < least
        ]
        total = sum(ok.values())
        if total < self.min_ok_total:
            found.append(
                f"{number(total, 'ok call')} in all, at least {self.min_ok_total:,} expected"
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


def _tallied(history: History) -> Tally:
    by_f, by_node = history.columns.tally(list(QUANTILES.values()))
    of_f = {
        f: OfF(
            Ends(*ends),
            dict(zip(QUANTILES, took_ns, strict=False)),
            dict(Counter(dict(errors)).most_common()),
        )
        for f, ends, took_ns, errors in by_f
    }
    of_node: dict[str, dict[str, Ends]] = {}
    for node, f, ends in by_node:
        of_node.setdefault(node or "", {})[f] = Ends(*ends)
    return Tally(of_f, of_node)


def _summary(tally: Tally) -> str:
    return "; ".join(
        f"{f}: " + listed([f"{n:,} {kind}" for kind, n in of_f.ends.json().items() if n])
        for f, of_f in sorted(tally.by_f.items())
    )


def _figures(history: History, tally: Tally) -> dict[str, Json]:
    span_s = (history[-1].time_ns - history[0].time_ns) / 1e9 if len(history) else 0.0
    by_f = sorted(tally.by_f.items())
    return {
        "ops": len(history),
        "calls": history.columns.calls_count(),
        "duration_s": span_s,
        "faults": len(history.faults),
        "by_f": {f: _figures_of(of_f, span_s) for f, of_f in by_f},
        "by_node": {
            node: {f: ends.json() for f, ends in sorted(of_node.items())}
            for node, of_node in sorted(tally.by_node.items())
        },
        "errors": {f: dict(of_f.errors) for f, of_f in by_f},
    }


def _figures_of(of_f: OfF, span_s: float) -> dict[str, Json]:
    ends = of_f.ends
    return {
        **ends.json(),
        "ok_ratio": ends.ok / sum(ends),
        "ok_per_s": ends.ok / span_s if span_s else None,
        "latency_ms": {name: took_ns / 1e6 for name, took_ns in of_f.took_ns.items()},
    }
