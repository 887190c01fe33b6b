"""A stale copy is explained only if ZooKeeper's log says that the row went where it is shown. Times
are in ms."""

from collections.abc import Mapping, Sequence

import pytest
from checkers_cases import history
from test_triage_statements import (
    HELD,
    HERE,
    INSERT,
    LATE,
    LOST,
    NEW,
    STAYED,
    Calls,
    Fact,
    at_rest,
    call,
    explained,
    trace,
)

from checkers.statements.rows import violations_of
from checkers.triage.accused_rows import AccusedRow
from checkers.triage.events import tables_by_path
from checkers.triage.row_paths import recorded

FETCHED: Fact = ["hold", 320, "0_0_0_0", "ch2"]
UPDATE = call("update", "append", 400, 450, update=7, one_in=4, rest=1)
UPDATE_BESIDE = call("update", "append", 900, 1_100, update=7, one_in=4, rest=1)
NEXT_UPDATE = call("update", "append", 1_200, 1_300, update=8)
DELETE = call("delete", "delete", 400, 450, one_in=4, rest=1)
DETACH = call("detach", "detach", 1_000, 2_000, node="ch2")
ATTACH = call("attach", "attach", 2_100, 2_200, node="ch2")
MERGE = call("deduplicate", "collapse", 500, 600)
COPY = call("attach-from", "copy", 1_000, 2_000, to="u", node="ch2")
MOVE = call("move", "move", 1_000, 2_000, to="u", node="ch2")
SELECT = call("insert-select", "select", 1_000, 2_000, to="u", node="ch2")
MOVED_BARE, MOVED_UPDATED = at_rest(u=HERE), at_rest(u=[(1, [7], 1)])


def mutation(command: str) -> Fact:
    """Return that ch1 made a mutation of the rows that UPDATE and DELETE touch."""
    words = f"({command} WHERE (p = 0) AND ((id % 4) = 1))"
    return ["mutation", 420, "ch1", words, {"0": 1, "1": 3}]


UPDATED = mutation("UPDATE v = arrayPushBack(v, 7)")
DELETED: Fact = ["hold", 460, "0_0_0_0_1", "ch1"]
LARGER: Fact = ["hold", 1_500, "0_0_1_1_1", "ch2"]
DROPPED: Fact = ["assign", 1_600, "drop", "ch2", "0_0_1_999999999_999999999", "*"]


def moved(part: str) -> Sequence[Fact]:
    """Return that u got a copy of a part of t."""
    return (
        ["assign", 1_500, "REPLACE_RANGE", "ch2", "", "*"],
        ["copy", 1_500, "0_4_4_0", "ch2", "harness_1_t", part],
    )


SELECTED: Fact = ["hold", 1_500, "0_4_4_0", "ch2"]
CASES: Mapping[str, tuple[Sequence[Calls], Sequence[Fact], Sequence[Fact], str]] = {
    "the part that was moved had yet to be mutated": (
        (INSERT, UPDATE, MOVE, MOVED_BARE),
        (HELD, FETCHED, UPDATED, DROPPED),
        moved("0_0_0_0"),
        "overlapped",
    ),
    "the part that was moved had been mutated": (
        (INSERT, UPDATE, MOVE, MOVED_BARE),
        (HELD, FETCHED, UPDATED, DROPPED),
        moved("0_0_0_0_1"),
        "",
    ),
    "the record does not tell which mutation the update is": (
        (INSERT, UPDATE, MOVE, MOVED_BARE),
        (HELD, FETCHED, DROPPED),
        moved("0_0_0_0_1"),
        "",
    ),
    "what was detached and attached lacks an update that was under way beside it": (
        (INSERT, UPDATE_BESIDE, NEXT_UPDATE, DETACH, ATTACH, at_rest(t=[(1, [8], 1)])),
        (HELD, FETCHED),
        (),
        "overlapped",
    ),
    "what was detached and attached lacks an update from before": (
        (INSERT, UPDATE, NEXT_UPDATE, DETACH, ATTACH, at_rest(t=[(1, [8], 1)])),
        (HELD, FETCHED),
        (),
        "",
    ),
    "the replica came to have the deletion in a larger part, after the copy had begun": (
        (INSERT, DELETE, MERGE, COPY, at_rest(u=HERE)),
        (HELD, FETCHED, DELETED, LARGER),
        (),
        "stale-replace",
    ),
    "the replica had the deletion before": (
        (INSERT, DELETE, MERGE, COPY, at_rest(u=HERE)),
        (HELD, FETCHED, DELETED, ["hold", 470, "0_0_0_0_1", "ch2"], LARGER),
        (),
        "",
    ),
    "the part that was deleted from had been dropped": (
        (INSERT, DELETE, MERGE, COPY, at_rest(u=HERE)),
        (HELD, FETCHED, DELETED, ["assign", 480, "drop", "ch1", DROPPED[4], "*"], LARGER),
        (),
        "",
    ),
    "a part of another block was moved": (
        (INSERT, UPDATE, MOVE, MOVED_BARE),
        (HELD, FETCHED, UPDATED, DROPPED),
        moved("0_1_1_0"),
        "",
    ),
    "the replica had no row to select": ((INSERT, SELECT, STAYED), (HELD,), (), "stale-replace"),
    "the replica got the row while it selected": (
        (INSERT, SELECT, STAYED),
        (HELD, LATE),
        (SELECTED,),
        "stale-replace",
    ),
    "the replica had the row all the time": ((INSERT, SELECT, STAYED), (HELD, FETCHED), (), ""),
    "the row is nowhere, and nothing removed it": ((INSERT, SELECT, LOST), (HELD, LATE), (), ""),
}
"""Calls, what the log says of t and of u, and the defect that explains the row."""


