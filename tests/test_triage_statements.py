"""Known defects explain rows that statements have lost, doubled or misplaced only where the record
proves their mechanism. Times are in ms."""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import pytest
from checkers_cases import Event, _call, _nemesis, fault, history, rest

from checkers.judge import judge
from checkers.ladder import Level
from checkers.statements.calls import FINAL_ROWS
from checkers.statements.rows import StatementRows
from harness.core.verdict import Status

Fact = list[Any]
Calls = list[Event]
NEW: tuple[str, list[str]] = ("new", [])
PROCESS = count()
HERE, NOWHERE = [(1, [], 1)], list[tuple[int, list[int], int]]()


def call(f: str, effect: str, begin: int, end: int, kind: str = "ok", **more: Any) -> Calls:
    """Return a statement on partition 0, by default on t and by ch1."""
    node = more.pop("node", "ch1")
    value = {"effect": effect, "table": "t", **more}
    error = more.pop("error", "e") if kind != "ok" else None
    return _call(next(PROCESS), f, begin, end, kind, node, 0, value, value, error)


def trace(table: str, *facts: Fact, version: str = "25.8.2") -> Calls:
    """Return what ZooKeeper's log says of a table."""
    value = {
        "table": f"/harness/run_{table}/1",
        "versions": [version],
        "keepers": {"ch1": ["zk1"], "ch2": ["zk2"]},
        "facts": sorted(facts, key=lambda fact: fact[1]),
        "ended": "",
        "gaps": [],
    }
    return _nemesis("trace", 60_000, "ok", value)


def at_rest(**tables: Sequence[tuple[int, list[int], int]]) -> Calls:
    """Return the looks at rest of both replicas, which show these rows."""
    answer = {"tables": {"t": [], "u": [], "v": [], **tables}}
    looks = (
        _call(next(PROCESS), FINAL_ROWS, 52_000, 52_001, "ok", node, 0, None, answer, None)
        for node in ("ch1", "ch2")
    )
    return [*rest(50_000, ch1={}, ch2={}), *(event for look in looks for event in look)]


def explained(*calls: Calls) -> tuple[str, list[str]]:
    found = judge(history(*calls), (StatementRows(),), 60, Level.EVENTUAL, explain=True)
    assert found.status is Status.INVALID
    assert found.explanation is not None
    return found.explanation.status, [one.name for one in found.explanation.defects]


INSERT = call("insert-row", "insert", 100, 300, row=1)
HELD: Fact = ["hold", 200, "0_0_0_0", "ch1"]
FETCHED: Fact = ["hold", 900, "0_0_0_0", "ch2"]
LATE: Fact = ["hold", 1_500, "0_0_0_0", "ch2"]
KILLED = fault(1_500, 5_000, "ch1", "kill-clickhouse-one")
REPLACED = ["assign", 1_200, "REPLACE_RANGE"]
ADDED: tuple[Fact, ...] = (
    [*REPLACED, "ch1", "", "*"],
    ["hold", 1_200, "0_0_0_0", "ch1"],
)
COPIED: tuple[Fact, ...] = ([*REPLACED, "ch2", "", "*"],)
ELSEWHERE: Fact = ["assign", 1_300, "drop", "ch1", "7_0_1_999999999_999999999", "*"]
DROPPED: Fact = ["assign", 1_300, "drop", "ch2", "0_0_1_999999999_999999999", "*"]
MOVE = call("move", "move", 1_000, 2_000, to="u", node="ch2")
CUT = call("move", "move", 1_000, 2_000, "info", to="u")
FAILED = call("move", "move", 1_000, 2_000, "info", to="u", error="517 CANNOT_ASSIGN_ALTER")
REPLACE = call("replace", "replace", 1_000, 2_000, to="u", node="ch2")
STAGED = call("insert-row", "insert", 100, 300, row=1, table="s@ch1")
ATTACH = call("attach-everywhere", "copy", 1_000, 2_000, table="s@ch1", to="u")
EMPTY = call("replace-everywhere", "replace", 1_000, 2_000, table="s@ch1", to="u")
COPY = call(
    "insert-select",
    "copy",
    1_000,
    2_000,
    to="u",
    node="ch2",
    settings={"select_sequential_consistency": 1},
)
DELETE = call("delete", "delete", 1_000, 2_000)
MUTATED: Fact = ["assign", 1_200, "mutate", "ch1", "0_0_0_0_1", "*"]
AGAIN = call("insert-again", "again", 3_000, 3_400, row=1)
VIEWED = call("insert-row", "insert", 100, 300, row=1, view="v")
VIEWED_AGAIN = call("insert-again", "again", 3_000, 3_400, row=1, view="v")
CREATE = call("create-view", "none", 10, 20, to="mv")
LOGGED: Fact = ["query", 15, "query-0000000004"]
LATER: Fact = ["executed", 350, "ch1", "query-0000000004"]
EARLIER: Fact = ["executed", 50, "ch1", "query-0000000004"]
RESTORE = call("restore-replica", "none", 1_000, 2_000, "info")
OTHER: Fact = ["assign", 1_200, "attach", "ch1", "3_0_0_0", ""]
GONE: Fact = ["drop", 800, "0_0_0_0", "ch1"]
LOST, STAYED = at_rest(), at_rest(t=HERE)
BOTH, DOUBLED = at_rest(t=HERE, u=HERE), at_rest(t=HERE, v=[(1, [], 2)])

