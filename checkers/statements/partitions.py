"""Reads the calls of the workload `statements` from a history, by the partition of their rows."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import UNSET
from msgspec.structs import replace

from checkers.look import decode
from checkers.phrasing import seconds, where
from checkers.statements.calls import (
    EXPIRED_ROWS,
    FINAL_ROWS,
    MERGE_EXPIRED,
    OF_VIEW,
    Effect,
    RowsShown,
    StatementCall,
)
from checkers.statements.expiry import Expiry, are_clocks_wrong, expiry_of
from checkers.statements.names import named, tables_of
from checkers.statements.steps import FOREVER, Copies, Shown, StatementStep
from harness.core.history import History, Pair
from harness.core.op import Kind


@dataclass(slots=True)
class StatementPartition:
    """Calls on the rows of one partition."""

    inserts: dict[int, StatementStep] = field(default_factory=dict)
    """Inserts that may have taken effect, by row."""
    expired: dict[int, StatementStep] = field(default_factory=dict)
    """Inserts of rows that merges may have removed because of a TTL when the last replica was
    asked at rest, by row; they are not among the others."""
    expiries: dict[int, Expiry] = field(default_factory=dict)
    """When rows expire that do."""
    refused: dict[int, StatementStep] = field(default_factory=dict)
    """Inserts that were refused, by row."""
    statements: list[StatementStep] = field(default_factory=list)
    """Statements that may have taken effect, in the order in which they began."""
    finals: dict[str, int] = field(default_factory=dict)
    """Place of the last final rows of each replica."""
    shown: dict[str, dict[int, Shown]] = field(default_factory=dict)
    """Rows that each replica shows at rest."""
    merged: dict[str, int] = field(default_factory=dict)
    """When the merge of all parts of a table began at rest, which was acknowledged before the next
    look, in ns since the run began."""
    unexpired: dict[str, int] = field(default_factory=dict)
    """Place of the last look of each replica at the rows that these merges left."""
    left: dict[str, dict[int, Shown]] = field(default_factory=dict)
    """Rows that each replica shows then."""
    views: dict[str, dict[str, dict[int, Copies]]] = field(default_factory=dict)
    """By replica and table of a refreshable view: the copies of each row that it shows at
    rest."""
    projected: dict[str, tuple[frozenset[str], dict[int, Shown]]] = field(default_factory=dict)
    """By replica: the tables whose projection was read at rest, and the rows that these show."""

    def left_by_merges(self, row: int) -> Iterator[tuple[str, Shown]]:
        """Yield each replica that shows copies of a row in tables of which all parts were merged
        before it was asked, and after the row had expired, and these copies."""
        must_ns = self.expiries[row].must_ns
        merged = {table for table, begin_ns in self.merged.items() if begin_ns > must_ns}
        for node, rows in self.left.items():
            copies = tuple(one for one in rows.get(row, ()) if one[0] in merged)
            if copies:
                yield node, copies

    def insert_of(self, row: int) -> StatementStep | None:
        """Return the insert of a row that was not refused."""
        return self.inserts.get(row) or self.expired.get(row)

    def has_expired(self, row: int, time_ns: int) -> bool:
        """Return whether merges may have removed a row by this time since the run began."""
        return row in self.expiries and self.expiries[row].may_ns <= time_ns

    def keep_unexpired(self, time_ns: int) -> None:
        """Take the rows that expire later than this for rows that do not expire."""
        for row, step in list(self.expired.items()):
            if not self.has_expired(row, time_ns):
                del self.expired[row]
                self.inserts[row] = step._replace(call=replace(step.call, expires=False))


def partitions_of(history: History) -> tuple[dict[int, StatementPartition], Counter[Effect]]:
    """Return the calls by partition, and the number of those acknowledged by their effect."""
    found: dict[int, StatementPartition] = {}
    everywhere: list[StatementStep] = []
    acknowledged: Counter[Effect] = Counter()
    clocks_wrong = are_clocks_wrong(history)
    for place, pair in enumerate(history.pairs):
        key, f = pair.invoke.key, pair.invoke.f
        if f == FINAL_ROWS and pair.kind is Kind.OK and key is not None and pair.end is not None:
            partition = found.setdefault(key, StatementPartition())
            partition.finals[str(pair.invoke.node)] = place
            look = decode(pair.end, RowsShown)
            plain = {t: rows for t, rows in look.tables.items() if not t.endswith(OF_VIEW)}
            partition.shown[str(pair.invoke.node)] = rows_shown(RowsShown(plain))
            partition.views[str(pair.invoke.node)] = {
                table: {row: shown[0][1] for row, shown in rows_shown(of_view).items()}
                for table, rows in look.tables.items()
                if table not in plain
                for of_view in [RowsShown({table: rows})]
            }
            if look.projections is not UNSET:
                projected = frozenset(look.projections), rows_shown(RowsShown(look.projections))
                partition.projected[str(pair.invoke.node)] = projected
        elif f in (MERGE_EXPIRED, EXPIRED_ROWS):
            if pair.kind is Kind.OK and key is not None and pair.end is not None:
                partition = found.setdefault(key, StatementPartition())
                if f == EXPIRED_ROWS:
                    partition.unexpired[str(pair.invoke.node)] = place
                    look = decode(pair.end, RowsShown)
                    partition.left[str(pair.invoke.node)] = rows_shown(look)
                else:
                    partition.merged[_call_of(pair).table] = pair.invoke.time_ns
        elif isinstance(pair.invoke.value, Mapping) and "effect" in pair.invoke.value:
            call = _call_of(pair)
            acknowledged[call.effect] += pair.kind is Kind.OK
            end = pair.end.index if pair.kind is Kind.OK and pair.end is not None else None
            step = StatementStep(place, pair.invoke.index, end, pair.invoke.node, call)
            if key is None:
                everywhere += [step] if pair.kind is not Kind.FAIL else []
                continue
            partition = found.setdefault(key, StatementPartition())
            inserted = partition.inserts.keys() | partition.expired.keys()
            first = call.effect is Effect.AGAIN and call.row not in inserted
            if call.row is not UNSET and (call.effect is Effect.INSERT or first):
                for into in (key,) if call.also is UNSET else (key, call.also):
                    partition = found.setdefault(into, StatementPartition())
                    refused = pair.kind is Kind.FAIL
                    taken = partition.expired if call.expires else partition.inserts
                    (partition.refused if refused else taken)[call.row] = step
                    if call.expires and not refused:
                        expiry = expiry_of(pair, call, clocks_wrong=clocks_wrong)
                        partition.expiries[call.row] = expiry
            elif pair.kind is not Kind.FAIL:
                partition.statements.append(step)
    kills = [step for step in everywhere if step.call.effect is Effect.KILL]
    exchanges = [step for step in everywhere if step.call.effect is Effect.EXCHANGE]
    kills = [named(step, exchanges) for step in kills]
    for partition in found.values():
        looks = [history.pairs[place].end for place in partition.finals.values()]
        partition.keep_unexpired(max((look.time_ns for look in looks if look), default=0))
        for inserts in (partition.inserts, partition.expired, partition.refused):
            inserts |= {row: named(step, exchanges) for row, step in inserts.items()}
        statements = sorted((*partition.statements, *everywhere), key=lambda step: step.begin)
        known = [named(step, exchanges) for step in statements]
        partition.statements = [_if_killed(step, kills) for step in known]
    return found, acknowledged


def _call_of(pair: Pair) -> StatementCall:
    """Return what a call says, with what its answer adds; a plain table is that of the replica."""
    call = decode(pair.invoke, StatementCall)
    if call.one_part and pair.kind is Kind.OK and pair.end is not None:
        call = decode(pair.end, StatementCall)
    at = pair.invoke.node if call.table.endswith("@") else ""
    return replace(call, table=f"{call.table}{at}")


def _if_killed(step: StatementStep, kills: Sequence[StatementStep]) -> StatementStep:
    """Return a step as it is if one of these statements may have stopped it, which those may that
    ended after it began, unless all replicas had made it before."""
    if not step.call.is_mutation:
        return step
    made = "mutations_sync" in step.call.settings and step.call.settings["mutations_sync"] == 2
    for kill in kills:
        ended_before = kill.end is not None and kill.end < step.begin
        made_before = made and step.end is not None and step.end < kill.begin
        if tables_of(kill) & tables_of(step) and not ended_before and not made_before:
            return step._replace(end=None, killed=True)
    return step


def rows_shown(look: RowsShown) -> dict[int, Shown]:
    """Return the copies of each row that a look shows."""
    by_row: dict[int, dict[str, list[tuple[int, ...]]]] = {}
    for table, rows in look.tables.items():
        for row, updates, copies in rows:
            of_row = by_row.setdefault(row, {}).setdefault(table, [])
            of_row += [tuple(updates)] * copies
    return {
        row: tuple(sorted((table, tuple(sorted(copies))) for table, copies in tables.items()))
        for row, tables in by_row.items()
    }


def is_touched(partition: StatementPartition) -> bool:
    """Return whether an acknowledged statement followed the acknowledged insert of a row that it
    touches, or an insert that is sent again was not refused."""
    first = min(
        (step.end for step in partition.inserts.values() if step.end is not None), default=FOREVER
    )
    return any(step.call.effect is Effect.AGAIN for step in partition.inserts.values()) or any(
        step.call.touches(row) and insert.end is not None and insert.end < step.begin
        for step in partition.statements
        if step.end is not None and step.begin > first
        for row, insert in partition.inserts.items()
    )


def line_of(pair: Pair) -> str:
    """Return a call in words."""
    call, end = decode(pair.invoke, StatementCall), pair.end or pair.invoke
    to = f" to {call.to}" if call.to is not UNSET else ""
    what = f" {call.update}" if call.update is not UNSET else ""
    return (
        f"#{pair.invoke.index} {pair.invoke.f} {call.table}{to}{what}{where(pair.invoke)}, "
        f"{seconds(pair.invoke.time_ns)} to {seconds(end.time_ns)}: {pair.kind.value}"
    )
