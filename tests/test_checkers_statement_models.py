"""The models of what statements do to a row, against their definition by brute force."""

import random
from collections.abc import Iterator
from itertools import combinations, permutations, product

import pytest
from msgspec import UNSET, structs

from checkers.statements.calls import Effect, StatementCall
from checkers.statements.effects import explains, in_tables
from checkers.statements.orders import final_states
from checkers.statements.steps import Copies, Copy, Sees, Shown, StatementStep


def orders(steps: list[StatementStep]) -> Iterator[tuple[StatementStep, ...]]:
    """Yield every order of the steps that keeps real time, with any of those of unknown outcome."""
    unsure = [step for step in steps if step.end is None]
    for size in range(len(unsure) + 1):
        for left_out in combinations(unsure, size):
            for order in permutations([step for step in steps if step not in left_out]):
                places = {step.place: at for at, step in enumerate(order)}
                if all(
                    places[a.place] < places[b.place]
                    for a in order
                    for b in order
                    if a.end is not None and a.end < b.begin
                ):
                    yield order


def by_definition(
    steps: list[StatementStep], sees: Sees, *, halves: bool | None = None
) -> set[Shown]:
    """Return what the tables may show after any order of the steps."""
    half = sees is Sees.LOCAL if halves is None else halves
    beside = frozenset(("beside", step.place, ()) for step in steps if _is_forgotten(step, steps))
    return {shown for order in orders(steps) for shown in _play(order, {}, beside, (), sees, half)}


def _is_forgotten(step, steps) -> bool:
    """Return whether the block of an insert may have been forgotten when it is sent again."""
    forgets = {"delete": "table", "detach": "table", "move": "table", "replace": "to"}
    before = [other for other in steps if step.end is None or other.begin < step.end]
    return any(
        getattr(other.call, forgets[other.call.effect]) == step.call.table
        for other in before
        if other.call.effect in forgets
    ) or any(other.call.reshapes and other.call.table == step.call.table for other in before)


def _play(order, places, copied, past, sees, half) -> set[Shown]:
    """Return what the tables may show after these steps, from a state; `past` has the earlier
    contents of the tables, each with the end of the step that changed them, and `half` says whether
    a MOVE may have been cut short."""
    if not order:
        return {tuple(sorted((p, c) for p, c in places.items() if "@" not in p and c))}
    step, *later = order
    call, found = step.call, set()
    have = places.get(call.table, ())

    def go(changed, copied=copied) -> None:
        now = {**places, **{place: tuple(sorted(copies)) for place, copies in changed.items()}}
        was = {place: places.get(place, ()) for place in now}
        more = [(place, was[place], step.end) for place in now if was[place] != now[place]]
        found.update(_play(later, now, copied, (*past, *more), sees, half))

    views = {have, *(_earlier(step, past) if sees is Sees.LOCAL else ())}
    there = places.get(call.to, ()) if isinstance(call.to, str) else ()
    match call.effect:
        case Effect.NONE | Effect.KILL | Effect.EXCHANGE | Effect.FORGET | Effect.REFRESH:
            go({})
        case Effect.INSERT | Effect.AGAIN:
            for changed in _inserted(step, places, copied):
                go(changed, copied | {(Effect.SELECT, at, (_first(call),)) for at in changed})
        case Effect.COLLAPSE:
            for kept in _collapsed(have):
                go({call.table: kept})
        case Effect.APPEND | Effect.CLEAR:
            more = (call.update,) if call.effect is Effect.APPEND else None
            for hit, left in _hits(step, have):
                go({call.table: [*left, *(() if more is None else copy + more for copy in hit)]})
        case Effect.DELETE:
            for hit, left in _hits(step, have):
                if hit or not have or not _must(step):
                    go({call.table: left})
        case Effect.ATTACH:
            aside = f"{call.table}@{step.node}"
            gone = places.get(aside, ())
            other = f"{call.table}@{'ch2' if step.node == 'ch1' else 'ch1'}"
            for some, rest in _hits(step, gone):
                for left in _left_aside(places.get(other, ()), some):
                    go({call.table: (*have, *some), aside: rest, other: left})
        case Effect.DETACH:
            for changed in _detached(step, places, views, sees):
                go(changed)
        case Effect.EXTEND:
            for view in views:
                go({call.to: (*there, *view)})
        case Effect.REPLACE:
            for view in views:
                go({call.to: view}, copied | {(Effect.COPY, call.to, view)})
        case Effect.FETCH:
            aside = f"{call.to}@{step.node}"
            for view in views:
                go({aside: (*places.get(aside, ()), *view)})
        case Effect.COPY | Effect.SELECT:
            for view in views:
                for changed, known in _copied(step, view, places, copied):
                    go(changed, known)
        case Effect.MOVE:
            for view in views:
                go({call.to: (*there, *view), call.table: _without(have, view)})
                if step.end is None and half:
                    go({call.to: (*there, *view)})
    return found