EXPLAINED: Mapping[str, tuple[Sequence[Calls], Sequence[Fact], Sequence[Fact]]] = {
    "moved-away": ((INSERT, MOVE, LOST), (HELD, DROPPED), COPIED),
    "half-moved": ((INSERT, CUT, KILLED, BOTH), (HELD, ELSEWHERE), ADDED),
    "stale-replace": ((INSERT, REPLACE, STAYED), (HELD,), ()),
    "attached-nowhere": ((STAGED, ATTACH, LOST), (), ([*REPLACED, "ch2", "", "*"],)),
    "replaced-by-nothing": ((STAGED, EMPTY, LOST), (), ([*REPLACED, "ch2", "", "*"],)),
    "copied-nothing": ((INSERT, COPY, STAYED), (HELD, LATE), ()),
    "forgotten-insert": ((INSERT, DELETE, AGAIN, LOST), (HELD, MUTATED), ()),
    "doubled-view": ((VIEWED, VIEWED_AGAIN, DOUBLED), (HELD,), ()),
    "missed-view": ((CREATE, VIEWED, STAYED), (HELD,), (LOGGED, LATER)),
    "half-restored": ((INSERT, RESTORE, KILLED, LOST), (HELD, OTHER), ()),
    "restored-nothing": ((INSERT, RESTORE, KILLED, LOST), (HELD, GONE), ()),
}
"""Calls, and what ZooKeeper's log says of t and of u, or of v with a view, by the defect that
explains them."""


def traces(calls: Sequence[Calls], of_t: Sequence[Fact], of_other: Sequence[Fact]) -> list[Calls]:
    return [trace("t", *of_t), trace("v" if CREATE in calls else "u", *of_other)]


@pytest.mark.parametrize("name", EXPLAINED)
def test_a_row_is_explained_by_what_the_record_says_of_its_statements(name: str) -> None:
    calls, of_t, of_u = EXPLAINED[name]
    assert explained(*calls, *traces(calls, of_t, of_u)) == ("known", [name])


def test_a_move_whose_client_has_given_up_may_remove_the_row_later() -> None:
    cut = call("move", "move", 1_000, 2_000, "info", to="u", node="ch2")
    late: Fact = ["assign", 9_000, *DROPPED[2:]]
    found = explained(INSERT, cut, LOST, trace("t", HELD, late), trace("u", *COPIED))
    assert found == ("known", ["moved-away"])


