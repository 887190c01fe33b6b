"""Reads the calls of the workload `statements` from a history, by the partition of their rows."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec import UNSET

from checkers.look import decode
from checkers.statements.calls import FINAL_ROWS, Effect, RowsShown, StatementCall
from checkers.statements.effects import Shown, StatementStep
from harness.core.history import History
from harness.core.op import Kind


@dataclass(slots=True)
class StatementPartition:
    """Calls on the rows of one partition."""

    inserts: dict[int, StatementStep] = field(default_factory=dict)
    """Inserts that may have taken effect, by row."""
    expired: set[int] = field(default_factory=set)
    """Rows that a TTL may remove at any time, and which are not among the inserts."""
    refused: dict[int, StatementStep] = field(default_factory=dict)
    """Inserts that were refused, by row."""
    statements: list[StatementStep] = field(default_factory=list)
    """Statements that may have taken effect, in the order in which they began."""
    finals: dict[str, int] = field(default_factory=dict)
    """Place of the last final rows of each replica."""
    shown: dict[str, dict[int, Shown]] = field(default_factory=dict)
    """Rows that each replica shows at rest."""


def partitions_of(history: History) -> tuple[dict[int, StatementPartition], Counter[Effect]]:
    """Return the calls by partition, and the number of those acknowledged by their effect."""
    found: dict[int, StatementPartition] = {}
    everywhere: list[StatementStep] = []
    acknowledged: Counter[Effect] = Counter()
    for place, pair in enumerate(history.pairs):
        key, f = pair.invoke.key, pair.invoke.f
        if f == FINAL_ROWS and pair.kind is Kind.OK and key is not None and pair.end is not None:
            partition = found.setdefault(key, StatementPartition())
            partition.finals[str(pair.invoke.node)] = place
            partition.shown[str(pair.invoke.node)] = rows_shown(decode(pair.end, RowsShown))
        elif isinstance(pair.invoke.value, Mapping) and "effect" in pair.invoke.value:
            call = decode(pair.invoke, StatementCall)
            acknowledged[call.effect] += pair.kind is Kind.OK
            end = pair.end.index if pair.kind is Kind.OK and pair.end is not None else None
            step = StatementStep(place, pair.invoke.index, end, pair.invoke.node, call)
            if key is None:
                everywhere += [step] if pair.kind is not Kind.FAIL else []
                continue
            partition = found.setdefault(key, StatementPartition())
            first = call.effect is Effect.AGAIN and call.row not in partition.inserts
            if call.row is not UNSET and (call.effect is Effect.INSERT or first):
                for into in (key,) if call.also is UNSET else (key, call.also):
                    partition = found.setdefault(into, StatementPartition())
                    if call.expires:
                        partition.expired.add(call.row)
                        continue
                    refused = pair.kind is Kind.FAIL
                    (partition.refused if refused else partition.inserts)[call.row] = step
            elif pair.kind is not Kind.FAIL:
                partition.statements.append(step)
    for partition in found.values():
        partition.statements = sorted((*partition.statements, *everywhere), key=lambda s: s.begin)
    return found, acknowledged


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
