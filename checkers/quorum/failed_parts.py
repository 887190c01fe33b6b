"""Checks that a part whose quorum failed stays out: that it is never acknowledged, kept or read
again.

A part has *failed* once a look found it in /quorum/failed_parts. A value has failed if some look
found a part in which the value was ever seen. A try of a value, unless it was refused, *explains*
that the value is there if it began before the value was seen and had not ended before that look
began.

Violated: a failed value was acknowledged, though every part of it failed and it was tried once
("acknowledged"); a sequentially consistent read that began after the look returns a failed value
that no try explains ("read-again"), or a final read does ("back"); ZooKeeper lists a failed part
for a replica that is active ("kept"), for one that comes back drops what failed first, and what an
active one has cannot fail. Doubtful: a run without a failed part whose value is known.

That a failed value is read again is no anomaly by itself, because its client may try once more:
    insert 1 → info     look: 0_5_5_0 failed     insert 1 → ok, in 0_7_7_0     read → 1
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from checkers.conclusion import Findings
from checkers.phrasing import during, number, on_key, seconds, where
from checkers.quorum.quorum_parts import QuorumLook, QuorumParts, quorum_parts_of
from checkers.sets.key_sets import FINAL_READ, INSERT, READS, insert_value, read_values
from harness.core.history import History, Pair
from harness.core.op import Kind, Op
from harness.core.verdict import Verdict


@dataclass(frozen=True, slots=True)
class _LookTime:
    """When a look was made. What it found may be every part."""

    begin_ns: int
    end: Op
    """Its end, without what it found."""

    @staticmethod
    def of(look: QuorumLook) -> "_LookTime":
        return _LookTime(look.invoke.time_ns, replace(look.end, value=None))


class FailedParts:
    """Judges whether a part that was found in ZooKeeper's /quorum/failed_parts stays out: that no
    replica keeps it, and that no value inserted in it is acknowledged or read again."""

    name = "failed-parts"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs a failed part whose value is known."""
        parts = quorum_parts_of(history)
        found = Findings(self.name)
        _judge_kept(found, history, parts)
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
            tried = tries.get(value, [])
            acks = [pair.end for pair in tried if pair.kind is Kind.OK and pair.end is not None]
            every_failed = all(part in parts.failed for part in parts.where[value])
            if acks and every_failed and len(tried) == 1:
                _add(found, history, "acknowledged", value, look, acks[0], "was acknowledged")
            if value in read:
                end = read[value]
                kind = "back" if end.f == FINAL_READ else "read-again"
                _add(found, history, kind, value, look, end, f"is in a {end.f}")
        failed = len(parts.failed)
        summary = f"{number(failed, 'part')} failed, {known:,} with known values"
        return found.verdict(
            checked=known,
            nothing=summary,
            held=f"{summary}, none read again; {again:,} inserted again later",
            figures={"failed": failed, "known": known, "inserted_again": again},
        )


def _tries(history: History, values: Container[int]) -> dict[int, list[Pair]]:
    """Return the inserts of these values that may have taken effect, by value."""
    out: dict[int, list[Pair]] = {}
    for pair in history.calls(INSERT, kinds=(Kind.OK, Kind.INFO)) if values else ():
        value = insert_value(pair.invoke)
        if value in values:
            out.setdefault(value, []).append(pair)
    return out


def _read_again(
    history: History, failed_in: Mapping[int, _LookTime], tries: Mapping[int, list[Pair]]
) -> dict[int, Op]:
    """Return the first read that shows each value although its part had failed before."""
    found: dict[int, Op] = {}
    for invoke, end in history.answered(*READS) if failed_in else ():
        for value in failed_in.keys() & set(read_values(end)):
            look = failed_in[value]
            if value in found or invoke.time_ns < look.end.time_ns:
                continue
            # A try that may still take effect, or that came after, explains it.
            if not any(
                (one.end is None or one.end.time_ns > look.begin_ns)
                and one.invoke.time_ns < end.time_ns
                for one in tries.get(value, ())
            ):
                found[value] = end
    return found


def _judge_kept(found: Findings, history: History, parts: QuorumParts) -> None:
    """Add, for each part on each replica, the first look that says that it was kept."""
    first: dict[tuple[str, str], _LookTime] = {}
    for look in parts.looks:
        for replica, own in look.state.kept.items():
            for part in own:
                first.setdefault((part, replica), _LookTime.of(look))
    for (part, replica), seen in first.items():
        at = seen.end.time_ns
        text = (
            f"part {part}, which had failed, is on {replica}, which is active, by op "
            f"#{seen.end.index} at {seconds(at)}{during(history, at)}"
        )
        found.add_anomaly("kept", text, seen.end)


def _add(
    found: Findings, history: History, kind: str, value: int, look: _LookTime, end: Op, how: str
) -> None:
    found.add_anomaly(
        kind,
        f"value {value}{on_key(end)}, in a part that had failed by op #{look.end.index} at "
        f"{seconds(look.end.time_ns)}, {how}, op #{end.index}{where(end)} at "
        f"{seconds(end.time_ns)}{during(history, end.time_ns)}",
        *(look.end, end),
        key=end.key,
        value=value,
        time_ns=end.time_ns,
    )
