"""Explains what became of rows that statements change, move and copy.

A signature is of one row that no order of its statements explains. It names the part of the row by
the replica and the time of its insert; if several parts may have it, the record must show the
mechanism for each of them. Then the row is shown as after some order.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from msgspec import structs

from checkers.phrasing import seconds
from checkers.statements.calls import Effect
from checkers.statements.effects import explains, in_tables
from checkers.statements.orders import TooManyOrdersError, final_states
from checkers.statements.partitions import partitions_of
from checkers.statements.rows import HALF_MOVED, RowViolation, violations_of
from checkers.statements.steps import Sees, StatementStep
from checkers.triage.accused_rows import (
    AccusedRow,
    early_tables_by_name,
    tables_by_name,
    with_row,
)
from checkers.triage.detached import fetched_over, forgotten_mutation, stranded_part
from checkers.triage.events import Events, departures, ended_ns, kills
from checkers.triage.evidence import BlockRange, Evidence
from checkers.triage.kept import unregistered_parts
from checkers.triage.partitions import DROP_MISSED, KeptPart, kept_parts, why_kept
from checkers.triage.renames import renamed_away
from checkers.triage.repairs import Repair
from checkers.triage.restores import half_restored, ignored_part, restored_nothing
from checkers.triage.rewinds import rewound_insert, rewound_restart
from checkers.triage.row_paths import UnknownPathError, recorded, unmutated
from checkers.triage.updates import lost_update, mutated_twice, overwritten_update, strayed_update
from harness.core.history import History

_LOST: Final = ("lost",)
_STALE: Final = ("stale-copy",)
_AMID_MOVE: Final = ("doubled", "misplaced")
"""Kinds of a row that was taken while a MOVE had copied it and not removed it."""
_SERVER_ERROR: Final = re.compile(r"(\d+) ")
"""Begin of the error of a call that the server answered."""
_IN_VIEWS: Final = "deduplicate_blocks_in_dependent_materialized_views"
_CHANGED: Final = ("undone", "changed", *_STALE)
"""Kinds of a row that lacks an update; where statements take rows a stale copy may lack any."""


def statement_rows(history: History, _: Evidence) -> Iterator[Repair]:
    """Yield what the replicas show of rows that known defects have lost, doubled or misplaced."""
    tables, early = tables_by_name(history), early_tables_by_name(history)
    for violation in violations_of(history) if early else ():
        accused = AccusedRow(history, tables, violation)
        before = AccusedRow(history, early, violation)
        for by, (kinds, signature) in SIGNATURES.items():
            of = before if by in EARLY else accused
            if of.tables and violation.kind in kinds and (why := signature(of)):
                expected = min(map(in_tables, final_states(violation.steps, Sees.ACKNOWLEDGED)))
                change = partial(with_row, row=violation.row, shown=expected)
                for look in violation.looks:
                    yield Repair(look, by, f"row {violation.row}: {why}", change)
                break


def kept_statement_rows(history: History, evidence: Evidence) -> Iterator[Repair]:
    """Yield the rows that the only replica with a part still shows at rest, though its partition
    was dropped."""
    kept, tables = kept_parts(history, evidence), tables_by_name(history)
    missed = departures(history, DROP_MISSED)
    partitions, _ = partitions_of(history) if kept or missed else ({}, None)
    for key, partition in partitions.items():
        looks = {node: history.pairs[place].end for node, place in partition.finals.items()}
        for row, insert in partition.inserts.items():
            seen = {node: rows.get(row, ()) for node, rows in partition.shown.items()}
            if len(set(seen.values())) < 2:
                continue
            violation = RowViolation(
                "diverged", key, row, [insert], (), (), (), partition.inserts, ()
            )
            accused = AccusedRow(history, tables, violation)
            for part in accused.parts:
                own = kept.get(part.name) or _missed(accused, part)
                found = own and why_kept(history, own)
                look = own and looks.get(own.node)
                if not own or not found or not look or look.time_ns < found[1]:
                    continue
                by, _, why = found
                for others in {shown for node, shown in seen.items() if node != own.node}:
                    change = partial(with_row, row=row, shown=others)
                    yield Repair(look.index, by, f"{own}, {why}: row {row}", change)


def _missed(accused: AccusedRow, part: BlockRange) -> KeptPart | None:
    """Return a part that its replica kept through a drop or a MOVE of its partition: also in a run
    of several tables, of which `kept_parts` knows nothing."""
    node = str(accused.violation.steps[0].node)
    drops = accused.facts(accused.source, "assign").where(accused.is_removing)
    own = drops.where(
        lambda drop: (gone := BlockRange.named(drop.part)) is not None and gone.covers(part)
    )
    if own.first is None or (node, part.name) not in departures(accused.history, DROP_MISSED):
        return None
    return KeptPart(part.name, node, own.first.begin_ns)


def phantom_statement_rows(history: History, evidence: Evidence) -> Iterator[Repair]:
    """Yield the rows that a replica alone shows at rest, where it has a part that nobody ever
    registered and their insert had an unknown outcome. There are no more of them than such
    parts."""
    left = unregistered_parts(history, evidence)
    partitions, _ = partitions_of(history) if left else ({}, None)
    for key, partition in partitions.items():
        for row, insert in partition.inserts.items():
            parts = left.get((str(insert.node), str(key)))
            seen = {node: rows.get(row, ()) for node, rows in partition.shown.items()}
            own, others = seen.pop(str(insert.node), ()), {*seen.values()}
            if not parts or insert.end is not None or not own or others != {()}:
                continue
            look = history.pairs[partition.finals[str(insert.node)]].end
            assert look is not None, "a look that is shown was answered"
            op = history.pairs[insert.place].invoke
            why = (
                f"op #{op.index} insert of row {row} on {insert.node} has an unknown outcome, and "
                f"at rest {insert.node} has {parts.pop()}, which was never registered"
            )
            change = partial(with_row, row=row, shown=())
            yield Repair(look.index, "phantom-part", why, change)


def moved_away(accused: AccusedRow) -> str:
    """Return how a MOVE removed the row's part, which its replica had not fetched by the time at
    which it had copied the partition."""
    for step, node in _moves(accused):
        copied = accused.during(step, str(step.call.to), "assign").on(node)
        copied = copied.where(lambda entry: entry.detail == "REPLACE_RANGE")
        came = [accused.came_ns(node, part) for part in accused.parts]
        if not copied or any(ns is not None and ns <= copied[-1].begin_ns for ns in came):
            continue  # it may have copied what it fetched in time
        drops = _removals(accused, step, node)
        for drop in drops.where(accused.is_removing):
            dropped = BlockRange.named(drop.part)
            if dropped and all(dropped.covers(part) for part in accused.parts):
                return (
                    f"{accused.told(step)} removed {_names(accused.parts)} at "
                    f"{seconds(drop.begin_ns)}, which {node} had not fetched"
                )
    return _moved_uncopied(accused)


def _removals(accused: AccusedRow, step: StatementStep, node: str) -> Events:
    """Return the entries of the source's log by which a MOVE may have removed the partition; one of
    unknown outcome may go on when its call is over."""
    if step.end is not None:
        return accused.during(step, accused.source, "assign").on(node)
    begin_ns = accused.pair(step).invoke.time_ns
    return accused.facts(accused.source, "assign").on(node).since(begin_ns)


def _moves(accused: AccusedRow) -> Iterator[tuple[StatementStep, str]]:
    """Yield the MOVEs of a row that is in no table, each with a replica that may have made it and
    that had none of the row's parts when it began."""
    for step in accused.steps if not accused.violation.shown else ():
        for node in accused.makers(step) if step.call.effect is Effect.MOVE else ():
            if accused.is_behind(step, node):
                yield step, node


