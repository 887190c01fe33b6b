"""Two models of one row: which states a statement may lead to.

`Exact`: a statement acts on the state, with all that was acknowledged.

`LocalView`: a statement that takes rows from a table (MOVE, REPLACE, ATTACH FROM, INSERT SELECT,
DETACH, FETCH) sees what its replica has, which may be an earlier state, or nothing; if SYSTEM SYNC
REPLICA preceded it, a state since its call, but for FETCH, which asks any replica. It still removes
only what it took. A MOVE of unknown outcome, which consists of two transactions, may have added the
copies and not removed them. So that its states stay few, this model counts the copies up to `MANY`
and lets each have the value of its insert and any of the row's updates, once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any, Final, NamedTuple, Protocol

from msgspec import UNSET

from checkers.statements.calls import Effect
from checkers.statements.steps import (
    FOREVER,
    FORGETTING,
    INSERTING,
    Copies,
    Copy,
    RowState,
    Sees,
    Shown,
    StatementStep,
)

MANY: Final = 3
"""Number of copies that stands for itself and all above."""


class RowModel(Protocol):
    """What statements do to a row."""

    def after(self, step: StatementStep, state: RowState) -> set[RowState]:
        """Return the states in which a step may leave the row."""
        ...


@dataclass(frozen=True, slots=True)
class Exact:
    """Statements act on the state; copies have their updates."""

    asides: tuple[str, ...]
    """Places from which a step attaches; the others do not matter."""
    halves: bool = False
    """Whether a MOVE of unknown outcome may have added the copies and not removed them."""
    merges: bool = False
    """Whether merges may have left one of the copies in a table, so that a SELECT may have read
    fewer and sent a block that was sent before."""
    beside: frozenset[int] = frozenset()
    """Places of the inserts whose block their table may have forgotten."""

    def after(self, step: StatementStep, state: RowState) -> set[RowState]:
        """Return the states in which a step leaves the row."""
        call, places = step.call, dict(state.places)
        table, have = call.table, places.get(call.table, ())
        match call.effect:
            case Effect.NONE | Effect.KILL | Effect.EXCHANGE | Effect.FORGET | Effect.REFRESH:
                return {state}
            case Effect.EXTEND if call.to is UNSET:
                return {state}
            case Effect.INSERT | Effect.AGAIN:
                return {
                    state.put(
                        {at: _sorted(places.get(at, ()), new) for at in receiving},
                        [(Effect.SELECT, at, new) for at in receiving],
                    )
                    for new in [(call.value,)]
                    for receiving in _receiving(step, state, self.beside)
                }
            case Effect.APPEND:
                assert call.update is not UNSET, "an update has a number"
                changed = [((*copy, call.update), copy) for copy in have]
                return {state.put({table: now}) for now in _partly(step, changed)}
            case Effect.CLEAR:
                changed = [((), copy) for copy in have]
                return {state.put({table: now}) for now in _partly(step, changed)}
            case Effect.DELETE:
                return {state.put({table: left}) for left, _ in _removed(step, have)}
            case Effect.COLLAPSE:
                return {state.put({table: kept}) for kept in _selections(have, least=1)}
            case Effect.ATTACH:
                gone = places.get(f"{table}@{step.node}", ())
                return {
                    state.put({table: _sorted(have, some), **left})
                    for some in (_selections(gone) if call.one_part else [gone])
                    for left in _attached(step, self.asides, places, some)
                }
            case Effect.DETACH:
                return {
                    state.put(
                        {table: left, **{at: _sorted(places.get(at, ()), gone) for at in own}}
                    )
                    for own in [_of(table, self.asides)]
                    for left, gone in _removed(step, have)
                }
        to = _target(step)
        added = {to: _sorted(places.get(to, ()), have)}
        match call.effect:
            case Effect.FETCH:
                return {state.put(added if to in self.asides else {})}
            case Effect.EXTEND:
                return {state.put(added)} | ({state} if step.is_partial else set())
            case Effect.REPLACE:
                return {state.put({to: have}, [(Effect.COPY, to, have)] if have else [])}
            case Effect.MOVE:
                half = {state.put(added)} if self.halves and step.end is None else set()
                return {state.put({**added, table: ()})} | half
        block = (call.effect, to, have)
        after = {
            state.put({at: _sorted(places.get(at, ()), have) for at in receiving}, known)
            for receiving in _selected(step)
            for known in [[block] if have and to in receiving else []]
        }
        if call.effect is Effect.COPY:
            return after | self._deduplicated(to, have, state)
        alike = any(known[:2] == block[:2] for known in state.memory)
        return after | {state} if (alike if self.merges else block in state.memory) else after

    def _deduplicated(self, to: str, have: Copies, state: RowState) -> set[RowState]:
        """Return the states after a COPY of which some copies were taken for duplicates: each of
        its parts is a block of its own."""
        blocks = [known[2] for known in state.memory if known[:2] == (Effect.COPY, to)]
        brought = {copy for block in blocks for copy in block}
        there = dict(state.places).get(to, ())
        may_go = [copy for copy in have if copy in brought or (blocks and self.merges)]
        return {
            state.put({to: _sorted(there, kept)}, [(Effect.COPY, to, kept)] if kept else [])
            for gone in _selections(may_go)
            if gone
            for kept in [_minus(have, gone)]
        }


class Past(NamedTuple):
    """What a table had before."""

    table: str
    copies: int
    gone: bool
    """Whether some of them are gone."""
    until: int
    """Index of the op that ended the step which changed it."""


@dataclass(frozen=True, slots=True)
class LocalView:
    """Statements act on what their replica has; copies are counted."""

    asides: tuple[str, ...]
    """Places from which a step attaches; the others do not matter."""
    remembered: frozenset[str]
    """Tables of which a step may take an earlier state."""
    beside: frozenset[int] = frozenset()

    def after(self, step: StatementStep, state: RowState) -> set[RowState]:
        """Return the states after a step."""
        call, places = step.call, dict(state.places)
        table, have = call.table, places.get(call.table, 0)
        match call.effect:
            case Effect.NONE | Effect.KILL | Effect.EXCHANGE | Effect.FORGET | Effect.REFRESH:
                return {state}
            case Effect.EXTEND if call.to is UNSET:
                return {state}
            case Effect.APPEND | Effect.CLEAR:
                return {state}
            case Effect.INSERT | Effect.AGAIN:
                return {
                    self._put(
                        step,
                        state,
                        {at: places.get(at, 0) + 1 for at in receiving},
                        [(Effect.SELECT, at) for at in receiving],
                    )
                    for receiving in _receiving(step, state, self.beside)
                }
            case Effect.DELETE:
                return {self._put(step, state, {table: left}) for left in _left(step, have)}
            case Effect.COLLAPSE:
                few = range(min(have, 1), have + 1)
                return {self._put(step, state, {table: kept}) for kept in few}
            case Effect.ATTACH:
                gone = places.get(f"{table}@{step.node}", 0)
                return {
                    self._put(step, state, {table: have + some, **left})
                    for some in range(0 if call.one_part else gone, gone + 1)
                    for left in _attached(step, self.asides, places, some)
                }
            case Effect.DETACH:
                own = _of(table, self.asides)
                views = {view for view, _ in self._views(step, state)}
                return {
                    self._put(step, state, {table: left, **_added(places, own, chosen)})
                    for left in _left(step, have)
                    for chosen in product(views, repeat=len(own))
                }
        to = _target(step)
        there = places.get(to, 0)
        found: set[RowState] = set()
        for view, gone in self._views(step, state):
            if call.effect is Effect.FETCH:
                found.add(self._put(step, state, {to: there + view} if to in self.asides else {}))
            elif call.effect is Effect.REPLACE:
                found.add(self._put(step, state, {to: view}, [(Effect.COPY, to)]))
            elif call.effect is Effect.EXTEND:
                found |= {self._put(step, state, {to: there + view})}
                found |= {state} if step.is_partial else set()
            elif call.effect in (Effect.COPY, Effect.SELECT):
                block = (call.effect, to)
                found |= {
                    self._put(step, state, {at: places.get(at, 0) + view for at in into}, [block])
                    for into in _selected(step)
                }
                fewer = range(view) if call.effect is Effect.COPY else range(1)
                if block in state.memory:
                    found |= {self._put(step, state, {to: there + new}) for new in fewer} | {state}
            else:
                least = 0 if gone or step.end is None else min(view, have)
                for taken in range(least, min(view, have) + 1):
                    found.add(self._put(step, state, {to: there + view, table: have - taken}))
        return found

    def _views(self, step: StatementStep, state: RowState) -> set[tuple[int, bool]]:
        """Return how many copies the replica that is asked may have of the table, and whether they
        may be others than those that are there now."""
        table = step.call.table
        current = step.call.is_current and step.call.effect is not Effect.FETCH
        now = {(dict(state.places).get(table, 0), False)}
        return (
            now
            | {
                (past.copies, past.gone)
                for past in state.memory
                if isinstance(past, Past)
                and past.table == table
                and not (current and past.until < step.begin)
            }
            | (set() if current else {(0, False)})
        )

    def _put(
        self,
        step: StatementStep,
        state: RowState,
        changed: Mapping[str, int],
        memory: Iterable[tuple[Any, ...]] = (),
    ) -> RowState:
        """Return the state after a step has changed the numbers of copies in these places."""
        more, before = [*memory], dict(state.places)
        until = FOREVER if step.end is None else step.end
        for place, now in changed.items():
            was = before.get(place, 0)
            if place in self.remembered and was != min(now, MANY):
                removed = now < was
                more += [Past(place, fewer, removed, until) for fewer in range(was + 1)]
                past = (one for one in state.memory if isinstance(one, Past))
                more += [one._replace(gone=True) for one in past if removed and one.table == place]
        return state.put({place: min(now, MANY) for place, now in changed.items()}, more)


def is_replacing(steps: Sequence[StatementStep]) -> bool:
    """Return whether merges may leave one of the copies in a table at any time."""
    return any(step.call.replacing for step in steps)


def model_of(sees: Sees, steps: Sequence[StatementStep], *, halves: bool = False) -> RowModel:
    """Return the model of these steps; `halves` is that of `Exact`."""
    attaching = (step for step in steps if step.call.effect is Effect.ATTACH)
    asides = tuple(sorted({f"{step.call.table}@{step.node}" for step in attaching}))
    taking = [step for step in steps if step.is_taking]
    if sees is Sees.ACKNOWLEDGED or not taking:
        return Exact(asides, halves, is_replacing(steps), _forgotten(steps))
    return LocalView(asides, frozenset(step.call.table for step in taking), _forgotten(steps))


def _forgotten(steps: Sequence[StatementStep]) -> frozenset[int]:
    """Return the places of the inserts that are sent again to a table which may have forgotten
    their block: DROP, DETACH, MOVE and REPLACE forget those of the partition. Where columns have
    changed, which the sum of a block counts, it is another block, unless it has a token."""
    forgot = [
        (one.call.to if one.call.effect is Effect.REPLACE else one.call.table, one)
        for one in steps
        if one.call.effect in FORGETTING or one.call.reshapes
    ]
    return frozenset(
        step.place
        for step in steps
        for table, one in forgot
        if table == step.call.table and one.begin < (step.end or FOREVER)
        if not (one.call.reshapes and "insert_deduplication_token" in step.call.settings)
    )


def is_expiring(steps: Sequence[StatementStep]) -> bool:
    """Return whether merges may remove any of the copies at any time, because of a TTL."""
    return any(step.call.expires for step in steps)


def merged(states: Iterable[RowState], least: int = 1) -> set[RowState]:
    """Return the states in which merges may leave a row at any time: in each table some of the
    copies; at least one where an engine keeps one row of equal keys, and at least none of a row
    that has expired. Statements do to these what they do to all."""
    return {
        RowState(
            tuple((name, now) for name, now in zip(names, kept, strict=True) if now), state.memory
        )
        for state in states
        for names in [tuple(name for name, _ in state.places)]
        for kept in product(*(_some(name, now, least) for name, now in state.places))
    }


def _some(place: str, now: Any, least: int) -> Iterable[Any]:
    """Return what merges may leave of the copies in a place, or of their number, but not fewer than
    `least`."""
    if "@" in place:
        return (now,)
    if isinstance(now, int):
        return range(least, now + 1)
    sizes = range(least, len(now) + 1)
    return {kept for size in sizes for kept in combinations(now, size)}


def explains(
    states: Iterable[RowState], shown: Shown, steps: Sequence[StatementStep], sees: Sees
) -> bool:
    """Return whether a row that is in one of these states, those of `model_of` the steps,
    may be shown so."""
    if isinstance(model_of(sees, steps), Exact):
        return shown in {in_tables(state) for state in states}
    counts = tuple((table, min(len(copies), MANY)) for table, copies in shown)
    content = all(_may_have(copy, steps) for copy in {c for _, copies in shown for c in copies})
    return content and counts in {in_tables(state) for state in states}


def _may_have(copy: Copy, steps: Sequence[StatementStep]) -> bool:
    """Return whether a copy may have this list: the value of an insert, unless that was cleared,
    and any of the updates, once."""
    values = {step.call.value for step in steps if step.call.effect in INSERTING}
    has_value = copy[:1] in values and copy[:1] != ()
    cleared = any(step.call.effect is Effect.CLEAR for step in steps)
    updates = {step.call.update for step in steps if step.call.effect is Effect.APPEND}
    left = copy[1:] if has_value else copy
    once = len(set(left)) == len(left) and updates.issuperset(left)
    return once and (has_value or cleared or () in values)


def in_tables(state: RowState) -> tuple[tuple[str, Any], ...]:
    """Return what is in the tables, without what was put aside."""
    return tuple((place, now) for place, now in state.places if "@" not in place)


def _receiving(
    step: StatementStep, state: RowState, beside: frozenset[int]
) -> list[tuple[str, ...]]:
    """Return the tables to which an insert may add a copy: its own and that of the view; if its
    outcome is unknown, either of them may lack it. A block that is sent again is added where it is
    missing, but need not be while the row is in another table: what took it there need not have
    forgotten the block. One that may have been forgotten may be added `beside` another copy."""
    call, there = step.call, dict(in_tables(state))
    own: list[tuple[str, ...]] = [(call.table,)]
    derived: tuple[str, ...] = () if call.view is UNSET else (call.view,)
    if call.effect is Effect.AGAIN:
        if there.get(call.table):
            own = [(), (call.table,)] if step.place in beside else [()]
        elif there.keys() - {*derived}:
            own.append(())
        derived = tuple(view for view in derived if not there.get(view))
    one_of_them = [*own, derived] if step.end is None else []
    return list(dict.fromkeys([(*tables, *derived) for tables in own] + one_of_them))


def _selected(step: StatementStep) -> list[tuple[str, ...]]:
    """Return the tables to which a statement that copies may add what it takes: its target and, if
    it inserts, that of the target's view; if its outcome is unknown, either may lack it."""
    to, view = _target(step), step.call.view
    if view is UNSET or step.call.effect is not Effect.SELECT:
        return [(to,)]
    return [(to, view), *([(to,), (view,)] if step.end is None else [])]


