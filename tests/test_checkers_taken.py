"""What faults of disks take: values that were not promised to survive are not lost, and all others
are. Times are in ms."""

from typing import Any

import pytest
from checkers_cases import Event, final, history, insert, kinds, read, rest, told
from checkers_cases import fault as nemesis_fault

from checkers.replication.merged_rows import MergedRows
from checkers.replication.objects import Objects
from checkers.sets.convergence import Convergence
from checkers.sets.set_full import SetFull
from checkers.statements.calls import FINAL_ROWS, READ_ROWS
from checkers.statements.reads import StatementReads
from checkers.statements.rows import StatementRows
from checkers.taken import taken_of
from harness.core.verdict import Status

VALUE = insert(0, 7, 10, 20)
OTHER = insert(1, 8, 10, 20, node="ch2")
AT_REST = rest(900, ch1={}, ch2={}, ch3={})
NODES = ("ch1", "ch2", "ch3")
FINALS = [e for at, node in enumerate(NODES) for e in final(5 + at, [8], 910, 920, node=node)]
LOST, KEPT = (Status.INVALID, ["lost"]), (Status.VALID, [])


def fault(takes: str, *nodes: str, begin: float = 30, end: float = 60, **more: Any) -> list[Event]:
    """Return a fault that takes something from the disks of nodes, invoked 1 ms before."""
    name, number = more.pop("name", takes), more.pop("number", 1)
    about = {"takes": takes, "nodes": list(nodes), **more}
    return nemesis_fault(begin, end, " ".join(nodes), name, number, invoked=begin - 1, **about)


@pytest.mark.parametrize(
    ("about", "faults", "copies", "expected"),
    [
        ("no fault: it is lost", [], 1, LOST),
        ("a fault that takes nothing", nemesis_fault(30, 60, name="kill", nodes=["ch1"]), 1, LOST),
        ("its only disk cannot be read", fault("unreadable", "ch1"), 1, KEPT),
        ("nor could it before", fault("unreadable", "ch1", begin=5), 1, KEPT),
        ("but it can since", fault("unreadable", "ch1", begin=2, end=9), 1, LOST),
        ("another disk cannot be read", fault("unreadable", "ch2"), 1, LOST),
        ("its disk was emptied later", fault("all", "ch1"), 1, KEPT),
        ("its disk was emptied before", fault("all", "ch1", begin=5, end=99), 1, LOST),
        ("its disk gave place to an older one", fault("newer", "ch1", begin=5), 1, KEPT),
        ("to one that has it", fault("newer", "ch1", begin=25), 1, LOST),
        ("power was cut before it was synced", fault("unsynced", "ch1", fsync="default"), 1, KEPT),
        ("after it was synced", fault("unsynced", "ch1", fsync="inserts"), 1, LOST),
        ("before it was inserted", fault("unsynced", "ch1", begin=5, fsync="default"), 1, LOST),
        ("a quorum had it and one disk went", fault("unreadable", "ch1"), 2, LOST),
        ("both disks went", fault("unreadable", "ch1", "ch3"), 2, KEPT),
        ("both went, one after the other",
         fault("unreadable", "ch1") + fault("all", "ch3", begin=90, end=99, number=2), 2, KEPT),
        ("one went, and that of a ZooKeeper server", fault("unreadable", "ch1", "zk1"), 2, LOST),
        ("two others went", fault("unreadable", "ch2", "ch3"), 2, LOST),
        ("a quorum of all three", fault("unreadable", "ch1", "ch3"), 3, LOST),
        ("a majority", fault("unreadable", "ch1", "ch3"), "auto", KEPT),
        ("power cuts and a quorum: a matter of settings",
         fault("unsynced", *NODES, fsync="default"), 2, LOST),
    ],
    ids=lambda one: one if isinstance(one, str) and " " in one else "",
)  # fmt: skip
def test_a_value_is_lost_unless_faults_took_every_copy_that_was_promised(
    about: str, faults: list[Event], copies: Any, expected: Any
) -> None:
    checker = SetFull(linearizable=False, copies=copies)
    assert kinds(checker, VALUE, OTHER, faults, AT_REST, FINALS) == expected, about


def test_the_verdict_says_what_was_not_promised() -> None:
    calls = (VALUE, OTHER, fault("unreadable", "ch1", name="disk-eio-reads"), AT_REST, FINALS)
    verdict = SetFull(linearizable=True).check(history(*calls))
    assert verdict.summary == (
        "2 acknowledged values, none lost; 1 more taken by disk-eio-reads from the only disks that "
        "had to have it"
    )
    assert verdict.figures["not_promised"] == 1


def test_a_value_that_another_replica_has_shown_is_lost() -> None:
    shown = read(3, [7], 25, 26, node="ch3")
    for faults, expected in (
        (fault("unreadable", "ch1"), LOST),
        (fault("unreadable", "ch1", "ch3"), KEPT),
    ):
        calls = (VALUE, OTHER, shown, faults, AT_REST, FINALS)
        assert kinds(SetFull(linearizable=False), *calls) == expected


