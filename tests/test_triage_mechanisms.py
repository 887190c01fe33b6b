"""Known defects of inserts into several partitions, dropped partitions, leaders, tables that do not
answer and parallel quorums explain a run only where the record proves their mechanism. Times are in
ms."""

from collections.abc import Sequence
from typing import Any

import pytest
from checkers_cases import _nemesis, fault, final, insert, read, rest, told
from test_triage_looks import NEW, Events, Fact, explained, trace

from checkers.availability.answers import Answers
from checkers.health import Complaint, HealthReport
from checkers.look import encode
from checkers.replication.leaders import LEADS, Leaders
from checkers.sets.atomic import INSERT_MANY, Atomic
from checkers.sets.convergence import Convergence
from checkers.sets.set_full import SetFull


def many(begin: int, end: int, kind: str = "ok") -> Events:
    events: Events = insert(0, (1, 2), begin, end, kind)
    for event in events:
        event.op["f"] = INSERT_MANY
    return events


def parts(*of: tuple[int, int, int]) -> Sequence[Fact]:
    """Return the facts of parts by partition, with the times at which ch1 committed them and ch2
    registered them."""
    return [
        fact
        for partition, at, later in of
        for name in [f"{partition}_0_0_0"]
        for fact in (
            ["commit", at, name, 7],
            ["hold", at, name, "ch1"],
            ["hold", later, name, "ch2"],
        )
    ]


KILLED = fault(15, 900, "ch1", "kill-clickhouse-one")
CUT_SHORT = many(10, 20, "info")


@pytest.mark.parametrize(
    ("calls", "facts", "expected"),
    [
        (
            (many(10, 300), read(1, [1], 100, 110)),
            parts((1, 50, 60), (2, 200, 210)),
            ("known", ["torn-insert"]),
        ),
        ((many(10, 90), read(1, [1], 200, 210)), parts((1, 50, 60), (2, 70, 80)), NEW),
        ((many(10, 300), read(1, [1], 100, 110)), (), NEW),
        (
            (CUT_SHORT, KILLED, final(1, [1], 990, 991)),
            parts((1, 12, 30)),
            ("known", ["half-insert"]),
        ),
        ((CUT_SHORT, final(1, [1], 990, 991)), parts((1, 12, 30)), NEW),
        ((many(10, 20), KILLED, final(1, [1], 990, 991)), parts((1, 12, 30)), NEW),
    ],
)
def test_a_part_of_an_insert_is_explained_by_the_times_of_its_parts(
    calls: tuple[Events, ...], facts: Sequence[Fact], expected: tuple[str, list[str]]
) -> None:
    assert explained(Atomic(), *calls, trace("25.8.2", *facts)) == expected


ONE = (["commit", 10, "0_0_0_0", 7], *(["hold", 11, "0_0_0_0", n] for n in ("ch1", "ch2", "ch3")))
DROPPED = (
    ["assign", 500, "drop", "ch1", "0_0_9_999999999", "ch1"],
    *(["drop", 501, "0_0_0_0", n] for n in ("ch1", "ch2")),
)
LOST = (["lost", 400, "ch3", True], ["lost", 700, "ch3", False])
OWN = (["commit", 10, "0_0_0_0", 7], *(["hold", 11, "0_0_0_0", n] for n in ("ch3", "ch1", "ch2")))
HEARD_NOT = _nemesis(
    "departure", 600, "ok",
    {"kind": "DropMissed", "step": ["FinishEntry ch3 queue-1", "DropMissed ch3 0_0_0_0"]},
)  # fmt: skip


