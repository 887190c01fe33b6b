"""The checker of rows where EXCHANGE TABLES gives two tables each other's names."""

import random
from itertools import product

import pytest
from checkers_cases import history
from statement_rows_cases import AT_REST, ONE, both_show, call, insert, move
from test_checkers_statement_models import some_steps

from checkers.statements.calls import Effect, StatementCall
from checkers.statements.effects import in_tables
from checkers.statements.names import EXCHANGED, meanings, named
from checkers.statements.orders import final_states
from checkers.statements.rows import StatementRows
from checkers.statements.steps import FOREVER, Sees, StatementStep
from harness.core.verdict import Status

HERE, THERE = {"t": [(1, [], 1)]}, {"u": [(1, [], 1)]}


def exchange(begin: float, end: float, kind: str = "ok", **more) -> list:
    return call("exchange", "exchange", begin, end, kind, to="u", key=None, **more)


LATE = insert(1, 10, 12)
MERGED = call("optimize", "none", 20, 22)
DROPPED = call("drop", "delete", 20, 22)
VERDICTS = {
    "after an exchange a name means the other table": (
        (exchange(1, 2), LATE, MERGED, both_show(**THERE)),
        (Status.VALID, []),
    ),
    "an exchange that was forgotten is found by what an insert through the name did": (
        (exchange(1, 2), LATE, MERGED, both_show(**HERE)),
        (Status.INVALID, ["misplaced"]),
    ),
    "a second exchange gives the names back": (
        (exchange(1, 2), exchange(3, 4), LATE, MERGED, both_show(**THERE)),
        (Status.INVALID, ["misplaced"]),
    ),
    "an exchange changes names on its replica alone": (
        (exchange(1, 2, node="ch2"), LATE, MERGED, both_show(**THERE)),
        (Status.INVALID, ["misplaced"]),
    ),
    "in a Replicated database it changes names on all": (
        (exchange(1, 2, node="ch2", on_each=True), LATE, MERGED, both_show(**THERE)),
        (Status.VALID, []),
    ),
    "a statement that overlaps an exchange may mean either table": (
        (exchange(1, 11), LATE, MERGED, both_show(**THERE)),
        (Status.VALID, []),
    ),
    "an exchange of unknown outcome may take effect later, or never": (
        (exchange(1, 2, "info"), LATE, MERGED, both_show(**HERE)),
        (Status.VALID, []),
    ),
    "an exchange moves no row": (
        (ONE, exchange(10, 12), both_show(**THERE)),
        (Status.INVALID, ["misplaced"]),
    ),
    "what is dropped by a name is dropped from the table that has it": (
        (ONE, exchange(10, 12), DROPPED, both_show(**HERE)),
        (Status.VALID, []),
    ),
    "what is dropped by a name stays in the table that had it": (
        (ONE, exchange(10, 12), DROPPED, both_show()),
        (Status.INVALID, ["lost"]),
    ),
    "a move goes the other way": (
        (
            insert(1, 1, 2, table="u"),
            exchange(10, 12),
            move(20, 22),
            both_show(**HERE),
        ),
        (Status.VALID, []),
    ),
    "a move that overlaps an exchange may find one table under both names, and moves nothing": (
        (ONE, exchange(10, 30), move(20, 22), both_show(**HERE)),
        (Status.VALID, []),
    ),
    "and loses nothing": (
        (ONE, exchange(10, 30), move(20, 22), both_show()),
        (Status.INVALID, ["lost"]),
    ),
    "mutations are stopped by the name that their table has": (
        (
            ONE,
            exchange(5, 6),
            call("update", "append", 10, 40, table="u", update=9, settings={"mutations_sync": 1}),
            call("kill-mutation", "kill", 20, 25, key=None, table="u"),
            both_show(**HERE),
        ),
        (Status.VALID, []),
    ),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_a_row_is_judged_by_what_the_names_meant(name: str) -> None:
    events, expected = VERDICTS[name]
    verdict = StatementRows().check(history(*events, AT_REST))
    assert (verdict.status, [a.kind for a in verdict.anomalies]) == expected, verdict


def by_moments(step: StatementStep, exchanges: list[StatementStep]) -> set[tuple[str, str]]:
    """Return the tables that the two names of a step may mean: each is looked for at some moment
    of the step, and each exchange on its replica happens at some moment of its own, or never if its
    outcome is unknown."""
    last = max([step.begin, step.end or 0, *(e.begin for e in exchanges)]) + 1

    def moments(one: StatementStep, never: bool) -> list[int]:
        until = last if one.end is None else one.end
        return [*range(one.begin, until + 1), *([FOREVER] if never and one.end is None else [])]

    own = [one for one in exchanges if one.call.on_each or one.node == step.node]
    found = set()
    for when in product(*(moments(one, never=True) for one in own)):
        odd = {at: sum(moment <= at for moment in when) % 2 for at in moments(step, never=False)}
        for first, second in product(odd.values(), repeat=2):
            table, to = step.call.table, str(step.call.to)
            found.add((EXCHANGED[table] if first else table, EXCHANGED[to] if second else to))
    return found


def test_names_mean_what_they_mean_by_moments() -> None:
    draw = random.Random(20261129)
    seen: dict[int, int] = {}
    for _ in range(1_000):
        indices = [*range(2 * draw.randint(1, 4))]
        draw.shuffle(indices)
        spans = [sorted(indices[at : at + 2]) for at in range(0, len(indices), 2)]
        exchanges = []
        for place, (begin, ended) in enumerate(spans[1:]):
            made = StatementCall(Effect.EXCHANGE, "t", to="u", on_each=draw.random() < 0.3)
            end = None if draw.random() < 0.2 else ended
            exchanges.append(StatementStep(place, begin, end, "ch1", made))
        begin, end = spans[0][0], None if draw.random() < 0.1 else spans[0][1]
        node = draw.choice(["ch1", "ch2"])
        step = StatementStep(9, begin, end, node, StatementCall(Effect.COPY, "t", to="u"))
        meant = {(m.call.table, str(m.call.to)) for m in meanings(named(step, exchanges))}
        expected = by_moments(step, exchanges)
        assert meant == expected, (step, exchanges)
        seen[len(meant)] = seen.get(len(meant), 0) + 1
    assert min(seen[1], seen[4]) > 100, "the histories are too much alike"


def test_what_a_step_may_mean_is_what_each_of_its_meanings_leads_to() -> None:
    draw = random.Random(20261130)
    for _ in range(200):
        steps = some_steps(draw)[:4]
        at = draw.randrange(len(steps))
        unsure = [*steps]
        unsure[at] = steps[at]._replace(exchanged=(False, True))
        reached = {in_tables(state) for state in final_states(unsure, Sees.ACKNOWLEDGED)}
        for meant in meanings(unsure[at]):
            chosen = [*steps]
            chosen[at] = meant._replace(exchanged=(False,))
            states = {in_tables(state) for state in final_states(chosen, Sees.ACKNOWLEDGED)}
            assert states <= reached, (chosen, unsure[at])
