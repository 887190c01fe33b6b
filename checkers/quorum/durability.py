"""Checks that a quorum insert was on its quorum when it was acknowledged, and one at a time."""

from collections.abc import Iterable
from itertools import pairwise

from checkers.conclusion import conclude, count_kinds, few_of_each_kind, summarize
from checkers.phrasing import during, number, on_key, seconds, where
from checkers.quiescence import quiescence_of
from checkers.quorum.end_moments import EndMoments
from checkers.quorum.quorum_parts import QuorumParts, quorum_parts_of
from checkers.taken import taken_of
from harness.core.history import History, Pair
from harness.core.ranges import AUTO, Quorum, majority
from harness.core.verdict import Anomaly, Verdict


class Durability:
    """Judges acknowledged quorum inserts. INVALID:

    under-replicated: acknowledged, at rest, and its part on fewer than `quorum` replicas, unless
    it is on none and faults have struck the disks of a quorum: one copy is enough to make others.
    acknowledged-early: ZooKeeper stopped naming it as pending, which is what its client is answered
    by, while fewer than `quorum` replicas had its part registered; or the part reached its quorum
    only after the acknowledgement, by the clock of the transactions or by a look that began later.
    overlap: a quorum insert was committed while another had neither its quorum nor had failed
    (/quorum/status is one slot for the whole table); not judged of parallel inserts.
    last-part-back: the block number of a partition in /quorum/last_part went back.

    The first two are judged by ZooKeeper's transaction log, or by the record of a simulated
    cluster. Looks come ten times a second, and an insert that was acknowledged 68 ms too early was
    seen: they prove that an insert was in time only if one was over before the acknowledgement.
    """

    name = "durability"

    def __init__(self, quorum: Quorum, *, serial: bool = True) -> None:
        """Create a checker; `serial` says that only one quorum insert may be in flight."""
        self.quorum = quorum
        self.serial = serial

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs acknowledged inserts whose parts are known, and for each
        of them a proof that it was in time."""
        parts = quorum_parts_of(history)
        rest = quiescence_of(history)
        size = majority(len(rest.nodes)) if self.quorum == AUTO else self.quorum
        moments = EndMoments.of(history, parts, size)
        broken: list[Anomaly] = []
        judged = unproven = 0
        complete = parts.final is not None and rest.reached
        for pair in parts.acknowledged:
            if parts.parts_of(pair):
                judged += 1
                unproven += not moments.in_time(pair)
                broken += _durable(history, parts, pair, size, moments) if complete else ()
        broken += _overlaps(parts, size, moments) if complete and self.serial else ()
        broken += _back(history, parts)
        doubts = []
        if parts.final is None:
            doubts.append("nobody looked at the parts at rest")
        if not rest.reached:
            doubts.append("not at rest")
        if not judged:
            doubts.append("no acknowledged insert has a known part")
        doubts += moments.doubts(unproven)
        said = (
            f"{number(judged, 'acknowledged insert')} on {size} replicas in time, "
            f"{number(len(parts.replicas_of), 'part')}"
            f"{' one after the other' if self.serial else ''}"
        )
        kinds = count_kinds(broken)
        return Verdict(
            checker=self.name,
            status=conclude(broken, doubts=doubts),
            summary=summarize(broken, doubts, said),
            checked=judged,
            anomalies=few_of_each_kind(broken),
            figures={
                "acknowledged": len(parts.acknowledged),
                "judged": judged,
                "ended_in_log": len(moments.ended),
                "parts": len(parts.replicas_of),
                "failed": len(parts.failed),
                "looks": len(parts.looks),
                "anomalies": {**kinds},
            },
        )


def _durable(
    history: History, parts: QuorumParts, pair: Pair, size: int, moments: EndMoments
) -> Iterable[Anomaly]:
    ack = pair.end
    assert ack is not None, "an acknowledged insert has an end"
    known = parts.parts_of(pair)

    def said() -> str:
        return (
            f"value {pair.invoke.value}{on_key(ack)}, op #{ack.index} ok at "
            f"{seconds(ack.time_ns)}{where(ack)}{during(history, ack.time_ns)}, in part "
            f"{' '.join(known)}"
        )

    when = [zxid for part in known if (zxid := parts.reached(part, size)) is not None]
    have = {r for part in known for r in parts.replicas_of.get(part, {})}
    struck = taken_of(history).struck(pair.invoke.time_ns, ack.time_ns)
    if not when and (have or len(struck) < size):
        text = f"{said()}, is on {number(len(have), 'replica')} at rest: {' '.join(sorted(have))}"
        assert parts.final is not None, "asked only with a final look"
        yield _anomaly("under-replicated", text, pair, parts.final.end.index)
    early = [why for part in known if (why := moments.early(part, ack)) is not None]
    if len(early) == len(known):
        source = moments.op or ack
        yield _anomaly("acknowledged-early", f"{said()}, {early[0]}", pair, source.index)
        return
    if any(moments.recorded_in_time(part, ack) for part in known):
        return  # what is registered at rest may be later, as a lost part is registered anew
    look = parts.look_after(ack.time_ns)
    first = [zxid for part in known if (zxid := moments.reached(part)) is not None]
    if look is not None and first and min(first) > look.zxid:
        text = (
            f"{said()}, reached its quorum by transaction {min(first):#x}, after "
            f"{look.zxid:#x} of op #{look.end.index}, a look that began later"
        )
        yield _anomaly("acknowledged-early", text, pair, look.end.index)


def _overlaps(parts: QuorumParts, size: int, moments: EndMoments) -> Iterable[Anomaly]:
    assert parts.final is not None, "asked only with a final look"
    ops = (parts.final.invoke.index, parts.final.end.index)
    found = moments.overlaps() if moments.logged else _overlapping_at_rest(parts, size, moments)
    for earlier, later, begin, had in found:
        yield Anomaly(
            kind="overlap",
            text=(
                f"part {later} was committed by transaction {begin:#x}, though {earlier} "
                f"before it had its quorum {had}"
            ),
            ops=ops,
            time_ns=parts.final.end.time_ns,
        )


def _overlapping_at_rest(
    parts: QuorumParts, size: int, moments: EndMoments
) -> Iterable[tuple[str, str, int, str]]:
    """Yield what overlaps by the parts that are left at rest, where nothing is known of the
    others. The record of simulated servers is better evidence, because a replica may have lost a
    part and registered it anew."""
    begun = sorted((min(own.values()), part) for part, own in parts.replicas_of.items() if own)
    for (_, earlier), (begin, later) in pairwise(begun):
        if earlier in moments.recorded:
            ended_ns = moments.recorded[earlier][0]
            if ended_ns > moments.announced.get(later, ended_ns):
                yield earlier, later, begin, f"at {seconds(ended_ns)}"
            continue
        reached = parts.reached(earlier, size)
        if earlier in parts.failed or (reached is not None and reached < begin):
            continue
        yield earlier, later, begin, "never" if reached is None else f"by transaction {reached:#x}"


def _back(history: History, parts: QuorumParts) -> Iterable[Anomaly]:
    for before, now in pairwise(parts.looks):
        for partition, part in now.last.items():
            was = before.last.get(partition)
            if was is not None and part.last < was.last:
                yield Anomaly(
                    kind="last-part-back",
                    text=(
                        f"/quorum/last_part of partition {partition} went from {was.name} (op "
                        f"#{before.end.index}) to {part.name} (op #{now.end.index} at "
                        f"{seconds(now.end.time_ns)}){during(history, now.end.time_ns)}"
                    ),
                    ops=(before.end.index, now.end.index),
                    time_ns=now.end.time_ns,
                )


def _anomaly(kind: str, text: str, pair: Pair, look: int) -> Anomaly:
    assert pair.end is not None, "an acknowledged insert has an end"
    return Anomaly(
        kind=kind,
        text=text,
        ops=tuple(sorted({pair.invoke.index, pair.end.index, look})),
        key=pair.invoke.key,
        value=pair.invoke.value if isinstance(pair.invoke.value, int) else None,
        time_ns=pair.end.time_ns,
    )
