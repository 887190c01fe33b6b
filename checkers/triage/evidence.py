"""What was recorded of a table's parts and quorums, in time: the evidence for known defects.

A run on servers with a transaction log records a `trace` (`checkers.replication.conformance`), a
simulated one its `protocol` (`checkers.replication.protocol`). Both say which replica registered
which part when, when its quorum ended or failed, and what /quorum/last_part named.
"""

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final

from checkers.conclusion import mapping_of
from checkers.replication.audited import server_logs
from checkers.replication.conformance import conformance_of
from checkers.replication.protocol import Fact, facts_of, versions_of
from checkers.triage.events import Event, Events, doubts_of, traces_of
from harness.core.dialect import FIRST, Version
from harness.core.errors import UsageError
from harness.core.history import History, memoize_per_history
from harness.core.rows import NEVER_NS

CLOCK_NS: Final = 5_000_000
"""Precision with which ZooKeeper's clock and the run's agree: both are of one machine, and
ZooKeeper's has milliseconds."""
OTHER_TIMES: Final = 9
"""Number of times at which vague facts are looked at."""
ORDER_MS: Final = 1e-3
"""Time between two transactions of which only the order is known."""
SPAN_MAX: Final = 100_000
"""Blocks of one part at most. (A dropped range, as an entry, covers all numbers.)"""
_OF_PARTS: Final = frozenset({"begin", "hold", "drop", "commit", "end", "fail"})
"""Facts whose first field is a part."""


@dataclass(frozen=True, slots=True)
class BlockRange:
    """A part by its name: the blocks `low` to `high` of a partition."""

    name: str
    partition: str
    low: int
    high: int

    @staticmethod
    def named(name: str) -> "BlockRange | None":
        """Return the part of this name; None for a name in another form."""
        words = name.split("_")
        if len(words) < 4 or not (words[1].isdigit() and words[2].isdigit()):
            return None
        return BlockRange(name, words[0], int(words[1]), int(words[2]))

    def covers(self, other: "BlockRange") -> bool:
        """Return whether this part has all blocks of the other one."""
        return self.partition == other.partition and (
            self.low <= other.low and other.high <= self.high
        )


def version_of(part: str) -> int:
    """Return the version of a part up to which it has taken mutations; -1 without one."""
    words = part.split("_")
    return int(words[4]) if len(words) == 5 else -1


@dataclass(frozen=True, slots=True)
class LastPart:
    """A period in which /quorum/last_part names a block of a partition."""

    at_ns: int
    high: int
    own: bool
    """True if it was set to the part whose quorum ended in the same transaction."""


