"""Rows of statements whose orders are too many, or for which there is no time."""

import pytest
from checkers_cases import history
from statement_rows_cases import AT_REST, ONE, OPTIMIZE, REPLACE, both_show, call, insert

from checkers.statements import rows
from checkers.statements.calls import Effect, StatementCall
from checkers.statements.orders import TooManyOrdersError, final_states
from checkers.statements.rows import StatementRows
from checkers.statements.steps import Sees, StatementStep
from harness.core.verdict import Status


def test_too_many_orders_are_a_doubt() -> None:
    steps = [StatementStep(0, 0, 1, "ch1", StatementCall(Effect.INSERT, "t"))]
    steps += [
        StatementStep(1 + n, 2, None, "ch1", StatementCall(Effect.COPY, "t", to="u"))
        for n in range(3)
    ]
    with pytest.raises(TooManyOrdersError):
        final_states(steps, Sees.ACKNOWLEDGED, budget=2)
    assert len(final_states(steps, Sees.ACKNOWLEDGED)) > 1


class Ticking:
    """A clock on which each look takes a second."""

    def __init__(self) -> None:
        self.now_s = 0

    def now_ns(self) -> int:
        self.now_s += 1
        return self.now_s * 1_000_000_000


def test_what_was_found_before_the_time_was_over_is_reported(monkeypatch) -> None:
    monkeypatch.setattr(rows, "WallClock", Ticking)
    inserts = [insert(row, row, row + 0.5) for row in range(1, 51)]
    calls = history(*inserts, call("optimize", "none", 60, 61), AT_REST, both_show())
    verdict = StatementRows().check_within(calls, 20)
    assert verdict.status is Status.INVALID
    lost = verdict.figures["anomalies"]["lost"]
    assert 0 < lost < 20
    assert verdict.checked == lost
    assert verdict.cut_short
    whole = StatementRows().check(calls)
    assert (whole.checked, whole.figures["anomalies"], whole.cut_short) == (50, {"lost": 50}, False)


def test_rows_without_time_are_a_doubt() -> None:
    verdict = StatementRows().check_within(history(ONE, OPTIMIZE, AT_REST, both_show()), 0)
    assert verdict.status is Status.UNKNOWN
    assert verdict.summary == "no time left for 1 row"


def test_a_search_ends_with_its_time(monkeypatch) -> None:
    def endless(steps, sees, *, halves) -> set:
        while True:
            pass

    monkeypatch.setattr(rows, "final_states", endless)
    verdict = StatementRows().check_within(history(ONE, OPTIMIZE, AT_REST, both_show()), 0.1)
    assert (verdict.status, verdict.summary) == (Status.UNKNOWN, "no time left for 1 row")


@pytest.mark.parametrize(
    ("sees", "status", "summary"),
    [
        (Sees.ACKNOWLEDGED, Status.INVALID, "1 unexplained"),
        (Sees.LOCAL, Status.UNKNOWN, "1 row with too many orders to search"),
    ],
)
def test_a_violation_stays_one_without_time_to_look_for_a_stale_copy(
    sees: Sees, status: Status, summary: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hurried(steps, sees, *, halves=False) -> set:
        if sees is Sees.LOCAL:
            raise TooManyOrdersError
        return final_states(steps, sees, halves=halves)

    monkeypatch.setattr(rows, "final_states", hurried)
    lost = history(ONE, REPLACE, AT_REST, both_show(t=[(1, [], 1)]))
    verdict = StatementRows(sees).check(lost)
    assert (verdict.status, verdict.summary) == (status, summary)
