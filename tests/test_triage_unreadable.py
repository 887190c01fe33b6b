"""Rows of parts that a replica could not read, and of those that a clone of it removed, are
explained only where the record proves it. Times are in ms."""

from collections.abc import Sequence

import pytest
from checkers_cases import final, insert, read
from test_triage_looks import NEW, Events, Fact, explained, trace

from checkers.sets.set_full import SetFull

PART, MERGED = "0_1_1_0", "0_0_1_1"
INSERTED = insert(0, 1, 5, 30)
GONE_HERE = read(1, [], 450, 460)
GONE = final(2, [], 2000, 2010, node="ch2")


def removed(
    *more: Fact, renewed: str = "ch1", lost: str = "ch2", merged: str = MERGED
) -> tuple[Fact, ...]:
    """Return the facts of an insert of ch1 that ch2 has, of a merge on ch1, which cannot read the
    part that it has made at 400 ms, and of ch2, which is lost and clones it at 500 ms."""
    return (
        ["begin", 10, PART, 2],
        ["commit", 10, PART, 7],
        ["hold", 10, PART, "ch1"],
        ["hold", 20, PART, "ch2"],
        ["end", 21, PART],
        ["hold", 100, merged, "ch1"],
        ["lost", 300, lost, True],
        ["lost", 400, renewed, False],
        ["drop", 400, merged, "ch1"],
        ["drop", 500, PART, "ch2"],
        ["lost", 510, lost, False],
        ["drop", 900, PART, "ch1"],
        *more,
    )


AGAIN: tuple[Fact, ...] = (["hold", 950, "0_0_2_2", "ch3"],)
GONE_THERE = final(2, [], 2000, 2010, node="ch3")


@pytest.mark.parametrize(
    ("call", "facts", "expected"),
    [
        (GONE_THERE, removed(*AGAIN), ("known", ["discarded-copy"])),
        (GONE_THERE, removed(["hold", 440, PART, "ch3"], *AGAIN), NEW),
        (GONE, removed(), ("known", ["discarded-copy"])),
        (GONE, removed(renewed="ch3"), NEW),
        (GONE, removed(lost="ch3"), NEW),
        (GONE, removed(merged="0_2_3_1"), NEW),
        (GONE, removed(["hold", 30, PART, "ch3"]), NEW),
        (GONE, removed(["hold", 450, MERGED, "ch1"]), NEW),
        (GONE_HERE, removed(), ("known", ["unreadable-part"])),
        (GONE_HERE, removed(renewed="ch3"), NEW),
        (read(1, [], 200, 210), removed(), NEW),
        (read(1, [], 450, 460, node="ch2"), removed(), NEW),
        (read(1, [], 600, 610), removed(["hold", 480, MERGED, "ch1"]), NEW),
    ],
)
def test_what_is_missing_is_explained_by_who_could_not_read_it(
    call: Events, facts: Sequence[Fact], expected: tuple[str, list[str]]
) -> None:
    checker = SetFull(linearizable=True)
    assert explained(checker, INSERTED, call, trace("25.8.2", *facts)) == expected


SECOND = "0_2_2_0"
TOGETHER = (insert(0, 1, 5, 30), insert(1, 2, 6, 31))
"""Two inserts on ch1 at once: either may be in either part."""


def both(*gone: str) -> tuple[Fact, ...]:
    """Return the facts of two parts of ch1, which cannot read some of them at 400 ms."""
    return (
        *(
            fact
            for part in (PART, SECOND)
            for fact in (["commit", 10, part, 7], ["hold", 10, part, "ch1"])
        ),
        *(
            fact
            for part in gone
            for fact in (["lost", 400, "ch1", False], ["drop", 400, part, "ch1"])
        ),
    )


@pytest.mark.parametrize(
    ("returned", "gone", "expected"),
    [
        ([], (PART, SECOND), ("known", ["unreadable-part"])),
        ([], (PART,), NEW),
        ([2], (PART,), ("known", ["unreadable-part"])),
        ([2], (), NEW),
    ],
)
def test_a_value_of_several_parts_is_explained_if_each_is_or_if_another_value_is_in_all_but_one(
    returned: list[int], gone: Sequence[str], expected: tuple[str, list[str]]
) -> None:
    final_read = final(2, returned, 2000, 2010)
    checker = SetFull(linearizable=False)
    assert explained(checker, *TOGETHER, final_read, trace("25.8.2", *both(*gone))) == expected


@pytest.mark.parametrize(
    ("version", "covered", "expected"),
    [
        ("18.16.1", False, ("known", ["unreadable-part"])),
        ("18.16.1", True, NEW),
        ("25.8.2", False, NEW),
    ],
)
def test_on_18_16_a_part_is_unreadable_that_is_removed_and_not_covered(
    version: str, covered: bool, expected: tuple[str, list[str]]
) -> None:
    """It does not renew is_lost when it removes the part."""
    facts: list[Fact] = [["commit", 10, PART, 7], ["hold", 10, PART, "ch1"]]
    merged: list[Fact] = [["hold", 200, MERGED, "ch1"]] if covered else []
    events = trace(version, *facts, *merged, ["drop", 400, PART, "ch1"])
    final_read = final(2, [], 2000, 2010)
    assert explained(SetFull(linearizable=True), INSERTED, final_read, events) == expected