UNEXPLAINED: Mapping[str, tuple[Sequence[Calls], Sequence[Fact], Sequence[Fact]]] = {
    "the replica that moves has fetched the part": (
        (INSERT, MOVE, LOST),
        (HELD, FETCHED, DROPPED),
        COPIED,
    ),
    "the move removed nothing": ((INSERT, MOVE, LOST), (HELD,), COPIED),
    "another replica removed it": (
        (INSERT, MOVE, LOST),
        (HELD, ["assign", 1_300, "drop", "ch1", "0_0_1_999999999_999999999", "*"]),
        COPIED,
    ),
    "the removal is of earlier blocks": (
        (INSERT, MOVE, LOST),
        (["hold", 200, "0_5_5_0", "ch1"], DROPPED),
        COPIED,
    ),
    "nobody knows the part": ((INSERT, MOVE, LOST), (DROPPED,), COPIED),
    "the replica was not killed": ((INSERT, CUT, BOTH), (HELD,), ADDED),
    "the move brought nothing of the partition": (
        (INSERT, CUT, KILLED, BOTH),
        (HELD,),
        (ADDED[0], ["hold", 1_200, "7_0_0_0", "ch1"]),
    ),
    "the replica was killed when it had removed the partition": (
        (INSERT, CUT, KILLED, BOTH),
        (HELD, ["assign", 1_300, "drop", "ch1", "0_0_1_999999999_999999999", "*"]),
        ADDED,
    ),
    "the replica that replaces has fetched the part": (
        (INSERT, REPLACE, STAYED),
        (HELD, FETCHED),
        (),
    ),
    "the replica that had staged the row attached it": (
        (STAGED, ATTACH, LOST),
        (),
        ([*REPLACED, "ch1", "", "*"],),
    ),
    "nobody replaced anything": ((STAGED, EMPTY, LOST), (), ()),
    "the part was there before the copy began": ((INSERT, COPY, STAYED), (HELD, FETCHED), ()),
    "the part never came": ((INSERT, COPY, STAYED), (HELD,), ()),
    "a part came of the block": (
        (INSERT, DELETE, AGAIN, LOST),
        (HELD, MUTATED, ["hold", 3_200, "0_1_1_0", "ch1"]),
        (),
    ),
    "nothing was mutated": ((INSERT, DELETE, AGAIN, LOST), (HELD,), ()),
    "the block was sent once": (
        (VIEWED, call("optimize", "none", 1_000, 1_100), DOUBLED),
        (HELD,),
        (),
    ),
    "the view lacks the row": ((VIEWED, VIEWED_AGAIN, STAYED), (HELD,), ()),
    "its replica had executed the statement": (
        (CREATE, VIEWED, STAYED),
        (HELD,),
        (LOGGED, EARLIER),
    ),
    "its replica executed another statement later": (
        (CREATE, VIEWED, STAYED),
        (HELD,),
        (["query", 200, "query-0000000004"], LATER),
    ),
    "no view was created": ((VIEWED, call("optimize", "none", 1_000, 1_100), STAYED), (HELD,), ()),
    "the restore was not cut short": ((INSERT, RESTORE, LOST), (HELD, OTHER), ()),
    "the restore attached the partition": (
        (INSERT, RESTORE, KILLED, LOST),
        (HELD, OTHER, ["assign", 1_300, "attach", "ch1", "0_0_0_0", ""]),
        (),
    ),
    "ZooKeeper had the part when the restore began": (
        (INSERT, RESTORE, KILLED, LOST),
        (HELD, GONE, FETCHED),
        (),
    ),
    "nothing was attached, and the replica was not killed": (
        (INSERT, RESTORE, LOST),
        (HELD, GONE),
        (),
    ),
    "a row is lost beside an OPTIMIZE": (
        (INSERT, call("optimize", "none", 1_000, 1_100, node="ch2"), LOST),
        (HELD, DROPPED),
        COPIED,
    ),
}
"""The same without the evidence, and a loss that has nothing to do with them."""


@pytest.mark.parametrize("name", UNEXPLAINED)
def test_the_same_row_is_not_explained_without_the_evidence(name: str) -> None:
    calls, of_t, of_u = UNEXPLAINED[name]
    assert explained(*calls, *traces(calls, of_t, of_u)) == NEW


def test_a_move_that_its_server_says_has_failed_may_be_half_done() -> None:
    of_t, of_u = trace("t", HELD, ELSEWHERE), trace("u", *ADDED)
    assert explained(INSERT, FAILED, BOTH, of_t, of_u) == ("known", ["half-moved"])
    # Another statement of its replica removed an earlier block meanwhile.
    earlier = ["assign", 1_300, "drop", "ch1", "0_0_1_999999999_999999999", "*"]
    of_t = trace("t", ["hold", 200, "0_5_5_0", "ch1"], earlier)
    copied = ["copy", 1_200, "0_0_0_0", "ch1", "harness_1_t", "0_5_5_0"]
    of_u = trace("u", *ADDED, copied)
    assert explained(INSERT, FAILED, BOTH, of_t, of_u) == ("known", ["half-moved"])


