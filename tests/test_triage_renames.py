"""Known defects of RENAME COLUMN explain rows without their value only where the record proves
their mechanism. Times are in ms."""

from collections.abc import Mapping, Sequence

import pytest
from checkers_cases import _call, history
from test_triage_statements import NEW, PROCESS, Calls, Fact, at_rest, call, explained, trace

from checkers.judge import judge
from checkers.ladder import Level
from checkers.statements.calls import READ_ROWS
from checkers.statements.reads import StatementReads

AWAY, BACK = "(RENAME COLUMN v TO w)", "(RENAME COLUMN w TO v)"
INSERT = call("insert-row", "insert", 1_000, 1_200, row=1, update=1)
RENAME = call("rename-column", "none", 400, 600, node="ch2")
UNTOLD = at_rest(t=[(1, [], 1)])


def renamed(at: int, command: str, partitions: Mapping[str, int]) -> Fact:
    """Return that ZooKeeper has the mutation of a RENAME by ch2."""
    return ["mutation", at, "ch2", command, partitions]


def executed(at: int, node: str = "ch1") -> Fact:
    """Return that a replica has executed a change of the columns."""
    return ["applied", at, node, ["p", "id", "w"]]


HELD: Fact = ["hold", 1_100, "0_3_3_0", "ch1"]
LATE = executed(1_500)

Case = tuple[Sequence[Calls], Sequence[Fact]]
AWAY_CASES: Mapping[str, tuple[Case, bool]] = {
    "its replica had yet to execute a RENAME that does not name the partition": (
        ((RENAME, INSERT, UNTOLD), (renamed(500, AWAY, {}), HELD, LATE)),
        True,
    ),
    "its replica had executed it": (
        ((RENAME, INSERT, UNTOLD), (renamed(500, AWAY, {}), executed(900), HELD)),
        False,
    ),
    "the RENAME names the partition": (
        ((RENAME, INSERT, UNTOLD), (renamed(500, AWAY, {"0": 2}), HELD, LATE)),
        False,
    ),
    "the RENAME came later": (
        ((RENAME, INSERT, UNTOLD), (HELD, renamed(1_300, AWAY, {}), LATE)),
        False,
    ),
    "the mutation is no RENAME": (
        ((RENAME, INSERT, UNTOLD), (renamed(500, "(UPDATE v = [] WHERE 1)", {}), HELD, LATE)),
        False,
    ),
    "nobody knows its part": (
        ((RENAME, INSERT, UNTOLD), (renamed(500, AWAY, {}), LATE)),
        False,
    ),
}


@pytest.mark.parametrize("name", AWAY_CASES)
def test_a_row_at_rest_without_its_value(name: str) -> None:
    (calls, facts), known = AWAY_CASES[name]
    expected = ("known", ["renamed-away"]) if known else NEW
    assert explained(*calls, trace("t", *facts)) == expected


READ = _call(
    next(PROCESS), READ_ROWS, 3_000, 3_100, "ok", "ch1", 0, None,
    {"tables": {"t": [(1, [], 1)], "u": []}}, None,
)  # fmt: skip
FIRST, SECOND = renamed(500, AWAY, {"0": 2}), renamed(2_000, BACK, {"0": 4})
STUCK_CASES: Mapping[str, tuple[Sequence[Fact], bool]] = {
    "a later RENAME has yet to mutate its part": ((FIRST, HELD, LATE, SECOND), True),
    "the later RENAME has mutated it": (
        (FIRST, HELD, LATE, SECOND, ["hold", 2_500, "0_3_3_0_4", "ch1"]),
        False,
    ),
    "there is no later one": ((FIRST, HELD, LATE), False),
    "its replica had executed the first one": ((FIRST, executed(900), HELD, SECOND), False),
    "the first one applies to its block": (
        (renamed(500, AWAY, {"0": 7}), HELD, LATE, renamed(2_000, BACK, {"0": 8})),
        False,
    ),
}


@pytest.mark.parametrize("name", STUCK_CASES)
def test_a_read_that_shows_a_row_without_its_value(name: str) -> None:
    facts, known = STUCK_CASES[name]
    calls = history(RENAME, INSERT, READ, trace("t", *facts))
    found = judge(calls, (StatementReads(),), 60, Level.EVENTUAL, explain=True)
    assert found.explanation is not None
    names = [one.name for one in found.explanation.defects]
    assert (found.explanation.status, names) == (("known", ["stuck-rename"]) if known else NEW)
