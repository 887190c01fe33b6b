"""What became of every value of one key: missed, lost, unaccounted, duplicated, phantom.

An acknowledgement and the invocation of a read at the very same nanosecond are concurrent, and
so are the end of a read and the invocation of an insert: times are closed intervals.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from checkers.key_sets import Insert, KeySet, Read
from checkers.rest import Rest
from checkers.words import seconds
from harness.core.op import Kind


@dataclass(frozen=True, slots=True)
class Missed:
    """An acknowledged value and the reads, invoked after its acknowledgement, that lack it."""

    insert: Insert
    first: Read
    last: Read

    @property
    def stale_ns(self) -> int:
        """From the acknowledgement to the invocation of the last read that missed it."""
        assert self.insert.ack is not None, "only an acknowledged value can be missed"
        return self.last.invoke.time_ns - self.insert.ack.time_ns


@dataclass(frozen=True, slots=True)
class Seen:
    """A value in a read that may not hold it (so often)."""

    value: int
    read: Read
    why: str


@dataclass(slots=True)
class Findings:
    """Of one key; `examined` makes it."""

    stale_reads: int = 0
    """Reads that lack at least one value acknowledged before they were invoked."""
    missed: dict[int, Missed] = field(default_factory=dict)
    """By value, in order of the first read that missed it; lost values included."""
    lost: list[tuple[Insert, tuple[Read, ...]]] = field(default_factory=list)
    """Acknowledged, and in no final read though every replica answered one; with those reads."""
    unaccounted: list[Insert] = field(default_factory=list)
    """Acknowledged, in no final read, but some replica answered none after the
    acknowledgement."""
    never_read: int = 0
    """Acknowledged, in no read at all, and not lost."""
    duplicates: list[Seen] = field(default_factory=list)
    phantoms: list[Seen] = field(default_factory=list)

    @property
    def stale(self) -> list[Missed]:
        """The missed values that are not lost."""
        gone = {insert.value for insert, _ in self.lost}
        return [missed for value, missed in self.missed.items() if value not in gone]


def examined(key: KeySet, rest: Rest) -> Findings:
    """All of it, linear in the number of values read."""
    findings = Findings()
    _find_missed(key, findings)
    _find_lost(key, rest, findings)
    _find_duplicates(key, findings)
    _find_phantoms(key, findings)
    return findings


def _find_missed(key: KeySet, findings: Findings) -> None:
    acks = sorted((insert.ack.time_ns, insert.bit) for insert in key.inserts.values() if insert.ack)
    acknowledged = at = 0
    missing: list[tuple[Read, int]] = []
    for read in key.reads:
        while at < len(acks) and acks[at][0] < read.invoke.time_ns:
            acknowledged |= acks[at][1]
            at += 1
        lacks = acknowledged & ~read.mask
        if lacks:
            missing.append((read, lacks))
    findings.stale_reads = len(missing)
    last = dict(_first_holders(key, reversed(missing)))
    for value, read in _first_holders(key, missing):
        findings.missed[value] = Missed(key.inserts[value], read, last[value])


def _first_holders(key: KeySet, reads: Iterable[tuple[Read, int]]) -> Iterable[tuple[int, Read]]:
    """Each value of the masks with the first read whose mask has it: each value comes once,
    however many reads repeat it."""
    before = 0
    for read, mask in reads:
        fresh = mask & ~before
        if fresh:
            before |= fresh
            for value in key.named(fresh):
                yield value, read


def _find_lost(key: KeySet, rest: Rest, findings: Findings) -> None:
    ever = at_last = 0
    for read in key.reads:
        ever |= read.mask
    for read in key.finals:
        at_last |= read.mask
    for insert in key.inserts.values():
        if insert.ack is None or insert.bit & at_last:
            continue
        after = tuple(r for r in key.finals if r.invoke.time_ns > insert.ack.time_ns)
        answered = {read.invoke.node for read in after}
        if after and answered >= set(rest.nodes):
            findings.lost.append((insert, after))
            continue
        findings.unaccounted.append(insert)
        findings.never_read += not insert.bit & ever


def _find_duplicates(key: KeySet, findings: Findings) -> None:
    known: set[int] = set()
    for read in key.reads:
        if not read.duplicated:
            continue
        for value, times in Counter(read.values).items():
            if times > 1 and value not in known:
                known.add(value)
                findings.duplicates.append(Seen(value, read, f"came {times} times"))


def _find_phantoms(key: KeySet, findings: Findings) -> None:
    # The first read to end that has a value is the only one that can have it too early.
    reads = sorted(key.reads, key=lambda read: read.end.index)
    for value, read in _first_holders(key, [(read, read.mask) for read in reads]):
        insert = key.inserts.get(value)
        if insert is None or insert.kind is Kind.FAIL or insert.invoke.time_ns > read.end.time_ns:
            findings.phantoms.append(Seen(value, read, _why_phantom(key, value)))


def _why_phantom(key: KeySet, value: int) -> str:
    insert = key.inserts.get(value)
    if insert is None:
        return "nobody tried to insert it" + ("" if key.key is None else f" into key {key.key}")
    if insert.kind is Kind.FAIL:
        return f"its insert (op #{insert.invoke.index}) was refused"
    began = f"(op #{insert.invoke.index} at {seconds(insert.invoke.time_ns)})"
    return f"its insert {began} had not begun"