@pytest.mark.parametrize(
    ("version", "node", "expected"),
    [
        ("24.8.4", "ch2", ("known", ["retried-elsewhere"])),
        ("24.8.4", "ch1", NEW),
        ("25.8.2", "ch2", NEW),
    ],
)
def test_a_view_that_deduplicates_has_a_row_twice_only_by_two_replicas_of_24_8(
    version: str, node: str, expected: tuple[str, list[str]]
) -> None:
    settings = {"deduplicate_blocks_in_dependent_materialized_views": 1}
    first = call("insert-token", "again", 100, 300, row=1, view="v", settings=settings)
    again = call(
        "insert-token", "again", 3_000, 3_400, row=1, view="v", settings=settings, node=node
    )
    of_t, of_v = trace("t", HELD, version=version), trace("v", version=version)
    assert explained(first, again, DOUBLED, of_t, of_v) == expected


def test_without_the_record_nothing_is_explained() -> None:
    assert explained(INSERT, MOVE, LOST) == NEW


OPPOSITE = call("replace", "replace", 1_500, 2_500, table="u", to="t")
WHOLE = "0_0_5_999999999_999999999"
TAKEN: Sequence[Fact] = (["assign", 1_700, "REPLACE_RANGE", "ch1", WHOLE, "*"],)
BROUGHT: Sequence[Fact] = (
    ["assign", 1_600, "REPLACE_RANGE", "ch2", "0_0_1_999999999_999999999", "*"],
    ["copy", 1_600, "0_2_2_0", "ch2", "harness_1_t", "0_0_0_0"],
)
"""A REPLACE of t by u, which was empty when it read it, and one of u by t before."""


def test_replaces_that_overlap_swap_what_both_tables_had() -> None:
    traces = (trace("t", HELD, FETCHED, *TAKEN), trace("u", *BROUGHT))
    assert explained(INSERT, REPLACE, OPPOSITE, at_rest(u=HERE), *traces) == (
        "known",
        ["overlapped"],
    )
    assert explained(INSERT, REPLACE, OPPOSITE, STAYED, *traces) == NEW


COPY_BEHIND = call("attach-from", "copy", 3_000, 3_500, to="u", node="ch2")
EMPTIED = call("replace", "replace", 1_000, 2_000, table="u", to="t")
TWICE = at_rest(u=HERE)
GONE: Sequence[Fact] = ([*REPLACED, "ch1", WHOLE, "*"], ["drop", 1_220, "0_0_0_0", "ch1"])
ATTACHED: Fact = ["copy", 3_200, "0_7_7_0", "ch2", "harness_1_t", "0_0_0_0"]


@pytest.mark.parametrize(
    ("late", "expected"),
    [(3_200, ("known", ["stale-replace"])), (2_500, NEW)],
    ids=["which removes the part later", "which had removed the part"],
)
def test_a_replica_that_is_behind_a_replace_copies_what_was_there_before(
    late: int, expected: tuple[str, list[str]]
) -> None:
    of_t = trace("t", HELD, FETCHED, *GONE, ["drop", late, "0_0_0_0", "ch2"])
    of_u = trace("u", ATTACHED)
    assert explained(INSERT, EMPTIED, COPY_BEHIND, TWICE, of_t, of_u) == expected


def test_a_move_that_removes_what_the_log_says_it_has_not_copied_lost_it() -> None:
    # Its replica had the part while the call went on, before it had copied.
    own: Fact = ["hold", 1_100, "0_0_0_0", "ch2"]
    dropped = trace("t", HELD, own, DROPPED)
    assert explained(INSERT, MOVE, LOST, dropped, trace("u", *COPIED)) == ("known", ["moved-away"])
    has = ["copy", 1_200, "0_4_4_0", "ch2", "harness_1_t", "0_0_0_0"]
    assert explained(INSERT, MOVE, LOST, dropped, trace("u", *COPIED, has)) == NEW


