"""Facts about each quorum insert in ZooKeeper's transaction log."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from checkers.replication.agreed import Agreed
from checkers.replication.parts import Part


@dataclass(slots=True)
class LoggedQuorum:
    """One quorum insert, from its commit to its end."""

    part: str
    needed: int
    begun: int
    """Transaction of its commit."""
    holders: set[str] = field(default_factory=set)
    """Replicas on which the part, or one that covers it, is registered, at the moment that was read
    last."""
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
    """Return the quorum inserts by part, in the order of their commits.

    A replica may have merged the part before its quorum ended, if quorums are parallel, or have
    fetched a merged part in its place.
    """
    out: dict[str, LoggedQuorum] = {}
    pending: dict[str, Part] = {}
    registered: dict[str, set[str]] = defaultdict(set)
    for name, zxid, part, *more in agreed.named("begin", "hold", "drop", "fail", "end"):
        if name == "begin":
            out[part], pending[part] = LoggedQuorum(part, int(more[0]), zxid), Part.of(part)
        one = out.get(part)
        if name == "hold":
            registered[str(more[0])].add(part)
            one_and_covered = {part} | {
                other for other, of in pending.items() if other != part and Part.of(part).covers(of)
            }
            for other in one_and_covered & out.keys():
                _hold(out[other], str(more[0]), zxid, int(more[1]))
        elif name == "drop":
            own = registered[str(more[0])]
            own.discard(part)
            if one is not None and not any(Part.of(p).covers(Part.of(part)) for p in own):
                one.holders.discard(str(more[0]))
        elif one is not None and name == "fail":
            one.failed = zxid
        elif one is not None and name == "end" and one.ended is None:
            one.ended, one.held = zxid, frozenset(one.holders)
            pending.pop(part, None)
    return out


def _hold(one: LoggedQuorum, replica: str, zxid: int, at_ms: int) -> None:
    """Add a replica that has the part, or one that covers it."""
    one.holders.add(replica)
    if one.reached is None and len(one.holders) >= one.needed:
        one.reached, one.reached_ms = zxid, at_ms


def uncounted(held: frozenset[str], needed: int, zxid: int | None = None) -> str:
    """Describe the end of a quorum that too few replicas had: "stopped being pending by transaction
    0x5 with 1 of 2 replicas: ch1"."""
    by = "" if zxid is None else f" by transaction {zxid:#x}"
    return (
        f"stopped being pending{by} with {len(held)} of {needed} replicas: "
        f"{' '.join(sorted(held)) or 'none'}"
    )


def overlapping(quorums: Mapping[str, LoggedQuorum]) -> Sequence[tuple[LoggedQuorum, LoggedQuorum]]:
    """Return each quorum insert that was committed while an earlier one was pending, after it."""
    out: list[tuple[LoggedQuorum, LoggedQuorum]] = []
    pending: list[LoggedQuorum] = []
    for one in quorums.values():
        pending = [other for other in pending if not other.over(one.begun)]
        out += [(other, one) for other in pending]
        pending.append(one)
    return out
