"""Signatures of DETACH and ATTACH: a mutation that was pending is forgotten, or a part that was put
aside is not attached, because another one that was put aside covers its numbers.

ATTACH PARTITION takes of the parts that are put aside those that no other one covers. A part covers
those of the partition whose block numbers are in its own range, also where it does not have their
rows: a merge spans the numbers of a part that was detached before, and a part that FETCH brings has
the numbers of another table.
"""

from collections.abc import Iterator
from functools import partial

from checkers.phrasing import seconds
from checkers.statements.calls import Effect
from checkers.statements.steps import StatementStep
from checkers.triage.accused_rows import DATED_NS, AccusedRow
from checkers.triage.events import Event, ended_ns
from checkers.triage.evidence import BlockRange, version_of
from checkers.triage.row_paths import UnknownPathError, mutations_of
from harness.core.rows import NEVER_NS


def forgotten_mutation(accused: AccusedRow) -> str:
    """Return how a DETACH put aside the row's part, which a replica that attached it again had
    never mutated, if what is shown is as after some order without these mutations."""
    attached = {
        str(step.node) for step in accused.steps if _is_on_source(accused, step, Effect.ATTACH)
    }
    for step in accused.steps if accused.parts else ():
        if not _is_on_source(accused, step, Effect.DETACH):
            continue
        for node in sorted(attached):
            pending = [one for one in accused.steps if _is_forgotten(accused, one, step, node)]
            if pending and accused.is_explained_without(pending):
                return (
                    f"{accused.told(step)} put its part aside, which {node} had yet to mutate by "
                    f"{accused.told(pending[0]).rstrip(',')}"
                )
    return ""


def stranded_part(accused: AccusedRow) -> str:
    """Return how a part that spans the number of the row's part, which had been put aside, was put
    aside by a later DETACH, so that an ATTACH left the row's part where it was."""
    for attach in _attaches(accused):
        entries = accused.facts(accused.source, "assign").until(ended_ns(accused.pair(attach)))
        entries = entries.where(lambda entry: entry.detail == "detach")
        first = entries.where(lambda entry: _has_block_of(accused, entry.part)).first
        since_ns = first.begin_ns if first else NEVER_NS
        for later in entries.after(since_ns):
            new = accused.facts(accused.source, "hold").on(str(attach.node)).after(since_ns)
            new = new.until(later.begin_ns)
            new = new.where(partial(_spans, accused=accused, within=later.part))
            if new:
                return (
                    f"{accused.told(attach)} left it aside: {new[-1].part}, which spans its "
                    f"number, was put aside at {seconds(later.begin_ns)}"
                )
    return ""


def fetched_over(accused: AccusedRow) -> str:
    """Return how a FETCH put a part aside that covers the numbers of the row's part, which a DETACH
    put aside, so that an ATTACH left the row's part where it was."""
    for attach in _attaches(accused):
        for fetch in accused.violation.statements:
            own = fetch.call.effect is Effect.FETCH and fetch.call.to == accused.source
            if not own or fetch.node != attach.node or _is_before(attach, fetch):
                continue
            others = accused.facts(fetch.call.table, "hold")
            others = others.until(ended_ns(accused.pair(fetch)) + DATED_NS)
            over = others.where(lambda hold: _has_block_of(accused, hold.part)).last
            if over:
                return (
                    f"{accused.told(attach)} left it aside: {over.part} of {fetch.call.table}, "
                    f"which {accused.told(fetch).rstrip(',')} put aside, covers its number"
                )
    return ""


def _attaches(accused: AccusedRow) -> Iterator[StatementStep]:
    """Yield the ATTACHes after a DETACH of the row's part without which what is shown is as after
    some order."""
    detaches = [step for step in accused.steps if _is_on_source(accused, step, Effect.DETACH)]
    for step in accused.steps if accused.parts else ():
        after = any(not _is_before(step, detach) for detach in detaches)
        attaches = after and _is_on_source(accused, step, Effect.ATTACH)
        if attaches and accused.is_explained_without([step]):
            yield step


def _is_before(step: StatementStep, other: StatementStep) -> bool:
    """Return whether a statement ended before another one began."""
    return step.end is not None and step.end < other.begin


def _spans(hold: Event, accused: AccusedRow, within: str) -> bool:
    """Return whether a part covers the row's part, and is in a range of blocks."""
    part, blocks = BlockRange.named(hold.part), BlockRange.named(within)
    spans = part is not None and blocks is not None and blocks.covers(part)
    return spans and _has_block_of(accused, hold.part)


def _is_on_source(accused: AccusedRow, step: StatementStep, effect: Effect) -> bool:
    return step.call.effect is effect and step.call.table == accused.source


def _is_forgotten(
    accused: AccusedRow, step: StatementStep, detach: StatementStep, node: str
) -> bool:
    """Return whether a statement made a mutation of the row's block before a DETACH ended, and a
    replica never had a part of that block which had taken it."""
    ended = detach.end is not None and detach.end < step.begin
    if step.call.effect not in (Effect.APPEND, Effect.DELETE) or ended:
        return False
    try:
        made = [one for one in mutations_of(accused, step) if one.table == accused.source]
    except UnknownPathError:
        return False
    holds = accused.facts(accused.source, "hold").on(node)
    own = [hold.part for hold in holds if _has_block_of(accused, hold.part)]
    applies = [one for one in made if all(part.low < one.number for part in accused.parts)]
    return bool(applies) and all(version_of(part) < one.number for one in applies for part in own)


def _has_block_of(accused: AccusedRow, name: str) -> bool:
    part = BlockRange.named(name)
    return part is not None and any(part.covers(own) for own in accused.parts)