def _copied(step, view, places, copied) -> Iterator[tuple[dict[str, Copies], frozenset]]:
    """Yield the places that an INSERT SELECT or ATTACH FROM of these copies may leave changed, and
    the blocks that are known then: one that is known is left out."""
    call = step.call
    block = (call.effect, call.to, view)
    for into in _selected(call, step.end):
        now = {table: (*places.get(table, ()), *view) for table in into}
        yield now, copied | ({block} if call.to in into else set())
    if call.effect is Effect.COPY:
        for left_out in _duplicates(call, view, copied):
            kept = tuple(copy for at, copy in enumerate(view) if at not in left_out)
            now = {call.to: (*places.get(call.to, ()), *kept)}
            yield now, copied | {(call.effect, call.to, kept)}
    elif block in copied and view:
        yield {}, copied


def _detached(step, places, views, sees) -> list[dict[str, Copies]]:
    """Return the places that a DETACH may leave changed: the table, and what each replica has put
    aside, which is what it had itself."""
    table, found = step.call.table, []
    have = places.get(table, ())
    asides = [f"{table}@{node}" for node in ("ch1", "ch2")]
    for hit, left in _hits(step, have):
        if have and not hit and _must(step):
            continue
        both = [(hit,) * 2] if sees is Sees.ACKNOWLEDGED else product(views, repeat=2)
        for on_each in both:
            own = {a: (*places.get(a, ()), *v) for a, v in zip(asides, on_each, strict=True)}
            found.append({table: left, **own})
    return found


def _left_aside(there, gone) -> set[Copies]:
    """Return what another replica may have aside after copies were attached: it attaches any of
    them from there, too, instead of fetching them."""
    found = {tuple(there)}
    for copy in gone:
        found |= {
            (*kept[: kept.index(copy)], *kept[kept.index(copy) + 1 :])
            for kept in found
            if copy in kept
        }
    return found


def _collapsed(have) -> list[Copies]:
    """Return what a merge may leave of equal copies: at least one of each."""
    sizes = range(len(have) + 1)
    return [kept for size in sizes for kept in combinations(have, size) if {*kept} == {*have}]


def _hits(step, have) -> list[tuple[Copies, Copies]]:
    """Return which copies a statement may touch, each time with those that it does not."""
    if not (step.killed or step.call.one_part):
        return [(have, ())]
    found = []
    for size in range(len(have) + 1):
        for hit in combinations(range(len(have)), size):
            left = tuple(copy for at, copy in enumerate(have) if at not in hit)
            found.append((tuple(have[at] for at in hit), left))
    return found


def _must(step) -> bool:
    """Return whether a statement on one part touches a copy at least."""
    return step.call.one_part and not step.killed and step.end is not None


def _duplicates(call, view, copied) -> Iterator[tuple[int, ...]]:
    """Yield which of the copies that a COPY brings may be left out: parts are blocks, and each of
    these may be in one that was brought before."""
    blocks = [set(brought) for effect, to, brought in copied if (effect, to) == ("copy", call.to)]
    known = [at for at, copy in enumerate(view) if any(copy in brought for brought in blocks)]
    for size in range(1, len(known) + 1):
        yield from combinations(known, size)


