"""The ladder of consistency levels: what was promised, what held.

linearizable ⇒ sequential ⇒ the four session guarantees, as long as every level is judged key by
key; and linearizable ⇒ eventual, as far as the final reads show it. Sequential does not imply
eventual: a process may read the past for ever.

A level at or below the promise decides the run. A level above it is only reported, and so are
checkers that only report, such as that of the conformance of ZooKeeper's transactions.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from checkers.consistency.session import SESSION_GUARANTEES
from checkers.sets.set_full import NAME as SET_FULL
from checkers.stats import NAME as STATS
from harness.core.errors import UsageError
from harness.core.op import Json
from harness.core.protocols import Checker, only_reports
from harness.core.ranges import quoted
from harness.core.verdict import Status, Verdict, worst


class Level(StrEnum):
    """A consistency level; the strongest comes first."""

    LINEARIZABLE = "linearizable"
    SEQUENTIAL = "sequential"
    SESSION = "session"
    EVENTUAL = "eventual"

    @staticmethod
    def named(name: str) -> "Level":
        """Return the level of this name. Raises UsageError for an unknown name."""
        try:
            return Level(name)
        except ValueError:
            known = ", ".join(Level)
            raise UsageError(f"consistency {quoted(name)}: expected one of {known}") from None

    def demands(self, other: "Level") -> bool:
        """Return whether a promise of this level includes the other one."""
        return _RANK[self] <= _RANK[other]


_RANK: Final = {level: rank for rank, level in enumerate(Level)}

CHAIN: Final = (Level.LINEARIZABLE, Level.SEQUENTIAL, Level.SESSION)
"""Levels of which each implies the next."""
CONVERGENCE: Final = "convergence"
CHECKERS_OF: Final[Mapping[Level, tuple[str, ...]]] = {
    Level.LINEARIZABLE: ("linearizable",),
    Level.SEQUENTIAL: ("sequential",),
    Level.SESSION: tuple(guarantee.name for guarantee in SESSION_GUARANTEES),
    Level.EVENTUAL: (CONVERGENCE, SET_FULL),
}
"""Names of each level's checkers; a level needs all of them."""
LEVEL_OF: Final = {name: level for level, names in CHECKERS_OF.items() for name in names}
"""The level to which a checker belongs."""


class Rung(msgspec.Struct, frozen=True):
    """The result for one level."""

    level: Level
    status: Status
    """VALID if the level held, INVALID if it was violated."""
    promised: bool
    """True if the level is at or below the promise."""
    by: str
    """The checkers that decided, or another level's if that level implies this one."""
    text: str
    """Summary of these checkers."""


class Ladder(msgspec.Struct, frozen=True):
    """Verdict on every level of consistency for one history."""

    promise: Level
    rungs: tuple[Rung, ...]
    """The levels, the strongest first."""
    contradictions: tuple[str, ...]
    """Sentences about checkers that contradict each other, so that one of them has a defect."""

    @property
    def held(self) -> Level | None:
        """Return the strongest level that held together with all that it demands; None if none
        did."""
        for rung in self.rungs:
            demanded = [r for r in self.rungs if rung.level.demands(r.level)]
            if all(r.status is Status.VALID for r in demanded):
                return rung.level
        return None

    def results(self) -> dict[str, Json]:
        """Return the ladder as results.json has it."""
        return {"promise": self.promise, "held": self.held, **msgspec.to_builtins(self)}


def ladder_of(promise: Level, verdicts: Sequence[Verdict]) -> Ladder:
    """Return the ladder, without the levels of which no checker ran."""
    known = {verdict.checker: verdict for verdict in verdicts}
    own = [rung for level in Level for rung in _own(level, promise, known)]
    return Ladder(
        promise, tuple(_implied(rung, own) for rung in own), tuple(_contradictions(known, own))
    )


def decides(promise: Level, checker: Checker) -> bool:
    """Return whether a checker's verdict counts for the run: all count, except those that only
    report and those of levels above the promise."""
    return not only_reports(checker) and _promised(promise, checker.name)


def _promised(promise: Level, checker: str) -> bool:
    level = LEVEL_OF.get(checker)
    return level is None or promise.demands(level)


