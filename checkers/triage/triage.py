"""Explains an INVALID run by the smallest set of known defects, or says what they do not explain.

Every read is put right where the record proves that a known defect made it wrong: the values that
it proves to be missing are added, and those that it proves to be kept by mistake are removed. So
are the other looks at rest: at objects, columns, tasks and shards. The
checkers that called the run INVALID then judge the history again. What they still find is not
explained. So everything that they find counts, also what a verdict does not list, and a known
defect explains no more than the reads for which its mechanism is recorded.
"""

from collections.abc import Callable, Sequence
from itertools import chain, combinations
from typing import Final

from checkers.conclusion import mapping_of
from checkers.phrasing import listed, seconds
from checkers.sets.key_sets import key_sets
from checkers.triage.anomalies import explained
from checkers.triage.defects import DEFECTS, known_in
from checkers.triage.events import traces_of
from checkers.triage.evidence import Evidence, evidence_of
from checkers.triage.explanation import KNOWN, NEW, PARTLY, Cause, described, explained_by
from checkers.triage.inserts import Values, inserted
from checkers.triage.keeper_map import has_registers, unrepeated
from checkers.triage.keepers import lost_transactions, uncommitted
from checkers.triage.kept import kept
from checkers.triage.looks import repairs_of
from checkers.triage.reads import Miss, Reads
from checkers.triage.repairs import Repairs
from checkers.triage.unsynced import UNSYNCED, unsynced_parts
from harness.core import clock_fault
from harness.core.clock import Clock
from harness.core.errors import HarnessError
from harness.core.history import History
from harness.core.protocols import Checker, check_within
from harness.core.time_limit import OutOfTime, time_limit
from harness.core.verdict import Status, Verdict

MISSES_MAX: Final = 1_000_000
"""Missing values that are looked at."""
TOO_MANY: Final = f"more than {MISSES_MAX:,} values are missing from reads"


def triage(
    history: History,
    checkers: Sequence[Checker],
    invalid: Sequence[Verdict],
    budget_s: float,
    clock: Clock,
    *,
    names: Sequence[str] = tuple(DEFECTS),
) -> Cause:
    """Return the explanation of the verdicts `invalid`, which are those that decided; `names` are
    the defects that are known."""
    evidence = evidence_of(history)
    known = known_in(evidence.versions, names) - unrepeated(checkers)
    undated = _undated(history, evidence)
    if undated:
        return Cause.new(invalid, undated)
    try:
        with time_limit(budget_s):
            values = {} if has_registers(history) else inserted(history, evidence)
            repairs = _repairs(history, evidence, values, known)
    except OutOfTime:
        return Cause.new(invalid, f"not decided within {budget_s:,.1f} s")
    except HarnessError as error:
        return Cause.new(invalid, str(error))
    by_name = {checker.name: checker for checker in checkers}
    accused = [by_name[verdict.checker] for verdict in invalid if verdict.checker in by_name]
    begin_ns = clock.now_ns()

    def again(defects: frozenset[str]) -> list[Verdict]:
        left_s = max(0.0, budget_s - (clock.now_ns() - begin_ns) / 1e9)
        fixed = repairs.repaired(history, defects)
        verdicts = [check_within(checker, fixed, left_s) for checker in accused]
        return [one for one in verdicts if one.status is Status.INVALID or one.cut_short]

    made = repairs.explained
    evidences = (history, evidence, values)
    judged = again(frozenset(made))
    direct = {verdict.checker: explained(verdict, evidences, known) for verdict in judged}
    left = [verdict for verdict in judged if direct[verdict.checker] is None]
    beside = explained_by(chain.from_iterable(found for found in direct.values() if found))
    if left:
        gone = len(left) < len(accused) or _count(left) < _count(invalid)
        named = [one for one in made.values() if _matters(one.name, repairs, judged, again)]
        helping = [*named, *beside.values()] if gone else []
        why = _vague(evidence) if helping else next(iter(evidence.doubts), _vague(evidence))
        return Cause(PARTLY if helping else NEW, tuple(helping), described(left), why)
    others = direct.keys()
    subsets = (
        subset
        for size in range(len(made))
        for subset in combinations(made, size)
        if {verdict.checker for verdict in again(frozenset(subset))} <= others
    )
    smallest = next(subsets, tuple(made))
    named = [made[name] for name in smallest]
    named += [one for name, one in beside.items() if name not in smallest]
    return Cause(KNOWN, tuple(named), ())


