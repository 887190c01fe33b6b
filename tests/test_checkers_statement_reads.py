"""The checker of reads during a run, on histories by hand and against its definition by brute
force."""

import random
from itertools import count

import pytest
from checkers_cases import Event, _call, history
from msgspec import UNSET
from statement_rows_cases import (
    CLEAR,
    DELETE,
    ONE,
    REPLACE,
    VIEWED,
    again,
    call,
    insert,
    move,
    update,
)
from test_checkers_statement_models import by_definition, some_steps

from checkers.statements.calls import READ_ROWS, Effect
from checkers.statements.reads import StatementReads
from checkers.statements.steps import Sees
from harness.core.verdict import Status

PROCESS = count(10_000)


def reads(begin: float, end: float, node: str = "ch1", key: int = 1, **tables: list) -> list[Event]:
    answer = {"tables": {"t": [], "u": [], **tables}}
    return _call(next(PROCESS), READ_ROWS, begin, end, "ok", node, key, None, answer, None)


HERE = [(1, [], 1)]
COPY = call("attach-from", "copy", 10, 20, to="u")
ATTACH = call("attach", "attach", 10, 20, table="u")
VERDICTS = {
    "a row is shown by the replica that inserted it": (
        (ONE, reads(3, 4, t=HERE)),
        (Status.VALID, []),
    ),
    "a replica that lags need not show it": (
        (ONE, reads(3, 4, t=HERE), reads(5, 6, "ch2")),
        (Status.VALID, []),
    ),
    "the replica that inserted it must": ((ONE, reads(3, 4)), (Status.INVALID, ["vanished"])),
    "but not before it had answered": (
        (insert(1, 1, 9), insert(2, 1, 2), reads(3, 4, t=[(2, [], 1)])),
        (Status.VALID, []),
    ),
    "but not if it took the block for a duplicate of another replica's": (
        (again(1, 1, 9), again(1, 4, 6, node="ch2"), reads(12, 13), reads(14, 15, t=HERE)),
        (Status.VALID, []),
    ),
    "a block that was sent to it alone is no duplicate of another replica's": (
        (again(1, 1, 9), again(1, 4, 6), reads(12, 13)),
        (Status.INVALID, ["vanished"]),
    ),
    "nor one that was sent to another replica later": (
        (again(1, 1, 2), again(1, 4, 6, node="ch2"), reads(12, 13)),
        (Status.INVALID, ["vanished"]),
    ),
    "nor if the block of another row was sent to another replica": (
        (again(1, 1, 9), again(2, 4, 6, node="ch2"), reads(12, 13)),
        (Status.INVALID, ["vanished"]),
    ),
    "a replica that showed it must": (
        (ONE, reads(3, 4, "ch2", t=HERE), reads(5, 6, "ch2")),
        (Status.INVALID, ["vanished"]),
    ),
    "but not while another read is under way": (
        (ONE, reads(3, 6, "ch2", t=HERE), reads(4, 5, "ch2")),
        (Status.VALID, []),
    ),
    "a row may have been deleted since": (
        (ONE, DELETE, reads(11, 12)),
        (Status.UNKNOWN, []),
    ),
    "by a statement that had begun": (
        (ONE, DELETE, reads(3, 4)),
        (Status.INVALID, ["vanished"]),
    ),
    "and that touches it": (
        (ONE, call("delete", "delete", 10, 15, one_in=2, rest=0), reads(16, 17)),
        (Status.INVALID, ["vanished"]),
    ),
    "a table whose partition was replaced may lack it": (
        (insert(1, 1, 2, table="u", node="ch2"), REPLACE, reads(30, 31, "ch2")),
        (Status.UNKNOWN, []),
    ),
    "a row is moved, or not yet": (
        (ONE, move(10, 20), reads(12, 13, t=HERE), reads(14, 15, u=HERE), reads(30, 31, u=HERE)),
        (Status.VALID, []),
    ),
    "a copy takes nothing away": (
        (ONE, COPY, reads(30, 31, u=HERE)),
        (Status.INVALID, ["vanished"]),
    ),
    "a row is shown before its insert begins": (
        (insert(1, 5, 6), reads(3, 4, t=HERE)),
        (Status.INVALID, ["impossible"]),
    ),
    "a row is shown whose insert was refused": (
        (insert(1, 1, 2, "fail"), reads(3, 4, t=HERE)),
        (Status.INVALID, ["impossible"]),
    ),
    "a row is shown in a table to which nothing brought it": (
        (ONE, reads(3, 4, t=HERE, u=HERE)),
        (Status.INVALID, ["impossible"]),
    ),
    "a statement had begun that may have brought it": (
        (ONE, ATTACH, reads(12, 13, t=HERE, u=HERE)),
        (Status.VALID, []),
    ),
    "an update is shown before it begins": (
        (ONE, update(7, 10, 20), reads(3, 4, t=[(1, [7], 1)])),
        (Status.INVALID, ["impossible"]),
    ),
    "an update is shown twice": (
        (ONE, update(7, 10, 20), reads(12, 13, t=[(1, [7, 7], 1)])),
        (Status.INVALID, ["impossible"]),
    ),
    "an update is shown that does not touch the row": (
        (ONE, update(7, 10, 20, one_in=2, rest=0), reads(30, 31, t=[(1, [7], 1)])),
        (Status.INVALID, ["impossible"]),
    ),
    "a row is shown without the value of its insert": (
        (insert(1, 1, 2, update=1), reads(3, 4, t=HERE)),
        (Status.INVALID, ["impossible"]),
    ),
    "a row whose column is cleared may be shown without the value of its insert": (
        (insert(1, 1, 2, update=1), CLEAR, reads(30, 31, t=HERE)),
        (Status.VALID, []),
    ),
    "an update may be lost or to come": (
        (ONE, update(7, 10, 20), reads(30, 31, t=HERE)),
        (Status.VALID, []),
    ),
    "the table of a view has what was inserted": (
        (VIEWED, reads(3, 4, t=HERE)),
        (Status.INVALID, ["vanished"]),
    ),
    "an INSERT SELECT brings a row to the table of a view": (
        (
            insert(1, 1, 2, table="u"),
            call("insert-select", "select", 3, 4, table="u", to="t", view="v"),
            reads(5, 6, t=HERE, u=HERE, v=HERE),
        ),
        (Status.VALID, []),
    ),
    "a row that was dropped comes back on a replica that did not show it": (
        (
            *(ONE, call("drop", "delete", 10, 20), reads(5, 6, "ch2", t=HERE)),
            *(reads(21, 22, "ch2"), reads(23, 24, "ch2", t=HERE)),
        ),
        (Status.INVALID, ["returned"]),
    ),
    "it is not back if another read was under way": (
        (
            *(ONE, call("drop", "delete", 10, 20), reads(5, 6, "ch2", t=HERE)),
            *(reads(21, 26, "ch2"), reads(23, 24, "ch2", t=HERE)),
        ),
        (Status.VALID, []),
    ),
    "nor if it was attached meanwhile": (
        (
            *(ONE, call("detach", "detach", 10, 20), reads(5, 6, "ch2", t=HERE)),
            *(reads(11, 12, "ch2"), call("attach", "attach", 21, 22)),
            reads(23, 24, "ch2", t=HERE),
        ),
        (Status.VALID, []),
    ),
    "nor if a replica that lags behind does not show what a REPLACE has brought": (
        (
            *(ONE, call("drop", "delete", 10, 20), reads(5, 6, "ch2", t=HERE)),
            *(call("replace", "replace", 21, 22, table="u", to="t"), reads(23, 24, "ch2")),
            reads(25, 26, "ch2", t=HERE),
        ),
        (Status.VALID, []),
    ),
    "what was attached before is no reason": (
        (
            *(ONE, call("attach", "attach", 3, 4), call("drop", "delete", 10, 20)),
            *(reads(5, 6, "ch2", t=HERE), reads(21, 22, "ch2"), reads(23, 24, "ch2", t=HERE)),
        ),
        (Status.INVALID, ["returned"]),
    ),
    "a row that a TTL may remove is not judged": (
        (insert(1, 1, 2, expires=True), reads(3, 4)),
        (Status.UNKNOWN, []),
    ),
    "without a read there is nothing to conclude": ((ONE, DELETE), (Status.UNKNOWN, [])),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_verdict(name: str) -> None:
    calls, expected = VERDICTS[name]
    verdict = StatementReads().check(history(*calls))
    assert (verdict.status, [one.kind for one in verdict.anomalies]) == expected


def test_a_witness_names_the_read_the_row_and_what_the_replica_had() -> None:
    verdict = StatementReads().check(history(ONE, reads(3, 4)))
    assert verdict.anomalies[0].text == (
        "the read #2 of partition 1 on ch1, from 0.003 s to 0.004 s, lacks row 1 in t: the replica "
        "had it since 0.002 s (op #1)"
    )


OF_NO_READ = (Effect.AGAIN, Effect.EXTEND)
"""Effects that are not drawn: an insert that is sent again is of one call, and what extends a view
changes no table that reads show."""


def test_no_read_is_accused_of_what_some_order_of_the_begun_statements_allows() -> None:
    """By definition a read of a replica that lags shows a table as it is after any of the
    statements that have begun, in any order, each of which may have yet to reach the replica."""
    draw = random.Random(20261131)
    refused = 0
    for _ in range(300):
        steps = [s for s in some_steps(draw) if s.call.effect not in OF_NO_READ]
        later = [step._replace(begin=0, end=None) for step in steps[1:4]]
        value = {} if steps[0].call.update is UNSET else {"update": steps[0].call.update}
        calls = [insert(1, 1, 2, **value)] + [
            call("any", str(s.call.effect), 3, 4, "info", **_fields(s)) for s in later
        ]
        shown = by_definition([steps[0]._replace(begin=0), *later], Sees.LOCAL)
        for tables in shown:
            seen = {t: [(1, [*c], copies.count(c)) for c in {*copies}] for t, copies in tables}
            read = reads(5, 6, "ch2", **{t: rows for t, rows in seen.items() if t in "tu"})
            assert StatementReads().check(history(*calls, read)).status is not Status.INVALID
        wrong = reads(5, 6, "ch2", t=[(1, [99], 1)])
        refused += StatementReads().check(history(*calls, wrong)).status is Status.INVALID
    assert refused == 300


def _fields(step):
    """Return the fields of a statement's call."""
    call = step.call
    return {"table": call.table, "to": call.to, "update": call.update, "node": step.node}


def test_reads_without_time_left_are_a_doubt_beside_what_others_show() -> None:
    late = StatementReads().check_within(history(ONE, reads(3, 4, t=HERE)), 0.0)
    assert (late.status, late.summary) == (Status.UNKNOWN, "no time left for 1 read")