def _moved_uncopied(accused: AccusedRow) -> str:
    """Return how a MOVE removed the row's part and has not copied it, by the log, which says that
    no copy is left."""
    for step, node in _moves(accused):
        copies = accused.during(step, str(step.call.to), "copy").on(node)
        copied = [part for copy in copies if (part := BlockRange.named(copy.blob))]
        drops = _removals(accused, step, node)
        for drop in drops.where(accused.is_removing):
            dropped = BlockRange.named(drop.part)
            if (
                dropped is not None
                and all(dropped.covers(part) for part in accused.parts)
                and not any(one.covers(part) for one in copied for part in accused.parts)
                and _is_recorded(accused, if_unknown=False)
            ):
                return (
                    f"{accused.told(step)} removed {_names(accused.parts)} at "
                    f"{seconds(drop.begin_ns)}, and had not copied it"
                )
    return ""


def half_moved(accused: AccusedRow) -> str:
    """Return how a replica was killed, or a MOVE failed on it, after the MOVE had added the parts
    and before it had removed them."""
    for step in accused.steps:
        if step.call.effect is not Effect.MOVE or step.end is not None:
            continue
        call, node = accused.pair(step), str(step.node)
        begin_ns = call.invoke.time_ns
        killed = kills(accused.history).on(node).since(begin_ns).first
        error = _SERVER_ERROR.match((call.end.error if call.end else None) or "")
        if killed is None and error is None:
            continue
        over_ns = killed.begin_ns if killed is not None else ended_ns(call)
        of_u, of_t = (
            accused.facts(str(table), "assign", "hold").on(node)
            for table in (step.call.to, step.call.table)
        )
        added = of_u.since(begin_ns).until(over_ns).where(accused.is_replacing(of_u)).first
        removed = of_t.since(begin_ns).where(accused.is_removing).until(over_ns)
        if added and (not removed or _is_recorded(accused, if_unknown=False)):
            how = f"{node} was killed" if killed else f"failed ({error[1] if error else ''})"
            return (
                f"{accused.told(step)} added the partition at {seconds(added.begin_ns)}, and "
                f"{how} at {seconds(over_ns)} before it removed it"
            )
    return ""