@dataclass
class Evidence:
    """The facts of one table, by part."""

    versions: tuple[Version, ...] = ()
    simulated: bool = False
    keepers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """ZooKeeper servers of each replica; empty if unknown."""
    doubts: list[str] = field(default_factory=list)
    """Reasons why the facts are not all that happened."""
    vague: Sequence[tuple[float, float]] = ()
    """Periods in order, within which facts have no precise time."""
    others: Sequence["Evidence"] = ()
    """The same facts at other times that they may have had, from the earliest to the latest; none
    where every time is precise."""
    parts: dict[str, BlockRange] = field(default_factory=dict)
    commits: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Time and replica of each insert's commit, by part."""
    quorums: dict[str, int] = field(default_factory=dict)
    """Parts that were inserted with a quorum, and the number of replicas that each needs."""
    ended: dict[str, int] = field(default_factory=dict)
    """Time at which each quorum ended."""
    failed: dict[str, int] = field(default_factory=dict)
    """Time at which quorums failed."""
    last: dict[str, list[LastPart]] = field(default_factory=lambda: defaultdict(list))
    """What last_part named, by partition, in order."""
    uncounted: dict[str, int] = field(default_factory=dict)
    """Times at which the quorum of a part ended that too few replicas had, and last_part named
    another part of its partition: who ended it meant another quorum."""
    acts: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Times of each replica's own transactions, in order."""
    _held: dict[tuple[str, int], list[Event]] = field(default_factory=lambda: defaultdict(list))
    """Periods in which a replica has some part with a block, by partition and block. Each names the
    first part with it."""
    _now: dict[tuple[str, str], set[BlockRange]] = field(default_factory=lambda: defaultdict(set))
    """Parts that are registered up to where facts were taken, by replica and partition."""
    _merged: dict[tuple[str, str], list[tuple[int, BlockRange]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """Merged parts and when they were registered, by replica and partition."""

    def error_ns(self, at_ns: int) -> int:
        """Return by how much the time of a fact may be wrong that has this one."""
        widths = (until - since for since, until in _around(at_ns, self.vague))
        return round(max(widths, default=CLOCK_NS))

    def part(self, name: str) -> BlockRange | None:
        """Return the part of a name."""
        if name not in self.parts:
            found = BlockRange.named(name)
            if found is None or found.high - found.low > SPAN_MAX:
                return None
            self.parts[name] = found
        return self.parts[name]

    def hold(self, at_ns: int, name: str, replica: str) -> None:
        """Note that a replica registered a part. It has no rows of a block that every replica has
        lost, for there is nobody to fetch them from: a server puts an empty part in place of a lost
        one."""
        part = self.part(name)
        self.acts[replica].append(at_ns)
        if part is None:
            return
        self._now[replica, part.partition].add(part)
        for block in range(part.low, part.high + 1):
            periods = self._held[part.partition, block]
            going_on = [period.node for period in periods if not period.is_over]
            if replica not in going_on and (going_on or not periods):
                periods.append(Event("has", at_ns, NEVER_NS, replica, name))
        if part.low != part.high:
            self._merged[replica, part.partition].append((at_ns, part))

    def drop(self, at_ns: int, name: str, replica: str) -> None:
        """Note that a replica removed a part. What no other part of it covers is gone, as when a
        fetch is undone."""
        part = self.part(name)
        self.acts[replica].append(at_ns)
        if part is None:
            return
        now = self._now[replica, part.partition]
        now.discard(part)
        for block in range(part.low, part.high + 1):
            covered = any(one.low <= block <= one.high for one in now)
            for period in self._held.get((part.partition, block), ()) if not covered else ():
                if period.node == replica and not period.is_over:
                    period.end_ns = at_ns

    def had(self, name: str) -> Events:
        """Return the periods in which replicas have the last block of a part, in order of time."""
        part = self.part(name)
        return Events(self._held.get((part.partition, part.high), ()) if part is not None else ())

    def held(self, replica: str, partition: str, block: int, until_ns: int) -> Event | None:
        """Return the first period in which a replica had the block that lasts for longer than until
        a time; None without one."""
        for period in self._held.get((partition, block), ()):
            if period.node == replica and period.end_ns > until_ns:
                return period
        return None

    def holders(self, name: str) -> Sequence[str]:
        """Return the replicas that have a part, up to where facts were taken."""
        return [period.node for period in self.had(name) if not period.is_over]

    def given_up(self, name: str) -> int | None:
        """Return when the replica that committed a part removed it, before any other one had it;
        None if it did not. What has the name later is an empty part in its place."""
        had, (_, writer) = self.had(name), self.commits.get(name, (0, ""))
        own = had.on(writer).first
        if own is None or not own.is_over:
            return None
        early = any(one.node != writer for one in had.before(own.end_ns))
        return None if early else own.end_ns

    def failed_without(self, name: str) -> int | None:
        """Return when the quorum of a part failed that its own replica had removed before, and no
        other one had; None if that is not so."""
        gone_ns, failed_ns = self.given_up(name), self.failed.get(name)
        removed = gone_ns is not None and failed_ns is not None and gone_ns <= failed_ns
        return failed_ns if removed else None

    def merged(
        self, replica: str, partition: str, block: int, above: int, until_ns: int
    ) -> tuple[int, BlockRange] | None:
        """Return a part that the replica had registered by a time, with the block and with one
        above another."""
        for at_ns, one in self._merged.get((replica, partition), ()):
            if at_ns <= until_ns and one.low <= block <= one.high and one.high > above:
                return at_ns, one
        return None

    def merges(self, name: str) -> Events:
        """Return when replicas registered merged parts with all blocks of a part, in order of
        time."""
        part = self.part(name)
        found = (
            Event("merge", at_ns, at_ns, replica, one.name)
            for (replica, partition), merged in self._merged.items()
            if part is not None and partition == part.partition
            for at_ns, one in merged
            if one.covers(part)
        )
        return Events(sorted(found, key=lambda merge: merge.begin_ns))

    def lasts(self, partition: str, from_ns: int, to_ns: int) -> Sequence[LastPart]:
        """Return what last_part named at some time of an interval."""
        every = self.last.get(partition, [])
        first = bisect_right(every, from_ns, key=lambda one: one.at_ns)
        until = bisect_right(every, to_ns, key=lambda one: one.at_ns)
        return every[max(first - 1, 0) : until]

    def acted(self, replica: str, before_ns: int) -> int:
        """Return the time of the replica's last transaction before a time; -1 without any."""
        times = self.acts.get(replica, [])
        at = bisect_left(times, before_ns)
        return times[at - 1] if at else -1


@memoize_per_history
def evidence_of(history: History) -> Evidence:
    """Return what was recorded; with `doubts` if that is nothing, or not all."""
    simulated = facts_of(history)
    if simulated:
        found = Evidence(_versions(versions_of(history)) or (FIRST,), simulated=True)
        _take_protocol(found, simulated)
        return found
    said = traces_of(history)
    if not said:
        audit, report = server_logs(history), mapping_of(conformance_of(history))
        versions = _versions(audit.versions if audit else report.get("versions") or ())
        return Evidence(versions, doubts=["the run recorded nothing of them"])
    trace = said[0]
    if len(said) > 1:
        found = _of_trace(trace, ())
        found.doubts = [f"the run recorded {len(said)} tables, and only one is understood"]
        return found
    facts = trace.get("facts") or ()
    found = _of_trace(trace, facts)
    # Older records have a third number, and longer periods.
    vague = [(since, until) for since, until, *_ in (trace.get("dates") or {}).get("vague", ())]
    found.vague = [(since * 1_000_000, until * 1_000_000) for since, until in vague]
    if vague:
        found.others = [_of_trace(trace, moved) for moved in _at_other_times(facts, vague)]
    return found


def _versions(texts: Iterable[Any]) -> tuple[Version, ...]:
    try:
        return tuple(Version.of(str(text)) for text in texts)
    except UsageError:
        return ()


def _of_trace(trace: Mapping[str, Any], facts: Iterable[Fact]) -> Evidence:
    found = Evidence(
        _versions(trace.get("versions") or ()),
        keepers=trace.get("keepers") or {},
        doubts=doubts_of(trace),
    )
    _take_trace(found, facts)
    return found


def _at_other_times(
    facts: Sequence[Fact], vague: Sequence[tuple[float, float]]
) -> Iterator[Sequence[Fact]]:
    """Yield facts at times that they may have had, first the earliest and last the latest."""
    times = [float(at_ms) for _, at_ms, *_ in facts]
    earliest = _earliest(times, vague)
    mirrored = [(-until, -since) for since, until in reversed(vague)]
    latest = [-time for time in reversed(_earliest([-time for time in reversed(times)], mirrored))]
    for step in range(OTHER_TIMES):
        late = step / (OTHER_TIMES - 1)
        moved = [
            first + late * (last - first) for first, last in zip(earliest, latest, strict=True)
        ]
        yield [[name, at, *rest] for (name, _, *rest), at in zip(facts, moved, strict=True)]


def _earliest(times: Iterable[float], vague: Sequence[tuple[float, float]]) -> list[float]:
    """Return the earliest times with the same order. What has one time, as the facts of one
    transaction do, still has one."""
    found: list[float] = []
    last, before = math.nan, -math.inf
    for time in times:
        if time != last:
            since = min((since for since, _ in _around(time, vague)), default=time)
            last, before = time, max(since, before + ORDER_MS)
        found.append(before)
    return found


def _around(time: float, periods: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Yield the periods with a time, of periods that begin and end in order."""
    for at in range(bisect_left(periods, time, key=itemgetter(1)), len(periods)):
        if periods[at][0] > time:
            return
        yield periods[at]


def _take_trace(found: Evidence, facts: Iterable[Fact]) -> None:
    lasts: list[tuple[int, str]] = []
    for name, at_ms, *rest in facts:
        at_ns = int(at_ms * 1_000_000)
        if name == "last":
            lasts.append((at_ns, rest[1]))
            continue
        if name not in _OF_PARTS:
            continue
        part = str(rest[0])
        if name == "begin":
            found.quorums[part] = int(rest[1])
        elif name == "hold":
            replica = str(rest[1])
            if part in found.commits and not found.commits[part][1]:
                found.commits[part] = (found.commits[part][0], replica)
            found.hold(at_ns, part, replica)
        elif name == "drop":
            found.drop(at_ns, part, str(rest[1]))
        elif name == "commit":
            found.commits[part] = (at_ns, "")
        elif name == "end":
            _end(found, at_ns, part, lasts)
            lasts.clear()
        elif name == "fail":
            found.failed[part] = at_ns
            found.ended.pop(part, None)


def _end(found: Evidence, at_ns: int, name: str, lasts: Iterable[tuple[int, str]]) -> None:
    """Note the end of a quorum, with what last_part was set to."""
    if name in found.failed:
        return
    found.ended[name] = at_ns
    for set_ns, last in lasts:
        part = found.part(last)
        if part is not None:
            own = last == name and set_ns == at_ns
            found.last[part.partition].append(LastPart(set_ns, part.high, own))
    _judge_end(found, at_ns, name, len(found.holders(name)))


def _judge_end(found: Evidence, at_ns: int, name: str, holders: int) -> None:
    """Note whether a quorum ended uncounted."""
    part = found.part(name)
    last = found.last[part.partition][-1:] if part is not None else []
    elsewhere = part is not None and bool(last) and last[0].high != part.high
    if elsewhere and holders < found.quorums.get(name, 0):
        found.uncounted[name] = at_ns


def _take_protocol(found: Evidence, facts: Sequence[Fact]) -> None:
    own: dict[int, str] = {at_ns: str(rest[0]) for name, at_ns, *rest in facts if name == "ended"}
    ends: list[tuple[int, str, int]] = []
    for name, at_ns, *rest in facts:
        if ends and (name != "last" or at_ns != ends[0][0]):
            _judge_end(found, *ends.pop())
        if name == "part":
            replica, part = str(rest[0]), found.part(str(rest[1]))
            if part is not None and part.low == part.high and part.name not in found.commits:
                found.commits[part.name] = (at_ns, replica)
            found.hold(at_ns, str(rest[1]), replica)
        elif name == "parallel":
            found.ended[str(rest[0])], found.quorums[str(rest[0])] = at_ns, int(rest[1])
        elif name == "ended":
            part_name, needed, holders = str(rest[0]), int(rest[1]), rest[2]
            found.ended[part_name] = at_ns
            found.quorums[part_name] = needed
            ends.append((at_ns, part_name, len(holders)))
        elif name == "last":
            ended = found.part(own.get(at_ns, ""))
            named = (str(rest[0]), int(rest[1]))
            is_own = ended is not None and (ended.partition, ended.high) == named
            found.last[named[0]].append(LastPart(at_ns, named[1], is_own))
    for one in ends:
        _judge_end(found, *one)
