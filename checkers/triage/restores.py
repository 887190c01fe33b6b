"""Signatures of rows that a restore which was killed has left in what replicas put aside."""

from collections.abc import Iterator, Sequence
from typing import Final

from checkers.health import complaints_of
from checkers.phrasing import seconds
from checkers.statements.calls import Effect
from checkers.statements.steps import StatementStep
from checkers.triage.accused_rows import AccusedRow
from checkers.triage.events import Event, kills
from harness.core.op import Kind

_SET_ASIDE: Final = "unexpected-part"
"""What a server says of itself that has set aside a part which ZooKeeper does not know."""


def half_restored(accused: AccusedRow) -> str:
    """Return how a replica was killed while it was restored, and has attached no part of the row's
    partition, but others."""
    for step, killed, attached in _cut_restores(accused):
        if attached and not any(accused.is_of_partition(part) for part in attached):
            return (
                f"{accused.told(step)} had attached {len(attached)} other parts when "
                f"{killed.node} was killed at {seconds(killed.begin_ns)}"
            )
    return ""


def ignored_part(accused: AccusedRow) -> str:
    """Return how a replica that had set parts aside at its start was to attach the row's partition,
    said that it had, and attached no part of it."""
    entries = accused.facts(accused.source, "assign").where(lambda fact: fact.detail == "attach")
    for step in () if accused.violation.shown else accused.steps:
        call, node = accused.pair(step), str(step.node)
        begin_ns = call.invoke.time_ns
        if call.kind is not Kind.OK or step.call.effect is not Effect.ATTACH:
            continue
        killed = kills(accused.history).on(node).before(begin_ns).last
        attached = [one.part for one in entries.since(begin_ns)]
        own = any(accused.is_of_partition(part) for part in attached)
        if killed and not own and _SET_ASIDE in complaints_of(accused.history).get(node, {}):
            return (
                f"{accused.told(step)} attached no part; {node}, which was killed at "
                f"{seconds(killed.begin_ns)}, had set parts aside at its start"
            )
    return ""


def restored_nothing(accused: AccusedRow) -> str:
    """Return how a replica was killed while it was restored, when ZooKeeper had the row's part of
    no replica any more, and no part was attached since."""
    for step, killed, attached in _cut_restores(accused):
        held = accused.facts(accused.source, "hold", "drop")
        own = held.where(lambda fact: accused.is_of_partition(fact.part))
        last = {fact.node: fact for fact in own}
        begin_ns = accused.pair(step).invoke.time_ns
        was_lost = all(one.kind == "drop" and one.begin_ns < begin_ns for one in last.values())
        if last and was_lost and not attached:
            return (
                f"{accused.told(step)} had attached nothing when {killed.node} was killed at "
                f"{seconds(killed.begin_ns)}, and nothing was attached since"
            )
    return ""


def _cut_restores(accused: AccusedRow) -> Iterator[tuple[StatementStep, Event, Sequence[str]]]:
    """Yield the restores whose replica was killed, if no table shows the row: the statement, the
    kill, and the parts that were attached since the statement began."""
    if accused.violation.shown or not accused.parts:
        return
    for step in accused.steps:
        call = accused.pair(step)
        if call.invoke.f != "restore-replica" or step.end is not None:
            continue
        begin_ns = call.invoke.time_ns
        killed = kills(accused.history).on(str(step.node)).since(begin_ns).first
        entries = accused.facts(accused.source, "assign").since(begin_ns)
        attached = [one.part for one in entries if one.detail == "attach"]
        if killed:
            yield step, killed, attached