@pytest.mark.parametrize(
    ("version", "facts", "departures", "expected"),
    [
        ("18.16.1", (*ONE, *DROPPED, *LOST), (), ("known", ["returned-rows"])),
        ("25.8.2", (*ONE, *DROPPED, *LOST), (), NEW),
        ("18.16.1", (*ONE, *DROPPED), (), NEW),
        ("18.16.1", (*ONE, *LOST), (), NEW),
        (
            "18.16.1",
            (*ONE, *DROPPED, ["lost", 100, "ch3", True], ["lost", 200, "ch3", False]),
            (),
            NEW,
        ),
        ("25.8.2", (*OWN, *DROPPED), (HEARD_NOT,), ("known", ["missed-drop"])),
        ("25.8.2", (*OWN, *DROPPED), (), NEW),
        ("25.8.2", OWN, (HEARD_NOT,), NEW),
    ],
)
def test_rows_of_a_dropped_partition_are_explained_by_who_was_lost(
    version: str,
    facts: Sequence[Fact],
    departures: tuple[Events, ...],
    expected: tuple[str, list[str]],
) -> None:
    node = "ch3" if version.startswith("25") else "ch1"
    calls = (
        insert(0, 5, 9, 20, node=node),
        *departures,
        rest(1000, ch1={}, ch2={}, ch3={}),
        final(0, [], 1100, 1101, node="ch1"),
        final(1, [], 1100, 1101, node="ch2"),
        final(2, [5], 1100, 1101, node="ch3"),
    )
    assert explained(Convergence(), *calls, trace(version, *facts)) == expected


def claims(at: int) -> tuple[Events, ...]:
    return tuple(
        told(LEADS, {"leads": True}, at + i, at + i + 0.5, node=node)
        for i, node in enumerate(("ch1", "ch2", "ch1"))
    )


PAUSED = fault(1_000, 9_000, "ch1", "pause-clickhouse-one")
TERMS = (["leads", 1, "ch1"], ["leads", 7_000, "ch2"])


@pytest.mark.parametrize(
    ("calls", "facts", "expected"),
    [
        ((PAUSED, *claims(9_100)), TERMS, ("known", ["two-leaders"])),
        ((PAUSED, *claims(11_000)), TERMS, NEW),
        (claims(9_100), TERMS, NEW),
        ((PAUSED, *claims(9_100)), TERMS[:1], NEW),
        ((PAUSED, *claims(9_100)), TERMS[1:], NEW),
    ],
)
def test_two_leaders_are_explained_by_who_led(
    calls: tuple[Events, ...], facts: Sequence[Fact], expected: tuple[str, list[str]]
) -> None:
    assert explained(Leaders(), *calls, trace("18.16.1", *facts)) == expected