def _partly(step: StatementStep, changed: Sequence[tuple[Copy, Copy]]) -> set[Copies]:
    """Return what a statement may leave of copies, each given as it is after it and before."""
    if not step.is_partial:
        return {_sorted(after for after, _ in changed)}
    return {_sorted(copies) for copies in product(*changed)}


def _removed(step: StatementStep, have: Copies) -> Iterator[tuple[Copies, Copies]]:
    """Yield which copies a statement that removes copies may leave, and those that it removes."""
    least = min(step.least, len(have)) if step.is_partial else len(have)
    for size in range(least, len(have) + 1):
        for gone in combinations(range(len(have)), size):
            left = (copy for at, copy in enumerate(have) if at not in gone)
            yield tuple(left), tuple(have[at] for at in gone)


def _left(step: StatementStep, have: int) -> Iterable[int]:
    """Return how many copies a statement that removes copies may leave."""
    if not step.is_partial:
        return (0,)
    return range(have + 1 - (min(step.least, have) if have < MANY else 0))


def _sorted(*several: Iterable[Copy]) -> Copies:
    return tuple(sorted(copy for copies in several for copy in copies))


def _selections(copies: Sequence[Copy], least: int = 0) -> Iterator[Copies]:
    """Yield each selection of these copies once, with at least so many of those that are equal."""
    groups = [(copy, range(least, copies.count(copy) + 1)) for copy in sorted({*copies})]
    for counts in product(*(few for _, few in groups)):
        yield _sorted(*([copy] * n for (copy, _), n in zip(groups, counts, strict=True)))