def attached_nowhere(accused: AccusedRow) -> str:
    """Return how an ATTACH PARTITION FROM on all hosts was made by a replica that had not staged
    the row."""
    return _made_by_another(accused, Effect.COPY)


def replaced_by_nothing(accused: AccusedRow) -> str:
    """Return the same of a REPLACE PARTITION FROM."""
    return _made_by_another(accused, Effect.REPLACE)


def _copies(accused: AccusedRow, facts: Events) -> Events:
    """Return the entries that copy parts, without those that brought parts of other partitions: the
    statement before and the one after may have ended milliseconds away."""
    others = {hold.begin_ns for hold in facts.of("hold") if not accused.is_of_partition(hold.part)}
    copies = facts.of("assign").where(lambda entry: entry.detail == "REPLACE_RANGE")
    return copies.where(lambda entry: entry.begin_ns not in others)


def _made_by_another(accused: AccusedRow, effect: Effect) -> str:
    node = accused.source.partition("@")[2]
    for step in accused.steps if node and len(accused.steps) == 1 else ():
        made = _copies(accused, accused.during(step, str(step.call.to), "assign", "hold"))
        if step.call.effect is effect and made and not made.on(node):
            return (
                f"{node} had staged it, and {made[0].node} made {accused.told(step)} for all, at "
                f"{seconds(made[0].begin_ns)}"
            )
    return ""


def copied_nothing(accused: AccusedRow) -> str:
    """Return how the replica of a sequentially consistent INSERT SELECT came to have the row's part
    while the statement went on."""
    for step in accused.steps if len(accused.steps) == 1 else ():
        call = accused.pair(step)
        copies = step.call.is_current and not step.call.synced and accused.is_behind(step)
        came = [accused.came_ns(step.node, part) for part in accused.parts]
        if copies and all(at_ns is not None and at_ns <= ended_ns(call) for at_ns in came):
            return f"{accused.told(step)} was under way when {step.node} got the part"
    return ""


def forgotten_insert(accused: AccusedRow) -> str:
    """Return how the block of rows that a mutation had deleted was sent again, and no part came of
    it."""
    if len(accused.steps) != 2:
        return ""
    delete, again = accused.steps
    expected = delete.call.effect is Effect.DELETE and again.call.effect is Effect.AGAIN
    in_order = delete.end is not None and delete.end < again.begin and again.end is not None
    mutation = accused.during(delete, accused.source, "assign")
    mutated = mutation.where(lambda entry: entry.detail == "mutate")
    new = accused.during(again, accused.source, "hold").since(accused.pair(again).invoke.time_ns)
    made = [hold for hold in new.on(str(again.node)) if _is_new(hold.part, accused)]
    if not expected or not in_order or not mutated or made:
        return ""
    return f"{accused.told(delete)} deleted it, and no part came of {accused.told(again)} later"


def doubled_view(accused: AccusedRow) -> str:
    """Return how often the row's block was sent again, not each time with deduplication in views:
    as often as the view has too many."""
    again = _sent_again(accused)
    if _asks_for_views(accused) or _too_many_in_view(accused) != len(again) or not again:
        return ""
    return f"{accused.told(again[0])} sent its block again"