def _without(have, taken) -> list:
    """Return the copies that are left, of those that a table has, after some were taken away as
    they were earlier."""
    left = list(have)
    for copy in taken:
        same = [other for other in left if other[: len(copy)] == copy]
        same = same or [other for other in left if len(other) < len(copy)]  # cleared since
        left.remove(same[0]) if same else None
    return left


def _selected(call, end) -> list[tuple[str, ...]]:
    """Return the tables to which a statement that copies may add what it takes."""
    if call.effect is Effect.COPY or not isinstance(call.view, str):
        return [(call.to,)]
    return [(call.to, call.view), *([(call.to,), (call.view,)] if end is None else [])]


def _earlier(step, past) -> set[Copies]:
    """Return what the replica may have of the table of a step, beside what is there now."""
    current = step.call.is_current and step.call.effect is not Effect.FETCH
    views = {
        copies
        for table, copies, end in past
        if table == step.call.table and (not current or end is None or end > step.begin)
    }
    return views if current else {*views, ()}


def _inserted(step, places, copied) -> list[dict[str, Copies]]:
    """Return what an insert may leave: a copy in its table and in that of the view; if its outcome
    is unknown, in one of them. One that is sent again adds none to a table that has one, and may
    leave its own out if the row is in another one."""
    table, view = step.call.table, step.call.view
    new, again = _first(step.call), step.call.effect is Effect.AGAIN
    elsewhere = any(copies and "@" not in p and p != view for p, copies in places.items())
    left_out = [{}] if again and elsewhere else []
    own = [{table: (*places.get(table, ()), new)}, *left_out]
    if again and places.get(table) and ("beside", step.place, ()) not in copied:
        own = left_out
    derived = {view: (*places.get(view, ()), new)} if isinstance(view, str) else {}
    if again and places.get(view):
        derived = {}
    found = [one | derived for one in own]
    return [*found, *own, derived] if step.end is None else found


def _first(call: StatementCall) -> Copy:
    """Return what a copy has that an insert adds."""
    return () if call.update is UNSET else (call.update,)


def some_steps(draw: random.Random) -> list[StatementStep]:
    """Return an insert and a few statements, which may overlap."""
    steps, at, viewed = [], 0, draw.random() < 0.3
    for place in range(draw.randint(1, 5)):
        effect = Effect.INSERT if not place else draw.choice([*Effect][1:])
        table = "t" if not place else draw.choice("tu")
        to = "u" if table == "t" else "t"
        at += draw.randint(0, 3)
        end = None if draw.random() < 0.2 else at + draw.randint(1, 9)
        one_part = effect in (Effect.DELETE, Effect.DETACH, Effect.ATTACH) and draw.random() < 0.5
        killed = effect in (Effect.APPEND, Effect.CLEAR, Effect.DELETE) and draw.random() < 0.3
        end = None if killed else end
        synced, view = draw.random() < 0.3, "v" if viewed else UNSET
        call = StatementCall(
            effect, table, to=to, view=view, update=100 + place, synced=synced, one_part=one_part
        )
        if not place and draw.random() < 0.4:
            call = structs.replace(call, update=UNSET)
        if effect is Effect.NONE:
            call = structs.replace(call, reshapes=draw.random() < 0.5)
        last = end and end * 100 + 50 + place
        steps.append(StatementStep(place, at * 100 + place, last, "ch1", call, killed))
    return steps


def test_what_statements_with_all_acknowledged_rows_lead_to_is_the_definition() -> None:
    draw = random.Random(20261127)
    sizes = set()
    for _ in range(1_500):
        steps = some_steps(draw)
        reached = {in_tables(state) for state in final_states(steps, Sees.ACKNOWLEDGED)}
        assert reached == by_definition(steps, Sees.ACKNOWLEDGED), steps
        halves = final_states(steps, Sees.ACKNOWLEDGED, halves=True)
        expected = by_definition(steps, Sees.ACKNOWLEDGED, halves=True)
        assert {in_tables(state) for state in halves} == expected, steps
        sizes.add(len(reached))
    assert len(sizes) > 4, "the histories are too much alike"