@pytest.mark.parametrize("name", CASES)
def test_a_stale_copy_is_explained_if_the_log_says_so(name: str) -> None:
    calls, of_t, of_u, by = CASES[name]
    expected = ("known", [by]) if by else NEW
    assert explained(*calls, trace("t", *of_t), trace("u", *of_u)) == expected


def test_a_row_in_one_of_several_parts_is_where_one_of_them_went() -> None:
    other: Fact = ["hold", 210, "0_1_1_0", "ch1"]
    of_t = trace("t", HELD, other, UPDATED, DROPPED)
    calls = (INSERT, UPDATE, MOVE, MOVED_BARE)
    assert explained(*calls, of_t, trace("u", *moved("0_1_1_0"))) == ("known", ["overlapped"])
    assert explained(*calls, of_t, trace("u", *moved("0_2_2_0"))) == NEW


def test_a_row_whose_part_was_taken_before_it_was_mutated_is_there() -> None:
    of_t = trace("t", HELD, FETCHED, mutation("DELETE"))
    calls = (INSERT, DELETE, call("attach-from", "copy", 1_300, 2_000, to="u", node="ch2"))
    shown = at_rest(u=HERE)
    early, late = trace("u", *moved("0_0_0_0")), trace("u", *moved("0_0_0_0_1"))
    assert explained(*calls, shown, of_t, early) == ("known", ["stale-replace"])
    assert explained(*calls, shown, of_t, late) == NEW


def test_a_part_with_two_copies_brings_both() -> None:
    attach = call("attach-from", "copy", 500, 1_400, to="u")
    again = call("replace", "replace", 1_100, 1_700, to="u", node="ch2")
    back = call("move", "move", 2_000, 2_500, table="u", to="t", node="ch2")
    of_t = trace("t", HELD, FETCHED, ["copy", 2_200, "0_8_8_1", "ch2", "harness_1_u", "0_4_5_1"])
    of_u = trace(
        "u",
        ["assign", 1_200, "REPLACE_RANGE", "ch2", "0_0_3_999999999_999999999", "*"],
        ["copy", 1_200, "0_4_4_0", "ch2", "harness_1_t", "0_0_0_0"],
        ["copy", 1_300, "0_5_5_0", "ch1", "harness_1_t", "0_0_0_0"],
        ["assign", 2_300, "drop", "ch2", "0_0_9_999999999_999999999", "*"],
    )
    told = history(INSERT, attach, again, back, at_rest(t=[(1, [], 9)]), of_t, of_u)
    by_name = {path.split("_")[1][0]: facts for path, facts in tables_by_path(told).items()}
    (violation,) = violations_of(told)
    accused = AccusedRow(told, by_name, violation)
    assert recorded(accused) == {(("t", ((), (), ())),)}


@pytest.mark.parametrize(("taken", "by"), [("0_0_0_0", "overlapped"), ("0_1_1_0", "")])
def test_a_row_that_was_taken_while_a_move_was_under_way_is_there_too_often(
    taken: str, by: str
) -> None:
    calls = (
        INSERT,
        call("move", "move", 1_000, 3_000, to="u", node="ch2"),
        call("attach-from", "copy", 1_200, 1_300, to="u"),
        call("move", "move", 1_400, 1_500, table="u", to="t"),
        call("move", "move", 2_400, 2_700, to="u"),
        at_rest(u=[(1, [], 3)]),
    )
    of_t: Sequence[Fact] = (
        HELD,
        FETCHED,
        ["copy", 1_450, "0_2_2_0", "ch1", "harness_1_u", "0_4_4_0"],
        ["copy", 1_450, "0_3_3_0", "ch1", "harness_1_u", "0_5_5_0"],
        ["assign", 2_600, "drop", "ch1", "0_0_9_999999999_999999999", "*"],
        ["assign", 2_900, "drop", "ch2", "0_0_1_999999999_999999999", "*"],
    )
    of_u: Sequence[Fact] = (
        ["copy", 1_100, "0_4_4_0", "ch2", "harness_1_t", "0_0_0_0"],
        ["copy", 1_250, "0_5_5_0", "ch1", "harness_1_t", taken],
        ["assign", 1_480, "drop", "ch1", "0_0_6_999999999_999999999", "*"],
        ["copy", 2_500, "0_8_8_0", "ch1", "harness_1_t", taken],
        ["copy", 2_500, "0_9_9_0", "ch1", "harness_1_t", "0_2_2_0"],
        ["copy", 2_500, "0_10_10_0", "ch1", "harness_1_t", "0_3_3_0"],
    )
    expected = ("known", [by]) if by else NEW
    assert explained(*calls, trace("t", *of_t), trace("u", *of_u)) == expected
