"""Block numbers in ZooKeeper's log: who took them, and whose session ended with them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from checkers.replication.agreed import Agreed, Fact
from checkers.replication.parts import Part
from harness.core.op import Op

Place = tuple[str, int]
"""A partition and a block number in it."""


@dataclass(slots=True)
class NumbersTaken:
    """Fate of every block number of a table."""

    op: Op | None
    """Op that has the log."""
    count: int = 0
    abandoned: int = 0
    """Count of numbers held by a session that expired before it had committed their block."""
    replaced: int = 0
    """Count of numbers given back by a later session of the replica, which had replaced the
    one that took them: servers of today, which try an insert again, do that before it expires."""
    broken: list[tuple[str, str]] = field(default_factory=list)
    """Violations, each with its kind and a sentence; `op` proves them."""
    holders: dict[Place, int] = field(default_factory=dict)
    """Session that holds each number."""
    gone: dict[Place, str] = field(default_factory=dict)
    """Reasons why numbers are no longer held."""
    highest: dict[str, int] = field(default_factory=dict)

    @staticmethod
    def of(agreed: Agreed) -> "NumbersTaken":
        """Return what the log says; nothing where there is none or it has gaps."""
        found = NumbersTaken(agreed.op)
        steps = {
            "number": found._take,
            "commit": found._commit,
            "release": found._release,
            "expire": found._expire,
        }
        # One transaction commits a block and gives its number back.
        rank: Mapping[str, int] = {name: at for at, name in enumerate(steps)}
        facts = () if agreed.doubts else agreed.named(*steps)
        for fact in sorted(facts, key=lambda one: (one[1], rank[one[0]])):
            steps[fact[0]](fact)
        return found

    def _take(self, fact: Fact) -> None:
        _, zxid, partition, number, session = fact
        self.count += 1
        highest = self.highest.get(partition, -1)
        if number <= highest:
            text = (
                f"session {session:#x} took block number {number} of partition {partition} by "
                f"transaction {zxid:#x}, though {highest} had been taken before"
            )
            self.broken.append(("taken-again", text))
        self.highest[partition] = max(highest, number)
        self.holders[partition, number] = session
        self.gone.pop((partition, number), None)

    def _commit(self, fact: Fact) -> None:
        _, zxid, name, session = fact
        part = Part.of(name)
        place = part.partition, part.first
        if part.level or part.first != part.last:
            return
        holder = self.holders.pop(place, None)
        if holder == session:
            self.gone[place] = f"part {name} was committed by transaction {zxid:#x} already"
            return
        why = self.gone.get(place, "nobody had taken it")
        if holder is not None:
            why = f"session {holder:#x} held it"
        text = (
            f"session {session:#x} committed part {name} by transaction {zxid:#x}, and did not "
            f"hold its block number: {why}"
        )
        self.broken.append(("not-held", text))

    def _release(self, fact: Fact) -> None:
        _, zxid, partition, number, session = fact
        holder = self.holders.pop((partition, number), None)
        if holder is not None:
            self.replaced += holder != session
            self.gone[partition, number] = f"it was given back by transaction {zxid:#x}"

    def _expire(self, fact: Fact) -> None:
        _, zxid, session = fact
        for place in [place for place, holder in self.holders.items() if holder == session]:
            del self.holders[place]
            self.abandoned += 1
            self.gone[place] = f"session {session:#x}, which held it, ended by {zxid:#x}"
