"""Explains why a run is not VALID: the smallest witness, what was expected, and the command to run
it again."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from checkers.consistency.session import SESSION_GUARANTEES
from checkers.exercise import exercise_of
from checkers.judge import Judgement
from checkers.ladder import CHAIN, CHECKERS_OF, Level
from checkers.phrasing import seconds
from checkers.quiescence import quiescence_of
from harness.core.history import History
from harness.core.verdict import Anomaly, Status, Verdict

EXPECTED: Final[Mapping[str, str]] = {
    "lost": "every acknowledged insert visible once the replicas converged",
    "phantom": "a read returns only inserted values, and never a refused one",
    "duplicate": "every value at most once in a read",
    "diverged": "every replica with the same values at rest",
    "stale": "a read returns every value acknowledged before it began",
    "cycle": "one order of all calls that explains every read",
    "monotonic-reads": "a process reads whatever it has read before",
    "read-your-writes": "a process reads whatever it has written",
    "monotonic-writes": "the writes of one process are seen in their order",
    "writes-follow-reads": "a write is seen only with what its process had read before it",
}
"""Expectation that each kind of anomaly violates, the gravest kind first."""


_SESSION: Final = frozenset({Level.LINEARIZABLE, Level.SEQUENTIAL, Level.SESSION})
_REST: Final = frozenset({Level.LINEARIZABLE, Level.EVENTUAL})
BREAKS: Final[Mapping[str, frozenset[Level]]] = {
    "lost": _REST,
    "diverged": _REST,
    "stale": frozenset({Level.LINEARIZABLE}),
    "cycle": frozenset({Level.LINEARIZABLE, Level.SEQUENTIAL}),
    **dict.fromkeys((guarantee.name for guarantee in SESSION_GUARANTEES), _SESSION),
}
"""Levels that one anomaly of a kind contradicts; one of another kind contradicts all. See also
`breaks`."""


Found: TypeAlias = tuple[Verdict, Anomaly]
"""An anomaly, and the verdict that has it."""


def gravest(judgement: Judgement) -> Found | None:
    """Return the gravest deciding anomaly: by kind, then with the fewest ops, then the earliest.
    None unless INVALID."""
    return min(
        _deciding(judgement),
        key=lambda one: (_rank(one), len(one[1].ops), one[1].time_ns),
        default=None,
    )


def witnesses(judgement: Judgement, named: Level | None = None) -> tuple[Found, ...]:
    """Return the smallest deciding anomaly of each promised level that is violated, each once; none
    unless INVALID.

    First comes the gravest anomaly if it breaks more than an order of the calls, such as a lost
    value; then that of `named`, which is what the name of the server's setting promises; then the
    others, the strongest level first.
    """
    first = gravest(judgement)
    if first is None:
        return ()
    broken = [r.level for r in judgement.ladder.rungs if r.promised and r.status is Status.INVALID]
    broken.sort(key=lambda level: level is not named)
    smallest = [_smallest(judgement, level) for level in broken]
    ordering = breaks(*first) <= set(CHAIN) and any(smallest)
    found = [one for one in ([] if ordering else [first]) + smallest if one is not None]
    return tuple(one for at, one in enumerate(found) if one not in found[:at])


def breaks(verdict: Verdict, anomaly: Anomaly) -> frozenset[Level]:
    """Return the levels that an anomaly contradicts.

    Calls that no order explains which keeps real time may have one that keeps only the order of
    each process: whether they break more than their checker's level is not known.
    """
    if anomaly.kind == "cycle" and verdict.checker == Level.LINEARIZABLE:
        return frozenset({Level.LINEARIZABLE})
    return BREAKS.get(anomaly.kind, frozenset(Level))


def _deciding(judgement: Judgement) -> list[Found]:
    return [(verdict, anomaly) for verdict in judgement.deciding for anomaly in verdict.anomalies]


def _rank(found: Found) -> int:
    kinds = list(EXPECTED)
    kind = found[1].kind
    return kinds.index(kind) if kind in kinds else len(kinds)


def _smallest(judgement: Judgement, level: Level) -> Found | None:
    """Return the anomaly with the fewest ops that breaks a level, the gravest of several."""
    found = [
        one
        for one in _deciding(judgement)
        if level in breaks(*one) and (one[1].kind in BREAKS or one[0].checker in CHECKERS_OF[level])
    ]
    return min(found, key=lambda one: (len(one[1].ops), _rank(one), one[1].time_ns), default=None)


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of a run's status."""

    head: str
    """The first line, one sentence."""
    rows: tuple[tuple[str, str], ...]
    """Pairs of a label ("" continues the one above) and a text."""

    def text(self) -> str:
        """Return the explanation as lines of text."""
        width = max(len(label) for label, _ in self.rows) + 1
        rows = [f"  {f'{label}:' if label else '':<{width}} {text}" for label, text in self.rows]
        return "\n".join([self.head, *rows])


def explained(
    judgement: Judgement, history: History, *, workload: str, repro_command: str
) -> Explanation:
    """Return the explanation; `repro_command` is the command that reproduces the run. As text:

    quorum-set: 3 acknowledged values are missing from the final read (of 812 acknowledged)
      first lost: value 417, op #2210 ok at 8.114 s on ch2, during partition {ch1 | ch2 ch3}
      expected:   every acknowledged insert visible once the replicas converged (at 41.000 s)
      again:      harness run --workload quorum-set --nemesis partition --seed 0x5eed
    """
    found = gravest(judgement)
    if found is not None:
        verdict, anomaly = found
        labelled = [(f"first {anomaly.kind}", anomaly.text)]
        labelled += [("" if at else "witness", step) for at, step in enumerate(anomaly.steps)]
        labelled += (
            [("expected", _expected(anomaly, history))] if _expected(anomaly, history) else []
        )
        labelled += causes(judgement)
        return Explanation(f"{workload}: {verdict.summary}", (*labelled, ("again", repro_command)))
    if judgement.status is Status.UNKNOWN:
        reasons = [v for v in judgement.deciding if v.status is Status.UNKNOWN]
        labelled = [(verdict.checker, verdict.summary) for verdict in reasons]
        labelled += [("contradiction", text) for text in judgement.ladder.contradictions]
        return Explanation(
            f"{workload}: nothing can be concluded", (*labelled, ("again", repro_command))
        )
    held = judgement.ladder.held
    level = f", {held} held" if held else ""
    exercise = exercise_of(judgement, history)
    rows = exercise.rows if exercise is not None else []
    return Explanation(f"{workload}: valid{level}", (*rows, ("again", repro_command)))


def causes(judgement: Judgement) -> list[tuple[str, str]]:
    """Return what known defects explain of an INVALID history, as rows of an explanation: one line,
    then the evidence of each defect."""
    found = judgement.explanation
    if found is None:
        return []
    return [("cause", found.text), *(("", one.evidence) for one in found.defects)]


def _expected(anomaly: Anomaly, history: History) -> str:
    text = EXPECTED.get(anomaly.kind, "")
    at_ns = quiescence_of(history).at_ns
    if anomaly.kind in ("lost", "diverged") and at_ns is not None:
        return f"{text} (at {seconds(at_ns)})"
    return text
