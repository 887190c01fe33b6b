"""The checker of rows that statements change, on histories by hand with rows that have expired."""

from dataclasses import replace

import pytest
from checkers_cases import Event, _call, _nemesis, history
from statement_rows_cases import (
    AT_REST,
    BOTH_ROWS,
    DELETE_ONE,
    EXPIRED,
    HERE,
    MERGED,
    ONE_MORE,
    OPTIMIZE,
    PROCESS,
    UNMERGED,
    again,
    both_show,
    insert,
    left,
    move,
    shows,
)

from checkers.statements.calls import READ_ROWS
from checkers.statements.reads import StatementReads
from checkers.statements.rows import StatementRows
from harness.core.verdict import Status

CLOCK_JUMP = _nemesis("clock-jump", 5, "info", {})


def in_seconds(*calls: list[Event]) -> list[list[Event]]:
    """Return calls whose times, in ms, were seconds."""
    return [[replace(event, time_ns=event.time_ns * 1_000) for event in call] for call in calls]


def expires_after(seconds: int) -> list[Event]:
    """Return an insert of row 1 between 1 and 2 s that expires so much later."""
    return insert(1, 1, 2, expires=True, expires_s=seconds)


def reads(begin: float, end: float, *rows: list) -> list[Event]:
    """Return a read on ch1 during the run."""
    answer = {"tables": {"t": list(rows), "u": []}}
    return _call(next(PROCESS), READ_ROWS, begin, end, "ok", "ch1", 1, None, answer, None)


FIRST_ALONE = [shows("ch1", t=BOTH_ROWS), shows("ch2", t=[(2, [], 1)])]
STILL_LEFT = [both_show(t=BOTH_ROWS), MERGED, left(t=BOTH_ROWS)]
GONE = both_show(t=[(2, [], 1)])
VERDICTS = {
    "a row that has expired may be gone": (
        (EXPIRED, ONE_MORE, OPTIMIZE, both_show(t=[(2, [], 1)])),
        (Status.VALID, []),
    ),
    "it may be gone from one replica and still be on another": (
        (EXPIRED, ONE_MORE, OPTIMIZE, *FIRST_ALONE),
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
    "a row that expires before the last look may be gone": (
        (expires_after(60), ONE_MORE, OPTIMIZE, GONE),
        (Status.VALID, []),
    ),
    "it may be there until all parts are merged": (
        (expires_after(60), ONE_MORE, OPTIMIZE, both_show(t=BOTH_ROWS)),
        (Status.VALID, []),
    ),
    "it may be gone from one replica alone": (
        (
            expires_after(60),
            ONE_MORE,
            OPTIMIZE,
            *FIRST_ALONE,
        ),
        (Status.VALID, []),
    ),
    "a row that expires after the last look is lost": (
        (expires_after(100), ONE_MORE, OPTIMIZE, GONE),
        (Status.INVALID, ["lost"]),
    ),
    "its replicas agree": (
        (
            expires_after(100),
            ONE_MORE,
            OPTIMIZE,
            *FIRST_ALONE,
        ),
        (Status.INVALID, ["diverged"]),
    ),
    "a clock may be ahead by a second": (
        (expires_after(93), ONE_MORE, OPTIMIZE, GONE),
        (Status.VALID, []),
    ),
    "a merge that begins after it has expired leaves none": (
        (expires_after(89), ONE_MORE, OPTIMIZE, *STILL_LEFT),
        (Status.INVALID, ["unexpired"]),
    ),
    "one that begins as it expires may leave it": (
        (expires_after(92), ONE_MORE, OPTIMIZE, *STILL_LEFT),
        (Status.VALID, []),
    ),
    "with a wrong clock it may go at any time": (
        (expires_after(600), ONE_MORE, OPTIMIZE, CLOCK_JUMP, GONE),
        (Status.VALID, []),
    ),
    "with a wrong clock it may stay": (
        (
            expires_after(10),
            ONE_MORE,
            OPTIMIZE,
            CLOCK_JUMP,
            both_show(t=BOTH_ROWS),
            MERGED,
            left(t=BOTH_ROWS),
        ),
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
    verdict = StatementRows().check(history(*in_seconds(*calls, AT_REST)))
    assert (verdict.status, [one.kind for one in verdict.anomalies]) == expected


@pytest.mark.parametrize(
    ("at", "kinds"),
    [
        (6, ["vanished"]),  # four seconds before it expires
        (9.5, []),  # within the error of clocks
        (30, []),
    ],
)
def test_a_read_lacks_a_row_only_after_it_has_expired(at: float, kinds: list[str]) -> None:
    calls = (expires_after(10), ONE_MORE, OPTIMIZE, reads(at, at + 0.2, (2, [], 1)), GONE)
    verdict = StatementReads().check(history(*in_seconds(*calls, AT_REST)))
    assert [one.kind for one in verdict.anomalies] == kinds
