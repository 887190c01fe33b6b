"""Explains acknowledged values that power cuts took from every replica, by what servers sync.

That is no defect: `--fsync` says which parts are durable before they are acknowledged
(docs/storage.md). The record must show that power was cut on each replica that may have had the
value, within the time that the kernel takes to write a part by itself.
"""

from collections.abc import Iterator
from typing import Final

from checkers.phrasing import seconds
from checkers.quiescence import quiescence_of
from checkers.sets.key_sets import InsertOutcome, key_sets
from checkers.sets.set_findings import examined
from checkers.taken import Take, Taken, taken_of
from checkers.triage.evidence import Evidence
from checkers.triage.inserts import Values
from harness.core.disk_loss import Takes
from harness.core.history import History

UNSYNCED: Final = "unsynced-parts"
FLUSH_NS: Final = 30_000_000_000
"""Age at which the kernel has written a part by itself (dirty_expire_centisecs)."""


def cut_values(
    history: History, evidence: Evidence, values: Values
) -> Iterator[tuple[int | None, int, int, str]]:
    """Yield the lost values that power cuts took: key, value, the time since which every read
    should have it and none can, and the evidence."""
    taken, nodes = taken_of(history), quiescence_of(history).nodes
    if not any(take.takes is Takes.UNSYNCED for take in taken.takes):
        return
    for key in key_sets(history):
        for insert, _ in examined(key, quiescence_of(history), Taken(()), 1).lost:
            cuts = _cuts(taken, nodes, insert, (key.key, insert.value), evidence, values)
            if cuts:
                assert insert.ack is not None, "only an acknowledged value can be lost"
                since_ns = max(insert.ack.time_ns, *(take.begin_ns for take in cuts))
                yield key.key, insert.value, since_ns, _why(insert, cuts)


def _cuts(
    taken: Taken,
    nodes: tuple[str, ...],
    insert: InsertOutcome,
    of: tuple[int | None, int],
    evidence: Evidence,
    values: Values,
) -> list[Take]:
    """Return the power cut of each replica that may have had a value; none unless each had one.
    Every replica may have had it if the record has doubts."""
    assert insert.ack is not None, "only an acknowledged value can be lost"
    part = values[of].part(evidence) if of in values and not evidence.doubts else None
    holders = evidence.registered(part) if part is not None else frozenset()
    cuts = []
    for node in sorted(holders) or nodes:
        take = taken.struck(insert.invoke.time_ns, insert.ack.time_ns).get(node)
        if take is None or take.takes is not Takes.UNSYNCED:
            return []
        since_ns = take.begin_ns - FLUSH_NS
        merged = part is not None and evidence.merged_since(node, part, since_ns)
        if insert.ack.time_ns < since_ns and not merged:
            return []
        cuts.append(take)
    return cuts


def _why(insert: InsertOutcome, cuts: list[Take]) -> str:
    assert insert.ack is not None, "only an acknowledged value can be lost"
    where = ", ".join(f"{take.node} ({seconds(take.begin_ns)})" for take in cuts)
    return (
        f"value {insert.value} was acknowledged at {seconds(insert.ack.time_ns)}, and power was "
        f"cut on every replica that may have had it before it was synced: {where}"
    )
