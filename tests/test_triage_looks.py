"""Known defects explain what looks at rest show, of objects, columns, tasks, shards and parts, only
where the record proves their mechanism. Times are in ms."""

from collections.abc import Sequence
from typing import Any

import pytest
from checkers_cases import _nemesis, fault, final, history, insert, rest, told

from checkers.ddl.alters import ADD, COLUMNS, Alters
from checkers.ddl.ddl import EFFECTS, TASKS, Ddl
from checkers.ddl.optimize import OPTIMIZE, Optimize
from checkers.judge import judge
from checkers.ladder import Level
from checkers.replication.distributed import Distributed
from checkers.replication.objects import (
    DROP,
    FINAL_LOOK,
    FINAL_STORE,
    LOOK,
    REATTACH,
    REBUILD,
    Objects,
)
from checkers.sets.unknown_outcomes import UnknownOutcomes
from harness.core.protocols import Checker
from harness.core.verdict import Status

Fact = list[Any]
Events = list[Any]
NEW: tuple[str, list[str]] = ("new", [])


def trace(version: str, *facts: Fact, gaps: Sequence[str] = ()) -> Events:
    value = {
        "table": "/t",
        "versions": [version],
        "keepers": {"ch1": ["zk1"], "ch2": ["zk2"], "ch3": ["zk3"]},
        "facts": sorted(facts, key=lambda fact: fact[1]),
        "ended": "",
        "gaps": [*gaps],
    }
    return _nemesis("trace", 90_000, "ok", value)


def explained(checker: Checker, *calls: Events) -> tuple[str, list[str]]:
    found = judge(history(*calls), (checker,), 60, Level.EVENTUAL, explain=True)
    assert found.status is Status.INVALID
    assert found.explanation is not None
    return found.explanation.status, [one.name for one in found.explanation.defects]


FILES = {"data.bin": "a/k1", "checksums.txt": "a/k2"}
PART = {"0_0_0_0": FILES}


def put(source: str, ago_s: float) -> dict[str, Any]:
    return {"method": "PUT", "source": source, "status": 200, "ago_s": ago_s}


def objects(
    *calls: Events,
    orphans: Sequence[str] = ("a/k3", "a/k4"),
    requests: dict[str, Any] | None = None,
    second: dict[str, Any] = PART,
    locks: dict[str, Any] | None = None,
) -> tuple[Events, ...]:
    """Return the looks at rest: at 30 s at each replica, and at 40 s at the store, which has two
    objects of the part 0_0_0_0 and the orphans."""
    looks = [
        told(
            FINAL_LOOK,
            {"parts": parts, "held": [], "references": 2, "missing": {}, "requests": {}},
            30_000,
            node=node,
            process=process,
        )
        for process, node, parts in ((3, "ch1", PART), (4, "ch2", second))
    ]
    said = {
        "objects": dict.fromkeys((*FILES.values(), *orphans), 9),
        "locks": locks or {"0_0_0_0": {"a_k2": ["ch1", "ch2"]}},
        "requests": requests or {},
    }
    return (
        insert(0, 7, 0, 1),
        *calls,
        rest(20_000, ch1={}, ch2={}),
        final(0, [7], 21_000, 21_001),
        final(2, [7], 21_000, 21_001, node="ch2"),
        *looks,
        told(FINAL_STORE, said, 40_000, 40_000),
    )