def retried_elsewhere(accused: AccusedRow) -> str:
    """Return how the row's block was sent to several replicas, each time with deduplication in
    views: the view has one of each replica."""
    again, first = _sent_again(accused), accused.violation.steps[0]
    others = [step for step in again if step.node != first.node]
    nodes = {step.node for step in others}
    if not _asks_for_views(accused) or _too_many_in_view(accused) != len(nodes) or not others:
        return ""
    return f"{accused.told(others[0])} sent its block again, which {first.node} had inserted"


def _sent_again(accused: AccusedRow) -> Sequence[StatementStep]:
    """Return the statements that sent the block of the row's insert again."""
    return [step for step in accused.steps if step.call.effect is Effect.AGAIN]


def _too_many_in_view(accused: AccusedRow) -> int:
    """Return how many copies the table of the row's view has too many; -1 if the insert and what
    sent it again write to other views."""
    views = {step.call.view for step in (accused.violation.steps[0], *_sent_again(accused))}
    shown = dict(accused.violation.shown)
    return len(shown.get(str(*views), ())) - 1 if len(views) == 1 else -1


def _asks_for_views(accused: AccusedRow) -> bool:
    """Return whether the insert and all that sent it again ask for deduplication in views."""
    steps = (accused.violation.steps[0], *_sent_again(accused))
    return all(step.call.settings.get(_IN_VIEWS) for step in steps)


def missed_view(accused: AccusedRow) -> str:
    """Return how the replica that inserted the row had yet to execute the statement, made before,
    that creates the view, which has no copy of the row."""
    insert, shown = accused.violation.steps[0], dict(accused.violation.shown)
    view = str(insert.call.view)
    for step in accused.violation.statements if view not in shown else ():
        call = accused.pair(step)
        if call.invoke.f != "create-view" or step.begin > insert.begin:
            continue
        queries = {event.detail for event in accused.during(step, view, "query")}
        executed = accused.facts(view, "executed").on(str(insert.node))
        own = executed.where(lambda event: event.detail in queries).first  # noqa: B023
        if own and own.begin_ns > accused.pair(insert).invoke.time_ns:
            return (
                f"{insert.node}, which inserted it, executed {accused.told(step)} at "
                f"{seconds(own.begin_ns)}"
            )
    return ""


def overlapped(accused: AccusedRow) -> str:
    """Return that what is shown is explained if each statement that takes rows may have read its
    source at any time since it began, and committed later. Of a row in two tables beside a MOVE of
    unknown outcome the log must say so, for half of that one would explain it as well; and of one
    that was taken while a MOVE was under way. Where the log does not tell the path of the row, its
    copies lack only what was under way beside such a statement."""
    if accused.violation.kind in _AMID_MOVE:
        return _taken_amid_move(accused)
    known = _is_recorded(accused, if_unknown=False)
    if not known and (accused.violation.kind == HALF_MOVED or not _lacks_what_overlaps(accused)):
        return ""
    return "its statements overlap" if _is_explained(accused, ()) else ""


def _lacks_what_overlaps(accused: AccusedRow) -> bool:
    """Return whether each copy that is shown is one after some order if what overlaps a statement
    that takes rows may come at any later time, or never. So where the log does not tell the path of
    a row, as when it was attached, an update that was acknowledged before the row was taken is no
    part of what the taking of an earlier state explains."""
    steps = accused.violation.steps
    open_ended = [
        step._replace(end=None) if any(_overlaps(step, one) for one in steps) else step
        for step in steps
    ]
    try:
        states = final_states(open_ended, Sees.ACKNOWLEDGED)
    except TooManyOrdersError:
        return False
    possible = {copy for state in states for _, copies in in_tables(state) for copy in copies}
    return all(copy in possible for _, copies in accused.violation.shown for copy in copies)


def _overlaps(step: StatementStep, taking: StatementStep) -> bool:
    """Return whether a statement was under way while another one took rows."""
    before = any(
        one.end is not None and one.end < other.begin
        for one, other in ((step, taking), (taking, step))
    )
    return taking.is_taking and step is not taking and not before


def _taken_amid_move(accused: AccusedRow) -> str:
    """Return which statement took a part from a table that a MOVE copied as well, while the MOVE,
    which adds the copies before it removes them there, was under way, if the log says that this
    led to what is shown."""
    for move in accused.steps:
        for step in accused.steps if move.call.effect is Effect.MOVE else ():
            if not _overlaps(step, move) or step.call.table != move.call.table:
                continue
            taken = _copied_parts(accused, move) & _copied_parts(accused, step)
            if taken and _is_recorded(accused, if_unknown=False):
                other = accused.told(move).rstrip(",")
                return f"{accused.told(step)} took {min(taken)}, as did {other}"
    return ""


