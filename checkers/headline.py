"""The answer of a run in one line, the last line that a command prints."""

from collections.abc import Mapping
from typing import Final

from checkers.health import HEALTH
from checkers.judge import Judgement
from checkers.phrasing import number
from checkers.trees import TREES
from checkers.triage.defects import title_of
from checkers.triage.explanation import KNOWN
from checkers.witness import gravest
from harness.core.op import Json
from harness.core.verdict import Status, Verdict

NOUNS: Final[Mapping[str, str]] = {
    "lost": "lost insert",
    "phantom": "phantom value",
    "duplicate": "duplicated value",
    "diverged": "diverged replicas",
    "stale": "stale read",
    "cycle": "reads that no order explains",
}
"""Names of the kinds of anomalies in prose; the others are names already."""
_OF_INSERTS: Final = frozenset({"lost", "stale", "duplicate"})
"""Kinds of which set-full counts the inserted values."""


def headline(judgement: Judgement) -> str:
    """Return the conclusion with its main figures, without the status.

    INVALID: "stale read, 35 of 80 inserts; explained by uncounted-quorum"; VALID: "linearizable
    held; 176 inserts and 11,045 reads answered, 4 faults"; UNKNOWN: "stats: 4 ok calls in total, at
    least 20 expected". What decides nothing follows: that servers complain of themselves,
    "; servers complain of themselves: 1 fatal", or that ZooKeeper's do not agree.
    """
    beside = "".join(
        f"; {verdict.summary}"
        for verdict in judgement.verdicts
        if verdict.checker in (HEALTH, TREES)
        and verdict.status is Status.INVALID
        and verdict.only_reported
    )
    return f"{_conclusion(judgement)}{beside}"


def _conclusion(judgement: Judgement) -> str:
    found = gravest(judgement)
    if found is not None:
        verdict, anomaly = found
        cause = judgement.explanation
        known = f"; explained by {', '.join(title_of(one.name) for one in cause.defects)}" if (
            cause is not None and cause.status == KNOWN
        ) else "; not explained by a known defect" if cause is not None else ""  # fmt: skip
        return f"{NOUNS.get(anomaly.kind, anomaly.kind)}, {_extent(verdict, anomaly.kind)}{known}"
    if judgement.status is Status.UNKNOWN:
        unsure = [v for v in judgement.deciding if v.status is Status.UNKNOWN]
        reasons = [f"{verdict.checker}: {verdict.summary}" for verdict in unsure]
        return next(iter([*reasons, *judgement.ladder.contradictions]), "nothing was checked")
    held = judgement.ladder.held
    return f"{f'{held.value} held' if held else 'the promise held'}{_totals(judgement)}"


def _extent(verdict: Verdict, kind: str) -> str:
    """Return how often the anomaly occurred, "35 of 80 inserts"; else the checker's summary."""
    counts, inserts = verdict.figures.get("anomalies"), verdict.figures.get("acknowledged")
    count = counts.get(kind) if isinstance(counts, Mapping) else None
    if kind in _OF_INSERTS and isinstance(count, int) and isinstance(inserts, int):
        return f"{count:,} of {number(inserts, 'insert')}"
    return f"{verdict.checker}: {verdict.summary}"


def _totals(judgement: Judgement) -> str:
    """Return "; 176 inserts and 11,045 reads answered, 4 faults" from the figures of stats."""
    stats = next((v.figures for v in judgement.verdicts if v.checker == "stats"), {})
    by_f, faults = stats.get("by_f"), stats.get("faults")
    if not isinstance(by_f, Mapping):
        return ""
    answered = {f: _answered(of) for f, of in by_f.items() if f != "final-read"}
    some = [
        number(count, f, f if f.endswith("s") else "")
        for f, count in sorted(answered.items())
        if count
    ][:3]
    said = f"{', '.join(some[:-1])}{' and ' if some[1:] else ''}{some[-1]} answered" if some else ""
    broken = number(faults, "fault") if isinstance(faults, int) and faults else "no faults"
    return f"; {', '.join(filter(None, (said, broken)))}"


def _answered(of: Json) -> int:
    ok = of.get("ok") if isinstance(of, Mapping) else None
    return ok if isinstance(ok, int) else 0
