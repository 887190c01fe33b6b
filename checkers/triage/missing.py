"""Signatures of the known defects by which a read lacks a value that it had to return.

Each is of one read and of one part that may have the value. It returns the evidence, or "" if the
record does not show the mechanism on the replica that answered, at that time. The times are those
of ZooKeeper's transactions.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from checkers.phrasing import seconds
from checkers.sets.key_sets import AnsweredRead
from checkers.triage.events import Event, nodes_in, sides_in
from checkers.triage.evidence import BlockRange, Evidence, LastPart
from checkers.triage.inserts import Inserted
from checkers.triage.refusals import refused_clones
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
class Settled:
    """A value and a part that has it, or may have it, with the time since which every read must
    have the value."""

    insert: Inserted
    part: BlockRange
    at_ns: int
    """End of its quorum; of an insert without one its acknowledgement, or the end of the first read
    that returned the value if that is earlier."""
    quorum: bool
    false: tuple[str, str] | None = None
    """The known defect by which the insert was acknowledged although the quorum of its only part
    had failed, and the evidence."""

    @property
    def begin_ns(self) -> int:
        """Return when the value was first inserted."""
        return min(attempt.pair.invoke.time_ns for attempt in self.insert.attempts)

    def __str__(self) -> str:
        return f"{self.part.name} of value {self.insert.value}"


class ReadView:
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
        self.refused = refused_clones(history)
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
        """What last_part may have been for the read."""
        self.latest_ns = max((w.at_ns for w in present), default=-1)
        self.last_present = max(present, key=lambda w: w.part.high, default=None)
        """The value that it returned of the highest block."""

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

    def held(self, block: int, until_ns: int) -> Event | None:
        """Return the first period in which the replica had a block that lasts until after a
        time."""
        return self.evidence.held(self.replica, self.partition, block, until_ns)

    def has_accepted(self) -> bool:
        """Return whether the replica had a last quorum part that it may have been told of, so that
        it answered. Before the first there is nothing to have."""
        lasts = (self.held(last.high, self.begin_ns) for last in self.lasts)
        none_yet = not self.evidence.lasts(self.partition, -1, self.seen_ns)
        return none_yet or any(held and held.begin_ns <= self.end_ns for held in lasts)

    def has_accepted_late(self, block: int) -> bool:
        """Return whether a last quorum part of this block, or above it, came while the read went
        on, or shortly before."""
        lasts = (self.held(last.high, self.begin_ns) for last in self.lasts if last.high >= block)
        late_ns = self.begin_ns - self.late_ns
        return any(held and late_ns <= held.begin_ns <= self.end_ns for held in lasts)


class MissingPart:
    """A value that a read lacks, and a part that may have it."""

    def __init__(self, view: ReadView, one: Settled, at_ns: int) -> None:
        self.view, self.one, self.evidence = view, one, view.evidence
        self.at_ns = at_ns
        """Time since which every read must have the value, whichever part has it."""
        self.held = view.held(one.part.high, view.end_ns)
        """Period in which the replica has the part, if it lasts for longer than the read."""
        visible_ns = [
            attempt.end_ns
            for attempt in one.insert.attempts
            if attempt.node == view.replica and attempt.end_ns is not None
        ]
        visible_ns += [self.held.begin_ns + view.late_ns] if self.held else []
        self.came_late = self.held is not None and max(visible_ns) >= view.begin_ns
        """Whether the replica may have begun to show the part only after the read had begun."""
        last = view.last_present
        is_later = last is not None and last.part.low > one.part.high
        self.later = last if is_later and self.came_late else None
        """The value of the highest block that the read returned, if the missing one is of a lower
        block and came late."""

    @property
    def came(self) -> str:
        """Say when the replica registered the part."""
        assert self.held is not None, "it came"
        return f"{self.one} was registered there at {seconds(self.held.begin_ns)}"

    @property
    def last_parts(self) -> Iterator[tuple[LastPart, str]]:
        """Yield what last_part may have been for the read, the latest first, and a sentence."""
        for last in reversed(self.view.lasts):
            was = f"last_part of partition {self.view.partition} was block {last.high}"
            yield last, f"{was} since {seconds(last.at_ns)}"

    @property
    def limits(self) -> Iterator[tuple[LastPart, str]]:
        """Yield those that are below the value's block."""
        return ((last, was) for last, was in self.last_parts if last.high < self.one.part.high)

    def is_written_here(self, one: Settled) -> bool:
        """Return whether the replica committed a part itself."""
        return self.evidence.commits.get(one.part.name, (0, ""))[1] == self.view.replica

    def is_elsewhere(self, at_ns: int, *nodes: str) -> bool:
        """Return whether a replica other than these had the part at a time."""
        had = self.evidence.had(self.one.part.name).until(at_ns).ended_after(at_ns)
        return any(period.node not in nodes for period in had)


