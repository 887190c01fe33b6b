"""Known defects of DETACH and ATTACH explain rows only where the record proves their mechanism.
Times are in ms."""

from collections.abc import Mapping, Sequence

import pytest
from test_triage_statements import INSERT, Calls, Fact, at_rest, call, explained, trace

OLD: Fact = ["hold", 200, "0_0_0_0", "ch1"]
"""Part of row 1, which ch1 inserted into t."""
PENDING = call("update", "append", 400, 450, update=7, one_in=4, rest=1,
               settings={"mutations_sync": 0})  # fmt: skip
ENTRY: Fact = ["mutation", 420, "ch1", "(UPDATE v = arrayPushBack(v, 7) WHERE (p = 0) AND "
               "((id % 4) = 1))", {"0": 1}]  # fmt: skip
ASIDE = call("detach", "detach", 500, 600)
BACK = call("attach", "attach", 700, 800, node="ch2")
CAME_BACK: Fact = ["hold", 750, "0_3_3_0", "ch2"]
UNCHANGED = at_rest(t=[(1, [], 1)])
PART_ASIDE = call("detach-part", "detach", 500, 600)
AGAIN_ASIDE = call("detach", "detach", 900, 1_000)
ATTACHED = call("attach", "attach", 1_100, 1_200)
FIRST: Fact = ["assign", 550, "detach", "ch1", "0_0_0_0", "*"]
MERGED: Fact = ["hold", 700, "0_0_2_1", "ch1"]
LATER: Fact = ["assign", 950, "detach", "ch1", "0_0_4_999999999_999999999", "*"]
ONE_OF_U = call("insert-row", "insert", 100, 300, row=1, table="u")
FETCH = call("fetch", "fetch", 400, 450, to="u")
OTHER_OF_T: Fact = ["hold", 350, "0_0_1_1", "ch2"]
U_ASIDE = call("detach", "detach", 500, 600, table="u")
U_ATTACHED = call("attach", "attach", 700, 800, table="u")
STRANDED = (INSERT, PART_ASIDE, AGAIN_ASIDE, ATTACHED, at_rest())
FETCHED_OVER = (ONE_OF_U, FETCH, U_ASIDE, U_ATTACHED, at_rest())

Case = tuple[Sequence[Calls], Sequence[Fact], Sequence[Fact]]
EXPLAINED: Mapping[str, Case] = {
    "forgotten-mutation": (
        (INSERT, PENDING, ASIDE, BACK, UNCHANGED),
        (OLD, ENTRY, ["hold", 480, "0_0_0_0_1", "ch1"], CAME_BACK),
        (),
    ),
    "stranded-part": (STRANDED, (OLD, FIRST, MERGED, LATER), ()),
    "fetched-over": (FETCHED_OVER, (OTHER_OF_T,), (OLD,)),
}
"""Calls, and what ZooKeeper's log says of t and of u, by the defect that explains them."""


@pytest.mark.parametrize("name", EXPLAINED)
def test_a_row_is_explained_by_what_the_record_says_of_what_was_put_aside(name: str) -> None:
    calls, of_t, of_u = EXPLAINED[name]
    assert explained(*calls, trace("t", *of_t), trace("u", *of_u)) == ("known", [name])


NOT_EXPLAINED: Mapping[str, tuple[str, Case]] = {
    "the replica that attached the part had mutated it": (
        "forgotten-mutation",
        (
            (INSERT, PENDING, ASIDE, BACK, UNCHANGED),
            (OLD, ENTRY, ["hold", 480, "0_0_0_0_1", "ch2"], CAME_BACK),
            (),
        ),
    ),
    "the mutation is not of the row's block": (
        "forgotten-mutation",
        (
            (INSERT, PENDING, ASIDE, BACK, UNCHANGED),
            (OLD, [*ENTRY[:-1], {"0": 0}], CAME_BACK),
            (),
        ),
    ),
    "the record has no mutation": (
        "forgotten-mutation",
        ((INSERT, PENDING, ASIDE, BACK, UNCHANGED), (OLD, CAME_BACK), ()),
    ),
    "no merge spans the number of the part that was detached": (
        "stranded-part",
        (STRANDED, (OLD, FIRST, ["hold", 700, "0_1_2_1", "ch1"], LATER), ()),
    ),
    "the merge was made before the part was detached": (
        "stranded-part",
        (STRANDED, (OLD, ["hold", 400, "0_0_2_1", "ch1"], FIRST, LATER), ()),
    ),
    "what was merged was not detached": (
        "stranded-part",
        (STRANDED, (OLD, FIRST, MERGED, [*LATER[:4], "0_3_3_0", "*"]), ()),
    ),
    "what was fetched has other numbers": (
        "fetched-over",
        (FETCHED_OVER, (["hold", 350, "0_1_1_0", "ch2"],), (OLD,)),
    ),
    "another replica fetched": (
        "fetched-over",
        (
            (ONE_OF_U, call("fetch", "fetch", 400, 450, to="u", node="ch2"), *FETCHED_OVER[2:]),
            (OTHER_OF_T,),
            (OLD,),
        ),
    ),
    "it was fetched after the ATTACH": (
        "fetched-over",
        (
            (ONE_OF_U, U_ASIDE, U_ATTACHED, call("fetch", "fetch", 900, 950, to="u"), at_rest()),
            (OTHER_OF_T,),
            (OLD,),
        ),
    ),
}
"""The same with a record that does not say so, and the defect that does not explain it."""


@pytest.mark.parametrize("name", NOT_EXPLAINED)
def test_the_same_row_is_not_explained_so_without_the_evidence(name: str) -> None:
    by, (calls, of_t, of_u) = NOT_EXPLAINED[name]
    assert by not in explained(*calls, trace("t", *of_t), trace("u", *of_u))[1]
