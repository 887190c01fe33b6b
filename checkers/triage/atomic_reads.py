"""Explains reads that return a part of one insert, whose rows belong to several partitions: the
server commits the part of each partition by itself."""

from collections.abc import Iterator, Sequence

from checkers.phrasing import listed, number, seconds
from checkers.sets.atomic import INSERT_MANY
from checkers.sets.key_sets import READS, read_values
from checkers.triage.events import acknowledged_ns, ended_ns, kills
from checkers.triage.evidence import BlockRange, Evidence
from checkers.triage.missing import LATE_NS
from checkers.triage.repairs import Repair, add
from harness.core.history import History, Pair
from harness.core.op import Kind, Op


def split_inserts(history: History, evidence: Evidence) -> Iterator[Repair]:
    """Yield the values that reads lack of inserts of which they return others. Each value must have
    a partition of its own; of one in the partition of the others nothing is explained."""
    for insert in history.calls(INSERT_MANY) if not evidence.doubts else ():
        every = insert.invoke.value if isinstance(insert.invoke.value, tuple) else ()
        parts = {value: _part(evidence, insert, value) for value in every}
        for read, end in history.answered(*READS):
            seen = set(read_values(end)) & set(every)
            missing = [value for value in every if value not in seen]
            if not seen or not missing or any(parts[value] is None for value in seen):
                continue
            never = [value for value in missing if parts[value] is None]
            came = [part for value in missing if (part := parts[value]) is not None]
            times = [_held_ns(evidence, part, read) for part in came]
            if any(at_ns + LATE_NS < read.time_ns for at_ns in times):
                continue
            if never and (why := _half_insert(history, insert, never)):
                yield Repair(end.index, "half-insert", why, add(missing))
            elif not never:
                yield Repair(end.index, "torn-insert", _torn_insert(read, times), add(missing))


def _part(evidence: Evidence, insert: Pair, value: int) -> BlockRange | None:
    """Return the part of a value that an insert committed; None without one, or if two fit."""
    found = [
        evidence.part(name)
        for name, (at_ns, replica) in evidence.commits.items()
        if name.split("_")[0] == str(value)
        and replica == insert.invoke.node
        and at_ns >= insert.invoke.time_ns - evidence.error_ns(at_ns)
        and at_ns <= acknowledged_ns(insert) + evidence.error_ns(at_ns)
    ]
    return found[0] if len(found) == 1 else None


def _held_ns(evidence: Evidence, part: BlockRange, read: Op) -> int:
    """Return when a part was registered where a read was made; -1 if it never was."""
    hold = evidence.held(str(read.node), part.partition, part.low, -1)
    return -1 if hold is None else hold.begin_ns


def _torn_insert(read: Op, times: Sequence[int]) -> str:
    """Return how each part of the missing values, which the insert committed, was registered there
    only after the read had begun, or up to 50 ms before."""
    return (
        f"{read.node} registered parts of {number(len(times), 'value')} of the insert from "
        f"{seconds(min(times))} on, each by itself, and the read began at {seconds(read.time_ns)}"
    )


def _half_insert(history: History, insert: Pair, never: Sequence[int]) -> str:
    """Return how the missing values have no part, for the replica was killed during the insert,
    which was not acknowledged; "" if it was not so."""
    killed = kills(history).on(str(insert.invoke.node))
    kill = killed.begun_within(insert.invoke.time_ns, ended_ns(insert)).first
    if kill is None or insert.kind is Kind.OK:
        return ""
    return (
        f"{number(len(never), 'value')} of the insert have no part, such as {listed(never[:3])}: "
        f"its replica was killed at {seconds(kill.begin_ns)}"
    )
