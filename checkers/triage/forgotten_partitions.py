"""Explains rows that a replica lacks which dropped a partition after it had been forgotten, and
rows that a drop has left.

Once ZooKeeper has forgotten a partition, its blocks are numbered from 0 again. A replica that has
the DROP PARTITION of before still in its queue takes the parts of new inserts for those that it is
to drop: it removes their entries, and what it has of them, and nothing brings them back. The
replica that is asked looks at its own parts alone: a part that it has yet to fetch is forgotten,
too, and a DROP PARTITION after that, which finds no block of the partition, leaves it.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from checkers.phrasing import seconds
from checkers.statements.calls import Effect
from checkers.statements.partitions import StatementPartition, partitions_of
from checkers.statements.rows import RowViolation, violations_of
from checkers.statements.steps import Shown, StatementStep
from checkers.triage.accused_rows import DATED_NS, AccusedRow, tables_by_name, with_row
from checkers.triage.events import Event, ended_ns
from checkers.triage.evidence import BlockRange, Evidence
from checkers.triage.repairs import Repair
from harness.core.history import History


def forgotten_partition(history: History, _: Evidence) -> Iterator[Repair]:
    """Yield the rows of a part that a replica lacks at rest. The record must show that the range of
    an earlier drop has the part, that the partition was forgotten in between, and that the replica
    never got the part, or dropped it. Yield also the rows that are there after a drop. The record
    must show that the replica which forgot the partition got their part later, and that no drop was
    logged whose range has it."""
    tables = tables_by_name(history)
    partitions = partitions_of(history)[0] if tables else {}
    steps = (step for partition in partitions.values() for step in partition.statements)
    if any(step.call.effect is Effect.FORGET for step in steps):
        for violation in violations_of(history):
            if violation.kind == "resurrected":
                yield from _left(AccusedRow(history, tables, violation))
    for key, partition in partitions.items():
        forgets = [one for one in partition.statements if one.call.effect is Effect.FORGET]
        for row, insert in partition.inserts.items() if forgets else ():
            seen = {node: rows.get(row, ()) for node, rows in partition.shown.items()}
            if len({*seen.values()}) < 2:
                continue
            accused = AccusedRow(
                history,
                tables,
                RowViolation("diverged", key, row, [insert], (), (), (), partition.inserts, ()),
            )
            yield from _repairs(accused, partition, forgets, seen)


def _left(accused: AccusedRow) -> Iterator[Repair]:
    """Yield what each replica should show of a row that a drop has left."""
    source, row = accused.source, accused.violation.row
    logged = accused.facts(source, "assign").where(accused.is_removing)
    for forget in accused.steps:
        if forget.call.effect is not Effect.FORGET or forget.call.table != source:
            continue
        begin_ns = accused.pair(forget).invoke.time_ns
        holds = accused.facts(source, "hold").on(str(forget.node))
        own = holds.where(lambda hold: BlockRange.named(hold.part) in accused.parts)
        late = next(iter(own.since(begin_ns)), None)
        if late is None or any(own.before(begin_ns)):
            continue
        part = BlockRange.named(late.part)
        ranges = (BlockRange.named(drop.part) for drop in logged.since(begin_ns - DATED_NS))
        drop = next((step for step in accused.steps if _drops_later(step, forget)), None)
        if drop is None or part is None or any(one and one.covers(part) for one in ranges):
            continue
        why = (
            f"row {row}: {accused.told(forget)} forgot the partition before it got {late.part} at "
            f"{seconds(late.begin_ns)}, so that {accused.told(drop)} found no block to drop"
        )
        shown = tuple(one for one in accused.violation.shown if one[0] != source)
        change = partial(with_row, row=row, shown=shown)
        yield from (
            Repair(look, "forgotten-partition", why, change) for look in accused.violation.looks
        )
        return


def _drops_later(step: StatementStep, forget: StatementStep) -> bool:
    """Return whether a statement drops the partition after it was forgotten."""
    call = step.call
    drops = call.effect is Effect.DELETE and not call.is_mutation and call.one_in == 1
    later = forget.end is not None and step.begin > forget.end
    return drops and later and step.end is not None and call.table == forget.call.table


def _repairs(
    accused: AccusedRow,
    partition: StatementPartition,
    forgets: Sequence[StatementStep],
    seen: Mapping[str, Shown],
) -> Iterator[Repair]:
    """Yield what each replica should show that lacks the part of a row."""
    for part, drop, forget in _renumbered(accused, forgets):
        lacking = [node for node in seen if not _has(accused, node, part)]
        expected = {shown for node, shown in seen.items() if node not in lacking}
        if len(expected) != 1:
            continue
        (shown,) = expected
        for node in lacking:
            look = accused.history.pairs[partition.finals[node]].end
            if look is None or seen[node] == shown:
                continue
            row = accused.violation.row
            why = (
                f"row {row}: {accused.told(forget)} began its numbers anew, {accused.source} got "
                f"{part.part} at {seconds(part.begin_ns)}, and {node} lacks it, which is in the "
                f"range of the drop that was logged at {seconds(drop.begin_ns)}"
            )
            change = partial(with_row, row=row, shown=shown)
            yield Repair(look.index, "forgotten-partition", why, change)
        return


def _renumbered(
    accused: AccusedRow, forgets: Sequence[StatementStep]
) -> Iterator[tuple[Event, Event, StatementStep]]:
    """Yield the parts that the row's replica got while the insert went on and that are in the range
    of an earlier drop, with that and the statement in between that forgot the partition."""
    insert = accused.violation.steps[0]
    call = accused.pair(insert)
    holds = accused.facts(accused.source, "hold").on(str(insert.node))
    holds = holds.since(call.invoke.time_ns - DATED_NS).until(ended_ns(call) + DATED_NS)
    drops = accused.facts(accused.source, "assign").where(accused.is_removing)
    for hold in holds.where(lambda hold: accused.is_of_partition(hold.part)):
        part = BlockRange.named(hold.part)
        for drop in drops.before(hold.begin_ns):
            dropped = BlockRange.named(drop.part)
            for forget in forgets:
                begin_ns = accused.pair(forget).invoke.time_ns
                between = drop.begin_ns - DATED_NS <= begin_ns <= hold.begin_ns
                own = forget.call.table == accused.source
                if own and between and part and dropped and dropped.covers(part):
                    yield hold, drop, forget


def _has(accused: AccusedRow, node: str, part: Event) -> bool:
    """Return whether a replica has a part since another one got it, or one that covers it."""
    wanted, held = BlockRange.named(part.part), set[str]()
    for fact in accused.facts(accused.source, "hold", "drop").on(node).since(part.begin_ns):
        if fact.kind == "hold":
            held.add(fact.part)
        else:
            held.discard(fact.part)
    parts = [BlockRange.named(name) for name in held]
    return wanted is not None and any(one is not None and one.covers(wanted) for one in parts)
