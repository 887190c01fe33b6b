"""Explains an INVALID run by the smallest set of known defects, or says what they do not explain.

Every read is put right where the record proves that a known defect made it wrong: the values that
it proves to be missing are added, and those that it proves to be kept by mistake are removed. The
checkers that called the run INVALID then judge the history again. What they still find is not
explained. So everything that they find counts, also what a verdict does not list, and a known
defect explains no more than the reads for which its mechanism is recorded.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from msgspec.structs import replace

from checkers.sets.key_sets import key_sets
from checkers.triage.anomalies import explained
from checkers.triage.defects import DEFECTS, known_in
from checkers.triage.evidence import evidence_of
from checkers.triage.explanation import KNOWN, NEW, PARTLY, Cause, Explained, described
from checkers.triage.inserts import inserted
from checkers.triage.kept import Kept, kept
from checkers.triage.reads import Miss, Reads
from harness.core.clock import Clock
from harness.core.errors import HarnessError
from harness.core.history import History
from harness.core.op import Op
from harness.core.protocols import Checker, check_within
from harness.core.verdict import Status, Verdict

MISSES_MAX: Final = 1_000_000
"""Missing values that are looked at."""


@dataclass
class Repairs:
    """What known defects made wrong: for each read the values to add, and the values to remove."""

    misses: Mapping[int, Sequence[Miss]]
    """By index of the read's end."""
    kept: Sequence[Kept]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the defects that made something wrong, in the order of the catalogue."""
        found = {name for of_read in self.misses.values() for miss in of_read for name in miss.by}
        found |= {one.by for one in self.kept}
        return tuple(name for name in DEFECTS if name in found)

    def examples(self) -> Iterator[Explained]:
        """Yield each defect with the first thing that it made wrong, and the number of all."""
        counts: Counter[str] = Counter()
        first: dict[str, str] = {}
        for _, of_read in sorted(self.misses.items()):
            for miss in of_read:
                for name, why in miss.by.items():
                    counts[name] += 1
                    first.setdefault(name, why)
        for one in self.kept:
            counts[one.by] += 1
            first.setdefault(one.by, one.why)
        for name in self.names:
            yield Explained(name, str(DEFECTS[name].since), counts[name], first[name])

    def repaired(self, history: History, defects: frozenset[str]) -> History:
        """Return the history without what these defects made wrong."""
        ops: list[Op] = list(history.rows.ops)
        for index, of_read in self.misses.items():
            added = tuple(miss.value for miss in of_read if defects & miss.by.keys())
            if added:
                value = ops[index].value
                assert isinstance(value, tuple), "an answered read returned values"
                ops[index] = replace(ops[index], value=(*value, *added))
        for one in self.kept:
            if one.by in defects:
                _remove(ops, history, one)
        return History(ops)


def _remove(ops: list[Op], history: History, one: Kept) -> None:
    for key in key_sets(history):
        if key.key != one.key:
            continue
        for read in key.reads:
            end = ops[read.end.index]
            if end.node not in one.replicas or not isinstance(end.value, tuple):
                continue
            count = end.value.count(one.value)
            more = count - (1 if read.end.time_ns >= one.since_ns else 0)
            if more > 0 and (not one.twice or more == 1):
                left = [value for value in end.value if value != one.value]
                ops[end.index] = replace(end, value=(*left, *[one.value] * (count - more)))


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
    if evidence.doubts:
        return Cause.new(invalid, evidence.doubts[0])
    known = known_in(evidence.versions, names)
    try:
        repairs = _repairs(history, known)
    except HarnessError as error:
        return Cause.new(invalid, str(error))
    by_name = {checker.name: checker for checker in checkers}
    accused = [by_name[verdict.checker] for verdict in invalid if verdict.checker in by_name]
    begin_ns = clock.now_ns()

    def again(defects: frozenset[str]) -> list[Verdict]:
        left_s = max(0.0, budget_s - (clock.now_ns() - begin_ns) / 1e9)
        fixed = repairs.repaired(history, defects)
        verdicts = [check_within(checker, fixed, left_s) for checker in accused]
        return [verdict for verdict in verdicts if verdict.status is Status.INVALID]

    examples = {one.name: one for one in repairs.examples()}
    evidences = (history, evidence, inserted(history, evidence))
    judged = again(frozenset(repairs.names))
    direct = {verdict.checker: explained(verdict, evidences, known) for verdict in judged}
    left = [verdict for verdict in judged if direct[verdict.checker] is None]
    beside = _beside([found for found in direct.values() if found is not None])
    if left:
        gone = len(left) < len(accused) or _count(left) < _count(invalid)
        helping = [*(examples[name] for name in repairs.names), *beside] if gone else []
        return Cause(PARTLY if helping else NEW, tuple(helping), described(left))
    others = direct.keys()
    smallest = next(
        subset
        for size in range(len(repairs.names) + 1)
        for subset in combinations(repairs.names, size)
        if {verdict.checker for verdict in again(frozenset(subset))} <= others
    )
    named = [examples[name] for name in smallest]
    return Cause(KNOWN, (*named, *(one for one in beside if one.name not in smallest)), ())


def _beside(direct: Sequence[Mapping[str, Sequence[str]]]) -> list[Explained]:
    """Return the defects that explain anomalies without a repair."""
    found: dict[str, list[str]] = {}
    for of_verdict in direct:
        for name, whys in of_verdict.items():
            found.setdefault(name, []).extend(whys)
    return [
        Explained(name, str(DEFECTS[name].since), len(whys), whys[0])
        for name, whys in found.items()
    ]


def _repairs(history: History, known: frozenset[str]) -> Repairs:
    evidence = evidence_of(history)
    values = inserted(history, evidence)
    misses: dict[int, Sequence[Miss]] = {}
    left = MISSES_MAX
    for key in key_sets(history):
        reads = Reads(history, key, evidence, values, known)
        for read in key.reads:
            found = [miss for miss in reads.misses(read) if miss.by]
            misses[read.end.index] = found
            left -= len(found)
            if left < 0:
                raise HarnessError(f"more than {MISSES_MAX:,} values are missing from reads")
    return Repairs(misses, tuple(kept(history, values, evidence, known)))


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
