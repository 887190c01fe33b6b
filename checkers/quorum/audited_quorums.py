"""Judges the quorums of audited inserts by ZooKeeper's transaction log.

Its order needs no clock.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from checkers.conclusion import Findings
from checkers.phrasing import listed, number, seconds
from checkers.quorum.quorum_log import LoggedQuorum, quorums_of, uncounted
from checkers.replication.agreed import Agreed, agreed_of
from checkers.replication.parts import Part
from harness.core.history import History, Pair


class InsertedParts(msgspec.Struct, frozen=True):
    """End of an insert in an audit."""

    parts: list[str]
    """Parts that it made."""
    quorum: int = 0
    """Number of replicas that it asked for."""


AuditedInserts: TypeAlias = Sequence[tuple[Pair, InsertedParts]]


class AuditedQuorums:
    """The quorum inserts that ZooKeeper's log contains; none if the audit had no log."""

    def __init__(self, history: History, zero_ms: float, clock_error_ns: int) -> None:
        self._agreed: Agreed = agreed_of(history)
        self._quorums: Mapping[str, LoggedQuorum] = quorums_of(self._agreed)
        self._zero_ms = zero_ms
        """Wall-clock time of the history's begin."""
        self._clock_error_ns = clock_error_ns

    def knows(self, part: str) -> bool:
        """Return whether the log contains the quorum of a part."""
        return part in self._quorums

    @property
    def failed(self) -> frozenset[str]:
        """Return the parts whose quorum failed."""
        return frozenset(part for _, _, part in self._agreed.named("fail"))

    def judge(self, found: Findings, inserts: AuditedInserts) -> None:
        """Add acknowledged inserts whose quorum was not there, and each step back of
        /quorum/last_part."""
        for insert, made in inserts:
            for part in made.parts:
                one = self._quorums.get(part)
                why = None if one is None or one.failed else self._early(one, insert)
                if why is not None:
                    found.add_anomaly(
                        "acknowledged-early",
                        f"{said_of(insert)} was acknowledged, and its part {part} {why}",
                        insert,
                        time_ns=insert.invoke.time_ns,
                    )
        self._judge_steps(found, {part: pair for pair, made in inserts for part in made.parts})

    def doubts(self, inserts: AuditedInserts) -> Iterator[str]:
        """Yield why the log does not say of every quorum insert what it was to say."""
        if self._agreed.op is None:
            return
        yield from self._agreed.doubts
        missing = [
            part
            for _, made in inserts
            for part in made.parts
            if made.quorum > 1 and part not in self._quorums
        ]
        if missing:
            yield (
                f"{number(len(missing), 'part')} of quorum inserts not in ZooKeeper's log: "
                f"{listed(missing)}"
            )

    def _early(self, one: LoggedQuorum, insert: Pair) -> str | None:
        """Return why a quorum was not there when its insert was acknowledged; None if it was."""
        assert insert.end is not None, "an acknowledged insert has an end"
        if one.ended is not None and len(one.held) < one.needed:
            return uncounted(one.held, one.needed, one.ended)
        if one.reached is None:
            return None
        late_ns = (one.reached_ms - self._zero_ms) * 1e6 - insert.end.time_ns
        if late_ns <= self._clock_error_ns:
            return None
        return (
            f"reached its quorum by transaction {one.reached:#x}, {seconds(round(late_ns))} later"
        )

    def _judge_steps(self, found: Findings, insert_of: Mapping[str, Pair]) -> None:
        op = self._agreed.op
        last: dict[str, Part] = {}
        for _, zxid, partition, name in self._agreed.named("last"):
            part, was = Part.of(name), last.get(partition)
            if op is not None and was is not None and part.last < was.last:
                text = (
                    f"/quorum/last_part of partition {partition} went back from {was.name} to "
                    f"{name} by transaction {zxid:#x}: sequentially consistent reads may miss rows"
                )
                made = [(one, insert_of[one]) for one in (was.name, name) if one in insert_of]
                steps = [f"{said_of(insert)} made {one}" for one, insert in made]
                proof = [insert for _, insert in made]
                found.add_anomaly("last-part-back", text, *proof, op, steps=steps)
            last[partition] = part


def said_of(insert: Pair) -> str:
    """Describe an insert: "the INSERT on ch1 at 1.250 s"."""
    return f"the INSERT on {insert.invoke.node} at {seconds(insert.invoke.time_ns)}"
