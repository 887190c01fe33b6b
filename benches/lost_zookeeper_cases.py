"""Tables and databases of which ZooKeeper loses what it knows, and what an operator may try."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

EACH: Final = "each"
"""Every replica, one after the other."""
LOST: Final = "lost"
REWOUND: Final = "rewound"
ENDS: Final = (LOST, REWOUND)
"""What becomes of ZooKeeper's data: it is gone, or an older copy is put back."""


@dataclass(frozen=True, slots=True)
class Step:
    """A statement on a replica, or on `EACH`, in which {db} is the database of the case, {path} its
    place in ZooKeeper, {node} the replica and {number} its number. Instead of a statement, "RESTART
    SERVER" kills and starts the server, and "MOVE a b" renames a directory of detached parts of
    table t."""

    node: str
    sql: str


@dataclass(frozen=True, slots=True)
class Try:
    """What an operator tries."""

    name: str
    steps: Sequence[Step]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What there is, what changes after the copy, and what is tried in the end."""

    name: str
    before: Sequence[Step]
    later: Sequence[Step] = ()
    """Changes that the copy of ZooKeeper's data lacks."""
    looks: Sequence[tuple[str, str]]
    """Queries of one text each, by name, that are made on every replica."""
    tries: Sequence[Try]
    ends: Sequence[str] = ENDS
    """What may become of ZooKeeper's data."""


def each(*statements: str) -> tuple[Step, ...]:
    """Return these statements on every replica: the first on each, then the second on each."""
    return tuple(Step(EACH, sql) for sql in statements)


def on(node: str, *statements: str) -> tuple[Step, ...]:
    """Return these statements on one replica."""
    return tuple(Step(node, sql) for sql in statements)


_TABLE: Final = (
    "CREATE TABLE {db}.t (p Int64, id Int64) ENGINE = "
    "ReplicatedMergeTree('{path}/t', '{node}') PARTITION BY p ORDER BY id"
)
_ROWS: Final = (
    *each("CREATE DATABASE {db}", _TABLE),
    *on("ch1", *(f"INSERT INTO {{db}}.t VALUES (0, {row})" for row in range(4))),
    *each("SYSTEM SYNC REPLICA {db}.t"),
)
_FIFTH: Final = (
    *on("ch1", "INSERT INTO {db}.t VALUES (0, 4)"),
    *each("SYSTEM SYNC REPLICA {db}.t"),
)
_SHOWN: Final = ("rows", "SELECT toString(arraySort(groupArray(id))) FROM {db}.t")
_ASIDE: Final = (
    "aside",
    "SELECT arrayStringConcat(arraySort(groupArray(name)), ' ') FROM system.detached_parts "
    "WHERE database = '{db}' AND table = 't'",
)
_INSERT: Final = Try("insert row 9 on ch2", on("ch2", "INSERT INTO {db}.t VALUES (0, 9)"))
_RESTART: Final = Try("RESTART REPLICA", each("SYSTEM RESTART REPLICA {db}.t"))
_RESTORE: Final = Try("RESTORE REPLICA", each("SYSTEM RESTORE REPLICA {db}.t"))
_ANEW: Final = Try(
    "DETACH TABLE, DROP REPLICA, ATTACH TABLE, RESTORE REPLICA",
    each(
        "DETACH TABLE {db}.t SYNC",
        "SYSTEM DROP REPLICA '{node}' FROM ZKPATH '{path}/t'",
        "ATTACH TABLE {db}.t",
        "SYSTEM RESTORE REPLICA {db}.t",
    ),
)
_BACK: Final = ("MOVE ignored_0_4_4_0 0_4_4_0", "ALTER TABLE {db}.t ATTACH PART '0_4_4_0'")
_MAP: Final = (
    "CREATE TABLE {db}.k (id Int64, v Int64) ENGINE = KeeperMap('/lost_{db}') PRIMARY KEY id"
)
_PAIRS: Final = ("rows", "SELECT toString(arraySort(groupArray((id, v)))) FROM {db}.k")
_MAP_TRIES: Final = (
    Try("insert row 9 on ch2", on("ch2", "INSERT INTO {db}.k VALUES (9, 9)")),
    Try("restart of the servers", each("RESTART SERVER")),
    Try("DETACH, ATTACH TABLE", each("DETACH TABLE {db}.k SYNC", "ATTACH TABLE {db}.k")),
    Try("DROP, CREATE TABLE on ch1", on("ch1", "DROP TABLE {db}.k SYNC", _MAP)),
    Try("the same on the others", (*on("ch2", "DROP TABLE {db}.k SYNC", _MAP),
                                   *on("ch3", "DROP TABLE {db}.k SYNC", _MAP))),
    Try("insert row 8 on ch2", on("ch2", "INSERT INTO {db}.k VALUES (8, 8)")),
)  # fmt: skip
_DATABASE: Final = "CREATE DATABASE {db} ENGINE = Replicated('{path}', '1', '{node}')"
_NAMES: Final = (
    "tables",
    "SELECT arrayStringConcat(arraySort(groupArray(name)), ' ') FROM system.tables "
    "WHERE database = '{db}'",
)
_PARTS: Final = (
    "parts",
    "SELECT toString(arraySort(groupArray((table, rows)))) FROM "
    "(SELECT table, sum(rows) AS rows FROM system.parts WHERE active AND startsWith(database, "
    "'{db}') GROUP BY table)",
)
_OTHERS: Final = (
    "others",
    "SELECT arrayStringConcat(arraySort(groupArray(name)), ' ') FROM system.databases "
    "WHERE startsWith(name, '{db}_')",
)
_PLAIN: Final = "CREATE TABLE {db}.%s (id Int64) ENGINE = MergeTree ORDER BY id"