def _attached(
    step: StatementStep, asides: Iterable[str], places: Mapping[str, Any], gone: Any
) -> Iterator[dict[str, Any]]:
    """Yield what an ATTACH may leave aside on each replica, given what it attaches, copies or their
    number: the rest on its own, and of that any part on the others, which use their copy of a part
    instead of fetching it, or ignore it as a duplicate when they attach it later."""
    own = f"{step.call.table}@{step.node}"
    others = [aside for aside in _of(step.call.table, asides) if aside != own]
    choices = [_without_some(places[aside], gone) if aside in places else (0,) for aside in others]
    rest = _without(places[own], gone) if step.call.one_part and own in places else (type(gone)(),)
    for kept, *left in product(rest, *choices):
        yield {own: kept, **dict(zip(others, left, strict=True))}


def _without(now: Any, gone: Any) -> Iterable[Any]:
    """Return what is left of copies, or of their number, without all of those that are gone."""
    if not isinstance(now, int):
        return (_minus(now, gone),)
    return range(now - gone, now + 1 if now >= MANY else now - gone + 1)


def _without_some(now: Any, gone: Any) -> Iterable[Any]:
    """Return what is left of copies, or of their number, without any of those that are gone."""
    if isinstance(now, int):
        least = 0 if now >= MANY else max(now - gone, 0)
        return range(least, now + 1)
    common = [copy for copy in {*now} for _ in range(min(now.count(copy), gone.count(copy)))]
    return [_minus(now, some) for some in _selections(common)]


def _minus(copies: Copies, some: Copies) -> Copies:
    """Return the copies without some of them."""
    left = list(copies)
    for copy in some:
        left.remove(copy)
    return tuple(left)


def _of(table: str, asides: Iterable[str]) -> list[str]:
    return [aside for aside in asides if aside.startswith(f"{table}@")]


def _added(places: Mapping[str, int], own: Sequence[str], views: Sequence[int]) -> dict[str, int]:
    return {at: places.get(at, 0) + view for at, view in zip(own, views, strict=True)}


def _target(step: StatementStep) -> str:
    """Return the place that receives the copies."""
    to = step.call.to
    assert to is not UNSET, "the copies go to a table"
    return f"{to}@{step.node}" if step.call.effect is Effect.FETCH else to
