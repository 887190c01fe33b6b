"""Signatures of RENAME COLUMN: a row loses the value that its replica inserts by the old name.

A RENAME is a change of the table's columns, and a mutation of the partitions that there are, which
applies to the blocks below a number. A part that a replica inserts before it has executed the
change has the old name and a block that the mutation does not apply to. Servers read such a part by
its version of the columns, but only if the mutation names its partition; and the mutation of the
next RENAME looks in it for the name between.
"""

from collections.abc import Iterator
from functools import partial

from checkers.phrasing import seconds
from checkers.statements.partitions import StatementPartition, partitions_of
from checkers.statements.reads import Read, reads_of
from checkers.statements.rows import RowViolation
from checkers.statements.steps import Shown
from checkers.triage.accused_rows import AccusedRow, tables_by_name, with_row
from checkers.triage.events import Event
from checkers.triage.evidence import BlockRange, Evidence
from checkers.triage.repairs import Repair
from harness.core.history import History

_RENAME = "RENAME COLUMN"
"""Begin of the command of a mutation that renames a column."""


def renamed_away(accused: AccusedRow) -> str:
    """Return how the row, which lacks its value, was inserted into a partition that a RENAME does
    not name, by a replica that had yet to execute it."""
    rename = _unexecuted(accused, named=False)
    if rename is None or not _lacks_value(accused):
        return ""
    return (
        f"{accused.violation.steps[0].node} inserted it and had yet to execute {rename.blob} of "
        f"{seconds(rename.begin_ns)}, which does not name the partition"
    )


def stuck_renames(history: History, _: Evidence) -> Iterator[Repair]:
    """Yield what reads show of rows whose value is hidden, as another RENAME of their column is to
    do."""
    partitions = partitions_of(history)[0]
    tables = tables_by_name(history)
    for key, reads in sorted(reads_of(history).items()) if tables else ():
        partition = partitions.get(key, StatementPartition())
        for read in reads:
            for row, shown in read.shown.items():
                accused = _accused(history, partition, key, read, row)
                why = stuck_rename(accused, read) if accused else ""
                if accused and why:
                    change = partial(with_row, row=row, shown=_with_value(accused, shown))
                    yield Repair(read.end.index, "stuck-rename", f"row {row}: {why}", change)


def stuck_rename(accused: AccusedRow, read: Read) -> str:
    """Return how the row, which a read shows without its value, was inserted by a replica that had
    yet to execute a RENAME, and a later one had yet to mutate its part."""
    rename = _unexecuted(accused, named=True)
    if rename is None or not _lacks_value(accused):
        return ""
    key, facts = str(accused.violation.key), accused.facts(accused.source)
    later = facts.of("mutation").after(rename.begin_ns).before(read.end.time_ns)
    later = later.where(lambda event: _RENAME in event.blob and key in event.detail)
    for second in later:
        number = int(second.detail[key])
        held = [
            own
            for hold in facts.of("hold").on(read.node).until(read.invoke.time_ns)
            if (own := BlockRange.named(hold.part)) and _version(hold.part) >= number
        ]
        if not any(own.covers(part) for own in held for part in accused.parts):
            return (
                f"{accused.violation.steps[0].node} inserted it and had yet to execute "
                f"{rename.blob} of {seconds(rename.begin_ns)}; {second.blob} of "
                f"{seconds(second.begin_ns)} had yet to mutate its part"
            )
    return ""


def _unexecuted(accused: AccusedRow, *, named: bool) -> Event | None:
    """Return the last RENAME that was there when the row was inserted, that its replica had yet to
    execute, and that names the partition or does not; None if there is none for each part that may
    be the row's."""
    insert, key = accused.violation.steps[0], str(accused.violation.key)
    facts, found = accused.facts(accused.source), None
    for part in accused.parts:
        came_ns = accused.came_ns(insert.node, part)
        renames = facts.of("mutation").before(came_ns or 0)
        rename = renames.where(lambda event: _RENAME in event.blob).last
        if rename is None or (key in rename.detail) is not named:
            return None
        executed = facts.of("applied").on(str(insert.node)).after(rename.begin_ns).first
        if executed is not None and executed.begin_ns <= (came_ns or 0):
            return None
        if named and int(rename.detail[key]) > part.low:
            return None
        found = rename
    return found


def _accused(
    history: History, partition: StatementPartition, key: int, read: Read, row: int
) -> AccusedRow | None:
    """Return a row as a read shows it; None if nobody knows its insert."""
    insert = partition.inserts.get(row)
    if insert is None:
        return None
    violation = RowViolation(
        "impossible", key, row, [insert], read.shown[row], [read.end.index], (),
        partition.inserts, partition.statements,
    )  # fmt: skip
    return AccusedRow(history, tables_by_name(history), violation)


def _lacks_value(accused: AccusedRow) -> bool:
    """Return whether a copy of the row lacks the value with which it was inserted."""
    value = accused.violation.steps[0].call.value
    copies = [copy for _, every in accused.violation.shown for copy in every]
    return value != () and any(copy[: len(value)] != value for copy in copies)


def _with_value(accused: AccusedRow, shown: Shown) -> Shown:
    """Return the copies of a row with the value with which it was inserted."""
    value = accused.violation.steps[0].call.value
    return tuple(
        (table, tuple(copy if copy[:1] == value else (*value, *copy) for copy in copies))
        for table, copies in shown
    )


def _version(name: str) -> int:
    """Return the number of the last mutation that a part has taken; -1 without one."""
    words = name.split("_")
    return int(words[4]) if len(words) == 5 else -1
