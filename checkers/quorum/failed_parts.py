"""Checks that a part whose quorum failed stays out: that it is never acknowledged, kept or read
again."""

from collections.abc import Container, Mapping
from dataclasses import dataclass

from checkers.conclusion import conclude, count_kinds
from checkers.phrasing import FEW, during, number, on_key, seconds, where
from checkers.quorum.quorum_parts import Look, QuorumParts, quorum_parts_of
from checkers.sets.key_sets import FINAL_READ, INSERT, READS, insert_value, read_values
from harness.core.history import History, Pair
from harness.core.op import Kind, Op
from harness.core.verdict import Anomaly, Verdict


@dataclass(frozen=True, slots=True)
class _LookTime:
    """When a look was made. What it found may be every part."""

    begin_ns: int
    end_ns: int
    op: int
    """Index of its end."""

    @staticmethod
    def of(look: Look) -> "_LookTime":
        return _LookTime(look.invoke.time_ns, look.end.time_ns, look.end.index)


class FailedParts:
    """Judges parts that a look found in /quorum/failed_parts, and values seen in them before.

    INVALID: an insert of it was acknowledged though every part of it failed ("acknowledged"); a
    sequentially consistent read that began after that look returns it ("read-again"), or a
    replica has it at rest ("back"), though no insert of it was tried since that may have
    happened; ZooKeeper lists the part for a replica that is active ("kept"), for one that comes
    back drops what failed first, and what an active one has cannot fail.
    """

    name = "failed-parts"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs a failed part whose value is known."""
        parts = quorum_parts_of(history)
        broken = _kept(history, parts)
        failed_in = {
            value: _LookTime.of(parts.looks[looks[0]])
            for value, own in parts.where.items()
            if (looks := [parts.failed[part] for part in own if part in parts.failed])
        }
        tries = _tries(history, failed_in)
        known = len(failed_in)
        again = sum(
            any(pair.kind is Kind.OK for pair in tries.get(value, ())) for value in failed_in
        )
        read = _read_again(history, failed_in, tries)
        for value, look in failed_in.items():
            broken += _of_value(history, parts, value, look, tries.get(value, []))
            if value in read:
                end = read[value]
                kind = "back" if end.f == FINAL_READ else "read-again"
                broken.append(_anomaly(history, kind, value, look, end, f"is in a {end.f}"))
        failed = len(parts.failed)
        summary = f"{number(failed, 'part')} failed, {known:,} with known values"
        if known:
            summary += f", none read again; {again:,} inserted again later"
        kinds = count_kinds(broken)
        return Verdict(
            checker=self.name,
            status=conclude(broken, checked=known),
            summary=broken[0].text if broken else summary,
            checked=known,
            anomalies=tuple(broken[:FEW]),
            figures={
                "failed": failed,
                "known": known,
                "inserted_again": again,
                "anomalies": {**kinds},
            },
        )


def _tries(history: History, values: Container[int]) -> dict[int, list[Pair]]:
    """Return the inserts of these values that may have taken effect, by value."""
    out: dict[int, list[Pair]] = {}
    for pair in history.calls(INSERT, kinds=(Kind.OK, Kind.INFO)) if values else ():
        value = insert_value(pair.invoke)
        if value in values:
            out.setdefault(value, []).append(pair)
    return out


def _of_value(
    history: History, parts: QuorumParts, value: int, look: _LookTime, tries: list[Pair]
) -> list[Anomaly]:
    out = []
    acks = [pair.end for pair in tries if pair.kind is Kind.OK and pair.end is not None]
    every_failed = all(part in parts.failed for part in parts.where[value])
    if acks and every_failed and len(tries) == 1:
        out.append(_anomaly(history, "acknowledged", value, look, acks[0], "was acknowledged"))
    return out


def _read_again(
    history: History, failed_in: Mapping[int, _LookTime], tries: Mapping[int, list[Pair]]
) -> dict[int, Op]:
    """Return the first read that shows each value although its part had failed before."""
    found: dict[int, Op] = {}
    for invoke, end in history.answered(*READS) if failed_in else ():
        for value in failed_in.keys() & set(read_values(end)):
            look = failed_in[value]
            if value in found or invoke.time_ns < look.end_ns:
                continue
            # A try that may still take effect, or that came after, explains it.
            if not any(
                (one.end is None or one.end.time_ns > look.begin_ns)
                and one.invoke.time_ns < end.time_ns
                for one in tries.get(value, ())
            ):
                found[value] = end
    return found


def _kept(history: History, parts: QuorumParts) -> list[Anomaly]:
    """Return, for each part on each replica, the first look that says that it was kept."""
    first: dict[tuple[str, str], _LookTime] = {}
    for look in parts.looks:
        for replica, own in look.kept.items():
            for part in own:
                first.setdefault((part, replica), _LookTime.of(look))
    return [
        Anomaly(
            kind="kept",
            text=(
                f"part {part}, which had failed, is on {replica}, which is active, by op "
                f"#{look.op} at {seconds(look.end_ns)}"
                f"{during(history, look.end_ns)}"
            ),
            ops=(look.op,),
            time_ns=look.end_ns,
        )
        for (part, replica), look in first.items()
    ]


def _anomaly(
    history: History, kind: str, value: int, look: _LookTime, end: Op, how: str
) -> Anomaly:
    return Anomaly(
        kind=kind,
        text=(
            f"value {value}{on_key(end)}, in a part that had failed by op #{look.op} at "
            f"{seconds(look.end_ns)}, {how}, op #{end.index}{where(end)} at "
            f"{seconds(end.time_ns)}{during(history, end.time_ns)}"
        ),
        ops=tuple(sorted({look.op, end.index})),
        key=end.key,
        value=value,
        time_ns=end.time_ns,
    )