OBJECTS = Objects(zero_copy=True)
WRITTEN = {"a/k3": [put("ch1", 35.0)], "a/k4": [put("ch1", 34.99)]}
KILLED = fault(5_300, 9_000, "ch1", "kill-clickhouse-one")
CUT_OFF = insert(1, 8, 4_900, 5_300, "info", error="210 NETWORK_ERROR: end of file")
CANCELLED = insert(1, 8, 4_900, 5_200, "fail", error="394 QUERY_WAS_CANCELLED")
DROPPING = told(DROP, None, 4_950, 5_250, node="ch2", key=0, process=5)
FETCHED = (
    ["lock", 1_000, "0_1_1_0", "a_k4", "ch1", False],
    ["lock", 2_000, "0_1_1_0", "a_k4", "ch2", True],
    ["unlock", 3_000, "0_1_1_0", "a_k4", "ch1"],
    ["unlock", 7_000, "0_1_1_0", "a_k4", "ch2"],
)
GIVEN_UP = (FETCHED[0], FETCHED[1], ["unlock", 2_500, *FETCHED[3][2:]], FETCHED[2])
MOVED = told("move", {"to": "remote"}, 900, node="ch2", key=0, process=5, asked={"to": "remote"})
REFUSED = {
    key: [put("ch1", 35.0), {**put("ch1", 20.0), "method": "POST", "status": 503, "fault": "x"}]
    for key in ("a/k3", "a/k4")
}
RETRIED = {key: [*of, {**of[-1], "status": 200}] for key, of in REFUSED.items()}
IDLE = {"0_0_0_0": {"a_k2": ["ch1", "ch2"]}, "0_1_1_0": {"a_k4": ["ch2"]}}
FORGOTTEN = told(
    REBUILD, None, 1_500, 9_000, node="ch2", kind="info", asked={"by": "another"}, process=6
)
LEFT = (FETCHED[0], ["lock", 2_000, "0_1_1_0", "a_k4", "ch2", False], FETCHED[2])
COPY = {"0_0_0_0": {"data.bin": "a/k3", "checksums.txt": "a/k4"}}
TWO = {"0_0_0_0": {"a_k2": ["ch1"], "a_k4": ["ch2"]}}
COPYING = (
    ["lock", 1_000, "0_0_0_0", "a_k2", "ch1", False],
    ["lock", 6_000, "0_0_0_0", "a_k4", "ch2", False],
)
MOVING = (
    told("move", {"to": "remote"}, 950, 2_000, node="ch1", key=0, process=5),
    told("move", {"to": "remote"}, 500, 6_500, node="ch2", key=0, process=6),
    fault(600, 5_000, "ch2", "pause-clickhouse-one"),
)
ATTACHED = told(REATTACH, (7,), 900, 1_100, node="ch1", key=0, process=5)
ASKED = (COPYING[0], ["lock", 5_000, "0_0_0_0", "a_k2", "ch2", True], COPYING[1])
ERRORS = fault(500, 9_000, "store", "store-errors")
RELEASED = (FETCHED[0], ["unlock", 7_000, "0_1_1_0", "a_k4", "ch1"])


def released_copy(at_ms: int) -> tuple[Fact, ...]:
    """Return the facts of a copy of the same part that ch2 made and gave up."""
    of = ["0_1_1_0", "a_k9", "ch2"]
    return ["lock", 1_200, *of, False], ["unlock", at_ms, *of]


CLAIMED = ["claim", 4_000, "0_1_1_0_5", "ch1"]
EXPIRED = (CLAIMED, ["unclaim", 6_000, "0_1_1_0_5", "ch1", True])
UNHEARD = insert(1, 8, 4_900, 5_300, "info", error="999 KEEPER_EXCEPTION: Session expired")


