"""Periods in which replicas were lost, and what they removed when they cloned another one."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from checkers.triage.evidence import BlockRange, evidence_of, facts_of_tables
from harness.core.dialect import Version
from harness.core.history import History, memoize_per_history

_RENEWS: Final = Version(18, 17)
"""Later than 18.16, the only version that is known not to renew is_lost."""


@dataclass(slots=True)
class Clone:
    """A period in which a replica is marked lost: at its end it has taken over another one's log
    pointer."""

    replica: str
    begin_ns: int
    end_ns: int | None = None


def clones_of(history: History) -> list[Clone]:
    """Return the periods in which replicas were marked lost."""
    found: list[Clone] = []
    for facts in facts_of_tables(history, frozenset({"lost"})):
        lost: dict[str, Clone] = {}
        for at_ns, _, (replica, is_lost) in facts:
            if is_lost and replica not in lost:
                lost[replica] = Clone(str(replica), at_ns)
                found.append(lost[replica])
            elif not is_lost and replica in lost:
                lost.pop(replica).end_ns = at_ns
    return found


@dataclass(slots=True)
class Unreadable:
    """A part that a replica could not read and has removed, with those that it covers."""

    replica: str
    part: BlockRange
    begin_ns: int
    end_ns: int | None = None
    """When the replica had it again, or a part that covers it."""


@dataclass(frozen=True, slots=True)
class Discard:
    """A part that a lost replica removed as a clone of another one, which could not read a part
    that covers it."""

    part: BlockRange
    replica: str
    at_ns: int
    source: Unreadable


@dataclass(frozen=True, slots=True)
class Removals:
    """Unreadable parts, and what clones removed for them."""

    unreadable: Sequence[Unreadable]
    discards: Sequence[Discard]


@memoize_per_history
def removals_of(history: History) -> Removals:
    """Return what was removed because a replica could not read it. Such a replica writes its own
    is_lost anew in the same transaction, so that nobody clones it meanwhile. One of 18.16 does not,
    but removes a part that no other part of its own covers for one other reason only, that its
    partition was dropped."""
    renews = any(version >= _RENEWS for version in evidence_of(history).versions)
    every: list[Unreadable] = []
    discards: list[Discard] = []
    for facts in facts_of_tables(history, frozenset({"lost", "hold", "drop", "assign"})):
        dropped: list[BlockRange] = []
        lost: set[str] = set()
        renewed_ns: dict[str, int] = {}
        held: dict[str, set[BlockRange]] = defaultdict(set)
        for at_ns, name, rest in facts:
            if name == "lost":
                replica = str(rest[0])
                if replica not in lost and not rest[1]:
                    renewed_ns[replica] = at_ns
                (lost.add if rest[1] else lost.discard)(replica)
                continue
            if name == "assign":
                span = BlockRange.named(str(rest[2])) if rest[0] == "drop" else None
                dropped += [span] if span else []
                continue
            part, replica = BlockRange.named(str(rest[0])), str(rest[1])
            if part is None:
                continue
            left = [one for one in every if one.end_ns is None]
            (held[replica].add if name == "hold" else held[replica].discard)(part)
            if name == "hold":
                for one in left:
                    if one.replica == replica and part.covers(one.part):
                        one.end_ns = at_ns
            elif replica in lost:
                discards += [
                    Discard(part, replica, at_ns, one) for one in left if one.part.covers(part)
                ]
            elif renewed_ns.get(replica) == at_ns or not (
                renews or any(other.covers(part) for other in (*held[replica], *dropped))
            ):
                every.append(Unreadable(replica, part, at_ns))
    return Removals(every, discards)
