"""Explains a read that lacks a value: which known defects the record proves for this very read.

A read had to return a value whose quorum had ended before the read began, or before the quorum of
another value that it returns. The times are those of ZooKeeper's transactions. A known defect
explains it only if the record shows its mechanism, on the replica that answered, at that time.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from checkers.phrasing import seconds
from checkers.sets.key_sets import AnsweredRead, KeySet
from checkers.triage.events import nodes_in, sides_in
from checkers.triage.evidence import BlockRange, Evidence, LastPart
from checkers.triage.inserts import Inserted, Values
from checkers.triage.unreadable import removals_of
from harness.core.history import Fault, History

LATE_NS: Final = 50_000_000
"""Time that may pass between a transaction and its effect elsewhere: until another ZooKeeper server
has heard of it, until the replica that made it has its answer."""
LATE_UNDER_FAULT_NS: Final = 500_000_000
"""The same while a fault is in force on the replica, its ZooKeeper server or a link of theirs."""
AFTER_FAULT_NS: Final = 5_000_000_000
"""Time after the end of a fault within which a ZooKeeper server may still be behind: its peers wait
for it, and the network retries."""
_ZOOKEEPER: Final = "zk"
_MESSAGES: Final = "zk-"
"""Begin of the names of faults that act on single messages between replicas and ZooKeeper."""


@dataclass(frozen=True, slots=True)
class _FalseAnswer:
    """An insert that was acknowledged although the quorum of its only part had failed."""

    by: str
    """The known defect."""
    at_ns: int
    why: str


@dataclass(frozen=True, slots=True)
class Settled:
    """A value and a part that has it, or may have it, with the time since which every read must
    have the value."""

    insert: Inserted
    part: BlockRange
    at_ns: int
    """End of its quorum, or the acknowledgement of an insert without one."""
    quorum: bool
    false: _FalseAnswer | None = None

    @property
    def begin_ns(self) -> int:
        """Return when the value was first inserted."""
        return min(attempt.pair.invoke.time_ns for attempt in self.insert.attempts)


@dataclass(frozen=True, slots=True)
class Miss:
    """A value that a read had to return and did not, and what explains it."""

    value: int
    by: Mapping[str, str]
    """A sentence of evidence by known defect; empty if nothing explains it."""


def _false_answer(insert: Inserted, part: BlockRange, evidence: Evidence) -> _FalseAnswer | None:
    """Return the first acknowledgement of a try whose replica had removed its part before the
    quorum failed, or that made no part and was under way when it failed; None without one."""
    failed_ns = evidence.failed.get(part.name)
    if failed_ns is None:
        return None
    gone_ns = evidence.given_up(part.name)
    for attempt in insert.attempts:
        end_ns = attempt.end_ns
        if not attempt.acknowledged or end_ns is None:
            continue
        about_ns = evidence.error_ns(failed_ns)
        waited = attempt.pair.invoke.time_ns - about_ns <= failed_ns <= end_ns + about_ns
        of = f"of {part.name} had failed at {seconds(failed_ns)}"
        if not attempt.parts and waited:
            why = f"a second try of value {insert.value} was acknowledged at {seconds(end_ns)}"
            return _FalseAnswer(
                "failed-duplicate", end_ns, f"{why}, though the quorum {of}, for which it waited"
            )
        if attempt.parts and waited and gone_ns is not None:
            why = f"value {insert.value} was acknowledged at {seconds(end_ns)}"
            removed = f"{attempt.node} had removed that part at {seconds(gone_ns)}"
            return _FalseAnswer(
                "acknowledged-failure", end_ns, f"{why}, though the quorum {of}: {removed}"
            )
    return None


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
        false = _false_answer(insert, part, self._evidence)
        if false is not None:
            return Settled(insert, part, false.at_ns, quorum, false)
        acks = [a.end_ns for a in insert.attempts if a.pair.kind.value == "ok"]
        ack_ns = min((ns for ns in acks if ns is not None), default=None)
        at_ns = self._evidence.ended.get(part.name) if quorum else ack_ns
        return None if at_ns is None else Settled(insert, part, at_ns, quorum)

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

    def view(self, read: AnsweredRead) -> "_View":
        """Return what the record says of a read."""
        return _View(self._history, self._evidence, self._partition, read, self._present(read))

    def explanations(self, view: "_View", value: int) -> Mapping[str, str]:
        """Return what explains that a read lacks a value, whichever part has it: a sentence of
        evidence by known defect."""
        every = self._settled.get(value, ())
        at_ns = max((one.at_ns for one in every), default=0)
        first, *others = (dict(self._causes(view, one, at_ns)) for one in every) if every else ({},)
        return {by: why for by, why in first.items() if all(by in other for other in others)}

    def _present(self, read: AnsweredRead) -> Sequence[Settled]:
        mask = read.mask
        found = (self._settled[v] for _, bit, v in self._order if mask >> bit & 1)
        return [every[0] for every in found if len(every) == 1]

    def _causes(self, view: "_View", one: Settled, at_ns: int) -> Iterator[tuple[str, str]]:
        found = dict((*view.hidden(one), *view.absent(one, at_ns)))
        if "early-snapshot" in found and view.came(one):
            # Also where that one is not known: what it did is no stale read.
            found.pop("stale-read", None)
        yield from ((name, why) for name, why in found.items() if name in self._known)


class _View:
    """What the record says of one read."""

    def __init__(
        self,
        history: History,
        evidence: Evidence,
        partition: str,
        read: AnsweredRead,
        present: Sequence[Settled],
    ) -> None:
        self.evidence, self.partition = evidence, partition
        self.begin_ns, self.end_ns = read.invoke.time_ns, read.end.time_ns
        self.removals = removals_of(history)
        self.replica = str(read.invoke.node)
        self.where = f"op #{read.invoke.index} {read.invoke.f} on {self.replica}"
        self.fault = self._fault(history)
        self.late_ns = LATE_UNDER_FAULT_NS if self.fault else LATE_NS
        behind_ns = self.fault.invoked_ns if self.fault else self.begin_ns
        acted_ns = evidence.acted(self.replica, self.begin_ns)
        self.seen_ns = max(acted_ns, min(behind_ns, self.begin_ns) - LATE_NS)
        """Its ZooKeeper server had certainly heard of what was before this time."""
        error_ns = evidence.error_ns(self.seen_ns)
        self.lasts = evidence.lasts(partition, self.seen_ns - error_ns, self.end_ns)
        self.latest_ns = max((w.at_ns for w in present), default=-1)
        self.last_present = max(present, key=lambda w: w.part.high, default=None)

    def _fault(self, history: History) -> Fault | None:
        """Return the earliest fault that may keep the replica, or its ZooKeeper server, from what
        the others know, in force at the read or until shortly before."""
        keepers = self.evidence.keepers.get(self.replica, ())
        for fault in history.faults:
            over = fault.end_ns is not None and fault.end_ns + AFTER_FAULT_NS < self.begin_ns
            if over or fault.invoked_ns > self.end_ns:
                continue
            if fault.name.startswith(_MESSAGES) or _keeps_behind(fault.text, self.replica, keepers):
                return fault
        return None

    def hidden(self, one: Settled) -> Iterator[tuple[str, str]]:
        """Yield what hides a part that the replica may well have: a limit below it."""
        block = one.part.high
        for last in self.lasts:
            named = f"{self.where}: last_part of partition {self.partition} was block {last.high}"
            since = f"since {seconds(last.at_ns)}"
            if last.high < block and one.quorum and last.at_ns > one.at_ns and last.own:
                yield (
                    "overtaken-insert",
                    f"{named} {since}, below {one.part.name} of value {one.insert.value}, whose "
                    f"quorum had ended at {seconds(one.at_ns)}",
                )
            if last.high < block and one.part.name in self.evidence.uncounted:
                yield (
                    "uncounted-quorum",
                    f"{named} {since}, and not {one.part.name} of value {one.insert.value}, whose "
                    f"quorum was ended uncounted at {seconds(one.at_ns)}",
                )
            if last.high < block and not one.quorum:
                yield (
                    "hidden-insert",
                    f"{named} {since}, below {one.part.name} of value {one.insert.value}, which "
                    "was inserted without a quorum",
                )
            merged = self.evidence.merged(
                self.replica, self.partition, block, last.high, self.end_ns
            )
            if merged is not None and merged[1].low <= last.high:
                yield (
                    "merged-away",
                    f"{named} {since}, and {merged[1].name}, which has value {one.insert.value}, "
                    f"was registered at {seconds(merged[0])}",
                )

    def absent(self, one: Settled, at_ns: int) -> Iterator[tuple[str, str]]:
        """Yield why the replica answered although it did not have, or see, a part."""
        if one.false is not None:
            yield one.false.by, f"{self.where}: {one.false.why}"
            return
        yield from self._given_up(one)
        yield from self._removed(one)
        if not one.quorum:
            yield from self._unseen(one)
            return
        if not self._accepted():
            return
        value, part = one.insert.value, one.part
        named = any(
            last.high >= part.high
            for last in self.evidence.lasts(self.partition, at_ns, self.begin_ns)
        )
        unheard = at_ns >= self.seen_ns - self.evidence.error_ns(at_ns)
        if named and unheard and self.latest_ns < at_ns:
            why = f", during {self.fault.name}" if self.fault else ""
            yield (
                "stale-read",
                f"{self.where}: the quorum of value {value} ended at {seconds(at_ns)}, and nothing "
                f"shows that the replica's ZooKeeper server knew it{why}",
            )
        held = self.evidence.held(self.replica, self.partition, part.high, self.end_ns)
        if held is None:
            return
        visible_ns = self._visible_ns(one, held.begin_ns)
        if visible_ns < self.begin_ns:
            return
        came = f"{part.name} of value {value} was registered there at {seconds(held.begin_ns)}"
        later = self.last_present
        if later is not None and later.part.low > part.high:
            own = self.evidence.commits.get(later.part.name, (0, ""))[1] == self.replica
            how = "which it had written itself" if own else "which had come before"
            yield (
                "lagging-writer" if own else "skipped-part",
                f"{self.where}: returned value {later.insert.value} of {later.part.name}, {how}, "
                f"and {came}",
            )
        elif held.begin_ns <= self.end_ns or self._came_meanwhile(part):
            yield "early-snapshot", f"{self.where}: {came}, while the read went on"

    def _given_up(self, one: Settled) -> Iterator[tuple[str, str]]:
        """Yield why no replica has an insert that was acknowledged on its retry."""
        first, *retries = one.insert.attempts
        gone_ns = self.evidence.given_up(one.part.name)
        if gone_ns is not None and not first.acknowledged and any(a.acknowledged for a in retries):
            yield (
                "lost-retry",
                f"{self.where}: {first.node}, which had committed {one.part.name} of value "
                f"{one.insert.value}, removed it at {seconds(gone_ns)}; no other replica had it, "
                "and a later try was acknowledged",
            )

    def _removed(self, one: Settled) -> Iterator[tuple[str, str]]:
        """Yield why a replica that could not read a part answers without it, or why no replica has
        it any more: the last one that had it removed it."""
        of_value = f"which has value {one.insert.value}"
        for gone in self.removals.unreadable:
            over = gone.end_ns is not None and gone.end_ns + LATE_NS < self.begin_ns
            here = gone.replica == self.replica and not over
            if gone.begin_ns - LATE_NS >= self.end_ns or not gone.part.covers(one.part):
                continue
            if here or not self._had_elsewhere(one, gone.begin_ns, gone.replica):
                yield (
                    "unreadable-part",
                    f"{self.where}: {gone.replica} could not read {gone.part.name}, {of_value}, "
                    f"and had removed it at {seconds(gone.begin_ns)}"
                    + ("" if here else ", when no other replica had it"),
                )
        for of in self.removals.discards:
            source = of.source
            if (
                of.at_ns < self.end_ns
                and of.part.covers(one.part)
                and not self._had_elsewhere(one, of.at_ns, of.replica, source.replica)
            ):
                yield (
                    "discarded-copy",
                    f"{self.where}: {of.replica}, which was lost, removed {of.part.name}, "
                    f"{of_value}, at {seconds(of.at_ns)} as a clone of {source.replica}, which "
                    f"could not read {source.part.name} and had removed it at "
                    f"{seconds(source.begin_ns)}",
                )

    def _had_elsewhere(self, one: Settled, at_ns: int, *nodes: str) -> bool:
        """Return whether a replica other than these had a part at a time."""
        had = self.evidence.had(one.part.name).until(at_ns).ended_after(at_ns)
        return any(period.node not in nodes for period in had)

    def _unseen(self, one: Settled) -> Iterator[tuple[str, str]]:
        """Yield why a replica lacks an insert without a quorum. Simulated servers may be asked to
        read what no real one promises, so that nothing is said of them."""
        held = self.evidence.held(self.replica, self.partition, one.part.high, self.end_ns)
        late = held is not None and self._visible_ns(one, held.begin_ns) >= self.begin_ns
        if held is not None and late and not self.evidence.simulated:
            yield (
                "unseen-write",
                f"{self.where}: {one.part.name} of value {one.insert.value}, which was inserted "
                f"without a quorum, was registered there at {seconds(held.begin_ns)}",
            )

    def came(self, one: Settled) -> bool:
        """Return whether the replica registered a part while the read went on."""
        held = self.evidence.held(self.replica, self.partition, one.part.high, self.end_ns)
        return held is not None and self.begin_ns <= held.begin_ns <= self.end_ns

    def _visible_ns(self, one: Settled, held_ns: int) -> int:
        """Return the last moment at which the replica may have begun to show a part."""
        late_ns = held_ns + self.late_ns
        for attempt in one.insert.attempts:
            if attempt.node == self.replica and attempt.end_ns is not None:
                late_ns = max(late_ns, attempt.end_ns)
        return late_ns

    def _accepted(self) -> bool:
        """Return whether the replica had a last quorum part that it may have been told of, so that
        it answered. Before the first there is nothing to have."""
        none_yet = not self.evidence.lasts(self.partition, -1, self.seen_ns)
        return none_yet or any(self._had(last) for last in self.lasts)

    def _had(self, last: LastPart) -> bool:
        held = self.evidence.held(self.replica, self.partition, last.high, self.begin_ns)
        return held is not None and held.begin_ns <= self.end_ns

    def _came_meanwhile(self, part: BlockRange) -> bool:
        late_ns = self.begin_ns - self.late_ns
        for last in self.lasts:
            held = self.evidence.held(self.replica, self.partition, last.high, self.begin_ns)
            if last.high >= part.high and held and late_ns <= held.begin_ns <= self.end_ns:
                return True
        return False


def _keeps_behind(text: str, replica: str, keepers: Sequence[str]) -> bool:
    """Return whether a fault with this text may keep a replica from what others know: it cuts the
    replica's ZooKeeper server (one of `keepers`; any, if these are unknown) off from half of the
    others, or the replica from it; or names either."""
    groups, named = sides_in(text), nodes_in(text)
    every = {node for node in named if node.startswith(_ZOOKEEPER)}
    asked = set(keepers) or every
    if not groups:
        return bool(named & {replica, *asked})
    return any(
        2 * len(every & group) <= len(every) or (replica in named and replica not in group)
        for group in groups
        if group & asked
    )
