"""Parts that replicas removed because they could not read them, and what clones of these
removed."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from checkers.triage.events import tables
from checkers.triage.evidence import BlockRange, evidence_of
from harness.core.dialect import Version
from harness.core.history import History, memoize_per_history

_RENEWS: Final = Version(18, 17)
"""Later than 18.16, the only version that is known not to renew is_lost."""


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
    for table in tables(history):
        dropped: list[BlockRange] = []
        lost: set[str] = set()
        renewed_ns: dict[str, int] = {}
        held: dict[str, set[BlockRange]] = defaultdict(set)
        for fact in table:
            part, replica, at_ns = BlockRange.named(fact.part), fact.node, fact.begin_ns
            left = [one for one in every if one.end_ns is None]
            if fact.kind == "lost":
                if replica not in lost and not fact.detail:
                    renewed_ns[replica] = at_ns
                (lost.add if fact.detail else lost.discard)(replica)
            elif part is None:
                continue
            elif fact.kind == "assign" and fact.detail == "drop":
                dropped.append(part)
            elif fact.kind == "hold":
                held[replica].add(part)
                for one in left:
                    if one.replica == replica and part.covers(one.part):
                        one.end_ns = at_ns
            elif fact.kind == "drop":
                held[replica].discard(part)
                if replica in lost:
                    covering = [one for one in left if one.part.covers(part)]
                    discards += [Discard(part, replica, at_ns, one) for one in covering]
                elif renewed_ns.get(replica) == at_ns or not (
                    renews or any(other.covers(part) for other in (*held[replica], *dropped))
                ):
                    every.append(Unreadable(replica, part, at_ns))
    return Removals(every, discards)
