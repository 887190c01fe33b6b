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
    return looks_at(node, "t.view", view, t)


def looks_at(node: str, place: str, view: list, t: list) -> list:
    """Return a look at t and the table of one of its views at rest."""
    answer = {"tables": {"t": t, "u": [], place: view}}
    return _call(next(PROCESS), FINAL_ROWS, 92, 93, "ok", node, 1, None, answer, None)


def deleted(sync: int, node: str = "ch1") -> list:
    """Return an acknowledged mutation that removes the row, and for which so many waited."""
    return call("delete", "delete", 3, 5, node=node, settings={"mutations_sync": sync})


def appended(begin: int, end: int, kind: str = "ok", *, synced: bool = True) -> list:
    """Return a refresh of the appending view on ch1."""
    return call("refresh-append", "extend", begin, end, kind, key=None, synced=synced)


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
    "it has the row, which a mutation was to remove for which nobody waited": (
        (ONE, deleted(0), SYNCED),
        HERE,
        [],
        "",
    ),
    "the same where another replica had to make it": (
        (ONE, deleted(1, "ch2"), SYNCED),
        HERE,
        [],
        "",
    ),
    "the same where its own replica had to make it": (
        (ONE, deleted(1), SYNCED),
        HERE,
        [],
        "unrefreshed",
    ),
    "the same where all had to make it": (
        (ONE, deleted(2, "ch2"), SYNCED),
        HERE,
        [],
        "unrefreshed",
    ),
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


TWICE = [(1, [], 2)]
APPENDING: dict[str, tuple[tuple[Any, ...], list, list, str]] = {
    "one refresh adds the row": ((ONE, appended(10, 20)), HERE, HERE, ""),
    "the next one adds it again": ((ONE, appended(10, 20), appended(30, 40)), TWICE, HERE, ""),
    "the next one adds nothing": (
        (ONE, appended(10, 20), appended(30, 40)),
        HERE,
        HERE,
        "unrefreshed",
    ),
    "one refresh adds it twice": ((ONE, appended(10, 20)), TWICE, HERE, "unrefreshed"),
    "two that overlap are one": ((ONE, appended(10, 20), appended(15, 25)), HERE, HERE, ""),
    "two that overlap are two": ((ONE, appended(10, 20), appended(15, 25)), TWICE, HERE, ""),
    "two that overlap are none": (
        (ONE, appended(10, 20), appended(15, 25)),
        [],
        HERE,
        "unrefreshed",
    ),
    "the row goes, and its copy stays": ((ONE, appended(10, 20), DELETE), HERE, [], ""),
    "a refresh after that adds nothing": (
        (ONE, appended(10, 20), DELETE, appended(40, 45)),
        HERE,
        [],
        "",
    ),
    "a refresh after that adds it": (
        (ONE, appended(10, 20), DELETE, appended(40, 45)),
        TWICE,
        [],
        "unrefreshed",
    ),
    "its replica may have lacked the row": ((ONE, appended(10, 20, synced=False)), [], HERE, ""),
    "one of unknown outcome added the row": (
        (ONE, appended(10, 20, "info"), appended(30, 40)),
        TWICE,
        HERE,
        "",
    ),
    "one of unknown outcome added nothing": (
        (ONE, appended(10, 20, "info"), appended(30, 40)),
        HERE,
        HERE,
        "",
    ),
    "a refresh of the other view adds nothing": ((ONE, SYNCED), HERE, HERE, "unrefreshed"),
}


@pytest.mark.parametrize("name", APPENDING)
def test_the_appending_view_of_a_replica(name: str) -> None:
    calls, view, t, kind = APPENDING[name]
    looks = (looks_at("ch1", "t.appending.view", view, t), looks_at("ch2", "t.view", [], t))
    verdict = StatementRows().check(history(*calls, AT_REST, *looks))
    assert [one.kind for one in verdict.anomalies] == [kind] * bool(kind)
    assert verdict.status is (Status.INVALID if kind else Status.VALID)
