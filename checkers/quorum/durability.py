"""Checks that a quorum insert was on its quorum when it was acknowledged, and one at a time.

Judged is each acknowledged insert whose value was seen in some part, by the parts of all replicas
at rest, by ZooKeeper's transaction log or the record of a simulated cluster, and by looks at
/quorum. `size` is the number of replicas that the quorum needs.

Violated:
under-replicated    at rest, no part of the insert is on `size` replicas; unless it is on none and
                    faults have struck the disks of `size` replicas, for one copy is enough to make
                    others
acknowledged-early  every part of the insert stopped being pending, by which its client is answered,
                    while fewer than `size` replicas had it registered; or it reached its quorum
                    only after the acknowledgement, by the clock of the transactions or by a look
                    that began later
overlap             a quorum insert was committed while another had neither its quorum nor had
                    failed, because /quorum/status is one slot for the whole table; not judged of
                    parallel inserts
last-part-back      /quorum/last_part of a partition went back to a lower block number

Doubtful: no look at the parts at rest, a cluster that was not at rest, no acknowledged insert with
a known part, and an acknowledgement that nothing proves to be in time.

Looks alone do not decide what is early. They come ten times a second, and an insert that was
acknowledged 68 ms too early was seen, so that they prove that an insert was in time only if one was
over before the acknowledgement:
    look: part 0_1_1_0 on ch1     insert 1 ok     look: part 0_1_1_0 on ch1 ch2
Nor does a part's registration at rest: a replica that has lost a part registers it anew.
"""

from collections.abc import Iterable
from itertools import pairwise

from checkers.conclusion import Findings
from checkers.phrasing import during, number, on_key, seconds, where
from checkers.quiescence import quiescence_of
from checkers.quorum.end_moments import EndMoments
from checkers.quorum.quorum_parts import QuorumParts, quorum_parts_of
from checkers.taken import taken_of
from harness.core.history import History, Pair
from harness.core.op import Op
from harness.core.ranges import AUTO, Quorum, majority
from harness.core.verdict import Verdict


class Durability:
    """Judges acknowledged quorum inserts."""

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
        found = Findings(self.name)
        judged = unproven = 0
        complete = parts.final is not None and rest.reached
        for pair in parts.acknowledged:
            if parts.parts_of(pair):
                judged += 1
                unproven += not moments.in_time(pair)
                if complete:
                    _judge_insert(found, history, parts, pair, size, moments)
        if complete and self.serial:
            _judge_overlaps(found, parts, size, moments)
        _judge_steps(found, history, parts)
        if parts.final is None:
            found.add_doubt("nobody looked at the parts at rest")
        if not rest.reached:
            found.add_doubt("not at rest")
        if not judged:
            found.add_doubt("no acknowledged insert has a known part")
        found.doubts += moments.doubts(unproven)
        return found.verdict(
            checked=judged,
            broken=found.tally,
            held=(
                f"{number(judged, 'acknowledged insert')} on {size} replicas in time, "
                f"{number(len(parts.replicas_of), 'part')}"
                f"{' one after the other' if self.serial else ''}"
            ),
            figures={
                "acknowledged": len(parts.acknowledged),
                "judged": judged,
                "ended_in_log": len(moments.ended),
                "parts": len(parts.replicas_of),
                "failed": len(parts.failed),
                "looks": len(parts.looks),
            },
        )


def _judge_insert(
    found: Findings,
    history: History,
    parts: QuorumParts,
    pair: Pair,
    size: int,
    moments: EndMoments,
) -> None:
    ack = pair.end
    assert ack is not None, "an acknowledged insert has an end"
    known = parts.parts_of(pair)

    def add(kind: str, what: str, proof: Op | None) -> None:
        found.add_anomaly(
            kind,
            f"value {pair.invoke.value}{on_key(ack)}, op #{ack.index} ok at "
            f"{seconds(ack.time_ns)}{where(ack)}{during(history, ack.time_ns)}, in part "
            f"{' '.join(known)}, {what}",
            pair,
            proof,
            key=pair.invoke.key,
            value=pair.invoke.value if isinstance(pair.invoke.value, int) else None,
            time_ns=ack.time_ns,
        )

    when = [zxid for part in known if (zxid := parts.reached(part, size)) is not None]
    have = {r for part in known for r in parts.replicas_of.get(part, {})}
    struck = taken_of(history).struck(pair.invoke.time_ns, ack.time_ns)
    if not when and (have or len(struck) < size):
        assert parts.final is not None, "asked only with a final look"
        what = f"is on {number(len(have), 'replica')} at rest: {' '.join(sorted(have))}"
        add("under-replicated", what, parts.final.end)
    early = [why for part in known if (why := moments.early(part, ack)) is not None]
    if len(early) == len(known):
        add("acknowledged-early", early[0], moments.op)
        return
    if any(moments.recorded_in_time(part, ack) for part in known):
        return  # what is registered at rest may be later, as a lost part is registered anew
    look = parts.first_look_since(ack.time_ns)
    first = [zxid for part in known if (zxid := moments.reached(part)) is not None]
    if look is not None and first and min(first) > look.zxid:
        what = (
            f"reached its quorum by transaction {min(first):#x}, after "
            f"{look.zxid:#x} of op #{look.end.index}, a look that began later"
        )
        add("acknowledged-early", what, look.end)


def _judge_overlaps(found: Findings, parts: QuorumParts, size: int, moments: EndMoments) -> None:
    assert parts.final is not None, "asked only with a final look"
    overlaps = moments.overlaps() if moments.logged else _overlapping_at_rest(parts, size, moments)
    for earlier, later, begin, had in overlaps:
        text = (
            f"part {later} was committed by transaction {begin:#x}, though {earlier} "
            f"before it had its quorum {had}"
        )
        found.add_anomaly("overlap", text, parts.final.invoke, parts.final.end)


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


def _judge_steps(found: Findings, history: History, parts: QuorumParts) -> None:
    for before, now in pairwise(parts.looks):
        for partition, part in now.last.items():
            was = before.last.get(partition)
            if was is not None and part.last < was.last:
                text = (
                    f"/quorum/last_part of partition {partition} went from {was.name} (op "
                    f"#{before.end.index}) to {part.name} (op #{now.end.index} at "
                    f"{seconds(now.end.time_ns)}){during(history, now.end.time_ns)}"
                )
                found.add_anomaly("last-part-back", text, before.end, now.end)
