"""What is gone since a replica was recovered is explained only where the record proves it: values
since it took the definitions of a Replicated database's tables from ZooKeeper, and rows that an
ATTACH left aside. Times are in ms."""

from collections.abc import Sequence

import pytest
from checkers_cases import Event, _nemesis, fault, final, history, insert, rest
from test_triage_rewinds import said as said_by
from test_triage_statements import (
    HELD,
    INSERT,
    KILLED,
    LOST,
    OTHER,
    RESTORE,
    call,
    explained,
    trace,
)

from checkers.health import Complaint, HealthReport
from checkers.look import encode
from checkers.replication.conformance import CONFORMANCE
from checkers.sets.set_full import SetFull
from checkers.triage.triage import triage
from harness.core.runtime import WallTime

NEW: tuple[str, Sequence[str]] = ("new", [])
STORED = insert(0, 1, 1, 2, node="ch2")
VERSIONS = _nemesis(CONFORMANCE, 60, "ok", {"versions": ["25.8.2"]})
KILL = fault(10, 20, "ch2", "kill-clickhouse-one")
MOVED = "dropped 0 dictionaries and 0 tables, moved 1 tables"
DROPPED = "dropped 0 dictionaries and 1 tables, moved 0 tables"


def said(node: str, counts: str) -> list[Event]:
    """Return what a server says of itself at rest."""
    line = f"<Warning> DatabaseReplicated (d): Cleaned 1 outdated objects: {counts}"
    report = HealthReport({node: [Complaint("recovered-database", line)]})
    return list(_nemesis("health", 70, "ok", encode(report)))


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ((STORED, KILL, said("ch2", MOVED)), ("known", ["set-aside"])),
        ((STORED, KILL, said("ch2", DROPPED)), ("known", ["dropped-view"])),
        ((STORED, KILL), NEW),
        ((STORED, said("ch2", MOVED)), NEW),
        ((STORED, KILL, said("ch1", MOVED)), NEW),
        ((insert(0, 1, 11, 12, node="ch2"), KILL, said("ch2", MOVED)), NEW),
        ((STORED, insert(1, 1, 3, 4, node="ch1"), KILL, said("ch2", MOVED)), NEW),
    ],
    ids=[
        "put aside",
        "dropped",
        "nothing said",
        "no start",
        "another replica",
        "inserted after the kill",
        "inserted on two replicas",
    ],
)
def test_a_value_is_explained_by_the_recovery_of_its_only_replica(
    record: Sequence[list[Event]], expected: tuple[str, Sequence[str]]
) -> None:
    finals = [
        final(90 + at, [], 40 + at, 41 + at, node=node) for at, node in enumerate(("ch1", "ch2"))
    ]
    made = history(*record, VERSIONS, rest(30, ch1={}, ch2={}), *finals)
    judges = (SetFull(linearizable=False),)
    verdicts = [judge.check(made) for judge in judges]
    cause = triage(made, judges, verdicts, 60, WallTime().clock())
    assert (cause.status, [one.name for one in cause.defects]) == expected


ATTACH = call("attach", "attach", 6_000, 6_500)
FAILED_ATTACH = call("attach", "attach", 6_000, 6_500, "info")
EARLY_ATTACH = call("attach", "attach", 1_100, 1_200)
ATTACHED = ["assign", 6_200, "attach", "ch1", "0_1_1_0", ""]
HALF = ("known", ["half-restored"])


@pytest.mark.parametrize(
    ("calls", "facts", "expected"),
    [
        ([ATTACH, said_by("ch1")], [OTHER], ("known", ["ignored-part"])),
        ([ATTACH], [OTHER], HALF),
        ([ATTACH, said_by("ch2")], [OTHER], HALF),
        ([FAILED_ATTACH, said_by("ch1")], [OTHER], HALF),
        ([EARLY_ATTACH, said_by("ch1")], [OTHER], HALF),
        ([ATTACH, said_by("ch1")], [OTHER, ATTACHED], NEW),
    ],
    ids=[
        "set aside",
        "nothing said",
        "another replica",
        "not acknowledged",
        "before the kill",
        "something was attached",
    ],
)
def test_a_row_is_explained_by_an_attach_that_attached_nothing(
    calls: Sequence[list[Event]], facts: Sequence[list[object]], expected: tuple[str, list[str]]
) -> None:
    record = (INSERT, RESTORE, KILLED, *calls, LOST)
    assert explained(*record, trace("t", HELD, *facts), trace("u")) == expected
