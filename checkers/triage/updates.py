"""Signatures of UPDATE, which writes patch parts: it changes rows that it does not select, or what
another one or an ALTER has changed is lost; and of an ALTER UPDATE that was made twice.

A patch part has the new values of rows, and names a row by its block number and its offset in the
block. Of two patches for the same row the later version wins, whatever it was computed from.
"""

from collections.abc import Iterator
from functools import partial

from checkers.phrasing import seconds
from checkers.statements.calls import Effect, StatementCall
from checkers.statements.steps import StatementStep
from checkers.triage.accused_rows import DATED_NS, AccusedRow
from checkers.triage.events import Event, Events, ended_ns
from checkers.triage.evidence import BlockRange

_PATCH = "patch-"
"""Begin of the names of patch parts, which end as the partition does that they are for."""


def strayed_update(accused: AccusedRow) -> str:
    """Return how each UPDATE that does not select the row selected one that was inserted into
    another table in a block of the same number, and rows of another table had come before."""
    why = ""
    for stray in accused.violation.strays:
        into = accused.facts(stray.call.table)
        came = into.of("assign").until(ended_ns(accused.pair(stray)))
        came = came.where(accused.is_replacing(into))
        row = next((row for row in _twins(accused, stray)), None)
        if row is None or not came or not _is_patch(stray.call) or not _patches(accused, stray):
            return ""
        twin, insert = accused.violation.inserts[row], accused.violation.steps[0]
        why = (
            f"{accused.told(stray)} selects row {row}, whose block had the same number in "
            f"{twin.call.table} as this row's in {insert.call.table}; rows of another table came "
            f"to {stray.call.table} at {seconds(came[-1].begin_ns)}"
        )
    return why


def _twins(accused: AccusedRow, stray: StatementStep) -> Iterator[int]:
    """Yield the rows that a statement selects, whose block has the number of the accused row's in
    another table, and for which all updates were that are shown up to that of the statement."""
    blocks, source = {part.low for part in accused.parts}, accused.source
    shown = [copy for _, copies in accused.violation.shown for copy in copies]
    patched = [copy for copy in shown if stray.call.update in copy]
    for row, insert in accused.violation.inserts.items():
        if not stray.call.touches(row) or insert.call.table == source or not blocks:
            continue
        updates = {s.call.update for s in accused.violation.statements if s.call.touches(row)}
        alike = all(
            updates.issuperset(copy[: copy.index(stray.call.update) + 1]) for copy in patched
        )
        if alike and {part.low for part in accused.parts_of(insert)} == blocks:
            yield row


def lost_update(accused: AccusedRow) -> str:
    """Return how two UPDATEs with other values of `update_parallel_mode` overlapped, of which the
    row shows one."""
    for lost in _lost(accused):
        for kept in accused.steps if _is_patch(lost.call) else ():
            modes = {step.call.settings.get("update_parallel_mode") for step in (lost, kept)}
            if not _is_patch(kept.call) or kept.call.table != lost.call.table or len(modes) < 2:
                continue
            begin_ns = accused.pair(kept).invoke.time_ns
            patches = _patches(accused, lost)
            late = patches and all(patch.begin_ns > begin_ns - DATED_NS for patch in patches)
            if late and _patches(accused, kept) and kept.call.update in _shown(accused):
                return (
                    f"{accused.told(lost)} committed its patch at {seconds(patches[0].begin_ns)}, "
                    f"after {accused.told(kept)} with another update_parallel_mode"
                )
    return ""


def overwritten_update(accused: AccusedRow) -> str:
    """Return how the replica that made an UPDATE had yet to execute a mutation that was
    acknowledged before it, and that the row does not show."""
    for lost in _lost(accused):
        table, begin_ns = lost.call.table, accused.pair(lost).invoke.time_ns
        mutated = {
            entry.part
            for entry in accused.facts(table, "assign").since(begin_ns - DATED_NS)
            if entry.detail == "mutate" and accused.is_of_partition(entry.part)
        }
        for kept in accused.steps if mutated and not _is_patch(lost.call) else ():
            if not _is_patch(kept.call) or kept.call.table != table:
                continue
            holds = accused.facts(table, "hold").on(str(kept.node))
            done = holds.where(lambda hold: hold.part in mutated).first  # noqa: B023
            patch = _patches(accused, kept).first
            late = done is None or (patch is not None and done.begin_ns > patch.begin_ns)
            if patch is not None and late and kept.call.update in _shown(accused):
                return (
                    f"{accused.told(kept)} made its patch at {seconds(patch.begin_ns)}, and "
                    f"{kept.node} had yet to execute {accused.told(lost)}"
                )
    return ""


def mutated_twice(accused: AccusedRow) -> str:
    """Return which replicas have made, one after the other, an ALTER UPDATE on all hosts that the
    row shows more than once."""
    copies = [copy for _, shown in accused.violation.shown for copy in shown]
    for step in accused.steps if not accused.violation.strays else ():
        update = step.call.update
        if not step.call.is_on_all_hosts or step.call.effect is not Effect.APPEND:
            continue
        often = max((copy.count(update) for copy in copies), default=0)
        since_ns = accused.pair(step).invoke.time_ns - DATED_NS
        made = accused.facts(step.call.table, "mutation").since(since_ns)
        made = made.where(partial(_appends, update=update))
        if 1 < often <= len(made):
            told = " and ".join(f"{one.node} at {seconds(one.begin_ns)}" for one in made)
            return f"{accused.told(step)} was made by {told}"
    return ""


def _appends(entry: Event, update: object) -> bool:
    """Return whether a mutation of the log appends this number."""
    return f", {update})" in entry.blob


def _lost(accused: AccusedRow) -> Iterator[StatementStep]:
    """Yield the acknowledged updates that the row lacks, and without which what is shown is as
    after some order."""
    for step in accused.steps:
        if step.call.effect is not Effect.APPEND or step.end is None:
            continue
        if step.call.update in _shown(accused):
            continue
        if accused.is_explained_without([step]):
            yield step


def _is_patch(call: StatementCall) -> bool:
    """Return whether a statement changes rows by a patch part."""
    return call.effect is Effect.APPEND and bool(call.settings.get("enable_lightweight_update"))


def _patches(accused: AccusedRow, step: StatementStep) -> Events:
    """Return when the replica that made a statement registered patch parts for the partition, while
    it went on."""
    holds = accused.during(step, step.call.table, "hold").on(str(step.node))
    return holds.where(
        lambda hold: (
            (part := BlockRange.named(hold.part)) is not None
            and part.partition.startswith(_PATCH)
            and part.partition.endswith(f"-{accused.violation.key}")
        )
    )


def _shown(accused: AccusedRow) -> set[int]:
    return {update for _, copies in accused.violation.shown for copy in copies for update in copy}
