"""ALTERs after which a table or its servers are gone, one that a replica never learns of, and one
ON CLUSTER that a host executes twice."""

from collections.abc import Sequence

from checkers.ddl.alters import COLUMNS
from checkers.ladder import Level
from harness.core.dialect import Mechanism
from harness.core.op import Call, Kind, Op
from harness.core.seed import Seed
from harness.generators.script import Do, Joined, Rest, ScriptStep, Then, Until
from workloads.alter import AlterOptions, alter
from workloads.ddl import DdlOptions, DdlWorkload
from workloads.scenarios.reads import behind_the_follower, cut_off
from workloads.scenarios.scenario import Finding, Scenario
from workloads.scenarios.steps import (
    COMMIT,
    KILL,
    MESSAGES,
    REPLICAS,
    SESSION_GONE_S,
    Ended,
    everywhere,
    held,
    insert,
    killed,
    message,
    once,
)
from workloads.scenarios.waits import sessions_gone
from workloads.scripted_set import ScriptedSet

UNFINISHED = (Kind.OK, Kind.INFO)
"""An ALTER says that a replica which is away has yet to follow."""

AWAY = killed("ch3")

MISSING_TABLE = Scenario(
    name="missing-table",
    text="a server that was away for three ALTERs ADD COLUMN comes back without the table",
    workload=ScriptedSet(name="scenario-missing-table", quorum=None, sequential=False),
    nemesis=KILL,
    steps=(
        Do(insert(0, "ch1")),
        *everywhere(0),
        *AWAY.begins,
        sessions_gone("ch1"),
        *(Do(Call(f="add-column", value=n, node="ch1"), ends=UNFINISHED) for n in range(3)),
        AWAY.ends,
    ),
    finding=Finding("answers", "unanswered"),
    quiesce_s=10,
)

SESSION_LOST_S = 6.0
"""A ZooKeeper server that hears no leader sends its clients away after 2 s, and a replica gives its
session up when it has waited 3 s for an answer."""
ROUNDS = 4


def _session_lost(number: int) -> tuple[ScriptStep, ...]:
    return (*cut_off(number).begins, Then(_altered_without))


def _altered_without(ended: tuple[Op, ...]) -> Sequence[ScriptStep]:
    """Return the steps in which the replica of the follower that was cut off loses its session, and
    gets another when it takes an insert, while another replica orders the ALTER."""
    behind, number = behind_the_follower(ended), _cuts(ended)
    other = next(node for node in REPLICAS if node != behind)
    return (
        Rest(SESSION_LOST_S),
        cut_off(number).ends,
        Until(insert(number, behind), Ended(), tries=60, pause_s=0.5),
        Do(Call(f="add-column", value=number, node=other), ends=UNFINISHED),
        Then(_if_all_followed),
    )


def _if_all_followed(ended: tuple[Op, ...]) -> Sequence[ScriptStep]:
    """Return the steps of a replica whose next session exists before it has seen the end of the
    last one: then it is notified, and the ALTER succeeds."""
    number = _cuts(ended)
    followed = Ended()(ended[-1])
    return _session_lost(number + 1) if followed and number < ROUNDS else ()


def _cuts(ended: tuple[Op, ...]) -> int:
    faults = [op.value for op in ended if op.f == "partition"]
    return sum(isinstance(fault, dict) and fault["edge"] == "begin" for fault in faults)


DEAF_REPLICA = Scenario(
    name="deaf-replica",
    text="a replica whose ZooKeeper session has ended takes inserts again, and no ALTER: its "
    "columns stay those that it had",
    workload=alter(AlterOptions(), Seed(1), Level.EVENTUAL, faults_expected=True),
    nemesis="partition-keeper-follower",
    steps=(Do(insert(0, "ch1")), *_session_lost(1)),
    finding=Finding("alters", "behind"),
    time_limit_s=180,
)

UNDONE_ALTER = Scenario(
    name="undone-alter",
    text="a replica that is restarted before its old session has ended follows no ALTER for ten "
    "seconds; an ALTER that it takes meanwhile removes what another one has added, everywhere",
    workload=alter(AlterOptions(), Seed(1), Level.EVENTUAL, faults_expected=True),
    nemesis=KILL,
    steps=(
        Do(insert(0, "ch1")),
        *everywhere(0),
        *AWAY.begins,
        AWAY.ends,
        # It found its old session's is_active, and tries again after ten seconds.
        Rest(SESSION_GONE_S - 2),
        Do(Call(f="add-column", value=1, node="ch1"), ends=UNFINISHED),
        *(Do(Call(f=COLUMNS, node=node)) for node in ("ch1", "ch2")),
        Do(Call(f="add-column", value=2, node="ch3"), ends=tuple(Kind)),
    ),
    finding=Finding("alters", "undone"),
)

DROP, RESTART = "zk-drop-applied", "restart-clickhouse-one"
UNHEARD, TORN = message(DROP, "ch1"), killed("ch1", number=2)

HALF_ALTER = Scenario(
    name="half-alter",
    text="a replica that is killed after it has written an ALTER's columns to ZooKeeper and before "
    "it has written them to its disk is read-only from then on; no restart mends it",
    workload=ScriptedSet(name="scenario-half-alter", quorum=None, sequential=False, final_insert=9),
    needs=(Mechanism.ALTER_IN_LOG,),
    nemesis=f"{DROP},{KILL},{RESTART}",
    steps=(
        Do(insert(0, "ch1")),
        *everywhere(0),
        *UNHEARD.begins,
        Do(Call(f="add-column", value=1, node="ch2")),
        # ZooKeeper has the columns of ch1; ch1 waits for the answer before it writes its own file.
        Joined(),
        *TORN.begins,
        UNHEARD.ends,
        TORN.ends,
        Do(once("restart", 3, RESTART, ["ch1"])),
    ),
    finding=Finding("answers", "unanswered"),
    quiesce_s=5,
)

CRASHING_MUTATION = Scenario(
    name="crashing-mutation",
    text="an ALTER UPDATE while an insert that came before it is about to be committed: every "
    "server of the table dies of a segmentation fault",
    workload=ScriptedSet(name="scenario-crashing-mutation", quorum=None, sequential=False),
    nemesis=MESSAGES,
    clients=2,
    steps=(
        held("hold", 1, "ch1", "multi", COMMIT),
        # It has its block number and is not committed before it is released.
        Do(insert(0, "ch1"), ends=tuple(Kind), wait=False),
        held("await", 2, "ch1", "multi", COMMIT),
        Do(Call(f="update", value=0, node="ch2"), by=1, ends=UNFINISHED),
        held("release", 3, "ch1", "multi", COMMIT),
        Joined(),
    ),
    finding=Finding("answers", "unanswered"),
    quiesce_s=5,
)


DROP = "ddl-drop-finish"
DROPPED, DEAD = message(DROP, "ch2"), killed("ch2", number=2)

DDL_TWICE = Scenario(
    name="ddl-twice",
    text="a host that dies after it has executed a statement ON CLUSTER and before it has said so "
    "executes it again, and reports the error of the second time",
    workload=DdlWorkload(DdlOptions(statements=1, task_timeout_s=4), Seed(1)),
    nemesis=f"{DROP},{KILL}",
    steps=(
        *DROPPED.begins,
        Do(Call(f="alter", value=0, node="ch1"), ends=(Kind.INFO,)),
        Joined(),
        *DEAD.begins,
        DROPPED.ends,
        DEAD.ends,
    ),
    finding=Finding("ddl", "executed-twice"),
)
