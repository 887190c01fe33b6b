"""Explains rows of a dropped partition that one replica still returns."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from checkers.phrasing import seconds
from checkers.sets.key_sets import READS
from checkers.triage.events import Events, departures, facts, lost_periods
from checkers.triage.evidence import BlockRange, Evidence
from checkers.triage.inserts import inserted
from checkers.triage.repairs import Repair, remove
from harness.core.history import History, memoize_per_history

DROP_MISSED: Final = "DropMissed"
"""Departure from the model (`harness conform`): a replica executes a drop, and keeps the part of an
insert of its own that waits for the answer to its commit."""


class KeptPart(NamedTuple):
    """A part that only one replica still has since its partition was dropped."""

    name: str
    node: str
    drop_ns: int

    def __str__(self) -> str:
        return f"{self.node} has {self.name}, which was to be dropped at {seconds(self.drop_ns)}"


def drops_of(history: History, name: str) -> Events:
    """Return when the blocks of a part were dropped or detached with their partition."""
    part = BlockRange.named(name)
    return _drops(history).where(lambda drop: _covers(BlockRange.named(drop.part), part))


def _covers(dropped: BlockRange | None, part: BlockRange | None) -> bool:
    return dropped is not None and part is not None and dropped.covers(part)


@memoize_per_history
def _drops(history: History) -> Events:
    return facts(history, "assign").where(lambda entry: entry.detail in ("drop", "detach"))


def kept_rows(history: History, evidence: Evidence) -> Iterator[Repair]:
    """Yield the rows that the only replica with a part still returns, though its partition was
    dropped."""
    kept = kept_parts(history, evidence)
    for one in inserted(history, evidence).values() if kept else ():
        part = one.part(evidence)
        own = kept.get(part.name) if part is not None else None
        found = own and why_kept(history, own)
        if not own or not found:
            continue
        by, since_ns, why = found
        for read, end in history.answered(*READS):
            if (read.node, read.key) == (own.node, one.key) and end.time_ns >= since_ns:
                yield Repair(end.index, by, f"{own}, {why}: value {one.value}", remove(one.value))


def why_kept(history: History, part: KeptPart) -> tuple[str, int, str] | None:
    """Return the defect that kept a part, since when its rows are wrong, and why; None if the
    record shows no such mechanism."""
    return _missed_drop(history, part) or _returned_rows(history, part)


def kept_parts(history: History, evidence: Evidence) -> dict[str, KeptPart]:
    """Return the parts that only one replica still has since their partition was dropped, by
    name."""
    return {part.name: part for part in _kept_parts(history, evidence)}


def _kept_parts(history: History, evidence: Evidence) -> Iterator[KeptPart]:
    for name, (commit_ns, _) in evidence.commits.items() if not evidence.doubts else ():
        drop = drops_of(history, name).after(commit_ns).first
        holders = evidence.holders(name)
        if drop is not None and len(holders) == 1:
            yield KeptPart(name, holders[0], drop.begin_ns)


def _returned_rows(history: History, part: KeptPart) -> tuple[str, int, str] | None:
    """Return why a replica that was marked lost until after the drop still has the part: its clone
    keeps what its source lacks. The rows are wrong from the end of that period on."""
    lost = lost_periods(history).on(part.node).ended_after(part.drop_ns).last
    if lost is None:
        return None
    since_ns = lost.end_ns if lost.is_over else part.drop_ns
    return "returned-rows", since_ns, f"and was lost from {seconds(lost.begin_ns)} on"


def _missed_drop(history: History, part: KeptPart) -> tuple[str, int, str] | None:
    """Return why a replica that executed the drop kept the part: its insert had yet to hear that it
    was committed."""
    if (part.node, part.name) not in departures(history, DROP_MISSED):
        return None
    why = "and had yet to hear that its insert was committed"
    return "missed-drop", part.drop_ns, why
