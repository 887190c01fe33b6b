"""What the replicas show of a row, beside the states in which it may be."""

from collections.abc import Collection, Iterable

from msgspec import UnsetType

from checkers.phrasing import FEW
from checkers.statements.effects import in_tables
from checkers.statements.steps import RowState, Shown


def kind_of(shown: Shown, states: Iterable[RowState]) -> str:
    """Return the kind of violation of a row that is shown as it is after no order; `states` are
    those after all orders."""
    possible: list[Shown] = [in_tables(state) for state in states]
    have, counts = _count(shown), [_count(one) for one in possible]
    if have < min(counts):
        return "lost"
    if have > max(counts):
        return "doubled" if max(counts) else "resurrected"
    where_it_is = {table: len(copies) for table, copies in shown}
    alike = [one for one in possible if {t: len(c) for t, c in one} == where_it_is]
    if not alike:
        return "misplaced"
    always = set.intersection(*(updates_of(one) for one in alike))
    return "undone" if always - updates_of(shown) else "changed"


def updates_of(shown: Shown) -> set[int]:
    """Return the numbers of the updates that copies of a row have."""
    return {update for _, copies in shown for copy in copies for update in copy}


def is_derived(shown: Shown, states: Iterable[RowState], views: Collection[str]) -> bool:
    """Return whether some order explains what is shown, except in the tables of views."""
    rest = {tuple(one for one in in_tables(state) if one[0] not in views) for state in states}
    return tuple(one for one in shown if one[0] not in views) in rest


def unnamed(shown: Shown, value: int | UnsetType) -> Shown:
    """Return the copies of a row with -1 for the value of its insert, as no other row has it."""
    return tuple(
        (table, tuple(tuple(-1 if one == value else one for one in copy) for copy in copies))
        for table, copies in shown
    )


def _count(shown: Shown) -> int:
    return sum(len(copies) for _, copies in shown)


def told_of(shown: Shown) -> str:
    """Return the copies of a row in words."""
    if not shown:
        return "in no table"
    return ", ".join(
        f"{len(copies)} in {table}"
        + "".join(f" [{' '.join(map(str, copy))}]" for copy in copies[:FEW] if copy)
        for table, copies in shown
    )
