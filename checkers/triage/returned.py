"""Explains rows of a dropped partition that one replica still returns."""

from collections.abc import Iterator
from functools import partial
from typing import Final

from checkers.conclusion import mapping_of
from checkers.phrasing import seconds
from checkers.replication.conformance import DEPARTURE
from checkers.sets.key_sets import READS
from checkers.triage.clones import clones_of
from checkers.triage.evidence import Evidence, facts_of_tables
from checkers.triage.inserts import inserted
from checkers.triage.repairs import Repair
from harness.core.history import History, memoize_per_history
from harness.core.op import Kind

RETURNED: Final = "returned-rows"
MISSED: Final = "missed-drop"
DROP_MISSED: Final = "DropMissed"
"""Departure from the model (`harness conform`): a replica executes a drop, and keeps the part of an
insert of its own that waits for the answer to its commit."""
_DROPS: Final = frozenset({"drop", "detach"})


def drops_of(history: History, name: str) -> list[int]:
    """Return the times at which the blocks of a part were dropped with their partition."""
    return [at_ns for at_ns, dropped in _drops(history) if _covers(dropped, name)]


@memoize_per_history
def _drops(history: History) -> list[tuple[int, str]]:
    """Return the time and the range of blocks of each DROP and DETACH PARTITION."""
    return [
        (at_ns, str(rest[2]))
        for facts in facts_of_tables(history, frozenset({"assign"}))
        for at_ns, _, rest in facts
        if rest[0] in _DROPS
    ]


def returned_repairs(history: History, evidence: Evidence) -> Iterator[Repair]:
    """Yield the rows in parts that only one replica still has since their partition was dropped,
    as it was lost meanwhile, or inserted them at that time."""
    if evidence.doubts:
        return
    kept = {
        (part, node): (at_ns, by, why) for part, node, at_ns, by, why in _kept(history, evidence)
    }
    if not kept:
        return
    for one in inserted(history, evidence).values():
        part = one.part(evidence)
        for (name, node), (at_ns, by, why) in kept.items():
            if part is None or part.name != name:
                continue
            for pair in history.pairs:
                if (
                    pair.invoke.f in READS
                    and (pair.invoke.node, pair.invoke.key) == (node, one.key)
                    and pair.kind is Kind.OK
                    and pair.end is not None
                    and pair.end.time_ns >= at_ns
                ):
                    change = partial(_without_value, value=one.value)
                    yield Repair(pair.end.index, by, f"{why}: value {one.value}", change)


def _kept(history: History, evidence: Evidence) -> Iterator[tuple[str, str, int, str, str]]:
    """Yield the part, the replica that has kept it, since when it should not, the known defect and
    its evidence."""
    missed = _missed(history)
    for name, (commit_ns, _) in evidence.commits.items():
        part, holders = evidence.part(name), evidence.holders(name)
        if part is None or len(holders) != 1:
            continue
        node = holders[0]
        covering = [at_ns for at_ns in drops_of(history, name) if at_ns > commit_ns]
        if not covering:
            continue
        at_ns = covering[0]
        said = f"{node} has {name}, which was to be dropped at {seconds(at_ns)}"
        for clone in clones_of(history):
            lost_before = clone.replica == node and (clone.end_ns is None or clone.end_ns > at_ns)
            if lost_before:
                why = f"{said}, and was lost from {seconds(clone.begin_ns)} on"
                yield name, node, clone.end_ns or at_ns, RETURNED, why
        if (node, name) in missed:
            why = f"{said}, and had yet to hear that its insert was committed"
            yield name, node, at_ns, MISSED, why


def _covers(dropped: str, name: str) -> bool:
    """Return whether a range of blocks, as a drop names it, covers a part."""
    words, own = dropped.split("_"), name.split("_")
    return (
        len(words) >= 3
        and words[0] == own[0]
        and words[1].isdigit()
        and words[2].isdigit()
        and int(words[1]) <= int(own[1])
        and int(own[2]) <= int(words[2])
    )


def _missed(history: History) -> frozenset[tuple[str, str]]:
    """Return the replicas that kept a part of their own when they executed a drop, and the part."""
    found: set[tuple[str, str]] = set()
    for op in history.nemesis:
        said = mapping_of(op)
        if op.f == DEPARTURE and op.kind is Kind.OK and said.get("kind") == DROP_MISSED:
            steps = [str(step).split() for step in said.get("step") or ()]
            found |= {(w[1], w[2]) for w in steps if w[:1] == [DROP_MISSED] and len(w) > 2}
    return frozenset(found)


def _without_value(values: tuple[int, ...], *, value: int) -> tuple[int, ...]:
    return tuple(one for one in values if one != value)