HEALED = _nemesis("heal", 800, "ok", {})
AWAY = fault(100, 500, "ch3", "kill-clickhouse-one")
ADDED = [["columns", at, [f"c{n}" for n in range(at // 100 - 1)]] for at in (0, 200, 300, 400)]


def silent(f: str, error: str, node: str = "ch3") -> Events:
    events: Events = read(2, None, 900, 910, "fail", node=node, f=f, error=error)
    return events


def refused_start(node: str) -> Events:
    """Return what a server says that does not start with the parts that it has."""
    report = HealthReport({node: [Complaint("refused-start", "Code: 231")]})
    events: Events = _nemesis("health", 1_000, "ok", encode(report))
    return events


def at_a_moment(text: str) -> Events:
    """Return a kill in a clone."""
    events: Events = fault(100, 500, text, "clone-kill")
    return events


REFUSED_START = refused_start("ch3")
HALF_ALTER = ("known", ["half-alter"])
GONE = silent("final-read", "60 UNKNOWN_TABLE: Table default.t doesn't exist")
READ_ONLY = silent("final-insert", "242 TABLE_IS_READ_ONLY: Table is in readonly mode")
REFUSED = silent("final-read", "210 NETWORK_ERROR: Connection refused")
UPDATE = told("update", 0, 600, 610, node="ch2", process=4, kind="info", asked=0)
CLONED: tuple[Fact, ...] = (["lost", 40, "ch3", True], ["lost", 90, "ch3", False])
BESIDE = insert(3, 7, 550, 700, "info")
DELETE = told("delete", {}, 600, 610, node="ch2", process=4, kind="info", asked={})
ROW_BESIDE = told("insert-row", {}, 550, 700, process=3, kind="info", asked={})
MERGE_BESIDE = told("optimize", {}, 550, 700, process=3, kind="info", asked={})
APPLIED = (["active", 0, "ch3"], ["applied", 90, "ch3", ["a"]], ["columns", 0, ["a"]])


@pytest.mark.parametrize(
    ("version", "calls", "facts", "expected"),
    [
        ("18.16.1", (AWAY, GONE), ADDED, ("known", ["missing-table"])),
        ("18.16.1", (AWAY, GONE), ADDED[:3], NEW),
        ("18.16.1", (GONE,), ADDED, NEW),
        ("24.8.4", (AWAY, GONE), ADDED, NEW),
        ("24.8.4", (AWAY, READ_ONLY), APPLIED, ("known", ["half-alter"])),
        ("24.8.4", (AWAY, READ_ONLY), (*APPLIED, ["active", 600, "ch3"]), NEW),
        ("24.8.4", (READ_ONLY,), APPLIED, NEW),
        ("24.8.4", (at_a_moment("ch3 while ch1 cloned it"), READ_ONLY), APPLIED, HALF_ALTER),
        ("24.8.4", (at_a_moment("ch1 while it cloned ch3"), READ_ONLY), APPLIED, NEW),
        ("24.8.4", (AWAY, GONE), APPLIED, NEW),
        ("24.8.4", (AWAY, READ_ONLY, REFUSED_START), CLONED, ("known", ["suspicious-clone"])),
        ("24.8.4", (AWAY, READ_ONLY), CLONED, NEW),
        ("24.8.4", (AWAY, READ_ONLY, REFUSED_START), (), NEW),
        ("24.8.4", (AWAY, READ_ONLY, REFUSED_START), (["lost", 150, "ch3", True],), NEW),
        ("24.8.4", (AWAY, READ_ONLY, REFUSED_START), (*CLONED, ["active", 600, "ch3"]), NEW),
        ("24.8.4", (READ_ONLY, REFUSED_START), CLONED, NEW),
        ("24.8.4", (AWAY, GONE, REFUSED_START), CLONED, NEW),
        ("24.8.4", (AWAY, READ_ONLY, refused_start("ch1")), CLONED, NEW),
        ("18.16.1", (BESIDE, UPDATE, REFUSED), (), ("known", ["crashing-mutation"])),
        ("18.16.1", (ROW_BESIDE, DELETE, REFUSED), (), ("known", ["crashing-mutation"])),
        ("18.16.1", (MERGE_BESIDE, DELETE, REFUSED), (), NEW),
        ("18.16.1", (UPDATE, REFUSED), (), NEW),
        ("18.16.1", (BESIDE, REFUSED), (), NEW),
        ("18.16.1", (AWAY, BESIDE, UPDATE, REFUSED), (), NEW),
        ("18.16.1", (BESIDE, UPDATE, read(5, [], 750, 760, node="ch3"), REFUSED), (), NEW),
        ("25.8.2", (BESIDE, UPDATE, REFUSED), (), NEW),
    ],
)
def test_a_table_that_does_not_answer_is_explained_by_what_its_server_missed(
    version: str,
    calls: tuple[Events, ...],
    facts: Sequence[Fact],
    expected: tuple[str, list[str]],
) -> None:
    assert explained(Answers(), HEALED, *calls, trace(version, *facts)) == expected


STALE = final(6, [], 900, 910, node="ch3")


@pytest.mark.parametrize(
    ("calls", "facts", "expected"),
    [
        ((AWAY, STALE, REFUSED_START), CLONED, ("known", ["suspicious-clone"])),
        ((AWAY, STALE), CLONED, NEW),
        ((AWAY, STALE, REFUSED_START), (*CLONED, ["hold", 300, "0_1_1_0", "ch3"]), NEW),
        ((AWAY, STALE, REFUSED_START), (*CLONED, ["active", 600, "ch3"]), NEW),
        ((AWAY, read(6, [], 60, 70, node="ch3"), REFUSED_START), CLONED, NEW),
        ((AWAY, final(6, [], 900, 910, node="ch2"), REFUSED_START), CLONED, NEW),
    ],
)
def test_a_clone_that_does_not_start_lacks_what_it_has_not_registered(
    calls: tuple[Events, ...], facts: Sequence[Fact], expected: tuple[str, list[str]]
) -> None:
    written = (["commit", 20, "0_1_1_0", 7], ["hold", 20, "0_1_1_0", "ch1"])
    inserted = insert(0, 1, 10, 30)
    of_run = (inserted, HEALED, *calls, trace("24.8.4", *facts, *written))
    assert explained(SetFull(linearizable=True), *of_run) == expected


PENDING = silent(
    "final-insert",
    "286 UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE: Quorum for previous write has not been satisfied "
    "yet. Status: version: 1 part_name: 0_1_1_0 required_number_of_replicas: 2",
)
LACKING = silent(
    "final-read",
    "289 REPLICA_IS_NOT_IN_QUORUM: Replica doesn't have part 0_1_1_0 which was successfully "
    "written to quorum of other replicas.",
)
QUORUM: tuple[Fact, ...] = (
    ["begin", 10, "0_1_1_0", 2],
    ["commit", 10, "0_1_1_0", 7],
    ["hold", 10, "0_1_1_0", "ch1"],
)
DROPPED: tuple[Fact, ...] = (
    ["assign", 30, "drop", "ch1", "0_0_7_999999999", "ch1"],
    ["drop", 40, "0_1_1_0", "ch1"],
)
ENDED: Fact = ["end", 20, "0_1_1_0"]
LACKING_TODAY = silent(
    "final-read",
    "289 REPLICA_IS_NOT_IN_QUORUM: Replica doesn't have part '0_1_1_0' which was successfully "
    "written to quorum of other replicas.",
)
EMPTIED: tuple[Fact, ...] = (
    ["hold", 30, "0_1_1_0_2", "ch1"],
    ["assign", 40, "drop", "ch1", "0_1_1_0_2", "*"],
    ["drop", 50, "0_1_1_0", "ch1"],
    ["drop", 50, "0_1_1_0_2", "ch1"],
)


def cloned(*, until: int = 100, fetched: int = 110) -> tuple[Fact, ...]:
    """Return the facts of ch2, which is lost, and of its fetch of the part."""
    return (
        ["lost", 5, "ch2", True],
        ["lost", until, "ch2", False],
        ["hold", fetched, "0_1_1_0", "ch2"],
    )


@pytest.mark.parametrize(
    ("version", "call", "facts", "expected"),
    [
        ("25.8.2", PENDING, (*QUORUM, *cloned()), ("known", ["uncounted-clone"])),
        ("18.16.1", PENDING, (*QUORUM, *cloned()), ("known", ["uncounted-clone"])),
        ("25.8.2", PENDING, QUORUM, NEW),
        ("25.8.2", PENDING, (*QUORUM, *cloned()[:2]), NEW),
        ("25.8.2", PENDING, (*QUORUM, *cloned(until=8)), NEW),
        ("25.8.2", PENDING, (*QUORUM, *cloned(), ENDED), NEW),
        ("25.8.2", PENDING, (*QUORUM, *DROPPED), ("known", ["unwritable-table"])),
        ("25.8.2", PENDING, (*QUORUM, DROPPED[1]), NEW),
        ("25.8.2", PENDING, (*QUORUM, DROPPED[0]), NEW),
        ("25.8.2", LACKING, (*QUORUM, *DROPPED), NEW),
        ("18.16.1", LACKING, (*QUORUM, ENDED, *DROPPED), ("known", ["unreadable-table"])),
        ("18.16.1", LACKING, (*QUORUM, *DROPPED), NEW),
        ("18.16.1", LACKING, (*QUORUM, ENDED, DROPPED[0]), NEW),
        ("25.8.2", LACKING, (*QUORUM, ENDED, *DROPPED), NEW),
        (
            "25.8.2",
            LACKING_TODAY,
            (*QUORUM, ENDED, *EMPTIED),
            ("known", ["emptied-partition"]),
        ),
        ("25.8.2", LACKING_TODAY, (*QUORUM, *EMPTIED), NEW),
        ("25.8.2", LACKING_TODAY, (*QUORUM, ENDED, *EMPTIED[:3]), NEW),
        ("25.8.2", LACKING_TODAY, (*QUORUM, ENDED, *DROPPED), NEW),
    ],
)
def test_a_table_that_refuses_is_explained_by_what_became_of_a_quorums_part(
    version: str, call: Events, facts: Sequence[Fact], expected: tuple[str, list[str]]
) -> None:
    assert explained(Answers(), HEALED, call, trace(version, *facts)) == expected


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        ("'0_1_1_0' which was successfully", ("known", ["emptied-partition"])),
        ("'0_2_2_0' which was successfully", NEW),
    ],
)
def test_calls_that_a_verdict_does_not_list_are_explained_one_by_one(
    last: str, expected: tuple[str, list[str]]
) -> None:
    refusal = f"289 REPLICA_IS_NOT_IN_QUORUM: Replica doesn't have part {last} written"
    others = (
        read(n, None, 900, 910, "fail", node=f"ch{n}", f="final-read", error=refusal)
        for n in range(4, 8)
    )
    calls = [LACKING_TODAY, *others]
    facts = (*QUORUM, ENDED, *EMPTIED)
    assert explained(Answers(), HEALED, *calls, trace("25.8.2", *facts)) == expected


def failing(part: str, *holds: tuple[int, str, str], failed: int = 800) -> tuple[Fact, ...]:
    """Return the facts of an insert of ch1 whose quorum fails."""
    return (
        ["begin", 10, part, 2],
        ["commit", 10, part, 7],
        *(["hold", at, name, node] for at, name, node in ((10, part, "ch1"), *holds)),
        ["fail", failed, part],
        ["drop", failed + 50, part, "ch1"],
    )


AGAIN: tuple[Fact, ...] = (
    ["begin", 900, "0_3_3_0", 2],
    ["commit", 900, "0_3_3_0", 8],
    ["hold", 900, "0_3_3_0", "ch2"],
    ["end", 910, "0_3_3_0"],
)


def removed(failed: int = 60, other: int = 70) -> tuple[Fact, ...]:
    """Return the facts of an insert of ch1, which removes its part before the quorum fails, and of
    an empty part on ch2 in its place."""
    part = "0_1_1_0"
    return (
        ["begin", 10, part, 2],
        ["commit", 10, part, 7],
        ["hold", 10, part, "ch1"],
        ["drop", 30, part, "ch1"],
        ["fail", failed, part],
        ["hold", other, part, "ch2"],
    )


ACKNOWLEDGED = insert(0, 1, 5, 65)
TRIED = insert(0, 1, 5, 60, "info")
RETRIED = insert(1, 1, 890, 920, node="ch2")
WAITED = insert(1, 1, 100, 810, node="ch2")
BOTH = final(2, [1, 1], 2000, 2010)
NEITHER = final(2, [], 2000, 2010)


@pytest.mark.parametrize(
    ("version", "calls", "facts", "expected"),
    [
        (
            "25.8.2",
            (TRIED, RETRIED, BOTH),
            (*failing("0_1_1_0", (70, "0_0_1_1", "ch1")), *AGAIN),
            ("known", ["pending-merged"]),
        ),
        ("25.8.2", (TRIED, RETRIED, BOTH), (*failing("0_1_1_0"), *AGAIN), NEW),
        (
            "25.8.2",
            (TRIED, RETRIED, BOTH),
            (*failing("0_1_1_0", (850, "0_0_1_1", "ch1")), *AGAIN),
            NEW,
        ),
        (
            "18.16.1",
            (TRIED, RETRIED, BOTH),
            (*failing("0_1_1_0", (70, "0_0_1_1", "ch1")), *AGAIN),
            NEW,
        ),
        ("25.8.2", (TRIED, WAITED, NEITHER), failing("0_1_1_0"), ("known", ["failed-duplicate"])),
        ("25.8.2", (TRIED, WAITED, NEITHER), failing("0_1_1_0", failed=900), NEW),
        ("25.8.2", (TRIED, RETRIED, NEITHER), (*failing("0_1_1_0"), *AGAIN), NEW),
        ("18.16.1", (TRIED, WAITED, NEITHER), failing("0_1_1_0"), NEW),
        *(
            (version, (ACKNOWLEDGED, NEITHER), removed(), ("known", ["acknowledged-failure"]))
            for version in ("18.16.1", "25.8.2")
        ),
        ("25.8.2", (ACKNOWLEDGED, NEITHER), removed(failed=800), NEW),
        ("25.8.2", (ACKNOWLEDGED, NEITHER), removed(other=20), NEW),
        ("25.8.2", (ACKNOWLEDGED, NEITHER), failing("0_1_1_0", failed=60), NEW),
    ],
)
def test_failed_quorums_are_explained_by_merges_by_who_waited_and_by_who_removed_the_part(
    version: str, calls: tuple[Events, ...], facts: Sequence[Any], expected: tuple[str, list[str]]
) -> None:
    assert (
        explained(
            SetFull(linearizable=True),
            *calls,
            rest(1000, ch1={}, ch2={}, ch3={}),
            trace(version, *facts),
        )
        == expected
    )
