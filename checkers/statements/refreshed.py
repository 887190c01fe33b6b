"""Refreshable views: what a refresh on a replica takes from a table.

Outside a Replicated database each replica has a view of its own, which refreshes when it is told
to: it replaces all rows of the view's plain table by those that the replica has of the source. So a
refresh is a REPLACE of a place that no other statement and no other replica changes. An appending
view keeps the rows of before; of refreshes that are asked for at the same time on a replica some
may be one, because a server remembers only that it was asked (RefreshTask::run), but the first of
them is made.

SYSTEM SYNC REPLICA does not wait for mutations. So a refresh may take a row as it was before one
that was acknowledged, unless the replica had to make it first.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from checkers.statements.calls import OF_APPENDING_VIEW, OF_VIEW, Effect
from checkers.statements.effects import explains
from checkers.statements.partitions import StatementPartition
from checkers.statements.steps import FOREVER, REFRESHING, RowState, Sees, Shown, StatementStep

VIEWS: Final[Mapping[Effect, str]] = {Effect.REFRESH: OF_VIEW, Effect.EXTEND: OF_APPENDING_VIEW}
"""What follows the name of a table in that of the view's table which an effect changes."""

_WAITS: Final = ("mutations_sync", "lightweight_deletes_sync", "replication_alter_partitions_sync")
"""Settings that say whether a mutation is waited for on no replica, its own, or all."""


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
    """Return the steps on a row, of which the refreshes of this view on a replica change what is
    in its place, without those that come after all of them."""
    refreshes: list[StatementStep] = []
    for step in steps:
        if step.node == node and f"{step.call.table}{VIEWS.get(step.call.effect, '?')}" == place:
            refreshes.append(_refreshing(step, place, refreshes))
    last = max((FOREVER if one.end is None else one.end for one in refreshes), default=0)
    others = [_on_replica(step, node) for step in steps if step.call.effect not in REFRESHING]
    before = [step for step in others[1:] if step.begin < last]
    return [*others[:1], *sorted([*before, *refreshes], key=lambda step: step.begin)]


def _refreshing(step: StatementStep, place: str, before: Sequence[StatementStep]) -> StatementStep:
    """Return the step by which a refresh changes the table of a view; `before` are those of the
    refreshes that began earlier."""
    effect = Effect.REPLACE if step.call.effect is Effect.REFRESH else Effect.EXTEND
    ends = [one.end for one in before if one.end is not None]
    return step._replace(
        call=replace(step.call, effect=effect, to=place),
        killed=max(ends, default=0) > step.begin,  # it may be one with another
    )


def _on_replica(step: StatementStep, node: str) -> StatementStep:
    """Return a statement on a row as a refresh on this replica sees it: a mutation for which nobody
    waited there as one that comes at any time."""
    if not step.call.is_mutation and step.call.effect is not Effect.CLEAR:
        return step
    waits = [step.call.settings[name] for name in _WAITS if name in step.call.settings]
    is_made = 2 in waits or (1 in waits and step.node == node)
    return step if is_made else step._replace(end=None)


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