@pytest.mark.parametrize(
    ("calls", "facts", "expected"),
    [
        (objects(CUT_OFF, KILLED, requests=WRITTEN), (), ("known", ["orphaned-insert"])),
        (objects(CUT_OFF, requests=WRITTEN), (), NEW),
        (objects(CANCELLED, KILLED, requests=WRITTEN), (), NEW),
        (objects(CUT_OFF, DROPPING, KILLED, requests=WRITTEN), (), NEW),
        (objects(KILLED, requests={k: [put("ch2", 35.0)] for k in WRITTEN}), (), NEW),
        (objects(fault(8_300, 9_000, "ch1", "kill"), requests=WRITTEN), (), NEW),
        (objects(requests=WRITTEN), FETCHED, ("known", ["orphaned-fetch"])),
        (objects(requests=WRITTEN), GIVEN_UP, NEW),
        (objects(requests=WRITTEN), (*FETCHED, ["lock", 2_800, *FETCHED[1][2:5], False]), NEW),
        (objects(CUT_OFF, KILLED, requests=WRITTEN), GIVEN_UP, NEW),
        (objects(MOVED, requests=WRITTEN), FETCHED, ("known", ["orphaned-move"])),
        (objects(MOVED, requests=WRITTEN, locks=IDLE), FETCHED[:3], ("known", ["orphaned-move"])),
        (objects(requests=REFUSED), (), ("known", ["orphaned-drop"])),
        (objects(requests=RETRIED), (), NEW),
        (objects(FORGOTTEN, requests=WRITTEN, locks=IDLE), LEFT, ("known", ["dropped-replica"])),
        (objects(requests=WRITTEN, locks=IDLE), LEFT, NEW),
        (
            objects(ERRORS, second=COPY, locks=TWO, requests=WRITTEN),
            COPYING,
            ("known", ["copied-part"]),
        ),
        (objects(second=COPY, locks=TWO, requests=WRITTEN), COPYING, NEW),
        (
            objects(*MOVING, second=COPY, locks=TWO, requests=WRITTEN),
            COPYING,
            ("known", ["moved-twice"]),
        ),
        (objects(*MOVING[:2], second=COPY, locks=TWO, requests=WRITTEN), COPYING, NEW),
        (objects(*MOVING[1:], second=COPY, locks=TWO, requests=WRITTEN), COPYING, NEW),
        (
            objects(ATTACHED, second=COPY, locks=TWO, requests=WRITTEN),
            COPYING,
            ("known", ["attach-own-copy"]),
        ),
        (objects(ATTACHED, second=COPY, locks=TWO, requests=WRITTEN), ASKED, NEW),
        (objects(ERRORS, second=COPY, locks=TWO, requests=WRITTEN), COPYING[:1], NEW),
        (objects(requests=WRITTEN), EXPIRED, ("known", ["orphaned-commit"])),
        (objects(requests=WRITTEN), (CLAIMED, [*EXPIRED[1][:4], False]), NEW),
        (objects(requests=WRITTEN), tuple([*of[:3], "ch2", *of[4:]] for of in EXPIRED), NEW),
        (objects(requests=WRITTEN), (["claim", 5_500, *CLAIMED[2:]], EXPIRED[1]), NEW),
        (objects(KILLED, requests=WRITTEN), EXPIRED, ("known", ["orphaned-insert"])),
        (
            objects(UNHEARD, requests=WRITTEN),
            (["inactive", 5_200, "ch1"],),
            ("known", ["orphaned-commit"]),
        ),
        (objects(UNHEARD, requests=WRITTEN), (["inactive", 5_200, "ch2"],), NEW),
        (
            objects(requests=WRITTEN),
            (*RELEASED, ["inactive", 7_500, "ch1"]),
            ("known", ["orphaned-unlock"]),
        ),
        (objects(requests=WRITTEN), (*RELEASED, ["inactive", 6_500, "ch1"]), NEW),
        (objects(requests=WRITTEN), (*RELEASED, ["inactive", 18_000, "ch1"]), NEW),
        (
            objects(requests=WRITTEN),
            (*RELEASED, *released_copy(7_003)),
            ("known", ["orphaned-unlock"]),
        ),
        (objects(requests=WRITTEN), (*RELEASED, *released_copy(7_100)), NEW),
        (objects(UNHEARD, requests=WRITTEN), (["inactive", 4_900, "ch1"],), NEW),
    ],
)
def test_objects_are_explained_by_the_stores_log_and_the_locks(
    calls: tuple[Events, ...], facts: tuple[Fact, ...], expected: tuple[str, list[str]]
) -> None:
    version = "24.8.4" if expected[1] == ["moved-twice"] else "25.8.2"
    assert explained(OBJECTS, *calls, trace(version, *facts)) == expected


DELETED = {"method": "POST", "source": "ch2", "status": 200, "ago_s": 10.0}


def restored(begin: int, **request: Any) -> tuple[Events, ...]:
    """Return a restore of ch2, and a look at ch1 at 20 s, whose part lacks an object that was
    deleted at 10 s."""
    missing = {"parts": PART, "held": [], "references": 2, "missing": {"0_0_0_0": ["a/k1"]}}
    look = {**missing, "requests": {"a/k1": [put("ch1", 19.0), {**DELETED, **request}]}}
    return (
        told("restore", None, begin, begin + 3_000, node="ch2", process=6),
        told(LOOK, look, 19_999, 20_000, process=7),
    )


@pytest.mark.parametrize(
    ("calls", "version", "expected"),
    [
        (restored(9_000), "25.8.2", ("known", ["restored-replica"])),
        (restored(11_000), "25.8.2", NEW),
        (restored(9_000, source="ch1"), "25.8.2", NEW),
        (restored(9_000, status=503), "25.8.2", NEW),
        (restored(9_000), "24.8.4", NEW),
    ],
)
def test_a_missing_object_is_explained_by_who_deleted_it(
    calls: tuple[Events, ...], version: str, expected: tuple[str, list[str]]
) -> None:
    every = objects(*calls, orphans=())
    assert explained(OBJECTS, *every, trace(version)) == expected


