"""Facts about each quorum insert in ZooKeeper's transaction log."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from checkers.replication.agreed import Agreed


@dataclass(slots=True)
class LoggedQuorum:
    """One quorum insert, from its commit to its end."""

    part: str
    needed: int
    begun: int
    """Transaction of its commit."""
    holders: set[str] = field(default_factory=set)
    """Replicas on which the part is registered, at the moment that was read last."""
    reached: int | None = None
    """Transaction by which `needed` replicas had it; None if they never had."""
    reached_ms: int = 0
    ended: int | None = None
    """Transaction by which ZooKeeper stopped naming it as pending."""
    held: frozenset[str] = frozenset()
    """Replicas on which the part was registered then."""
    failed: int | None = None
    """Transaction by which it failed."""

    def over(self, zxid: int) -> bool:
        """Return whether it had its quorum or had failed before a transaction."""
        return any(at is not None and at < zxid for at in (self.reached, self.failed))


def quorums_of(agreed: Agreed) -> Mapping[str, LoggedQuorum]:
    """Return the quorum inserts by part, in the order of their commits."""
    out: dict[str, LoggedQuorum] = {}
    for name, zxid, part, *more in agreed.named("begin", "hold", "drop", "fail", "end"):
        if name == "begin":
            out[part] = LoggedQuorum(part, int(more[0]), zxid)
        one = out.get(part)
        if one is None:
            continue
        if name == "hold":
            one.holders.add(str(more[0]))
            if one.reached is None and len(one.holders) >= one.needed:
                one.reached, one.reached_ms = zxid, int(more[1])
        elif name == "drop":
            one.holders.discard(str(more[0]))
        elif name == "fail":
            one.failed = zxid
        elif name == "end" and one.ended is None:
            one.ended, one.held = zxid, frozenset(one.holders)
    return out


def overlapping(quorums: Mapping[str, LoggedQuorum]) -> Sequence[tuple[LoggedQuorum, LoggedQuorum]]:
    """Return each quorum insert that was committed while an earlier one was pending, after it."""
    out: list[tuple[LoggedQuorum, LoggedQuorum]] = []
    pending: list[LoggedQuorum] = []
    for one in quorums.values():
        pending = [other for other in pending if not other.over(one.begun)]
        out += [(other, one) for other in pending]
        pending.append(one)
    return out
