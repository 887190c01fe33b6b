"""Which part each inserted value is in, as far as times prove it.

An insert's part was committed by the replica that was asked, in the partition of its key, between
the call and its acknowledgement, and its quorum had ended by then, or had failed after the replica
had removed the part. A value has a part only if no other part fits, or if all others belong to
other values.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from operator import itemgetter
from typing import Final, NamedTuple

from checkers.sets.key_sets import FINAL_READ, INSERT, read_values
from checkers.triage.evidence import BlockRange, Evidence
from harness.core.history import History, Pair
from harness.core.op import Kind

AFTER_NS: Final = 60_000_000_000
"""Time after its end within which an insert of unknown outcome may be committed."""
REMOVED_NS: Final = 1_000_000_000
"""Time after which a part that a replica has removed from ZooKeeper is not read any more."""
UNKNOWN_STATUS: Final = "319 "
"""Begin of the error of an insert whose replica keeps the part without knowing of a commit."""


@dataclass
class Attempt:
    """One try to insert a value, and the parts that it may have made."""

    pair: Pair
    parts: set[str] = field(default_factory=set)
    within: set[str] = field(default_factory=set)
    """Those that were committed before the client was answered."""

    @property
    def acknowledged(self) -> bool:
        """Return whether the client was told that it happened."""
        return self.pair.kind is Kind.OK

    @property
    def node(self) -> str:
        """Return the replica that was asked."""
        return str(self.pair.invoke.node)

    @property
    def end_ns(self) -> int | None:
        """Return when the client was answered; None if it never was."""
        return None if self.pair.end is None else self.pair.end.time_ns

    @property
    def latest_ns(self) -> float:
        """Return the time by which it is committed, if it is."""
        if self.end_ns is None:
            return inf
        return self.end_ns + (0 if self.acknowledged else AFTER_NS)

    @property
    def kept(self) -> bool:
        """Return whether the replica said that it keeps the part, and not whether it is
        committed."""
        end = self.pair.end
        return end is not None and (end.error or "").startswith(UNKNOWN_STATUS)


class Commit(NamedTuple):
    """Commit of an insert's part."""

    at_ns: int
    error_ns: int
    """Amount by which that time may be wrong."""
    part: str


@dataclass
class Inserted:
    """A value of a key, and its tries that were not refused."""

    key: int | None
    value: int
    attempts: list[Attempt] = field(default_factory=list)
    shared: bool = False
    """True if a part that may have the value may have another one instead."""

    @property
    def partition(self) -> str:
        """Return the partition of the key."""
        return str(self.key)

    @property
    def parts(self) -> set[str]:
        """Return every part that may have the value."""
        return {name for attempt in self.attempts for name in attempt.parts}

    def part(self, evidence: Evidence) -> BlockRange | None:
        """Return the part of the value, if only one can have it."""
        parts = self.parts
        only = len(parts) == 1 and not self.shared
        return evidence.part(next(iter(parts))) if only else None


Values = Mapping[tuple[int | None, int], Inserted]


def inserted(history: History, evidence: Evidence) -> Values:
    """Return the values by key and value."""
    found: dict[tuple[int | None, int], Inserted] = {}
    for pair in history.pairs:
        value = pair.invoke.value
        if pair.invoke.f != INSERT or not isinstance(value, int) or pair.kind is Kind.FAIL:
            continue
        one = found.setdefault((pair.invoke.key, value), Inserted(pair.invoke.key, value))
        one.attempts.append(Attempt(pair))
    values = tuple(found.values())
    _find_parts(values, evidence)
    _take_lost(found, history, evidence)
    _eliminate(values)
    claims = Counter(name for one in values for name in one.parts)
    for one in values:
        one.shared = any(claims[name] > 1 for name in one.parts)
    return found