ON_CLUSTER = call(
    "move-on-cluster", "move", 1_000, 2_000, to="u",
    settings={"distributed_ddl_task_timeout": 5},
)  # fmt: skip


def test_a_move_on_all_hosts_is_that_of_the_replica_which_made_it() -> None:
    # ch1 was asked, which has the row; ch2 made it.
    calls = (INSERT, ON_CLUSTER, LOST)
    of_t, of_u = trace("t", HELD, DROPPED), trace("u", *COPIED)
    assert explained(*calls, of_t, of_u) == ("known", ["moved-away"])
    own: Fact = ["assign", 1_300, "drop", "ch1", "0_0_1_999999999_999999999", "*"]
    copied: Fact = [*REPLACED, "ch1", "", "*"]
    assert explained(*calls, trace("t", HELD, own), trace("u", copied)) == NEW


def test_an_insert_into_an_engine_that_merges_its_rows_makes_a_part_of_level_one() -> None:
    merged: Fact = ["hold", 200, "0_0_0_1", "ch1"]
    of_u = trace("u", *COPIED)
    calls = (INSERT, MOVE, LOST)
    assert explained(*calls, trace("t", merged, DROPPED), of_u) == ("known", ["moved-away"])
    # Another replica had that part before: it is not of the insert.
    older: Fact = ["hold", 100, "0_0_0_1", "ch2"]
    assert explained(*calls, trace("t", older, merged, DROPPED), of_u) == NEW


OTHER_INSERT = call("insert-row", "insert", 100, 150, row=2)
OTHER_PART: Fact = ["hold", 140, "0_1_1_0", "ch1"]


def test_a_part_of_another_row_is_not_taken_for_the_rows_own() -> None:
    # Only the second part can be of row 2, so that the first one is that of row 1.
    early: Fact = ["hold", 1_000, "0_1_1_0", "ch2"]
    before = ["hold", 290, "0_0_0_0", "ch1"]
    of_t = trace("t", before, OTHER_PART, early, DROPPED)
    calls = (INSERT, OTHER_INSERT, MOVE, at_rest(u=[(2, [], 1)]))
    assert explained(*calls, of_t, trace("u", *COPIED)) == ("known", ["moved-away"])


def test_a_row_that_no_defect_lost_is_named_beside_one_that_was_moved_away() -> None:
    other = call("insert-row", "insert", 2_600, 2_800, row=2)
    found = judge(
        history(INSERT, MOVE, other, LOST, trace("t", HELD, DROPPED), trace("u", *COPIED)),
        (StatementRows(),),
        60,
        Level.EVENTUAL,
        explain=True,
    )
    assert found.explanation is not None
    assert found.explanation.status == "partly"
    assert [one.name for one in found.explanation.defects] == ["moved-away"]
    assert "row 2" in found.explanation.unexplained[0]


DROP = call("drop", "delete", 1_000, 2_000)
KEPT: Sequence[Fact] = (
    ["commit", 199, "0_0_0_0", "ch1"],
    HELD,
    ["hold", 250, "0_0_0_0", "ch2"],
    ["assign", 1_200, "drop", "ch2", "0_0_9_999999999", "*"],
    ["drop", 1_300, "0_0_0_0", "ch2"],
)
UNHEARD = _nemesis(
    "departure", 1_300, "ok",
    {"kind": "DropMissed", "step": ["FinishEntry ch1 queue-1", "DropMissed ch1 0_0_0_0"]},
)  # fmt: skip


@pytest.mark.parametrize(
    ("statement", "facts", "departure", "of_u", "expected"),
    [
        (DROP, KEPT, UNHEARD, [], ("known", ["missed-drop"])),
        (DROP, KEPT, [], [], NEW),
        (DROP, KEPT[:-2], UNHEARD, [], NEW),
        (MOVE, KEPT, UNHEARD, COPIED, ("known", ["missed-drop"])),
        (MOVE, KEPT, [], COPIED, NEW),
        (MOVE, KEPT[:-2], UNHEARD, COPIED, NEW),
    ],
)
def test_a_row_that_one_replica_kept_when_its_partition_was_dropped_or_moved(
    statement: Calls,
    facts: Sequence[Fact],
    departure: Calls,
    of_u: Sequence[Fact],
    expected: tuple[str, list[str]],
) -> None:
    looks = [
        event
        for node, rows in (("ch1", HERE), ("ch2", NOWHERE))
        for answer in [{"tables": {"t": rows, **({"u": HERE} if of_u else {})}}]
        for event in _call(
            next(PROCESS), FINAL_ROWS, 52_000, 52_001, "ok", node, 0, None, answer, None
        )
    ]
    calls = (INSERT, statement, departure, rest(50_000, ch1={}, ch2={}), looks)
    traced = [trace("t", *facts), *([trace("u", *of_u)] if of_u else [])]
    assert explained(*calls, *traced) == expected


