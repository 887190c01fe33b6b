"""Mutations that are left at rest with nothing to change, and which of them are explained."""

from typing import Any

import pytest
from checkers_cases import _nemesis, history, rest
from statement_rows_cases import call

from checkers.judge import judge
from checkers.ladder import Level
from checkers.statements.endings import MutationEnds
from harness.core.verdict import Status

FIRST, SECOND = "0000000000", "0000000001"
DONE: dict[str, Any] = {"unfinished": {}}
LEFT: dict[str, Any] = {"unfinished": {"t": {SECOND: [], FIRST: ["6"]}}}
UPDATE = call("update", "append", 1, 2, update=7)
FORGET = call("forget", "forget", 3, 4, key=6)


@pytest.mark.parametrize(
    ("ch1", "ch2", "pending", "status", "summary"),
    [
        (DONE, DONE, (), Status.VALID, "no mutation is left on 2 replicas"),
        (
            DONE,
            LEFT,
            (),
            Status.INVALID,
            "t: ch2 has 2 mutations, from 0000000000 on, that have nothing left to change and are "
            "not done",
        ),
        # a statement that waits for one is still there
        (LEFT, LEFT, ("ch1 still runs 1 statements",), Status.INVALID, None),
        (DONE, DONE, ("ch1 has 1 queue entries",), Status.UNKNOWN, None),
        (DONE, {"queue": 0}, (), Status.UNKNOWN, "no mutations of ch2"),
        (DONE, "210 refused", (), Status.UNKNOWN, "no mutations of ch2"),
    ],
)
def test_mutations_end(
    ch1: Any, ch2: Any, pending: tuple[str, ...], status: Status, summary: str | None
) -> None:
    verdict = MutationEnds().check(history(UPDATE, rest(80, *pending, ch1=ch1, ch2=ch2)))
    assert verdict.status is status
    assert summary in (None, verdict.summary)


def test_nobody_looked() -> None:
    assert MutationEnds().check(history(UPDATE)).status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("calls", "ch1", "known"),
    [
        ((UPDATE, FORGET), LEFT, True),
        # nobody forgot the partition, or it is of another table
        ((UPDATE,), LEFT, False),
        ((UPDATE, call("forget", "forget", 3, 4, key=6, table="u")), LEFT, False),
        # another partition was forgotten
        ((UPDATE, call("forget", "forget", 3, 4, key=5)), LEFT, False),
        # the first of them has numbers everywhere, and something else keeps it from its end
        ((UPDATE, FORGET), {"unfinished": {"t": {FIRST: [], SECOND: ["6"]}}}, False),
    ],
)
def test_a_forgotten_partition_explains_mutations_that_do_not_end(
    calls: tuple[Any, ...], ch1: dict[str, Any], known: bool
) -> None:
    trace = _nemesis("trace", 79, "ok", {"versions": ["25.8.2"], "facts": [], "gaps": []})
    found = judge(
        history(*calls, trace, rest(80, ch1=ch1, ch2=ch1)),
        (MutationEnds(),),
        60,
        Level.EVENTUAL,
        explain=True,
    )
    assert found.status is Status.INVALID
    assert found.explanation is not None
    names = [one.name for one in found.explanation.defects]
    assert (found.explanation.status, names) == (
        ("known", ["endless-mutation"]) if known else ("new", [])
    )
