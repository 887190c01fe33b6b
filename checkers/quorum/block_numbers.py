"""Checks that block numbers are unique and increase with real time within each partition."""

from array import array
from dataclasses import dataclass
from sys import intern

from checkers.conclusion import conclude
from checkers.phrasing import FEW, during, number, seconds, where
from checkers.quorum.numbers_taken import NumbersTaken
from checkers.quorum.quorum_parts import QuorumParts, quorum_parts_of
from checkers.replication.agreed import agreed_of
from checkers.replication.parts import Part
from harness.core.history import History, Pair
from harness.core.op import Op
from harness.core.verdict import Anomaly, Verdict

MIN_JUDGED = 10


@dataclass(frozen=True, slots=True)
class NumberedInsert:
    """An acknowledged insert and the part of its block."""

    pair: Pair
    ack: Op
    part: Part
    seen: int
    """The op that says in which part it is."""


class NumberedInserts:
    """The acknowledged inserts that are in one part each, in the order in which they began."""

    def __init__(self, parts: QuorumParts) -> None:
        self._parts = parts
        self._inserts = parts.acknowledged
        begins_ns, ends_ns = self._inserts.spans
        self._places = array("I")
        """Places among the acknowledged inserts."""
        self.partitions: list[str] = []
        self.numbers = array("q")
        for place, pair in enumerate(self._inserts):
            known = parts.parts_of(pair)
            if len(known) != 1:
                continue  # In no part, or a retry of it in two: another checker's matter.
            part = Part.of(next(iter(known)))
            self._places.append(place)
            self.partitions.append(intern(part.partition))
            self.numbers.append(part.first)
        self.begins_ns = array("q", (begins_ns[place] for place in self._places))
        self.acks_ns = array("q", (ends_ns[place] for place in self._places))

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, at: int) -> NumberedInsert:
        pair = self._inserts[self._places[at]]
        assert pair.end is not None, "it was acknowledged"
        ((name, seen),) = self._parts.parts_of(pair).items()
        return NumberedInsert(pair, pair.end, Part.of(name), seen)


class BlockNumbers:
    """Every insert is one block, and nothing merges. INVALID:

    shared: one number for two inserts.
    not-increasing: a number below that of an insert that was acknowledged before this one began.
    And, by ZooKeeper's transaction log, which also has inserts that nobody acknowledged:
    taken-again: a number was taken that is not above all that were taken before.
    not-held: a block was committed whose number its session no longer held: it had expired, had
    given the number back, or another session had taken it.
    """

    name = "block-numbers"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs at least MIN_JUDGED inserts whose parts are known."""
        found = NumberedInserts(quorum_parts_of(history))
        taken = NumbersTaken.of(agreed_of(history))
        broken = [*_shared(history, found), *_decreasing(history, found), *taken.broken]
        enough = len(found) >= MIN_JUDGED
        of = len(set(found.partitions))
        said = f"{number(len(found), 'block number')} of {number(of, 'partition')}"
        gone = number(taken.abandoned + taken.replaced, "number")
        return Verdict(
            checker=self.name,
            status=conclude(broken, checked=enough),
            summary=broken[0].text
            if broken
            else f"{said}, unique and increasing; {gone} lost with a session"
            if enough
            else f"{said}, at least {MIN_JUDGED} expected",
            checked=len(found),
            anomalies=tuple(broken[:FEW]),
            figures={
                "judged": len(found),
                "partitions": of,
                "taken": taken.count,
                "abandoned": taken.abandoned,
                "replaced": taken.replaced,
                "anomalies": {
                    kind: sum(b.kind == kind for b in broken)
                    for kind in ("shared", "not-increasing", "taken-again", "not-held")
                },
            },
        )


def _shared(history: History, found: NumberedInserts) -> list[Anomaly]:
    first: dict[tuple[str, int], int] = {}
    out = []
    for at, number_ in enumerate(zip(found.partitions, found.numbers, strict=True)):
        before = first.setdefault(number_, at)
        if before != at:
            other, one = found[before], found[at]
            if other.pair.invoke.value != one.pair.invoke.value:
                out.append(_anomaly(history, "shared", other, one))
    return out


def _decreasing(history: History, found: NumberedInserts) -> list[Anomaly]:
    """Return the inserts whose number is below the highest acknowledged before they began."""
    acks = sorted(range(len(found)), key=found.acks_ns.__getitem__)
    out, done = [], 0
    highest: dict[str, int] = {}
    for at, partition in enumerate(found.partitions):
        while done < len(acks) and found.acks_ns[acks[done]] < found.begins_ns[at]:
            ack = acks[done]
            known = highest.get(found.partitions[ack])
            if known is None or found.numbers[ack] > found.numbers[known]:
                highest[found.partitions[ack]] = ack
            done += 1
        before = highest.get(partition)
        if before is not None and found.numbers[before] > found.numbers[at]:
            out.append(_anomaly(history, "not-increasing", found[before], found[at]))
    return out


def _anomaly(history: History, kind: str, a: NumberedInsert, b: NumberedInsert) -> Anomaly:
    ops = {at for x in (a, b) for at in (x.pair.invoke.index, x.ack.index, x.seen)}
    how = "both have" if kind == "shared" else "in this order have"
    return Anomaly(
        kind=kind,
        text=(
            f"value {a.pair.invoke.value} (op #{a.ack.index} ok at {seconds(a.ack.time_ns)}"
            f"{where(a.ack)}) and value {b.pair.invoke.value} (op #{b.pair.invoke.index} begun at "
            f"{seconds(b.pair.invoke.time_ns)}{where(b.ack)}) {how} parts {a.part.name} and "
            f"{b.part.name}{during(history, b.ack.time_ns)}"
        ),
        ops=tuple(sorted(ops)),
        key=b.pair.invoke.key,
        time_ns=b.ack.time_ns,
    )
