"""Explains a read that lacks a value: which known defects the record proves for this very read.

A read had to return a value whose quorum had ended before the read began, or before the quorum of
another value that it returns. The times are those of ZooKeeper's transactions. A known defect
explains it only if the record shows its mechanism, on the replica that answered, at that time.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from checkers.phrasing import seconds
from checkers.sets.key_sets import AnsweredRead, KeySet
from checkers.triage.events import acknowledged_ns
from checkers.triage.evidence import BlockRange, Evidence
from checkers.triage.inserts import Inserted, Values
from checkers.triage.missing import MissingPart, ReadView, Settled, explain_missing
from harness.core.history import History


@dataclass(frozen=True, slots=True)
class Miss:
    """A value that a read had to return and did not, and what explains it."""

    value: int
    by: Mapping[str, str]
    """A sentence of evidence by known defect; empty if nothing explains it."""


class FalseAnswer(NamedTuple):
    """An insert that was acknowledged although the quorum of its only part had failed."""

    by: str
    """The known defect."""
    at_ns: int
    why: str


def find_false_answer(insert: Inserted, part: BlockRange, evidence: Evidence) -> FalseAnswer | None:
    """Return the first such acknowledgement, of a try that was under way when the quorum failed;
    None without one. It is

    failed-duplicate      if the try made no part
    acknowledged-failure  if its replica had removed the part before, which no other had
    """
    failed_ns, gone_ns = evidence.failed.get(part.name), evidence.given_up(part.name)
    if failed_ns is None:
        return None
    about_ns = evidence.error_ns(failed_ns)
    for attempt in insert.attempts:
        begin_ns, end_ns = attempt.pair.invoke.time_ns, acknowledged_ns(attempt.pair)
        if not attempt.acknowledged or not begin_ns - about_ns <= failed_ns <= end_ns + about_ns:
            continue
        of = f"of {part.name} had failed at {seconds(failed_ns)}"
        if not attempt.parts:
            why = (
                f"a second try of value {insert.value} was acknowledged at {seconds(end_ns)}, "
                f"though the quorum {of}, for which it waited"
            )
            return FalseAnswer("failed-duplicate", end_ns, why)
        if gone_ns is not None:
            why = (
                f"value {insert.value} was acknowledged at {seconds(end_ns)}, though the quorum "
                f"{of}: {attempt.node} had removed that part at {seconds(gone_ns)}"
            )
            return FalseAnswer("acknowledged-failure", end_ns, why)
    return None


def _first_seen(key: KeySet) -> dict[int, int]:
    """Return when the first read that returned it ended, for each value. Every later read must have
    the value, too, also while its insert goes on."""
    seen, found = 0, dict[int, int]()
    for read in sorted(key.reads, key=lambda one: one.end.time_ns):
        new = read.mask & ~seen
        seen |= new
        while new:
            bit = new.bit_length() - 1
            found[key.values[bit]] = read.end.time_ns
            new ^= 1 << bit
    return found


class Reads:
    """The reads of one key, against the record."""

    def __init__(
        self,
        history: History,
        key: KeySet,
        evidence: Evidence,
        values: Values,
        known: frozenset[str],
    ) -> None:
        self._history, self._key = history, key
        self._evidence, self._known = evidence, known
        self._others = [Reads(history, key, one, values, known) for one in evidence.others]
        self._partition = str(key.key)
        self._seen_ns = _first_seen(key)
        self._settled: dict[int, Sequence[Settled]] = {}
        for value in key.inserts:
            every = self._of(values.get((key.key, value)))
            if every:
                self._settled[value] = every
        bits = {value: bit for bit, value in enumerate(key.values)}
        self._order = sorted(
            (max(one.at_ns for one in every), bits[value], value)
            for value, every in self._settled.items()
        )
        self._masks = [0]
        for _, bit, _ in self._order:
            self._masks.append(self._masks[-1] | 1 << bit)

    def _of(self, insert: Inserted | None) -> Sequence[Settled]:
        """Return a value with each part that may have it; none if that is not known of all."""
        if insert is None or (len(insert.parts) == 1 and insert.shared):
            return ()
        every = [self._in(insert, self._evidence.part(name)) for name in sorted(insert.parts)]
        settled = [one for one in every if one is not None]
        return settled if len(settled) == len(every) else ()

    def _in(self, insert: Inserted, part: BlockRange | None) -> Settled | None:
        if part is None:
            return None
        quorum = part.name in self._evidence.quorums
        false = find_false_answer(insert, part, self._evidence)
        if false is not None:
            return Settled(insert, part, false.at_ns, quorum, (false.by, false.why))
        if quorum:
            at_ns = self._evidence.ended.get(part.name)
            return None if at_ns is None else Settled(insert, part, at_ns, quorum)
        acks = [a.end_ns for a in insert.attempts if a.pair.kind.value == "ok"]
        ack_ns = min((ns for ns in acks if ns is not None), default=None)
        if ack_ns is None:
            return None
        at_ns = min(ack_ns, self._seen_ns.get(insert.value, ack_ns))
        return Settled(insert, part, at_ns, quorum)

    def misses(self, read: AnsweredRead) -> Iterator[Miss]:
        """Return the values that the read had to return and did not, with their explanations."""
        mask = read.mask
        latest = next((at for at, bit, _ in reversed(self._order) if mask >> bit & 1), -1)
        until_ns = max(read.invoke.time_ns, latest)
        count = sum(1 for at, _, _ in self._order if at < until_ns)
        missing = self._masks[count] & ~mask
        if not missing:
            return
        views = [(reads, reads.view(read)) for reads in (self, *self._others)]
        for _, bit, value in self._order[:count]:
            if missing >> bit & 1 and self._settled[value][0].begin_ns < read.end.time_ns:
                likely, *others = (reads.explanations(view, value) for reads, view in views)
                sure = {name for name in likely if all(name in other for other in others)}
                names = sure or (likely if all(others) else ())
                yield Miss(value, {name: likely[name] for name in names})

    def view(self, read: AnsweredRead) -> ReadView:
        """Return what the record says of a read."""
        return ReadView(self._history, self._evidence, self._partition, read, self._present(read))

    def explanations(self, view: ReadView, value: int) -> Mapping[str, str]:
        """Return what explains that a read lacks a value, whichever part has it: a sentence of
        evidence by known defect."""
        every = self._settled.get(value, ())
        at_ns = max((one.at_ns for one in every), default=0)
        found = [explain_missing(MissingPart(view, one, at_ns), self._known) for one in every]
        first, *others = found or ({},)
        return {by: why for by, why in first.items() if all(by in other for other in others)}

    def _present(self, read: AnsweredRead) -> Sequence[Settled]:
        mask = read.mask
        found = (self._settled[v] for _, bit, v in self._order if mask >> bit & 1)
        return [every[0] for every in found if len(every) == 1]