def test_an_object_that_an_active_part_lacks_is_never_explained() -> None:
    parts = {"parts": PART, "held": [], "references": 2, "missing": {"0_0_0_0": ["a/k1"]}}
    look = told(FINAL_LOOK, {**parts, "requests": {}}, 30_500, node="ch1", process=9)
    calls = objects(CUT_OFF, KILLED, look, told(DROP, None, 60, key=3, process=8), requests=WRITTEN)
    status, _ = explained(OBJECTS, *calls, trace("25.8.2"))
    assert status == "partly"


def columns(**finals: Sequence[str]) -> tuple[Events, ...]:
    """Return an acknowledged ADD of each of c1 and c2, and the columns of each replica at rest."""
    return (
        told(ADD, 1, 10, 20, node="ch1", asked=1),
        told(ADD, 2, 110, 120, node="ch2", process=1, asked=2),
        rest(1_000, **{node: {} for node in finals}),
        *(
            told(
                COLUMNS,
                {"columns": [*names], "version": 2, "shared": 2},
                1_010 + at,
                node=node,
                process=2 + at,
            )
            for at, (node, names) in enumerate(finals.items())
        ),
    )


def listed(*lists: tuple[int, Sequence[str]]) -> list[Fact]:
    return [["columns", at, [*names]] for at, names in lists]


LOST = columns(ch1=["key", "c2"], ch2=["key", "c2"])
OLD = listed((1, ["key"]), (15, ["key", "c1"]), (115, ["key", "c2"]))


@pytest.mark.parametrize(
    ("version", "facts", "expected"),
    [
        ("18.16.1", OLD, ("known", ["undone-alter"])),
        ("25.8.2", OLD, NEW),
        ("18.16.1", listed((1, ["key"]), (15, ["key", "c1"]), (115, ["key", "c1", "c2"])), NEW),
        ("18.16.1", listed((1, ["key"]), (115, ["key", "c2"])), NEW),
    ],
)
def test_a_lost_column_is_explained_by_a_list_made_from_an_old_one(
    version: str, facts: list[Fact], expected: tuple[str, list[str]]
) -> None:
    assert explained(Alters(), *LOST, trace(version, *facts)) == expected
    assert explained(Alters(), *LOST, trace(version, *facts, gaps=["0x9"])) == NEW


ADDED = listed((1, ["key"]), (15, ["key", "c1"]), (115, ["key", "c1", "c2"]))
AGAIN: list[Fact] = [["active", 0, "ch2"], ["active", 60, "ch2"], ["applied", 16, "ch2", ["key"]]]


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (AGAIN, ("known", ["deaf-replica"])),
        (AGAIN[:1], NEW),
        ([*AGAIN, ["applied", 61, "ch2", ["key"]]], NEW),
    ],
)
def test_a_replica_that_follows_no_alter_since_its_session_ended_is_deaf(
    facts: list[Fact], expected: tuple[str, list[str]]
) -> None:
    calls = list(columns(ch1=["key", "c1", "c2"], ch2=["key", "c1"]))
    calls[-1][1].op["value"]["version"] = 1
    assert explained(Alters(), *calls, trace("18.16.1", *ADDED, *facts)) == expected


EXISTS = "44, e.displayText() = DB::Exception: Cannot add column c_7: it already exists"


def tasks(*calls: Events, task: str = "alter:7", status: str = EXISTS, has: bool = True) -> Any:
    effects = [task] if has else []
    return (
        told(task.split(":")[0], 7, 10, 900, node="ch1", kind="info", asked=7),
        *calls,
        told(TASKS, {"tasks": {task: {"ch1": "0", "ch2": status}}}, 5_000, process=3),
        told(EFFECTS, {"effects": effects}, 5_010, node="ch1", process=4),
        told(EFFECTS, {"effects": effects}, 5_010, node="ch2", process=5),
    )


DIES = fault(500, 700, "ch2", "kill-clickhouse-one")


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        (tasks(DIES), ("known", ["ddl-twice"])),
        (tasks(), NEW),
        (tasks(fault(500, 700, "ch1", "kill-clickhouse-one")), NEW),
        (tasks(fault(5, 7, "ch2", "kill-clickhouse-one")), NEW),
        (tasks(DIES, status="241, Memory limit exceeded"), NEW),
    ],
)
def test_a_statement_is_executed_twice_by_a_host_that_was_killed_meanwhile(
    calls: tuple[Events, ...], expected: tuple[str, list[str]]
) -> None:
    assert explained(Ddl(), *calls, trace("18.16.1"), trace("18.16.1")) == expected


