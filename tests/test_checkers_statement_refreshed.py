"""Refreshable views show what their replica had of the source at a moment of a refresh."""

from typing import Any

import pytest
from checkers_cases import _call, history
from statement_rows_cases import AT_REST, HERE, ONE, PROCESS, call

from checkers.statements.calls import FINAL_ROWS
from checkers.statements.rows import StatementRows
from harness.core.verdict import Status

REFRESH = call("refresh", "refresh", 10, 20, key=None)
SYNCED = call("refresh", "refresh", 10, 20, key=None, synced=True)
UNKNOWN = call("refresh", "refresh", 10, 20, "info", key=None)
LATER = call("refresh", "refresh", 40, 45, key=None, synced=True)
ON_CH2 = call("refresh", "refresh", 10, 20, key=None, synced=True, node="ch2")
OF_U = call("refresh", "refresh", 10, 20, key=None, table="u")
DELETE = call("delete", "delete", 25, 30)
DELETE_BEFORE = call("delete", "delete", 3, 5)
APPEND = call("update", "append", 3, 15, update=9)


def shows(node: str, view: list, t: list) -> list:
    """Return a look at t and its refreshable view at rest."""
    answer = {"tables": {"t": t, "u": [], "t.view": view}}
    return _call(next(PROCESS), FINAL_ROWS, 92, 93, "ok", node, 1, None, answer, None)


CASES: dict[str, tuple[tuple[Any, ...], list, list, str]] = {
    "it has the row": ((ONE, SYNCED), HERE, HERE, ""),
    "it was never refreshed": ((ONE, DELETE_BEFORE), [], [], ""),
    "it lacks the row, which its replica may have lacked": ((ONE, REFRESH), [], HERE, ""),
    "it lacks the row, after SYSTEM SYNC REPLICA": ((ONE, SYNCED), [], HERE, "unrefreshed"),
    "it keeps a row that was removed after the refresh": ((ONE, SYNCED, DELETE), HERE, [], ""),
    "a later refresh drops it": ((ONE, SYNCED, DELETE, LATER), [], [], ""),
    "it keeps the row after a later refresh": (
        (ONE, SYNCED, DELETE, LATER),
        HERE,
        [],
        "unrefreshed",
    ),
    "a refresh of unknown outcome need not have been made": (
        (ONE, DELETE_BEFORE, UNKNOWN),
        [],
        [],
        "",
    ),
    "a refresh of unknown outcome may have been made": (
        (ONE, SYNCED, DELETE, call("refresh", "refresh", 40, 45, "info", key=None)),
        [],
        [],
        "",
    ),
    "it has the row without a refresh": ((ONE, DELETE_BEFORE), HERE, [], "unrefreshed"),
    "another replica refreshed its own": ((ONE, ON_CH2), HERE, HERE, "unrefreshed"),
    "the view of another table was refreshed": ((ONE, OF_U), HERE, HERE, "unrefreshed"),
    "the row is there twice": ((ONE, SYNCED), [(1, [], 2)], HERE, "unrefreshed"),
    "an update is under way": ((ONE, APPEND, SYNCED), HERE, [(1, [9], 1)], ""),
    "an update that nobody made": ((ONE, SYNCED), [(1, [9], 1)], HERE, "unrefreshed"),
    "a row that nobody inserted": (
        (ONE, SYNCED),
        [(1, [], 1), (7, [], 1)],
        HERE,
        "unrefreshed",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_view_of_a_replica(name: str) -> None:
    calls, view, t, kind = CASES[name]
    # ch2 has refreshed nothing that matters, or what is right
    other = HERE if ON_CH2 in calls else []
    looks = (shows("ch1", view, t), shows("ch2", other, t))
    verdict = StatementRows().check(history(*calls, AT_REST, *looks))
    assert [one.kind for one in verdict.anomalies] == [kind] * bool(kind)
    assert verdict.status is (Status.INVALID if kind else Status.VALID)
