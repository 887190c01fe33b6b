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


COVERS, LARGER = "0_0_2_2", "0_0_3_3"
HELD: tuple[Fact, ...] = (["hold", 450, COVERS, "ch3"],)
EMPTY: tuple[Fact, ...] = (*HELD, ["drop", 450, COVERS, "ch1"], ["drop", 450, COVERS, "ch2"])
"""ch3 puts an empty part in place of a lost one: it registers and removes it for the others too."""
GONE_THERE = final(2, [], 2000, 2010, node="ch3")


@pytest.mark.parametrize(
    ("call", "facts", "expected"),
    [
        (GONE_THERE, removed(*EMPTY), ("known", ["discarded-copy"])),
        (GONE_THERE, removed(*EMPTY, ["hold", 600, LARGER, "ch3"]), ("known", ["discarded-copy"])),
        (GONE_THERE, removed(*HELD), NEW),
        (GONE_THERE, removed(["hold", 440, PART, "ch3"], *EMPTY), NEW),
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