def _undated(history: History, evidence: Evidence) -> str:
    """Return why the times of ZooKeeper's transactions are not known; "" if they are.

    They are dated by the clock of the leader, and put right where the servers have said how far
    they are (`harness.conform.dating`).
    """
    keepers = {keeper for own in evidence.keepers.values() for keeper in own}
    names = {
        op.f
        for op in history.nemesis
        if op.f in clock_fault.VARIANTS
        and (not keepers or keepers & {*mapping_of(op).get("nodes", ())})
    }
    if evidence.simulated or not names:
        return ""
    if all(trace.get("dates") for trace in traces_of(history)):
        return ""
    return f"ZooKeeper's transactions have no certain time after {' and '.join(sorted(names))}"


def _vague(evidence: Evidence) -> str:
    if not evidence.vague:
        return ""
    periods = [
        f"{seconds(round(since))} to {seconds(round(until))}" for since, until in evidence.vague
    ]
    return f"ZooKeeper's transactions have no precise time from {listed(periods)}"


def _matters(
    name: str,
    repairs: Repairs,
    judged: Sequence[Verdict],
    again: Callable[[frozenset[str]], list[Verdict]],
) -> bool:
    """Return whether more is found than `judged` has if a defect is not known."""
    found = again(frozenset(repairs.explained) - {name})
    return len(found) > len(judged) or _count(found) > _count(judged)


def _repairs(
    history: History, evidence: Evidence, values: Values, known: frozenset[str]
) -> Repairs:
    """Return what known defects made wrong; of reads and values nothing, if the record of these has
    doubts."""
    if has_registers(history):
        return Repairs({}, (), ())
    cut = _cut(history, evidence, values) if UNSYNCED in known else {}
    for index, lost in lost_transactions(history, evidence, values, known).items():
        cut.setdefault(index, []).extend(lost)
    misses: dict[int, Sequence[Miss]] = {**cut}
    others = tuple(one for one in repairs_of(history, evidence) if one.by in known)
    shown = tuple(uncommitted(history, evidence, known))
    if evidence.doubts:
        return Repairs(misses, shown, others)
    left = MISSES_MAX - sum(map(len, cut.values()))
    for key in key_sets(history):
        reads = Reads(history, key, evidence, values, known)
        for read in key.reads:
            taken = cut.get(read.end.index, ())
            gone = {miss.value for miss in taken}
            found = [miss for miss in reads.misses(read) if miss.by and miss.value not in gone]
            misses[read.end.index] = [*found, *taken]
            left -= len(found)
            if left < 0:
                raise HarnessError(TOO_MANY)
    return Repairs(misses, (*kept(history, values, evidence, known), *shown), others)


def _cut(history: History, evidence: Evidence, values: Values) -> dict[int, list[Miss]]:
    """Return the values that power cuts took, by the end of each later read that lacks them."""
    found: dict[int, list[Miss]] = {}
    left = MISSES_MAX
    every = list(unsynced_parts(history, evidence, values))
    for key in key_sets(history) if every else ():
        own = [(value, at_ns, why) for of, value, at_ns, why in every if of == key.key]
        for read in key.reads if own else ():
            for value, at_ns, why in own:
                if read.invoke.time_ns > at_ns and not read.mask & key.inserts[value].bit:
                    found.setdefault(read.end.index, []).append(Miss(value, {UNSYNCED: why}))
                    left -= 1
            if left < 0:
                raise HarnessError(TOO_MANY)
    return found


def _count(verdicts: Sequence[Verdict]) -> int:
    """Return the number of anomalies; where values are stale, also that of the stale reads."""
    total = 0
    for figures in (verdict.figures for verdict in verdicts):
        kinds = figures.get("anomalies")
        total += sum(kinds.values()) if isinstance(kinds, dict) else 0
        missed = figures.get("stale_reads")
        if isinstance(kinds, dict) and kinds.get("stale") and isinstance(missed, int):
            total += missed
    return total
