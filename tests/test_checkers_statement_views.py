"""The checker of rows that statements change, on histories with a materialized view."""

import pytest
from checkers_cases import history
from statement_rows_cases import (
    AT_REST,
    ONE,
    ONE_MORE,
    OPTIMIZE,
    SELECTED,
    UNVIEWED,
    VIEWED,
    again,
    both_show,
    call,
    move,
)

from checkers.statements.rows import StatementRows
from harness.core.verdict import Status

RESHAPED = call("column-add", "none", 10, 12, key=None, reshapes=True)
VERDICTS = {
    "a block that is sent again is new where a move has forgotten it": (
        (
            ONE,
            move(10, 20),
            call("move", "move", 25, 28, table="u", to="t"),
            again(1, 30, 40),
            both_show(t=[(1, [], 2)]),
        ),
        (Status.VALID, []),
    ),
    "a block that is sent again after its table got a column is another one": (
        (ONE, RESHAPED, again(1, 30, 40), both_show(t=[(1, [], 2)])),
        (Status.VALID, []),
    ),
    "a token is the same after its table got a column": (
        (
            ONE,
            RESHAPED,
            again(1, 30, 40, settings={"insert_deduplication_token": "row 1"}),
            both_show(t=[(1, [], 2)]),
        ),
        (Status.INVALID, ["doubled"]),
    ),
    "the table of a view has each row that was inserted": (
        (VIEWED, OPTIMIZE, both_show(t=[(1, [], 1)])),
        (Status.INVALID, ["derived"]),
    ),
    "the table of a view has each row once": (
        (VIEWED, again(1, 20, 30, view="v"), both_show(t=[(1, [], 1)], v=[(1, [], 2)])),
        (Status.INVALID, ["derived"]),
    ),
    "a block that is sent again completes what an insert of unknown outcome began": (
        (
            call("insert-row", "insert", 1, 2, "info", row=1, view="v"),
            again(1, 20, 30, view="v"),
            both_show(t=[(1, [], 1)]),
        ),
        (Status.INVALID, ["derived"]),
    ),
    "the table of a view has what is sent again after a move once": (
        (
            VIEWED,
            move(10, 20),
            again(1, 30, 40, view="v"),
            both_show(t=[(1, [], 1)], u=[(1, [], 1)], v=[(1, [], 1)]),
        ),
        (Status.VALID, []),
    ),
    "the table of a view keeps what is moved out of its source": (
        (VIEWED, move(10, 20), both_show(u=[(1, [], 1)], v=[(1, [], 1)])),
        (Status.VALID, []),
    ),
    "what INSERT SELECT inserts into the source of a view is in its table, too": (
        (UNVIEWED, SELECTED, both_show(t=[(1, [], 1)], u=[(1, [], 1)], v=[(1, [], 1)])),
        (Status.VALID, []),
    ),
    "a view lacks what INSERT SELECT inserted": (
        (UNVIEWED, SELECTED, both_show(t=[(1, [], 1)], u=[(1, [], 1)])),
        (Status.INVALID, ["derived"]),
    ),
    "an INSERT SELECT that read nothing brought nothing to the view either": (
        (
            UNVIEWED,
            call("insert-select", "select", 10, 20, table="u", to="t", view="v", node="ch2"),
            call("delete", "delete", 30, 40),
            both_show(u=[(1, [], 1)]),
        ),
        (Status.INVALID, ["stale-copy"]),
    ),
    "a row that is in the table of a view and not in its source is lost": (
        (VIEWED, OPTIMIZE, both_show(v=[(1, [], 1)])),
        (Status.INVALID, ["lost"]),
    ),
    "an insert of unknown outcome may have written the view alone": (
        (
            call("insert-row", "insert", 1, 2, "info", row=1, view="v"),
            ONE_MORE,
            OPTIMIZE,
            both_show(t=[(2, [], 1)], v=[(1, [], 1)]),
        ),
        (Status.VALID, []),
    ),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_verdict(name: str) -> None:
    calls, expected = VERDICTS[name]
    verdict = StatementRows().check(history(*calls, AT_REST))
    assert (verdict.status, [one.kind for one in verdict.anomalies]) == expected