def test_a_column_of_a_replicated_table_that_was_undone_is_explained() -> None:
    calls = tasks(task="alter-replicated:7", status="0", has=False)
    undone = listed((1, ["key"]), (15, ["key", "r_7"]), (115, ["key", "r_8"]))
    assert explained(Ddl(), *calls, trace("18.16.1", *undone)) == ("known", ["undone-alter"])
    assert explained(Ddl(), *calls, trace("18.16.1")) == NEW


def sharded(*calls: Events, broken: int = 1) -> tuple[Events, ...]:
    """Return an insert of 1 on ch1 that the second shard lacks, and what each replica has."""
    return (
        insert(0, 1, 10, 20, key=None),
        *calls,
        rest(
            1_000,
            ch1={"shard": 0, "broken_files": broken},
            ch2={"shard": 1, "broken_files": 0},
        ),
        final(1, [1], 1_010, 1_020, key=None),
        final(2, [], 1_010, 1_020, key=None, node="ch2"),
    )


RECEIVER = fault(30, 500, "ch2", "kill-clickhouse-one")


@pytest.mark.parametrize(
    ("calls", "version", "expected"),
    [
        (sharded(RECEIVER), "18.16.1", ("known", ["lost-distributed-insert"])),
        (sharded(RECEIVER), "25.8.2", NEW),
        (sharded(RECEIVER, broken=0), "18.16.1", NEW),
        (sharded(), "18.16.1", NEW),
        (sharded(fault(30, 500, "ch1", "kill-clickhouse-one")), "18.16.1", NEW),
    ],
)
def test_a_row_is_lost_if_its_file_was_given_up_for_its_receiver_was_killed(
    calls: tuple[Events, ...], version: str, expected: tuple[str, list[str]]
) -> None:
    checker = Distributed(every_copy=True, replicated=True)
    assert explained(checker, *calls, trace(version), trace(version)) == expected


TIMEOUT = "-3 CLIENT_TIMEOUT: timed out"


def on_disk(part: str, *facts: Fact, second: int = 2) -> tuple[Events, ...]:
    """Return two inserts on ch1 of unknown outcome at once, of which one was committed; at rest ch1
    has both values and a part more."""
    return (
        insert(0, 1, 10, 900, "info", error=TIMEOUT),
        insert(1, second, 11, 901, "info", error=TIMEOUT),
        rest(1_000, ch1={"active": {"0_1_1_0": [], part: []}}, ch2={"active": {"0_1_1_0": []}}),
        final(2, [1, second], 1_010, 1_020),
        final(3, [1], 1_010, 1_020, node="ch2"),
        trace(
            "18.16.1",
            ["commit", 20, "0_1_1_0", 7],
            ["hold", 20, "0_1_1_0", "ch1", 0],
            ["hold", 30, "0_1_1_0", "ch2", 0],
            *facts,
        ),
    )


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        (on_disk("0_2_2_0"), ("known", ["phantom-part"])),
        (on_disk("0_2_2_0", ["hold", 40, "0_2_2_0", "ch1", 0]), NEW),
        (on_disk("0_2_3_1"), NEW),
        (on_disk("7_2_2_0"), NEW),
    ],
)
def test_a_part_on_disk_that_was_never_registered_has_the_value_that_others_lack(
    calls: tuple[Events, ...], expected: tuple[str, list[str]]
) -> None:
    assert explained(UnknownOutcomes(), *calls) == expected


MERGED = "5_0_1_1"


def optimized(*has: str) -> tuple[Events, ...]:
    parts = {"ch1": [MERGED], "ch2": [*has]}
    value = {"sync": 2, "waits": ["ch1", "ch2"], "parts": parts}
    return (told(OPTIMIZE, value, 100, 200, key=5),)


CLONED: list[Fact] = [
    ["hold", 120, MERGED, "ch1", 0],
    ["lost", 50, "ch2", True],
    ["lost", 150, "ch2", False],
    ["hold", 300, MERGED, "ch2", 0],
]


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (CLONED, ("known", ["unwaited-clone"])),
        (CLONED[:1], NEW),
        ([CLONED[0], ["lost", 50, "ch1", True]], NEW),
        ([*CLONED[:2], ["lost", 110, "ch2", False]], NEW),
        ([CLONED[0], ["lost", 250, "ch2", True]], NEW),
    ],
)
def test_optimize_returns_without_a_replica_that_cloned_another(
    facts: list[Fact], expected: tuple[str, list[str]]
) -> None:
    assert explained(Optimize(), *optimized(), trace("25.8.2", *facts)) == expected
