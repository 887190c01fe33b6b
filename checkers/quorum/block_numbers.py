"""Checks that block numbers are unique and increase with real time within each partition.

Every insert of the table is one block, and nothing merges, so that the name of a block's part has
its number. Judged are acknowledged inserts whose value was seen in exactly one part. Those in no
part, and retries in two, are another checker's matter.

Violated, within a partition: two inserts of different values have one number ("shared"); an insert
has a number below that of one that was acknowledged before it began ("not-increasing"). And by
ZooKeeper's transaction log, which also has inserts that nobody acknowledged: a number was taken
that is not above all that were taken before ("taken-again"); a block was committed whose number its
session no longer held, because it had expired, had given the number back, or another session had
taken it ("not-held"). Doubtful: fewer than `MIN_JUDGED` inserts.

Numbers are not promised to increase in the order of acknowledgements. An insert takes its number
first and may be acknowledged last, so that of two concurrent inserts this is right:
    p0 insert 1 begins     p1 insert 2 begins     p1 ok, number 1     p0 ok, number 0
"""

from array import array
from dataclasses import dataclass
from sys import intern

from checkers.conclusion import Findings
from checkers.numbering import overtaken
from checkers.phrasing import during, number, seconds, where
from checkers.quorum.numbers_taken import NumbersTaken
from checkers.quorum.quorum_parts import QuorumParts, quorum_parts_of
from checkers.replication.agreed import agreed_of
from checkers.replication.parts import Part
from harness.core.history import History, Pair
from harness.core.op import Op
from harness.core.verdict import Verdict

MIN_JUDGED = 10
KINDS = ("shared", "not-increasing", "taken-again", "not-held")


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
    """Judges the block numbers of acknowledged inserts, and of all that ZooKeeper's log has."""

    name = "block-numbers"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs at least MIN_JUDGED inserts whose parts are known."""
        inserts = NumberedInserts(quorum_parts_of(history))
        taken = NumbersTaken.of(agreed_of(history))
        found = Findings(self.name, kinds=KINDS)
        _judge_shared(found, history, inserts)
        _judge_order(found, history, inserts)
        for kind, text in taken.broken:
            found.add_anomaly(kind, text, taken.op)
        of = len(set(inserts.partitions))
        judged = f"{number(len(inserts), 'block number')} of {number(of, 'partition')}"
        if len(inserts) < MIN_JUDGED:
            found.add_doubt(f"{judged}, at least {MIN_JUDGED} expected")
        gone = number(taken.abandoned + taken.replaced, "number")
        return found.verdict(
            checked=len(inserts),
            held=f"{judged}, unique and increasing; {gone} lost with a session",
            figures={
                "judged": len(inserts),
                "partitions": of,
                "taken": taken.count,
                "abandoned": taken.abandoned,
                "replaced": taken.replaced,
            },
        )


def _judge_shared(found: Findings, history: History, inserts: NumberedInserts) -> None:
    """Add the inserts of different values that have one number."""
    first: dict[tuple[str, int], int] = {}
    for at, number_ in enumerate(zip(inserts.partitions, inserts.numbers, strict=True)):
        before = first.setdefault(number_, at)
        if before != at:
            other, one = inserts[before], inserts[at]
            if other.pair.invoke.value != one.pair.invoke.value:
                _add(found, history, "shared", other, one)


def _judge_order(found: Findings, history: History, inserts: NumberedInserts) -> None:
    """Add to the findings each insert whose block number is below the highest of its partition that
    was acknowledged before the insert began."""
    for before, at in overtaken(
        inserts.begins_ns, inserts.acks_ns, inserts.partitions, inserts.numbers
    ):
        _add(found, history, "not-increasing", inserts[before], inserts[at])


def _add(
    found: Findings, history: History, kind: str, a: NumberedInsert, b: NumberedInsert
) -> None:
    how = "both have" if kind == "shared" else "in this order have"
    found.add_anomaly(
        kind,
        f"value {a.pair.invoke.value} (op #{a.ack.index} ok at {seconds(a.ack.time_ns)}"
        f"{where(a.ack)}) and value {b.pair.invoke.value} (op #{b.pair.invoke.index} begun at "
        f"{seconds(b.pair.invoke.time_ns)}{where(b.ack)}) {how} parts {a.part.name} and "
        f"{b.part.name}{during(history, b.ack.time_ns)}",
        *(a.pair, history[a.seen], b.pair, history[b.seen]),
        key=b.pair.invoke.key,
        time_ns=b.ack.time_ns,
    )
