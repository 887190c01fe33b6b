"""Runs the checkers of a history and draws one conclusion."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec
from msgspec import structs

from checkers.ladder import LEVEL_OF, Ladder, Level, deciding, ladder_of, run_status
from checkers.triage.explanation import Cause
from checkers.whole_record import WholeRecord
from harness.core.clock import Clock, WallClock
from harness.core.dialect import Dialect
from harness.core.errors import HarnessError
from harness.core.history import History
from harness.core.op import Json
from harness.core.protocols import (
    Checker,
    check_within,
    is_budgeted,
    judges_mechanism,
    only_reports,
)
from harness.core.ranges import shortened
from harness.core.verdict import Anomaly, Status, Verdict

OPS_A_DEADLINE: Final = 1_000_000
"""Length of a history beyond which its deadline grows with it."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The conclusion on one history."""

    status: Status
    verdicts: tuple[Verdict, ...]
    """Verdicts in the order of the checkers, including those that do not decide."""
    ladder: Ladder
    seconds: Mapping[str, float]
    """Time that each checker took."""
    explanation: Cause | None = None
    """Which known defects explain an INVALID history; None for others, and if nobody asked."""

    @property
    def deciding(self) -> tuple[Verdict, ...]:
        """Return the verdicts that count."""
        return deciding(self.ladder, self.verdicts)

    @property
    def broken_kinds(self) -> tuple[str, ...]:
        """Return the kinds of the deciding anomalies, each once."""
        kinds = {
            anomaly.kind
            for verdict in self.deciding
            if verdict.status is Status.INVALID
            for anomaly in verdict.anomalies
        }
        return tuple(sorted(kinds))

    def results(self) -> dict[str, Json]:
        """Return the judgement as results.json has it."""
        counts = {verdict.checker for verdict in self.deciding}
        stored = {
            "status": self.status,
            "promise": self.ladder.promise,
            "ladder": self.ladder.results(),
            "explanation": self.explanation and self.explanation.results(),
            "verdicts": [
                StoredVerdict(
                    checker=verdict.checker,
                    status=verdict.status,
                    decides=verdict.checker in counts,
                    summary=verdict.summary,
                    checked=verdict.checked,
                    seconds=self.seconds.get(verdict.checker),
                    figures={**verdict.figures},
                    anomalies=verdict.anomalies,
                )
                for verdict in self.verdicts
            ],
        }
        results: dict[str, Json] = msgspec.to_builtins(stored)
        return results


class StoredVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Verdict in results.json."""

    checker: str
    status: Status
    decides: bool
    """Whether it counts for the run."""
    summary: str
    checked: int
    seconds: float | None
    """Time that the checker took."""
    figures: dict[str, Json]
    anomalies: tuple[Anomaly, ...]


class StoredJudgement(msgspec.Struct, frozen=True, kw_only=True):
    """Part of results.json that is a judgement."""

    status: Status
    ladder: Ladder
    verdicts: tuple[StoredVerdict, ...]
    explanation: Cause | None = None


def judgement_of(results: Mapping[str, Json]) -> Judgement:
    """Return the judgement of a results.json, ignoring other entries. Raises HarnessError for
    anything else."""
    try:
        stored = msgspec.convert(results, StoredJudgement)
        verdicts = tuple(
            Verdict(
                checker=verdict.checker,
                status=verdict.status,
                summary=verdict.summary,
                checked=verdict.checked,
                anomalies=verdict.anomalies,
                figures=verdict.figures,
                only_reported=not (verdict.decides or verdict.checker in LEVEL_OF),
            )
            for verdict in stored.verdicts
        )
    except (AssertionError, msgspec.ValidationError) as error:
        raise HarnessError(
            f"not the results of a judgement ({type(error).__name__}: {error}); "
            "expected status, ladder and verdicts: judge the run again"
        ) from error
    seconds = {one.checker: one.seconds for one in stored.verdicts if one.seconds is not None}
    return Judgement(stored.status, verdicts, stored.ladder, seconds, stored.explanation)


def fitting(checkers: Iterable[Checker], dialect: Dialect) -> tuple[Checker, ...]:
    """Return the checkers whose mechanisms the servers of this dialect have."""
    return tuple(
        checker
        for checker in checkers
        if not (judges_mechanism(checker) and dialect.lacks(checker.needs))
    )


def judge(
    history: History,
    checkers: Sequence[Checker],
    deadline_s: float,
    promise: Level | str,
    *,
    clock: Clock | None = None,
    explain: bool = False,
) -> Judgement:
    """Run every checker. Those with a budget get what is left of `deadline_s`, times the millions
    of ops if there are more than one; each of the others has as much for itself. With `explain` an
    INVALID history is explained by known defects as far as possible, in the same time again.

    A checker that raises, returns no verdict, or has the name of an earlier one is UNKNOWN with the
    reason, and the others are still run. `WholeRecord` keeps a damaged history from being VALID.
    Raises UsageError if the promise is not a level.
    """
    promised = promise if isinstance(promise, Level) else Level.named(promise)
    checkers = [*checkers, WholeRecord()] if history.damage is not None else checkers
    clock = clock or WallClock()
    begin_ns = clock.now_ns()
    budget_s = budget_of(deadline_s, len(history))
    verdicts: list[Verdict] = []
    seconds: dict[str, float] = {}
    for checker in checkers:
        start_ns = clock.now_ns()
        left_s = max(0.0, budget_s - (start_ns - begin_ns) / 1e9)
        own_s = left_s if is_budgeted(checker) else budget_s
        if checker.name in seconds:
            why = f"an earlier checker has the name {checker.name}; expected one of its own"
            verdict = _unknown(f"{checker.name} ({len(verdicts) + 1})", why)
        else:
            verdict = _verdict(checker, history, own_s)
        verdicts.append(structs.replace(verdict, only_reported=only_reports(checker)))
        seconds[verdict.checker] = (clock.now_ns() - start_ns) / 1e9
    ladder = ladder_of(promised, verdicts)
    found = Judgement(run_status(ladder, verdicts), tuple(verdicts), ladder, seconds)
    return explained(found, history, checkers, deadline_s, clock=clock) if explain else found


def explained(
    judgement: Judgement,
    history: History,
    checkers: Sequence[Checker],
    budget_s: float,
    *,
    clock: Clock | None = None,
) -> Judgement:
    """Return the judgement, of these checkers, with the known defects that explain it if it is
    INVALID."""
    invalid = [verdict for verdict in judgement.deciding if verdict.status is Status.INVALID]
    if not invalid:
        return judgement
    from checkers.triage.triage import triage  # slow to load, and most runs are not INVALID

    try:
        own_s = budget_of(budget_s, len(history))
        found = triage(history, checkers, invalid, own_s, clock or WallClock())
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # as of a checker: it must not cost the run its verdict
        why = f"the triage failed: {type(error).__name__}: {error}"
        found = Cause.new(invalid, why)
    return replace(judgement, explanation=found)


def budget_of(check_s: float, ops: int) -> float:
    """Return the time in seconds for a history of so many ops, of `check_s` for a short one."""
    return check_s * max(1, ops / OPS_A_DEADLINE)


def _verdict(checker: Checker, history: History, budget_s: float) -> Verdict:
    try:
        returned = check_within(checker, history, budget_s)
        why = _why_refused(returned, checker.name, len(history))
        return _unknown(checker.name, f"the checker returned {why}") if why else returned
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # sys.exit and a panic in Rust do not derive from Exception
        reason = f"{type(error).__name__}: {error}".rstrip(": ")
        return _unknown(checker.name, f"the checker failed: {reason}")


def _unknown(name: str, why: str) -> Verdict:
    return Verdict(checker=name, status=Status.UNKNOWN, summary=why, checked=0)


def _why_refused(returned: object, name: str, ops: int) -> str:
    """Return what is wrong with what a checker returned for so many ops; "" if it is a verdict. A
    dataclass does not check the types of its fields."""
    if not isinstance(returned, Verdict):
        return f"{shortened(repr(returned))}, expected a Verdict"
    if returned.checker != name:
        return f"a verdict of {shortened(repr(returned.checker))}, expected one of {name!r}"
    if not isinstance(returned.status, Status):
        return f"the status {shortened(repr(returned.status))}, expected a Status"
    try:
        msgspec.convert(msgspec.to_builtins(returned), Verdict)
        json.dumps({**returned.figures})
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        return f"a Verdict with a field of another type: {error}"
    beyond = [op for one in returned.anomalies for op in one.ops if not 0 <= op < ops]
    return f"a witness with op #{beyond[0]}, expected one of {ops:,} ops" if beyond else ""
