"""Checks that block numbers are unique and increase with real time within each partition."""

from dataclasses import dataclass

from checkers.conclusion import conclude
from checkers.phrasing import FEW, during, number, seconds, where
from checkers.quorum.numbers_taken import NumbersTaken
from checkers.quorum.quorum_parts import QuorumParts
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
    seen: Op
    """The op that says in which part it is."""


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
        found = _numbered(QuorumParts(history))
        taken = NumbersTaken.of(agreed_of(history))
        broken = [*_shared(history, found), *_decreasing(history, found), *taken.broken]
        enough = len(found) >= MIN_JUDGED
        of = len({one.part.partition for one in found})
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


def _numbered(parts: QuorumParts) -> list[NumberedInsert]:
    out = []
    for pair in parts.acknowledged:
        known = parts.parts_of(pair)
        if len(known) != 1 or pair.end is None:
            continue  # In no part, or a retry of it in two: another checker's matter.
        ((name, seen),) = known.items()
        out.append(NumberedInsert(pair, pair.end, Part.of(name), seen))
    return out


def _shared(history: History, found: list[NumberedInsert]) -> list[Anomaly]:
    first: dict[tuple[str, int], NumberedInsert] = {}
    out = []
    for one in found:
        other = first.setdefault((one.part.partition, one.part.first), one)
        if other.pair.invoke.value != one.pair.invoke.value:
            out.append(_anomaly(history, "shared", other, one))
    return out


def _decreasing(history: History, found: list[NumberedInsert]) -> list[Anomaly]:
    """Return the inserts whose number is below the highest acknowledged before they began."""
    acks = sorted(found, key=lambda one: one.ack.time_ns)
    out, at = [], 0
    highest: dict[str, NumberedInsert] = {}
    for one in sorted(found, key=lambda one: one.pair.invoke.time_ns):
        while at < len(acks) and acks[at].ack.time_ns < one.pair.invoke.time_ns:
            done = acks[at]
            known = highest.get(done.part.partition)
            if known is None or done.part.first > known.part.first:
                highest[done.part.partition] = done
            at += 1
        before = highest.get(one.part.partition)
        if before is not None and before.part.first > one.part.first:
            out.append(_anomaly(history, "not-increasing", before, one))
    return out


def _anomaly(history: History, kind: str, a: NumberedInsert, b: NumberedInsert) -> Anomaly:
    ops = {op.index for one in (a, b) for op in (one.pair.invoke, one.ack, one.seen)}
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
