"""Known defects of UPDATE explain rows only where the record proves their mechanism. Times are in
ms."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from test_triage_statements import INSERT, NEW, Calls, Fact, at_rest, call, explained, trace

PATCH = {"enable_lightweight_update": 1, "update_parallel_mode": "auto"}
SYNC = {**PATCH, "update_parallel_mode": "sync"}


def patch(update: int, begin: int, end: int, **more: Any) -> Calls:
    """Return an UPDATE of t."""
    return call("patch", "append", begin, end, update=update, **{"settings": PATCH, **more})


def held(at: int, node: str = "ch1", version: int = 1, partition: int = 0) -> Fact:
    """Return that a replica registered a patch part."""
    return ["hold", at, f"patch-c0ffee-{partition}_{version}_{version}_0_{version}", node]


OLD: Fact = ["hold", 200, "0_0_0_0", "ch1"]
"""Part of row 1, which ch1 inserted into t."""
OTHER = call("insert-row", "insert", 400, 500, row=2, table="u")
OTHERS: Fact = ["hold", 450, "0_0_0_0", "ch1"]
CAME: Sequence[Fact] = (
    ["assign", 1_200, "REPLACE_RANGE", "ch1", "", "*"],
    ["hold", 1_200, "0_2_2_0", "ch1"],
)
MOVE = call("move", "move", 1_000, 1_500, to="u")
ON_TWO = patch(7, 2_000, 2_500, table="u", one_in=2, rest=0)
"""UPDATE of the rows with even numbers."""
STRAYED = at_rest(u=[(1, [7], 1), (2, [7], 1)])
STRAYED_LISTS = at_rest(u=[(1, [9, 7], 1), (2, [7], 1)])
FIRST = patch(7, 1_000, 3_000, settings=SYNC)
SECOND = patch(8, 2_000, 2_400, node="ch2")
ONLY_SECOND = at_rest(t=[(1, [8], 1)])
ALTER = call("update", "append", 1_000, 1_100, update=7, settings={"mutations_sync": 0})
EVERYWHERE = call("update-on-cluster", "append", 1_000, 2_000, "info", update=7, one_in=4, rest=1,
                  settings={"distributed_ddl_task_timeout": 5})  # fmt: skip
TWICE = at_rest(t=[(1, [7, 7], 1)])
MUTATED: Sequence[Fact] = (["assign", 1_050, "mutate", "ch1", "0_0_0_0_1", "*"],)
EXECUTED: Fact = ["hold", 2_800, "0_0_0_0_1", "ch2"]


def made(at: int, node: str, update: int = 7) -> Fact:
    """Return that a replica made the mutation of EVERYWHERE."""
    words = f"(UPDATE v = arrayPushBack(v, {update}) WHERE (p = 0) AND ((id % 4) = 1))"
    return ["mutation", at, node, words, {"0": 1}]


Case = tuple[Sequence[Calls], Sequence[Fact], Sequence[Fact]]
EXPLAINED: Mapping[str, Case] = {
    "strayed-update": (
        (INSERT, OTHER, MOVE, ON_TWO, STRAYED),
        (OLD,),
        (OTHERS, *CAME, held(2_200)),
    ),
    "lost-update": (
        (INSERT, FIRST, SECOND, ONLY_SECOND),
        (OLD, held(2_200, "ch2"), held(2_900)),
        (),
    ),
    "overwritten-update": (
        (INSERT, ALTER, SECOND, ONLY_SECOND),
        (OLD, *MUTATED, held(2_200, "ch2"), EXECUTED),
        (),
    ),
    "mutated-twice": (
        (INSERT, EVERYWHERE, TWICE),
        (OLD, made(1_500, "ch1"), made(8_000, "ch2")),
        (),
    ),
}
"""Calls, and what ZooKeeper's log says of t and of u, by the defect that explains them."""


@pytest.mark.parametrize("name", EXPLAINED)
def test_a_row_is_explained_by_what_the_record_says_of_its_updates(name: str) -> None:
    calls, of_t, of_u = EXPLAINED[name]
    assert explained(*calls, trace("t", *of_t), trace("u", *of_u)) == ("known", [name])


UNEXPLAINED: Mapping[str, Case] = {
    "the update was made once": (
        (INSERT, EVERYWHERE, TWICE),
        (OLD, made(1_500, "ch1"), made(8_000, "ch2", update=8)),
        (),
    ),
    "the row that it selects was in another block": (
        (INSERT, OTHER, MOVE, ON_TWO, STRAYED),
        (OLD,),
        (["hold", 450, "0_3_3_0", "ch1"], *CAME, held(2_200)),
    ),
    "nothing came from another table before": (
        (INSERT, OTHER, MOVE, ON_TWO, STRAYED),
        (OLD,),
        (OTHERS, held(2_200)),
    ),
    "the update wrote no patch part of the partition": (
        (INSERT, OTHER, MOVE, ON_TWO, STRAYED),
        (OLD,),
        (OTHERS, *CAME, held(2_200, partition=1)),
    ),
    "the row shows what no update of the other one is": (
        (INSERT, OTHER, MOVE, patch(9, 1_600, 1_700, table="u", one_in=4, rest=1), ON_TWO,
         STRAYED_LISTS),
        (OLD,),
        (OTHERS, *CAME, held(2_200)),
    ),
    "both updates took the same lock": (
        (INSERT, patch(7, 1_000, 3_000), SECOND, ONLY_SECOND),
        (OLD, held(2_200, "ch2"), held(2_900)),
        (),
    ),
    "the one was committed before the other began": (
        (INSERT, FIRST, SECOND, ONLY_SECOND),
        (OLD, held(1_500), held(2_200, "ch2")),
        (),
    ),
    "the row lacks a third update, too": (
        (INSERT, FIRST, SECOND, patch(9, 4_000, 4_100), ONLY_SECOND),
        (OLD, held(2_200, "ch2"), held(2_900)),
        (),
    ),
    "the mutation had been executed before": (
        (INSERT, ALTER, SECOND, ONLY_SECOND),
        (OLD, *MUTATED, ["hold", 1_500, "0_0_0_0_1", "ch2"], held(2_200, "ch2")),
        (),
    ),
    "there was no mutation": (
        (INSERT, ALTER, SECOND, ONLY_SECOND),
        (OLD, held(2_200, "ch2")),
        (),
    ),
}  # fmt: skip
"""The same without the evidence."""


@pytest.mark.parametrize("name", UNEXPLAINED)
def test_the_same_row_is_not_explained_without_the_evidence(name: str) -> None:
    calls, of_t, of_u = UNEXPLAINED[name]
    assert explained(*calls, trace("t", *of_t), trace("u", *of_u)) == NEW
