"""Scripts in which a replica of a Replicated database misses more statements than the log of the
database keeps, so that it takes the definitions of its tables from ZooKeeper when it starts.

By `DatabaseReplicated::recoverLostReplica` a table with another definition there is put aside in
the database `..._broken_tables` if it stores rows on a disk, and dropped if it does not; the view
with a table of its own counts as one that does not."""

from collections.abc import Sequence
from dataclasses import replace

from harness.core.dialect import Mechanism
from harness.core.op import Call
from harness.generators.script import Do, ScriptStep
from workloads.database_set import DatabaseSet
from workloads.scenarios.scenario import Finding, Scenario
from workloads.scenarios.steps import KILL, insert, killed

AWAY = killed("ch2")
VALUES = range(3)
_PLAIN = "CREATE TABLE {db}.t (value Int64) ENGINE = MergeTree ORDER BY value"


def _scenario(
    name: str, text: str, workload: DatabaseSet, nodes: Sequence[str], steps: Sequence[ScriptStep]
) -> Scenario:
    """Return a scenario in which the last of these replicas has rows, and steps follow."""
    return Scenario(
        name=name,
        text=text,
        workload=replace(workload, name=f"scenario-{name}"),
        nemesis=KILL,
        steps=(*(Do(insert(value, nodes[-1])) for value in VALUES), *steps),
        finding=Finding("set-full", "lost"),
        needs=(Mechanism.REPLICATED_DATABASES,),
        replicas=len(nodes),
    )


def _behind(name: str, text: str, workload: DatabaseSet) -> Scenario:
    """Return a scenario in which ch2 has rows, and misses statements about their table."""
    steps = (
        *AWAY.begins,
        Do(Call(f="miss", node="ch1")),
        Do(Call(f="outrun", node="ch1")),
        AWAY.ends,
    )
    return _scenario(name, text, workload, ("ch1", "ch2"), steps)


SET_ASIDE = _behind(
    "set-aside",
    "a replica of a Replicated database misses a changed comment, and more statements than the "
    "log keeps: the table is empty, and its acknowledged rows are in another database",
    DatabaseSet(create=(_PLAIN,), missed=("ALTER TABLE {db}.t MODIFY COMMENT 'changed'",)),
)
RENAMED_ASIDE = _behind(
    "renamed-aside",
    "the same with a RENAME TABLE: the table is empty under its new name, and its acknowledged "
    "rows are in another database",
    DatabaseSet(create=(_PLAIN,), missed=("RENAME TABLE {db}.t TO {db}.renamed",), shown="renamed"),
)
DROPPED_VIEW = _behind(
    "dropped-view",
    "the same with a materialized view that has a table of its own, and MODIFY QUERY: the rows of "
    "the view are in no table",
    DatabaseSet(
        create=(
            _PLAIN,
            "CREATE MATERIALIZED VIEW {db}.view ENGINE = MergeTree ORDER BY value "
            "AS SELECT value FROM {db}.t",
        ),
        missed=("ALTER TABLE {db}.view MODIFY QUERY SELECT value FROM {db}.t WHERE value >= 0",),
        shown="view",
    ),
)
ALONE = killed("ch1")
DROPPED_MAP = _scenario(
    "dropped-map",
    "the comment of a KeeperMap table is changed in a Replicated database with one replica, whose "
    "server is killed and started: the acknowledged rows, which are in ZooKeeper, are removed",
    DatabaseSet(
        create=(
            "CREATE TABLE {db}.t (value Int64, more UInt8 DEFAULT 0) ENGINE = KeeperMap('/{db}') "
            "PRIMARY KEY value",
        ),
        missed=("ALTER TABLE {db}.t MODIFY COMMENT 'changed'",),
        log_kept=None,
    ),
    ("ch1",),
    (Do(Call(f="miss", node="ch1")), *ALONE.begins, ALONE.ends),
)