CASES: Final = (
    Case(
        name="restored", before=_ROWS, later=_FIFTH, looks=(_SHOWN, _ASIDE),
        tries=(_INSERT, _RESTART, _RESTORE, _INSERT), ends=(LOST,),
    ),
    Case(
        name="restarted",
        before=_ROWS,
        later=_FIFTH,
        looks=(_SHOWN, _ASIDE),
        tries=(
            _RESTART,
            _RESTORE,
            Try("ATTACH PARTITION on ch1", on("ch1", "ALTER TABLE {db}.t ATTACH PARTITION 0")),
            Try(
                "ATTACH PART 'ignored_…' on ch1",
                on("ch1", "ALTER TABLE {db}.t ATTACH PART 'ignored_0_4_4_0'"),
            ),
            Try("rename, ATTACH PART on ch1", on("ch1", *_BACK)),
            _INSERT,
        ),
        ends=(REWOUND,),
    ),
    Case(
        name="restored before a restart", before=_ROWS, later=_FIFTH, looks=(_SHOWN, _ASIDE),
        tries=(_ANEW, _INSERT), ends=(REWOUND,),
    ),
    Case(
        name="restored after a restart", before=_ROWS, later=_FIFTH, looks=(_SHOWN, _ASIDE),
        tries=(_RESTART, _ANEW, _INSERT), ends=(REWOUND,),
    ),
    Case(
        name="restored, first a replica that lacks the row",
        before=_ROWS,
        later=(*on("ch1", "SYSTEM STOP FETCHES {db}.t"), *on("ch3", "SYSTEM STOP FETCHES {db}.t"),
               *on("ch2", "INSERT INTO {db}.t VALUES (0, 4)")),
        looks=(_SHOWN, _ASIDE),
        tries=(
            _ANEW,
            Try("ATTACH PART '0_4_4_0' on ch2",
                on("ch2", "ALTER TABLE {db}.t ATTACH PART '0_4_4_0'")),
            _INSERT,
        ),
        ends=(REWOUND,),
    ),
    Case(
        name="number given twice",
        before=_ROWS,
        later=(*on("ch2", "SYSTEM STOP FETCHES {db}.t"),
               *on("ch1", "INSERT INTO {db}.t VALUES (0, 4)"),
               *on("ch3", "SYSTEM SYNC REPLICA {db}.t")),
        looks=(_SHOWN, _ASIDE),
        tries=(
            Try("insert row 5 on ch2",
                on("ch2", "SYSTEM START FETCHES {db}.t", "INSERT INTO {db}.t VALUES (0, 5)")),
            _ANEW,
            Try("ATTACH PART '0_4_4_0' on ch2",
                on("ch2", "ALTER TABLE {db}.t ATTACH PART '0_4_4_0'")),
            _INSERT,
        ),
        ends=(REWOUND,),
    ),
    Case(
        name="refused, as most rows are newer",
        before=(*each("CREATE DATABASE {db}", _TABLE),
                *on("ch1", "INSERT INTO {db}.t VALUES (0, 0)"),
                *each("SYSTEM SYNC REPLICA {db}.t")),
        later=(*on("ch1", *(f"INSERT INTO {{db}}.t VALUES (0, {row})" for row in range(1, 5))),
               *each("SYSTEM SYNC REPLICA {db}.t")),
        looks=(_SHOWN, _ASIDE),
        tries=(_RESTART, _INSERT, _RESTORE, _ANEW, _INSERT),
        ends=(REWOUND,),
    ),
    Case(
        name="copied to another table before a restart",
        before=_ROWS,
        later=_FIFTH,
        looks=(
            _SHOWN,
            ("copy", "SELECT toString(arraySort(groupArray(id))) FROM {db}.u"),
        ),
        tries=(
            Try("CREATE TABLE u, ATTACH PARTITION FROM t", (
                *each(_TABLE.replace(".t ", ".u ").replace("/t'", "/u'")),
                *on("ch1", "ALTER TABLE {db}.u ATTACH PARTITION 0 FROM {db}.t"),
                *each("SYSTEM SYNC REPLICA {db}.u"),
            )),
        ),
        ends=(REWOUND,),
    ),
    Case(
        name="KeeperMap",
        before=(*each("CREATE DATABASE {db}", _MAP),
                *on("ch1", "INSERT INTO {db}.k VALUES (1, 0), (2, 0), (3, 0)")),
        later=on("ch1", "INSERT INTO {db}.k VALUES (4, 0)",
                 "ALTER TABLE {db}.k UPDATE v = 1 WHERE id = 2", "DELETE FROM {db}.k WHERE id = 3"),
        looks=(_PAIRS,),
        tries=_MAP_TRIES,
    ),
    Case(
        name="KeeperMap, made later",
        before=each("CREATE DATABASE {db}"),
        later=(*each(_MAP), *on("ch1", "INSERT INTO {db}.k VALUES (1, 0)")),
        looks=(_PAIRS,),
        tries=_MAP_TRIES,
        ends=(REWOUND,),
    ),
    Case(
        name="Replicated database",
        before=(
            *each(_DATABASE),
            *on("ch1", _PLAIN % "p", _PLAIN % "x",
                "CREATE TABLE {db}.q (id Int64) ENGINE = ReplicatedMergeTree ORDER BY id"),
            *each("INSERT INTO {db}.p VALUES ({number})", "INSERT INTO {db}.x VALUES ({number})"),
            *on("ch1", "INSERT INTO {db}.q VALUES (1)"),
            *each("SYSTEM SYNC REPLICA {db}.q"),
        ),
        later=(
            *on("ch1", _PLAIN % "later", "DROP TABLE {db}.x SYNC"),
            *each("INSERT INTO {db}.later VALUES ({number})"),
        ),
        looks=(_NAMES, _PARTS, _OTHERS),
        tries=(
            Try("CREATE TABLE y through ch1", on("ch1", _PLAIN % "y")),
            Try("CREATE TABLE z through ch2", on("ch2", _PLAIN % "z")),
            Try("SYNC DATABASE REPLICA", each("SYSTEM SYNC DATABASE REPLICA {db}")),
            Try("RESTORE DATABASE REPLICA", each("SYSTEM RESTORE DATABASE REPLICA {db}")),
            Try("restart of the servers", each("RESTART SERVER")),
            Try("RESTORE DATABASE REPLICA", each("SYSTEM RESTORE DATABASE REPLICA {db}")),
            Try("RESTART REPLICA q", each("SYSTEM RESTART REPLICA {db}.q")),
            Try("RESTORE REPLICA q", each("SYSTEM RESTORE REPLICA {db}.q")),
            Try("CREATE TABLE w through ch2", on("ch2", _PLAIN % "w")),
            Try("INSERT INTO q on ch3", on("ch3", "INSERT INTO {db}.q VALUES (2)")),
            Try("copy p into an Atomic database", each(
                "CREATE DATABASE {db}_copy",
                (_PLAIN % "p").replace("{db}", "{db}_copy"),
                "ALTER TABLE {db}_copy.p ATTACH PARTITION tuple() FROM {db}.p",
            )),
            Try("DROP, CREATE DATABASE", each("DROP DATABASE {db} SYNC", _DATABASE)),
            Try("CREATE TABLE v through ch2", on("ch2", _PLAIN % "v")),
        ),
    ),
)  # fmt: skip
