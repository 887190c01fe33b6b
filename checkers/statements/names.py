"""Which table a name means where EXCHANGE TABLES gives two tables each other's names.

A table is what its path in ZooKeeper says; a name belongs to one replica. A statement looks for its
tables once each, at any moment between its call and its answer, and keeps them: on an Atomic
database an EXCHANGE waits for no statement. So a name means the table that it meant at some such
moment; each of two names by itself.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from checkers.statements.calls import Effect
from checkers.statements.steps import FOREVER, StatementStep

EXCHANGED: Final = {"t": "u", "u": "t"}
"""The two tables that EXCHANGE TABLES is about."""


def named(step: StatementStep, exchanges: Sequence[StatementStep]) -> StatementStep:
    """Return a step with whether these exchanges may have preceded the moment at which it looked
    for its tables: those of its replica, or of any if any may make it."""
    last = FOREVER if step.end is None else step.end
    before, perhaps = 0, False
    for one in exchanges:
        if one.call.on_each or one.node == step.node or step.call.is_on_all_hosts:
            ended = one.end is not None and one.end < step.begin and not step.call.is_on_all_hosts
            before += ended
            perhaps |= not ended and one.begin < last
    return step._replace(exchanged=(False, True) if perhaps else (before % 2 == 1,))


def meanings(step: StatementStep) -> Iterator[StatementStep]:
    """Yield what a step may mean, with the tables that its names may have had."""
    call = step.call
    if step.exchanged == (False,):
        yield step
        return
    # FETCH names the table from which it takes rows by its path.
    of_first = (False,) if call.effect is Effect.FETCH else step.exchanged
    of_second = (False,) if call.to is UNSET else step.exchanged
    pairs = [
        (_meant(call.table, first), call.to if call.to is UNSET else _meant(call.to, second))
        for first, second in product(of_first, of_second)
    ]
    for table, to in dict.fromkeys(pairs):
        same = table == to and call.effect in (Effect.MOVE, Effect.REPLACE)
        effect = Effect.NONE if same else call.effect
        # SYSTEM SYNC REPLICA looks for its table by itself.
        synced = call.synced and len(step.exchanged) == 1
        yield step._replace(call=replace(call, effect=effect, table=table, to=to, synced=synced))


def _meant(name: str, exchanged: bool) -> str:
    """Return the table that a name means; that of a plain table never means another one."""
    return EXCHANGED.get(name, name) if exchanged else name


def tables_of(step: StatementStep) -> frozenset[str]:
    """Return the tables that the first name of a step may mean."""
    return frozenset(one.call.table for one in meanings(step))