FORGET = call("forget", "forget", 3_000, 3_100)
AFTER = call("insert-row", "insert", 4_000, 4_200, row=2, node="ch2")
RENUMBERED: Sequence[Fact] = (
    HELD,
    ["hold", 250, "0_0_0_0", "ch2"],
    ["assign", 1_200, "drop", "ch2", "0_0_0_999999999_999999999", "*"],
    ["drop", 1_300, "0_0_0_0", "ch2"],
    ["hold", 4_100, "0_0_0_0", "ch2"],
    ["drop", 5_000, "0_0_0_0", "ch1"],
)
THERE = [(2, [], 1)]
FORGOTTEN_UNFETCHED: Sequence[Fact] = (HELD, ["hold", 1_600, "0_0_0_0", "ch2"])
FORGET_EARLY = call("forget", "forget", 1_500, 1_650, node="ch2")
DROP_LATE = call("drop", "delete", 2_000, 2_300, node="ch2")


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (FORGOTTEN_UNFETCHED, ("known", ["forgotten-partition"])),
        # the replica had the part when it forgot the partition
        ((HELD, ["hold", 1_200, "0_0_0_0", "ch2"]), NEW),
        # the drop has it in its range
        (
            (
                *FORGOTTEN_UNFETCHED,
                ["assign", 2_100, "drop", "ch2", "0_0_0_999999999_999999999", "*"],
            ),
            NEW,
        ),
    ],
)
def test_a_row_that_a_drop_left_after_its_partition_was_forgotten(
    facts: Sequence[Fact], expected: tuple[str, list[str]]
) -> None:
    looks = [
        event
        for node in ("ch1", "ch2")
        for answer in [{"tables": {"t": HERE}}]
        for event in _call(
            next(PROCESS), FINAL_ROWS, 52_000, 52_001, "ok", node, 0, None, answer, None
        )
    ]
    calls = (INSERT, FORGET_EARLY, DROP_LATE, rest(50_000, ch1={}, ch2={}), looks)
    assert explained(*calls, trace("t", *facts)) == expected


@pytest.mark.parametrize(
    ("calls", "facts", "expected"),
    [
        ((INSERT, DROP, FORGET, AFTER), RENUMBERED, ("known", ["forgotten-partition"])),
        # nobody forgot the partition, or somebody did after the insert
        ((INSERT, DROP, AFTER), RENUMBERED, NEW),
        (
            (INSERT, DROP, AFTER, call("forget", "forget", 4_500, 4_600)),
            RENUMBERED,
            NEW,
        ),
        # the part is behind the range of the drop
        (
            (INSERT, DROP, FORGET, AFTER),
            (*RENUMBERED[:-2], ["hold", 4_100, "0_1_1_0", "ch2"]),
            NEW,
        ),
        # the replica has the part, so that something else hides its row
        ((INSERT, DROP, FORGET, AFTER), (*RENUMBERED, ["hold", 6_000, "0_0_0_0", "ch1"]), NEW),
    ],
)
def test_a_row_that_a_late_drop_took_after_its_partition_was_forgotten(
    calls: Sequence[Calls], facts: Sequence[Fact], expected: tuple[str, list[str]]
) -> None:
    looks = [
        event
        for node, rows in (("ch1", NOWHERE), ("ch2", THERE))
        for answer in [{"tables": {"t": rows}}]
        for event in _call(
            next(PROCESS), FINAL_ROWS, 52_000, 52_001, "ok", node, 0, None, answer, None
        )
    ]
    found = explained(*calls, rest(50_000, ch1={}, ch2={}), looks, trace("t", *facts))
    assert found == expected
