"""The checker of rows that statements change, on histories by hand with rows that have expired."""

import pytest
from checkers_cases import history
from statement_rows_cases import (
    AT_REST,
    BOTH_ROWS,
    DELETE_ONE,
    EXPIRED,
    HERE,
    MERGED,
    ONE_MORE,
    OPTIMIZE,
    UNMERGED,
    again,
    both_show,
    insert,
    left,
    move,
    shows,
)

from checkers.statements.rows import StatementRows
from harness.core.verdict import Status

VERDICTS = {
    "a row that has expired may be gone": (
        (EXPIRED, ONE_MORE, OPTIMIZE, both_show(t=[(2, [], 1)])),
        (Status.VALID, []),
    ),
    "it may be gone from one replica and still be on another": (
        (EXPIRED, ONE_MORE, OPTIMIZE, shows("ch1", t=BOTH_ROWS), shows("ch2", t=[(2, [], 1)])),
        (Status.VALID, []),
    ),
    "it is in no table into which nothing put it": (
        (EXPIRED, ONE_MORE, OPTIMIZE, both_show(t=[(2, [], 1)], u=HERE)),
        (Status.INVALID, ["misplaced"]),
    ),
    "it is there once": (
        (EXPIRED, ONE_MORE, OPTIMIZE, both_show(t=[(1, [], 2), (2, [], 1)])),
        (Status.INVALID, ["doubled"]),
    ),
    "it does not come back after a DELETE": (
        (EXPIRED, ONE_MORE, DELETE_ONE, both_show(t=BOTH_ROWS)),
        (Status.INVALID, ["resurrected"]),
    ),
    "sent again it is the same row": (
        (EXPIRED, again(1, 5, 6, expires=True), ONE_MORE, OPTIMIZE, both_show(t=BOTH_ROWS)),
        (Status.VALID, []),
    ),
    "it is gone once all parts were merged at rest": (
        (EXPIRED, ONE_MORE, OPTIMIZE, both_show(t=BOTH_ROWS), MERGED, left(t=[(2, [], 1)])),
        (Status.VALID, []),
    ),
    "it is there though all parts were merged at rest": (
        (EXPIRED, ONE_MORE, OPTIMIZE, both_show(t=BOTH_ROWS), MERGED, left(t=BOTH_ROWS)),
        (Status.INVALID, ["unexpired"]),
    ),
    "a merge of unknown outcome may have left it": (
        (EXPIRED, ONE_MORE, OPTIMIZE, both_show(t=BOTH_ROWS), UNMERGED, left(t=BOTH_ROWS)),
        (Status.VALID, []),
    ),
    "a merge of one table leaves what is in another one": (
        (EXPIRED, ONE_MORE, move(10, 20), both_show(u=BOTH_ROWS), MERGED, left(u=BOTH_ROWS)),
        (Status.VALID, []),
    ),
    "a row that was refused is there": (
        (insert(1, 1, 2, "fail", expires=True), ONE_MORE, OPTIMIZE, both_show(t=BOTH_ROWS)),
        (Status.INVALID, ["refused"]),
    ),
    "a row that no TTL may remove is lost beside one that has expired": (
        (insert(1, 1, 2, expires=True), ONE_MORE, OPTIMIZE, both_show(t=[(1, [], 1)])),
        (Status.INVALID, ["lost"]),
    ),
}
"""History, and the status and the kinds of anomalies, by what the case shows."""


@pytest.mark.parametrize("name", VERDICTS)
def test_verdict(name: str) -> None:
    calls, expected = VERDICTS[name]
    verdict = StatementRows().check(history(*calls, AT_REST))
    assert (verdict.status, [one.kind for one in verdict.anomalies]) == expected