def overtaken_insert(missing: MissingPart) -> str:
    """Return how last_part was set, after the quorum of the value had ended, to a lower block whose
    own quorum had just ended."""
    one = missing.one
    for last, was in missing.limits:
        if one.quorum and last.own and last.at_ns > one.at_ns:
            return f"{was}, below {one}, whose quorum had ended at {seconds(one.at_ns)}"
    return ""


def uncounted_quorum(missing: MissingPart) -> str:
    """Return how the quorum of the part was ended that too few replicas had, so that last_part
    named another part."""
    one = missing.one
    for _, was in missing.limits:
        if one.part.name in missing.evidence.uncounted:
            return f"{was}, and not {one}, whose quorum was ended uncounted at {seconds(one.at_ns)}"
    return ""


def hidden_insert(missing: MissingPart) -> str:
    """Return how the value was inserted without a quorum, above last_part."""
    for _, was in missing.limits:
        if not missing.one.quorum:
            return f"{was}, below {missing.one}, which was inserted without a quorum"
    return ""


def merged_away(missing: MissingPart) -> str:
    """Return how the replica had one merged part of the value's block and of one above last_part,
    which last_part or a lower block is in too."""
    one, view = missing.one, missing.view
    for last, was in missing.last_parts:
        merged = missing.evidence.merged(
            view.replica, view.partition, one.part.high, last.high, view.end_ns
        )
        if merged is not None and merged[1].low <= last.high:
            at_ns, part = merged
            has = f"{part.name}, which has value {one.insert.value}, was registered"
            return f"{was}, and {has} at {seconds(at_ns)}"
    return ""


def lost_retry(missing: MissingPart) -> str:
    """Return how the replica that committed the first try removed its part, which no other had, and
    a later try was acknowledged."""
    first, *retries = missing.one.insert.attempts
    gone_ns = missing.evidence.given_up(missing.one.part.name)
    if gone_ns is None or first.acknowledged or not any(a.acknowledged for a in retries):
        return ""
    return (
        f"{first.node}, which had committed {missing.one}, removed it at {seconds(gone_ns)}; no "
        "other replica had it, and a later try was acknowledged"
    )


def unreadable_part(missing: MissingPart) -> str:
    """Return how the replica had removed a part with the value that it could not read, and had yet
    to register it again; or how any replica had removed it so, and no other one had it then."""
    view, one = missing.view, missing.one
    for gone in reversed(view.removals.unreadable):
        if gone.begin_ns - LATE_NS >= view.end_ns or not gone.part.covers(one.part):
            continue
        over = gone.end_ns is not None and gone.end_ns + LATE_NS < view.begin_ns
        here = gone.replica == view.replica and not over
        if here or not missing.is_elsewhere(gone.begin_ns, gone.replica):
            where = "" if here else ", when no other replica had it"
            return (
                f"{gone.replica} could not read {gone.part.name}, which has value "
                f"{one.insert.value}, and had removed it at {seconds(gone.begin_ns)}{where}"
            )
    return ""


def discarded_copy(missing: MissingPart) -> str:
    """Return how a replica that was marked lost removed its part after another one had removed one
    so that covers it, and no third replica had the rows then."""
    one = missing.one
    for of in reversed(missing.view.removals.discards):
        source = of.source
        if of.at_ns >= missing.view.end_ns or not of.part.covers(one.part):
            continue
        if not missing.is_elsewhere(of.at_ns, of.replica, source.replica):
            return (
                f"{of.replica}, which was lost, removed {of.part.name}, which has value "
                f"{one.insert.value}, at {seconds(of.at_ns)} as a clone of {source.replica}, which "
                f"could not read {source.part.name} and had removed it at "
                f"{seconds(source.begin_ns)}"
            )
    return ""


def unseen_write(missing: MissingPart) -> str:
    """Return how the part of an insert without a quorum was registered on the replica only after
    the read had begun. Simulated servers may be asked to read what no real one promises, so that
    nothing is said of them."""
    if missing.held is None or not missing.came_late or missing.evidence.simulated:
        return ""
    at = seconds(missing.held.begin_ns)
    return f"{missing.one}, which was inserted without a quorum, was registered there at {at}"