def test_the_part_of_a_repeated_insert_may_be_of_either_try() -> None:
    again = insert(2, 7, 30, 35, node="ch2"), insert(0, 7, 10, 20, "info")
    for node, expected in (("ch1", KEPT), ("ch2", KEPT), ("ch3", LOST)):
        calls = (*again, OTHER, fault("unreadable", node, begin=40), AT_REST, FINALS)
        assert kinds(SetFull(linearizable=False), *calls) == expected


def test_a_fault_whose_effect_was_not_seen_may_have_struck() -> None:
    begun = fault("unreadable", "ch1")[:2]
    begun[1].op["kind"] = begun[1].op["kind"].__class__("info")
    (take,) = taken_of(history(VALUE, begun)).takes
    assert (take.node, take.name, take.until_ns) == ("ch1", "unreadable", float("inf"))


def statement(f: str, effect: str, at: float, node: str = "ch1", **what: Any) -> list[Event]:
    value = {"effect": effect, "table": "t", **what}
    process = int(node[2:])
    return told(f, value, at, at + 10, process=process, node=node, key=0, asked=value)


def shows(*numbers: int) -> dict[str, Any]:
    return {"tables": {"t": [[number, [1], 1] for number in numbers]}}


def rows(*numbers: int) -> list[Event]:
    return [
        e
        for n, node in enumerate(NODES)
        for e in told(FINAL_ROWS, shows(*numbers), 910, process=5 + n, node=node, key=0)
    ]


@pytest.mark.parametrize(
    ("faults", "left", "expected"),
    [
        ([], (8,), LOST),
        (fault("unreadable", "ch1"), (8,), KEPT),
        (fault("unreadable", "ch2"), (8,), LOST),
    ],
)
def test_a_row_that_no_statement_removed_may_be_taken(
    faults: list[Event], left: tuple[int, ...], expected: Any
) -> None:
    inserted = statement("insert-row", "insert", 5, row=7)
    other = statement("insert-row", "insert", 5, "ch2", row=8)
    updated = statement("update", "append", 17, "ch3", update=1)
    calls = (inserted, other, updated, faults, AT_REST, rows(*left))
    assert kinds(StatementRows(), *calls) == expected


@pytest.mark.parametrize(
    ("node", "begin", "expected"),
    [
        ("ch2", 130, KEPT),  # between the reads that show and lack it
        ("ch2", 160, (Status.INVALID, ["returned"])),  # it was gone before
        ("ch1", 130, (Status.INVALID, ["returned"])),
    ],
)
def test_what_a_replica_fetches_again_did_not_come_back_from_a_drop(
    node: str, begin: float, expected: Any
) -> None:
    early = statement("insert-row", "insert", 10, row=6, update=1)
    dropped = statement("drop", "delete", 95, "ch1")
    shown = [
        e
        for numbers, at in (((6,), 80), ((), 150), ((6,), 190))
        for e in told(READ_ROWS, shows(*numbers), at, process=2, node="ch2", key=0)
    ]
    faults = fault("unsynced", node, begin=begin, end=begin + 5, fsync="default")
    assert kinds(StatementReads(), early, dropped, shown, faults, AT_REST) == expected


@pytest.mark.parametrize(
    ("faults", "lost"), [([], 3), (fault("unreadable", "ch1"), 0), (fault("unreadable", "ch3"), 3)]
)
def test_a_row_of_a_part_on_a_store_may_be_taken(faults: list[Event], lost: int) -> None:
    verdict = Objects(zero_copy=True).check(history(VALUE, OTHER, faults, AT_REST, FINALS))
    assert len(verdict.anomalies) == lost


def test_a_replica_that_finds_out_at_rest_what_it_lacks_has_not_diverged() -> None:
    refused = final(1, None, 905, 908, node="ch1", kind="fail")
    both = [e for n, o in (("ch2", 6), ("ch3", 7)) for e in final(o, [7, 8], 910, 920, node=n)]
    less = final(5, [8], 910, 920, node="ch1")
    calls = (VALUE, OTHER, AT_REST, less, both)
    diverged = (Status.INVALID, ["diverged"])
    struck = fault("unsynced", "ch1", fsync="default", name="power-cut-torn")
    assert kinds(Convergence(), *calls) == diverged
    assert kinds(Convergence(), *calls, refused) == diverged
    assert kinds(Convergence(), *calls, struck) == diverged
    verdict = Convergence().check(history(*calls, struck, refused))
    assert verdict.status is Status.UNKNOWN
    assert verdict.summary == "ch1 could not read what a fault had struck"


@pytest.mark.parametrize(
    ("faults", "rows", "expected"),
    [
        (fault("unreadable", "ch1"), 20, (Status.UNKNOWN, [])),
        (fault("unreadable", "ch1"), 30, (Status.VALID, [])),
        (fault("unreadable", "ch2"), 20, (Status.INVALID, ["rows-lost"] * 2)),
        (fault("unreadable", "ch1"), 40, (Status.INVALID, ["rows-doubled"] * 2)),
    ],
    ids=["the disk that had them all", "and kept them", "another disk", "nothing doubles rows"],
)
def test_rows_of_a_filled_partition_may_be_taken(
    faults: list[Event], rows: int, expected: Any
) -> None:
    filled = told("fill", {"partition": 7, "rows": 30}, 10, 20)
    active = {"active": {"7_0_2_1": [rows, "aa"]}}

    assert kinds(MergedRows(), filled, faults, rest(900, ch1=active, ch2=active)) == expected
