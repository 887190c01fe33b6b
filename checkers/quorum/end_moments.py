"""The moments at which quorums ended, and whether an acknowledgement came before its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from checkers.phrasing import number, seconds
from checkers.quorum.quorum_log import LoggedQuorum, overlapping, quorums_of, uncounted
from checkers.quorum.quorum_parts import QuorumParts
from checkers.replication.agreed import Agreed, agreed_of
from checkers.replication.protocol import facts_of
from harness.core.history import History, Pair
from harness.core.op import Op

Ended = tuple[int, int, frozenset[str]]
"""Time at which a simulated quorum ended, how many replicas it needed, and which had the part."""


@dataclass(frozen=True, slots=True)
class EndMoments:
    """Knowledge of the ends of quorums: from ZooKeeper's log, from a simulated cluster's
    record, or else from looks alone."""

    agreed: Agreed
    logged: Mapping[str, LoggedQuorum]
    """The quorum inserts of ZooKeeper's log, by part."""
    recorded: Mapping[str, Ended]
    """The ends in the record of simulated servers, by part."""
    announced: Mapping[str, int]
    """The time at which the first replica announced each part, in the same record."""
    parts: QuorumParts
    size: int
    ahead_ms: float | None
    """Milliseconds by which the clock of the transactions may be ahead of the history's; None if
    not known."""

    @staticmethod
    def of(history: History, parts: QuorumParts, size: int) -> "EndMoments":
        """Return what a history says about the ends of its quorums of this size."""
        agreed = agreed_of(history)
        logged = {} if agreed.doubts else quorums_of(agreed)
        recorded = {
            str(fact[2]): (int(fact[1]), int(fact[3]), frozenset(fact[4]))
            for fact in facts_of(history)
            if fact[0] == "ended"
        }
        announced: dict[str, int] = {}
        for fact in facts_of(history):
            if fact[0] == "part":
                announced.setdefault(str(fact[3]), int(fact[1]))
        ahead_ms = _ahead_ms(agreed, parts)
        return EndMoments(agreed, logged, recorded, announced, parts, size, ahead_ms)

    @property
    def op(self) -> Op | None:
        """Return the op that has the log."""
        return self.agreed.op if self.logged else None

    @property
    def ended(self) -> Sequence[str]:
        """Return the parts whose quorum's end is known."""
        logged = [part for part, one in self.logged.items() if one.ended is not None]
        return logged or list(self.recorded)

    def early(self, part: str, ack: Op) -> str | None:
        """Return why the quorum of a part was not there when it was acknowledged; None if that is
        not known."""
        if part in self.recorded:
            at_ns, needed, holders = self.recorded[part]
            if at_ns > ack.time_ns:
                return f"reached its quorum at {seconds(at_ns)}"
            return uncounted(holders, needed) if len(holders) < needed else None
        one = self.logged.get(part)
        if one is None:
            return None
        if one.ended is not None and len(one.held) < self.size:
            return uncounted(one.held, self.size, one.ended)
        if one.reached is not None and self.ahead_ms is not None:
            late_ms = one.reached_ms - (ack.time_ns / 1e6 + self.ahead_ms)
            if late_ms > 0:
                return (
                    f"reached its quorum by transaction {one.reached:#x}, at least "
                    f"{late_ms:.0f} ms later"
                )
        return None

    def recorded_in_time(self, part: str, ack: Op) -> bool:
        """Return whether the record of a simulated cluster proves that the quorum of a part was
        there when it was acknowledged."""
        return part in self.recorded and self.early(part, ack) is None

    def reached(self, part: str) -> int | None:
        """Return the first transaction by which a quorum is known to have had a part; None if none
        is.

        What is registered at rest is later than the log says if a replica has lost the part since
        and registered it anew.
        """
        one = self.logged.get(part)
        known = (one.reached if one is not None else None, self.parts.reached(part, self.size))
        return min((zxid for zxid in known if zxid is not None), default=None)

    def overlaps(self) -> Sequence[tuple[str, str, int, str]]:
        """Return each part that was pending when another was committed, that other, the transaction
        of its commit, and when the first had its quorum."""
        return [
            (
                earlier.part,
                later.part,
                later.begun,
                "never" if earlier.reached is None else f"by transaction {earlier.reached:#x}",
            )
            for earlier, later in overlapping(self.logged)
        ]

    def doubts(self, unproven: int) -> list[str]:
        """Return why it is not known of so many acknowledged inserts that they were in time."""
        if not unproven:
            return []
        why = "; ".join(self.agreed.doubts) or "the log has no end of their quorum"
        return [f"{number(unproven, 'acknowledgement')} not known to be in time: {why}"]

    def in_time(self, pair: Pair) -> bool:
        """Return whether the quorum of an insert is known to have ended, or to have been there
        before its acknowledgement."""
        assert pair.end is not None, "an acknowledged insert has an end"
        ack_ns = pair.end.time_ns
        before = self.parts.latest_before(ack_ns)
        for part in self.parts.parts_of(pair):
            one, reached = self.logged.get(part), self.parts.reached(part, self.size)
            if part in self.recorded or (one is not None and one.ended is not None):
                return True
            if reached is not None and before is not None and reached <= before:
                return True
        return False


def _ahead_ms(agreed: Agreed, parts: QuorumParts) -> float | None:
    """Return how far the clock of the transactions is ahead of the history's at most.

    Each look contains its barrier, which has a time on either clock. If the looks contradict each
    other, the clock was set or several servers' clocks differ, and nothing is concluded.
    """
    written = {int(zxid): int(ms) for _, zxid, ms in agreed.named("barrier")}
    least, most = -inf, inf
    for look in parts.looks if written else ():
        if look.zxid in written:
            least = max(least, written[look.zxid] - look.end.time_ns / 1e6)
            most = min(most, written[look.zxid] + 1 - look.invoke.time_ns / 1e6)
    return most if least <= most < inf else None