def _find_parts(values: Sequence[Inserted], evidence: Evidence) -> None:
    commits: dict[tuple[str, str], list[Commit]] = {}
    for name, (at_ns, replica) in evidence.commits.items():
        part = evidence.part(name)
        if part is not None:
            commit = Commit(at_ns, evidence.error_ns(at_ns), name)
            commits.setdefault((replica, part.partition), []).append(commit)
    widest_ns = max((one.error_ns for own in commits.values() for one in own), default=0)
    for own in commits.values():
        own.sort()
    for one in values:
        for attempt in one.attempts:
            near = _near(attempt, commits.get((attempt.node, one.partition), ()), widest_ns)
            fit = [commit for commit in near if _fits(attempt, commit, evidence)]
            attempt.parts = {commit.part for commit in fit}
            end_ns = attempt.end_ns
            attempt.within = {
                commit.part for commit in fit if end_ns and commit.at_ns <= end_ns + commit.error_ns
            }


def _near(attempt: Attempt, commits: Sequence[Commit], widest_ns: int) -> Sequence[Commit]:
    """Return the commits, of these in order of time, that may be at the time of the attempt if no
    error is wider."""
    since = bisect_left(commits, attempt.pair.invoke.time_ns - widest_ns, key=itemgetter(0))
    until = bisect_right(commits, attempt.latest_ns + widest_ns, key=itemgetter(0))
    return commits[since:until]


def _take_lost(values: Values, history: History, evidence: Evidence) -> None:
    """Take from each value that was tried once the parts of which a replica that returned it in the
    end had no rows."""
    unsure = {k: v for k, v in values.items() if len(v.attempts) == 1 and len(v.parts) > 1}
    for pair in history.pairs:
        if not unsure or pair.invoke.f != FINAL_READ or pair.kind is not Kind.OK:
            continue
        assert pair.end is not None, "a call that is ok has ended"
        node, since_ns = str(pair.invoke.node), pair.invoke.time_ns - REMOVED_NS
        if node not in evidence.acts:
            continue  # it has no part of this table, and answers for the shard that has
        for value in read_values(pair.end):
            one = unsure.get((pair.invoke.key, value))
            lost = {
                name
                for name in (one.parts if one else ())
                if (part := evidence.part(name))
                and evidence.held(node, part.partition, part.high, since_ns) is None
            }
            if one:
                one.attempts[0].parts -= lost
                one.attempts[0].within -= lost


def _fits(attempt: Attempt, commit: Commit, evidence: Evidence) -> bool:
    at_ns, error_ns, name = commit
    if at_ns < attempt.pair.invoke.time_ns - error_ns:
        return False
    if not attempt.acknowledged:
        return at_ns <= attempt.latest_ns
    if at_ns > attempt.latest_ns + error_ns:
        return False
    if name not in evidence.quorums:
        return True
    settled_ns = evidence.ended.get(name, evidence.failed_without(name))
    if settled_ns is None:
        return False
    return settled_ns <= attempt.latest_ns + evidence.error_ns(settled_ns)


def _eliminate(values: Sequence[Inserted]) -> None:
    """Take parts that belong to one try from all others, until nothing changes: the only part that
    fits an acknowledged try, unless an earlier try of the value may have made one, so that this one
    was a duplicate; then the only one that was committed while the client of a try waited, and no
    other client of that replica did."""
    rest = {id(a): a for one in values for a in one.attempts if a.parts}
    earlier = {id(a): one.attempts[:at] for one in values for at, a in enumerate(one.attempts)}
    while rest:
        sure = {
            i: a.parts
            for i, a in rest.items()
            if a.acknowledged and len(a.parts) == 1 and not any(e.parts for e in earlier[i])
        }
        sure = sure or _while_waiting(rest)
        if not sure:
            return
        taken = {name for parts in sure.values() for name in parts}
        for i, parts in sure.items():
            rest.pop(i).parts = set(parts)
        for attempt in rest.values():
            attempt.parts -= taken
        rest = {i: a for i, a in rest.items() if a.parts}


def _while_waiting(rest: Mapping[int, Attempt]) -> dict[int, set[str]]:
    within = {i: a.parts & a.within for i, a in rest.items()}
    waited = Counter(name for parts in within.values() for name in parts)
    return {
        i: parts
        for i, parts in within.items()
        if len(parts) == 1 and waited[next(iter(parts))] == 1
    }
