"""Explains values that power cuts took from every replica, by what servers sync: acknowledged
ones, and those of inserts without an answer that reads have returned.

That is no defect: `--fsync` says which parts are durable before they are acknowledged
(docs/storage.md). The record must show that power was cut on each replica that may have had the
value, within the time that the kernel takes to write a part by itself.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Final

from checkers.phrasing import seconds
from checkers.quiescence import Quiescence, quiescence_of
from checkers.sets.key_sets import AnsweredRead, InsertOutcome, KeySet, key_sets
from checkers.sets.set_findings import examined
from checkers.taken import Take, Taken, taken_of
from checkers.triage.events import Event
from checkers.triage.evidence import BlockRange, Evidence
from checkers.triage.inserts import Values
from harness.core.disk_loss import Takes
from harness.core.history import History
from harness.core.op import Kind, Op

UNSYNCED: Final = "unsynced-parts"
FLUSH_NS: Final = 30_000_000_000
"""Age at which the kernel has written a part by itself (dirty_expire_centisecs)."""


def unsynced_parts(
    history: History, evidence: Evidence, values: Values
) -> Iterator[tuple[int | None, int, int, str]]:
    """Yield the lost values that power cuts took: key, value, the time since which every read
    should have it and none can, and the evidence."""
    taken, rest = taken_of(history), quiescence_of(history)
    if not any(take.takes is Takes.UNSYNCED for take in taken.takes):
        return
    for key in key_sets(history):
        for insert, known in (*_lost(key, rest), *_vanished(key, rest)):
            part = None
            if (key.key, insert.value) in values and not evidence.doubts:
                part = values[key.key, insert.value].part(evidence)
            times = insert.invoke.time_ns, known.time_ns
            holders: dict[str, Event] = {}
            for period in evidence.had(part.name) if part is not None else ():
                holders.setdefault(period.node, period)
            cuts = _cuts(taken, holders, rest.nodes, times, part, evidence)
            late = holders.keys() - {take.node for take in cuts}
            if cuts and not any(_shows(read, late, insert) for read in key.reads if late):
                since_ns = max(known.time_ns, *(take.begin_ns for take in cuts))
                yield key.key, insert.value, since_ns, _why(insert, known, cuts)


def _lost(key: KeySet, rest: Quiescence) -> Iterator[tuple[InsertOutcome, Op]]:
    """Yield each lost value with its acknowledgement."""
    for insert, _ in examined(key, rest, Taken(()), 1).lost:
        assert insert.ack is not None, "only an acknowledged value can be lost"
        yield insert, insert.ack


def _vanished(key: KeySet, rest: Quiescence) -> Iterator[tuple[InsertOutcome, Op]]:
    """Yield each value of unknown outcome that no final read has on any replica, with the end of
    the first read that returned it."""
    unknown = {x.bit: x for x in key.inserts.values() if x.kind is Kind.INFO}
    if not unknown or {read.invoke.node for read in key.finals} != {*rest.nodes}:
        return
    at_last = reduce(or_, (read.mask for read in key.finals))
    for bit in [bit for bit in unknown if at_last & bit]:
        del unknown[bit]
    for read in sorted(key.reads, key=lambda read: read.end.time_ns) if unknown else ():
        mask = read.mask
        for bit in [bit for bit in unknown if mask & bit]:
            yield unknown.pop(bit), read.end


def _shows(read: AnsweredRead, nodes: Collection[str], insert: InsertOutcome) -> bool:
    """Return whether a read on one of the nodes returned the value."""
    return read.invoke.node in nodes and bool(read.mask & insert.bit)


def _cuts(
    taken: Taken,
    holders: Mapping[str, Event],
    nodes: Sequence[str],
    times: tuple[int, int],
    part: BlockRange | None,
    evidence: Evidence,
) -> list[Take]:
    """Return the power cut of each replica that may have had a value; none unless each had one.
    `holders` have registered its part, in order of these times; if none is known, each of `nodes`
    may have had it. `times` are those of the insert's call and of the answer that proves it.

    A replica is left out that first registered a larger part after the others had lost this one:
    it merged what was left."""
    cuts: list[Take] = []
    for node in holders or nodes:
        hold = holders.get(node)
        is_merged = hold is not None and part is not None and hold.part != part.name
        if cuts and is_merged and all(take.begin_ns < holders[node].begin_ns for take in cuts):
            continue
        take = taken.struck(*times).get(node)
        if take is None or take.takes is not Takes.UNSYNCED:
            return []
        since_ns = take.begin_ns - FLUSH_NS
        merged = part is not None and evidence.merges(part.name).on(node).since(since_ns)
        if times[1] < since_ns and not merged:
            return []
        cuts.append(take)
    return cuts


def _why(insert: InsertOutcome, known: Op, cuts: list[Take]) -> str:
    where = ", ".join(f"{take.node} ({seconds(take.begin_ns)})" for take in cuts)
    how = "acknowledged" if known is insert.ack else f"returned by a read (op #{known.index})"
    return (
        f"value {insert.value} was {how} at {seconds(known.time_ns)}, and power was cut on every "
        f"replica that may have had it before it was synced: {where}"
    )