def _copied_parts(accused: AccusedRow, step: StatementStep) -> set[str]:
    """Return the parts of the row's partition that a statement copied, by the log."""
    copies = accused.during(step, str(step.call.to), "copy").on(*accused.makers(step))
    own = copies.where(lambda copy: str(copy.detail).endswith(f"_{step.call.table}"))
    return {copy.blob for copy in own if accused.is_of_partition(copy.blob)}


def stale_replace(accused: AccusedRow) -> str:
    """Return which statements were made by replicas without the row's part, by replicas that were
    behind others in the partition, or took a part that had yet to be mutated, if that explains what
    is shown."""
    behind = [step for step in accused.steps if accused.is_behind(step) or accused.lags(step)]
    early = [step for step in unmutated(accused) if step not in behind]
    if not (behind or early) or not _is_explained(accused, [*behind, *early]):
        return ""
    if behind:
        step = behind[0]
        nodes = " or ".join(accused.makers(step))
        return f"{accused.told(step)} took the partition as {nodes} had it, which lagged"
    return f"{accused.told(early[0])} took a part that {early[0].node} had yet to mutate"


def _is_explained(accused: AccusedRow, behind: Sequence[StatementStep]) -> bool:
    """Return whether a state since their calls, or any state for those that are behind, explains
    what the row's statements took, and that is what the log says that they took, if it does."""
    steps = [
        step
        if step in behind or not step.is_taking
        else step._replace(call=structs.replace(step.call, synced=True))
        for step in accused.violation.steps
    ]
    try:
        states = final_states(steps, Sees.LOCAL)
    except TooManyOrdersError:
        return False
    return explains(states, accused.violation.shown, steps, Sees.LOCAL) and _is_recorded(
        accused, if_unknown=True
    )


def _is_recorded(accused: AccusedRow, *, if_unknown: bool) -> bool:
    """Return whether the row is shown as it may be by ZooKeeper's log; `if_unknown` is the answer
    if the log does not say."""
    views = {step.call.view for step in accused.violation.steps}
    try:
        expected = recorded(accused)
    except UnknownPathError:
        return if_unknown
    return tuple(one for one in accused.violation.shown if one[0] not in views) in expected


Signature = Callable[[AccusedRow], str]
SIGNATURES: Final[Mapping[str, tuple[Sequence[str], Signature]]] = {
    "moved-away": (_LOST, moved_away),
    "copied-nothing": (_LOST, copied_nothing),
    "forgotten-insert": (_LOST, forgotten_insert),
    "ignored-part": (_LOST, ignored_part),
    "half-restored": (_LOST, half_restored),
    "restored-nothing": (_LOST, restored_nothing),
    "rewound-insert": (_LOST, rewound_insert),
    "rewound-restart": (_LOST, rewound_restart),
    "half-moved": ((HALF_MOVED,), half_moved),
    "doubled-view": (("derived",), doubled_view),
    "retried-elsewhere": (("derived",), retried_elsewhere),
    "missed-view": (("derived",), missed_view),
    "strayed-update": (("strayed",), strayed_update),
    "renamed-away": (_CHANGED, renamed_away),
    "lost-update": (_CHANGED, lost_update),
    "overwritten-update": (_CHANGED, overwritten_update),
    "forgotten-mutation": (_STALE, forgotten_mutation),
    "mutated-twice": (("changed",), mutated_twice),
    "stranded-part": ((*_LOST, *_STALE), stranded_part),
    "fetched-over": ((*_LOST, *_STALE), fetched_over),
    "attached-nowhere": (_STALE, attached_nowhere),
    "replaced-by-nothing": (_STALE, replaced_by_nothing),
    "overlapped": ((*_STALE, HALF_MOVED, *_AMID_MOVE), overlapped),
    "stale-replace": (_STALE, stale_replace),
}
"""Signatures by defect, each with the kinds of violation that it explains. The first that the
record proves explains a row."""


EARLY: Final = frozenset({"rewound-insert", "rewound-restart"})
"""Signatures of which the record may end early: what they need of it was before."""


def _is_new(name: str, accused: AccusedRow) -> bool:
    """Return whether a part is of the row's partition, and none that may be the row's own."""
    part = BlockRange.named(name)
    own = part is not None and part.partition == str(accused.violation.key)
    return own and not any(part.covers(one) for one in accused.parts if part)


def _names(parts: Sequence[BlockRange]) -> str:
    return " and ".join(part.name for part in parts)
