"""Statements by which operators recover a replica, and what comes before and after them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

OTHER: Final = 7
"""Row of the table from which a partition is fetched."""


@dataclass(frozen=True, slots=True)
class Step:
    """A statement on a replica, in which {table}, {path} and {create} are those of the table; or,
    on "zookeeper", a change of its tree."""

    node: str
    sql: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """A statement by which a replica is recovered, and what comes before and after it."""

    name: str
    text: str
    prepare: Sequence[Step] = ()
    statement: Step
    repeat: Sequence[Step] | None = None
    """How the statement is repeated, if in another way; (): the start of the server repeats it."""
    after: Sequence[Step] = ()
    own: bool = False
    """Whether the replica has a row that no other one has."""
    late: bool = False
    """Whether the log is cut behind the replica, between its preparation and the statement."""
    gains: bool = False
    """Whether the table has the row of the other table in the end."""


def _each(sql: str) -> tuple[Step, ...]:
    return tuple(Step(node, sql) for node in ("ch1", "ch2", "ch3"))


_AWAY: Final = Step("ch1", "DETACH TABLE {table}")
_BACK: Final = Step("ch1", "ATTACH TABLE {table}")
_DROP: Final = Step("ch2", "SYSTEM DROP REPLICA 'ch1' FROM TABLE {table}")
_ATTACH: Final = "ALTER TABLE {table} ATTACH PARTITION {partition}"
_CREATE: Final = Step("ch1", "{create}")
_FLAG: Final = Step("zookeeper", "flag {path}/replicas/ch1/flags/force_restore_data")
_RESTORE: Final = "SYSTEM RESTORE REPLICA {table}"


@dataclass(frozen=True, slots=True)
class Mend:
    """What an operator may do about what a recovery that was killed has left."""

    name: str
    steps: Sequence[Step]
    aside: bool = False
    """Whether it is for rows that are put aside, each step with their partition for {partition};
    otherwise it is for a replica that takes no inserts."""


MENDS: Final = (
    Mend("attach", (Step("ch1", _ATTACH),), aside=True),
    Mend("attach on ch2", (Step("ch2", _ATTACH),), aside=True),
    Mend("flag", (_AWAY, _FLAG, _BACK)),
    Mend("restore", (_AWAY, _DROP, _BACK, Step("ch1", _RESTORE))),
    Mend("recreate", (Step("ch1", "DROP TABLE IF EXISTS {table} SYNC"), _DROP, _CREATE)),
)
"""Tried one after the other, until the replica takes inserts."""

RECOVERIES: Final = (
    Recovery(
        name="restart-replica",
        text="SYSTEM RESTART REPLICA",
        statement=Step("ch1", "SYSTEM RESTART REPLICA {table}"),
    ),
    Recovery(
        name="reattach",
        text="DETACH TABLE and ATTACH TABLE",
        statement=Step("ch1", "DETACH TABLE {table}; ATTACH TABLE {table}"),
    ),
    Recovery(
        name="restore",
        text="SYSTEM RESTORE REPLICA on each, after the table's nodes were lost",
        prepare=(
            Step("zookeeper", "delete {path}"),
            *_each("SYSTEM RESTART REPLICA {table}"),
        ),
        statement=Step("ch1", _RESTORE),
        after=(Step("ch2", _RESTORE), Step("ch3", _RESTORE)),
    ),
    Recovery(
        name="restore-one",
        text="SYSTEM RESTORE REPLICA, after another replica has dropped it",
        prepare=(_AWAY, _DROP, _BACK),
        statement=Step("ch1", _RESTORE),
    ),
    Recovery(
        name="drop-replica",
        text="SYSTEM DROP REPLICA; the replica killed is the one that drops",
        prepare=(_AWAY,),
        statement=_DROP,
        after=(_BACK, Step("ch1", _RESTORE)),
    ),
    Recovery(
        name="recreate",
        text="DROP TABLE SYNC and CREATE TABLE on the replica",
        statement=Step("ch1", "DROP TABLE {table} SYNC; {create}"),
        repeat=(Step("ch1", "DROP TABLE IF EXISTS {table} SYNC; {create}"),),
    ),
    Recovery(
        name="fetch",
        text="FETCH PARTITION from another table, and ATTACH PARTITION",
        statement=Step(
            "ch1",
            f"ALTER TABLE {{table}} FETCH PARTITION {OTHER} FROM '{{other_path}}'; "
            f"ALTER TABLE {{table}} ATTACH PARTITION {OTHER}",
        ),
        gains=True,
    ),
    Recovery(
        name="force-restore",
        text="ATTACH TABLE with the flag force_restore_data, after the nodes of its parts were "
        "lost",
        prepare=(
            _AWAY,
            Step("zookeeper", "empty {path}/replicas/ch1/parts"),
            _FLAG,
        ),
        statement=_BACK,
        # Detached first, because the start of the server takes the flag, too.
        repeat=(_AWAY, _FLAG, _BACK),
    ),
    Recovery(
        name="clone",
        text="ATTACH TABLE of a lost replica, which clones another",
        prepare=(_AWAY,),
        late=True,
        statement=_BACK,
        repeat=(),
    ),
    Recovery(
        name="clone-own",
        text="the same, and the replica has an acknowledged row of its own",
        prepare=(_AWAY,),
        own=True,
        late=True,
        statement=_BACK,
        repeat=(),
    ),
)
