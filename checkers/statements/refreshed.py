"""Refreshable views: what a refresh on a replica takes from a table.

Outside a Replicated database each replica has a view of its own, which refreshes when it is told
to: it replaces all rows of the view's plain table by those that the replica has of the source. So a
refresh is a REPLACE of a place that no other statement and no other replica changes.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from checkers.statements.calls import OF_VIEW, Effect
from checkers.statements.effects import explains
from checkers.statements.partitions import StatementPartition
from checkers.statements.steps import FOREVER, RowState, Sees, Shown, StatementStep


class ViewRow(NamedTuple):
    """A row in the table of a refreshable view on a replica."""

    row: int
    node: str
    place: str
    """The view's table."""
    shown: Shown
    """Its copies there."""
    steps: Sequence[StatementStep]
    """The row's insert, and the statements that may have touched it there."""


def view_rows(
    partition: StatementPartition, steps_of: Callable[[int], Sequence[StatementStep]]
) -> Iterator[ViewRow]:
    """Yield what each replica shows at rest of each row of a partition, by its refreshable
    views."""
    for node, views in sorted(partition.views.items()):
        for place, rows in sorted(views.items()):
            for row in sorted({*partition.inserts, *rows}):
                steps = steps_of(row) if row in partition.inserts else ()
                shown = ((place, rows[row]),) if row in rows else ()
                yield ViewRow(row, node, place, shown, _steps_of_view(steps, node, place))


def _steps_of_view(
    steps: Sequence[StatementStep], node: str, place: str
) -> Sequence[StatementStep]:
    """Return the steps on a row, of which the refreshes of this view on a replica replace what is
    in its place, without those that come after all of them."""
    refreshes = [
        step._replace(call=replace(step.call, effect=Effect.REPLACE, to=place))
        for step in steps
        if step.call.effect is Effect.REFRESH
        and step.node == node
        and f"{step.call.table}{OF_VIEW}" == place
    ]
    last = max((FOREVER if one.end is None else one.end for one in refreshes), default=0)
    others = [step for step in steps if step.call.effect is not Effect.REFRESH]
    before = [step for step in others[1:] if step.begin < last]
    return [*others[:1], *sorted([*before, *refreshes], key=lambda step: step.begin)]


def is_refreshed(
    one: ViewRow, states_of: Callable[[Sequence[StatementStep], Sees], set[RowState]]
) -> bool:
    """Return whether a row may be shown so after its statements, where a refresh takes what its
    replica has, as any SELECT does; `states_of` returns the states after all orders. Raises
    TooManyOrdersError."""
    for sees in Sees:
        states = [
            state._replace(places=tuple(place for place in state.places if place[0] == one.place))
            for state in states_of(one.steps, sees)
        ]
        if explains(states, one.shown, one.steps, sees):
            return True
    return False