def test_the_local_view_accuses_nobody_who_is_innocent_by_its_definition() -> None:
    draw = random.Random(20261128)
    refused = 0
    shown_by_others = sorted(
        {s for _ in range(50) for s in by_definition(some_steps(draw), Sees.LOCAL)}
    )
    for _ in range(400):
        steps = some_steps(draw)
        states = final_states(steps, Sees.LOCAL)
        allowed = by_definition(steps, Sees.LOCAL)
        for shown in allowed:
            assert explains(states, shown, steps, Sees.LOCAL), (steps, shown)
        refused += sum(not explains(states, s, steps, Sees.LOCAL) for s in shown_by_others)
    assert refused > 1_000, "it refuses nothing"


def test_what_the_exact_model_explains_the_local_view_explains_too() -> None:
    draw = random.Random(20261129)
    for _ in range(1_000):
        steps = some_steps(draw)
        local = final_states(steps, Sees.LOCAL)
        for state in final_states(steps, Sees.ACKNOWLEDGED):
            assert explains(local, in_tables(state), steps, Sees.LOCAL), steps


def by_merges(steps: list[StatementStep], least: int) -> set[Shown]:
    """Return what the tables may show after any order of the steps, where before and after each of
    them merges may have left any of the copies in a table, and at least so many."""
    return {
        shown for order in orders(steps) for shown in _play_merged(order, {}, frozenset(), least)
    }


def _play_merged(order, places, copied, least) -> set[Shown]:
    found = set()
    names = [place for place in sorted(places) if places[place] and "@" not in place]
    for kept in product(*(_left(places[name], least) for name in names)):
        now = {**places, **dict(zip(names, kept, strict=True))}
        if not order:
            found.add(tuple(sorted((p, c) for p, c in now.items() if "@" not in p and c)))
            continue
        # What one step does is what it does by itself: the later ones are played from there.
        for after, remembered in _after(order[0], now, copied):
            found |= _play_merged(order[1:], after, remembered, least)
    return found


def _left(copies: Copies, least: int) -> set[Copies]:
    sizes = range(least, len(copies) + 1)
    return {kept for size in sizes for kept in combinations(copies, size)}


def _after(step, places, copied):
    """Yield the places after a step, and the blocks that are remembered."""
    have, to = places.get(step.call.table, ()), step.call.to
    there = places.get(to, ())
    match step.call.effect:
        case Effect.INSERT:
            new = _first(step.call)
            now = {**places, step.call.table: tuple(sorted((*have, new)))}
            yield now, copied | {(step.call.table, (new,))}
        case Effect.APPEND:
            yield {**places, step.call.table: tuple((*c, step.call.update) for c in have)}, copied
        case Effect.DELETE:
            yield {**places, step.call.table: ()}, copied
        case Effect.MOVE:
            yield {**places, to: tuple(sorted((*there, *have))), step.call.table: ()}, copied
        case Effect.SELECT:
            yield {**places, to: tuple(sorted((*there, *have)))}, copied | {(to, have)}
            if have and (to, have) in copied:
                yield places, copied
        case _:
            raise AssertionError(step.call.effect)


@pytest.mark.parametrize("has_expired", [False, True], ids=["replacing", "ttl"])
def test_where_merges_leave_some_copies_nobody_innocent_is_accused(has_expired: bool) -> None:
    draw = random.Random(20261130)
    effects = [Effect.APPEND, Effect.DELETE, Effect.MOVE, Effect.SELECT]
    refused = 0
    for _ in range(300):
        steps = []
        for place, step in enumerate(some_steps(draw)[:4]):
            effect = draw.choice(effects) if place else Effect.INSERT
            call = structs.replace(step.call, effect=effect, view=UNSET)
            call = structs.replace(call, replacing=not has_expired, expires=has_expired)
            steps.append(step._replace(call=call))
        states = final_states(steps, Sees.ACKNOWLEDGED)
        allowed = by_merges(steps, least=0 if has_expired else 1)
        assert allowed <= {in_tables(state) for state in states}, steps
        twice = {tuple((t, c * 2) for t, c in shown) for shown in allowed if shown}
        refused += sum(not explains(states, s, steps, Sees.ACKNOWLEDGED) for s in twice - allowed)
    assert refused > 100, "it refuses nothing"