def run_status(ladder: Ladder, verdicts: Sequence[Verdict]) -> Status:
    """Return the worst of the deciding verdicts.

    An UNKNOWN checker of a promised level (such as a session guarantee that no call tested) counts
    as VALID only if a stronger level held, because that one implies it. If checkers
    contradict each other, nothing is VALID.
    """
    doubt = Status.UNKNOWN if ladder.contradictions else Status.VALID
    of = ((verdict.checker, verdict.status) for verdict in deciding(ladder, verdicts))
    return worst([conclusion(of), doubt])


def conclusion(statuses: Iterable[tuple[str, Status]]) -> Status:
    """Return the worst of these statuses, which checkers by name have. That enough was done, which
    is all that stats says, does not make a run VALID: nobody asked whether it was done right."""
    by_name = [*statuses]
    nothing_else = all(name == STATS for name, _ in by_name)
    return worst([*(status for _, status in by_name), *([Status.UNKNOWN] if nothing_else else [])])


def deciding(ladder: Ladder, verdicts: Sequence[Verdict]) -> tuple[Verdict, ...]:
    """Return the verdicts that count: those of the promise, without UNKNOWN ones that are
    implied."""
    held = {rung.level for rung in ladder.rungs if rung.status is Status.VALID}
    implied = {name for level in CHAIN if level in held for name in CHECKERS_OF[level]}
    return tuple(
        verdict
        for verdict in verdicts
        if not verdict.only_reported
        and _promised(ladder.promise, verdict.checker)
        and not (verdict.status is Status.UNKNOWN and verdict.checker in implied)
    )


def _own(level: Level, promise: Level, known: Mapping[str, Verdict]) -> Iterable[Rung]:
    """Yield the rung of a level from its own checkers, if any of them ran."""
    names = CHECKERS_OF[level]
    ran = [known[name] for name in names if name in known]
    if not ran:
        return
    statuses = {verdict.checker: _status_for(verdict) for verdict in ran}
    missing = [name for name in names if name not in known]
    status = worst([*statuses.values(), *[Status.UNKNOWN for _ in missing]])
    deciding = [v for v in ran if statuses[v.checker] is status] or ran
    text = "; ".join(_summary_for(v) for v in deciding)
    if status is Status.UNKNOWN and missing:
        text = f"not judged: {', '.join(missing)}"
    by = ", ".join(verdict.checker for verdict in deciding)
    yield Rung(level, status, promise.demands(level), by, text)


def _status_for(verdict: Verdict) -> Status:
    """Return a checker's status for its level. Of set-full only the eventual promise belongs to
    this ladder; its stale reads belong to the linearizable checker."""
    eventual = str(verdict.figures.get("eventual"))
    judges_it = verdict.checker == SET_FULL and eventual in Status.__members__
    return Status(eventual) if judges_it else verdict.status


def _summary_for(verdict: Verdict) -> str:
    """Return a checker's summary for its level, also for a set-full that keeps the eventual promise
    and breaks another."""
    if verdict.status is Status.INVALID and _status_for(verdict) is Status.VALID:
        return "no acknowledged value is lost"
    return verdict.summary


def _implied(rung: Rung, own: Sequence[Rung]) -> Rung:
    """Return the rung, with the implication of another level if its own checkers are UNKNOWN."""
    if rung.status is not Status.UNKNOWN or rung.level not in CHAIN:
        return rung
    at = CHAIN.index(rung.level)
    for other in own:
        if other.level not in CHAIN:
            continue
        stronger = CHAIN.index(other.level) < at
        if other.status is (Status.VALID if stronger else Status.INVALID):
            how = f"implied by {other.level}" if stronger else f"{other.level} is violated"
            text = f"{how}: {other.text}"
            return Rung(rung.level, other.status, rung.promised, other.by, text)
    return rung


def _contradictions(known: Mapping[str, Verdict], own: Sequence[Rung]) -> Iterable[str]:
    """Yield a sentence for each pair of results on one history that cannot both be right."""
    status = {rung.level: rung.status for rung in own}
    for strong, weak in ((a, b) for a in CHAIN for b in CHAIN if a is not b and a.demands(b)):
        if status.get(strong) is Status.VALID and status.get(weak) is Status.INVALID:
            yield f"{strong} is VALID and {weak}, which it implies, is INVALID"
    linearizable, set_full = known.get("linearizable"), known.get(SET_FULL)
    if linearizable is None or set_full is None or linearizable.status is not Status.VALID:
        return
    for figure in ("stale_reads", "phantom", "duplicated", "lost"):
        if set_full.figures.get(figure):
            yield f"linearizable is VALID and set-full counts {figure}"