def suspicious_clone(missing: MissingPart) -> str:
    """Return how the replica, which never had the part of an insert without a quorum by ZooKeeper,
    refuses to start with what it has cloned."""
    view = missing.view
    refused = view.refused.get(view.replica)
    if refused is None or missing.held is not None or view.begin_ns < refused.begin_ns:
        return ""
    return str(refused.detail)


def stale_read(missing: MissingPart) -> str:
    """Return how the value's quorum had ended before the read, and the replica's ZooKeeper server
    may not have known: since then the replica made no transaction of its own, and a fault kept the
    server behind, or less than 50 ms had passed. Nothing that the read returned is newer. If the
    part came while the read went on, it is an early snapshot, also where that is not known."""
    view, one, at_ns = missing.view, missing.one, missing.at_ns
    lasts = missing.evidence.lasts(view.partition, at_ns, view.begin_ns)
    named = any(last.high >= one.part.high for last in lasts)
    unheard = at_ns >= view.seen_ns - missing.evidence.error_ns(at_ns)
    if not named or not unheard or view.latest_ns >= at_ns:
        return ""
    held = missing.held
    if held and view.begin_ns <= held.begin_ns <= view.end_ns and early_snapshot(missing):
        return ""
    during = f", during {view.fault.name}" if view.fault else ""
    return (
        f"the quorum of value {one.insert.value} ended at {seconds(at_ns)}, and nothing shows that "
        f"the replica's ZooKeeper server knew it{during}"
    )


def lagging_writer(missing: MissingPart) -> str:
    """Return how the read returned a later block, which the replica had written itself; the missing
    part was registered there only after the read had begun."""
    later = missing.later
    if later is None or not missing.is_written_here(later):
        return ""
    returned = f"returned value {later.insert.value} of {later.part.name}"
    return f"{returned}, which it had written itself, and {missing.came}"


def skipped_part(missing: MissingPart) -> str:
    """Return how the read returned a later block, whose part had come from another replica; the
    missing part was registered there only after the read had begun."""
    later = missing.later
    if later is None or missing.is_written_here(later):
        return ""
    returned = f"returned value {later.insert.value} of {later.part.name}"
    return f"{returned}, which had come before, and {missing.came}"


def early_snapshot(missing: MissingPart) -> str:
    """Return how the part, or the last quorum part, was registered on the replica while the read
    went on, or up to 50 ms before: up to half a second while a fault is in force on the replica,
    its ZooKeeper server or a link of theirs, for the replica shows a part only when it is told that
    it was registered."""
    view, held = missing.view, missing.held
    if held is None or not missing.came_late or missing.later is not None:
        return ""
    came = held.begin_ns <= view.end_ns or view.has_accepted_late(missing.one.part.high)
    return f"{missing.came}, while the read went on" if came else ""


Signature: TypeAlias = Callable[[MissingPart], str]
HIDDEN: Final[dict[str, Signature]] = {
    "overtaken-insert": overtaken_insert,
    "uncounted-quorum": uncounted_quorum,
    "hidden-insert": hidden_insert,
    "merged-away": merged_away,
}
"""What hides a part that the replica may well have: a limit below it."""
NOWHERE: Final[dict[str, Signature]] = {
    "lost-retry": lost_retry,
    "unreadable-part": unreadable_part,
    "discarded-copy": discarded_copy,
}
"""Why the replica, or every replica, has the part no more."""
UNSEEN: Final[dict[str, Signature]] = {
    "unseen-write": unseen_write,
    "suspicious-clone": suspicious_clone,
}
"""Why the replica lacks the part of an insert without a quorum."""
NOT_YET: Final[dict[str, Signature]] = {
    "stale-read": stale_read,
    "lagging-writer": lagging_writer,
    "skipped-part": skipped_part,
    "early-snapshot": early_snapshot,
}
"""Why the replica answered although it lacked a part of a quorum insert."""


def explain_missing(missing: MissingPart, known: frozenset[str]) -> dict[str, str]:
    """Return the known defects that explain that the value is missing, each with its evidence."""
    one, rows = missing.one, HIDDEN
    if one.false is None:
        rows = rows | NOWHERE
        if not one.quorum:
            rows = rows | UNSEEN
        elif missing.view.has_accepted():
            rows = rows | NOT_YET
    whys = {by: signature(missing) for by, signature in rows.items() if by in known}
    if one.false is not None and one.false[0] in known:
        whys[one.false[0]] = one.false[1]
    return {by: f"{missing.view.where}: {why}" for by, why in whys.items() if why}


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
