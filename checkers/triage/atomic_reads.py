"""Explains reads that return a part of one insert, whose rows belong to several partitions: the
server commits the part of each partition by itself."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from checkers.phrasing import listed, number, seconds
from checkers.sets.atomic import INSERT_MANY
from checkers.sets.key_sets import READS, read_values
from checkers.triage.breaks import kills
from checkers.triage.evidence import Evidence
from checkers.triage.reads import LATE_NS
from checkers.triage.repairs import Repair
from harness.core.history import Fault, History, Pair
from harness.core.op import Kind

TORN: Final = "torn-insert"
HALF: Final = "half-insert"


def atomic_repairs(history: History, evidence: Evidence) -> Iterator[Repair]:
    """Yield the values that reads lack of inserts of which they return others. Each value must have
    a partition of its own; of one in the partition of the others nothing is explained."""
    inserts = [pair for pair in history.pairs if pair.invoke.f == INSERT_MANY]
    if evidence.doubts or not inserts:
        return
    for insert in inserts:
        every = insert.invoke.value
        if not isinstance(every, tuple):
            continue
        parts = {value: _part(evidence, insert, value) for value in every}
        killed = _killed(history, insert)
        for read in history.pairs:
            if read.invoke.f not in READS or read.kind is not Kind.OK or read.end is None:
                continue
            seen = set(read_values(read.end)) & set(every)
            missing = tuple(value for value in every if value not in seen)
            if not seen or not missing or any(parts[value] is None for value in seen):
                continue
            for by, why in _explained(evidence, parts, missing, read, killed):
                change = partial(_with_values, added=missing)
                yield Repair(read.end.index, by, why, change)


def _part(evidence: Evidence, insert: Pair, value: int) -> tuple[int, str] | None:
    """Return when the insert committed the part of a value, and its name; None if it did not, or if
    two parts fit."""
    end_ns = insert.end.time_ns if insert.end is not None and insert.kind is Kind.OK else None
    found = [
        (at_ns, name)
        for name, (at_ns, replica) in evidence.commits.items()
        if name.split("_")[0] == str(value)
        and replica == insert.invoke.node
        and at_ns >= insert.invoke.time_ns - evidence.error_ns(at_ns)
        and (end_ns is None or at_ns <= end_ns + evidence.error_ns(at_ns))
    ]
    return found[0] if len(found) == 1 else None


def _explained(
    evidence: Evidence,
    parts: dict[int, tuple[int, str] | None],
    missing: Sequence[int],
    read: Pair,
    killed: Fault | None,
) -> Iterator[tuple[str, str]]:
    """Yield the known defect for which the record proves that the read lacks these values."""
    never = [value for value in missing if parts[value] is None]
    later = [value for value in missing if _came_later(evidence, parts[value], value, read)]
    if never and killed is None:
        return  # They may be in parts that the record does not tell apart.
    if len(never) + len(later) < len(missing):
        return
    node = read.invoke.node
    if never and killed is not None:
        why = (
            f"{number(len(never), 'value')} of the insert have no part, such as "
            f"{listed(never[:3])}: its replica was killed at {seconds(killed.begin_ns)}"
        )
        yield HALF, why
    else:
        at_ns = min(
            held for v in later if (held := _held_ns(evidence, v, parts[v], node)) is not None
        )
        why = (
            f"{node} registered parts of {number(len(later), 'value')} of the insert from "
            f"{seconds(at_ns)} on, each by itself, and the read began at "
            f"{seconds(read.invoke.time_ns)}"
        )
        yield TORN, why


def _held_ns(
    evidence: Evidence, value: int, part: tuple[int, str] | None, node: str | None
) -> int | None:
    found = evidence.part(part[1]) if part is not None else None
    hold = evidence.held(str(node), str(value), found.low, -1) if found is not None else None
    return None if hold is None else hold.at_ns


def _came_later(evidence: Evidence, part: tuple[int, str] | None, value: int, read: Pair) -> bool:
    """Return whether a part was registered where the read was made only when it had begun."""
    if part is None:
        return False
    at_ns = _held_ns(evidence, value, part, read.invoke.node)
    return at_ns is not None and at_ns + LATE_NS >= read.invoke.time_ns


def _killed(history: History, insert: Pair) -> Fault | None:
    """Return the fault that killed the replica during an insert that was not acknowledged."""
    if insert.kind is Kind.OK:
        return None
    end_ns = insert.end.time_ns if insert.end is not None else None
    return next(
        (
            fault
            for fault in kills(history, str(insert.invoke.node))
            if fault.begin_ns >= insert.invoke.time_ns
            and (end_ns is None or fault.invoked_ns <= end_ns)
        ),
        None,
    )


def _with_values(values: tuple[int, ...], *, added: Sequence[int]) -> tuple[int, ...]:
    return (*values, *added)
