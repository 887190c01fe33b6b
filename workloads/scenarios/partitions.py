"""Scripts that show what is left behind when a partition is dropped or becomes empty."""

from checkers.availability.answers import Answers
from checkers.sets.convergence import Convergence
from checkers.stats import Stats
from harness.core.dialect import Mechanism
from harness.core.op import Call, Kind
from harness.generators.script import Do, Joined, Rest, Until
from workloads.scenarios.scenario import Finding, Scenario
from workloads.scenarios.steps import (
    KILL,
    LOG_TRUNCATED_S,
    PENDING,
    Lacks,
    everywhere,
    insert,
    killed,
    lurking,
    read,
    shows,
)
from workloads.scenarios.waits import log_read, lost, parts_gone, sessions_gone
from workloads.scripted_set import ScriptedSet
from workloads.table import SHORT_LOG

LOST = killed("ch3")


def _drop(key: int, node: str) -> Call:
    return Call(f="drop-partition", key=key, node=node)


UNREADABLE_TABLE = Scenario(
    name="unreadable-table",
    text="after DROP PARTITION of a partition that saw a quorum insert, every sequentially "
    "consistent read of the table is refused, whatever it asks for",
    workload=ScriptedSet(
        name="scenario-unreadable-table",
        # Rows that are dropped are no lost ones.
        judges=(Stats(min_ok={}, min_ok_total=1), Answers()),
    ),
    steps=(Do(insert(0, "ch1", key=0)), Do(insert(1, "ch1", key=1)), Do(_drop(0, "ch1"))),
    finding=Finding("answers", "unanswered"),
    quiesce_s=10,
)

EMPTIED_PARTITION = Scenario(
    name="emptied-partition",
    text="after ALTER DELETE of all rows of a partition that saw a quorum insert, every "
    "sequentially consistent read of the table is refused, whatever it asks for",
    workload=ScriptedSet(
        name="scenario-emptied-partition",
        table_settings={**SHORT_LOG, "max_cleanup_delay_period": 1},
        # Rows that a mutation deletes are no lost ones.
        judges=(Stats(min_ok={}, min_ok_total=1), Answers()),
    ),
    steps=(
        Do(insert(0, "ch1", key=0)),
        Do(insert(1, "ch1", key=1)),
        Do(Call(f="delete", key=0, value=0, node="ch1")),
        # The part without rows is removed.
        *parts_gone(10.0, 0, "ch1"),
    ),
    finding=Finding("answers", "unanswered"),
    needs=(Mechanism.WAITED_MUTATIONS,),
    quiesce_s=10,
)

UNWRITABLE_TABLE = Scenario(
    name="unwritable-table",
    text="after DROP PARTITION of a partition with a pending quorum insert, every quorum insert "
    "is refused for ever",
    workload=ScriptedSet(
        name="scenario-unwritable-table",
        quorum_timeout_ms=1_000,
        sequential=False,
        final_insert=9,
    ),
    nemesis="stop-fetches",
    steps=(
        Do(insert(0, "ch1", key=1)),
        *PENDING.begins,
        Do(insert(1, "ch1", key=0), ends=(Kind.INFO,)),
        Do(_drop(0, "ch1")),
        *log_read(1.0, "ch2", "ch3"),
        PENDING.ends,
    ),
    finding=Finding("answers", "unanswered"),
    quiesce_s=5,
)

RETURNED_ROWS = Scenario(
    name="returned-rows",
    text="rows of a dropped partition come back on a replica that was lost when it was dropped",
    workload=ScriptedSet(
        name="scenario-returned-rows",
        quorum=None,
        sequential=False,
        table_settings=SHORT_LOG,
        judges=(Stats(min_ok={}, min_ok_total=1), Convergence()),
    ),
    nemesis=KILL,
    steps=(
        Do(insert(0, "ch1", key=0)),
        *everywhere(0),
        *LOST.begins,
        # Until its session has expired it may still be the leader, whom a drop is sent to.
        sessions_gone("ch1"),
        Do(_drop(0, "ch1")),
        *(Do(insert(100 + i, "ch1", key=1)) for i in range(20)),
        Rest(LOG_TRUNCATED_S),
        *(Do(insert(200 + i, "ch1", key=1)) for i in range(5)),
        *lost("ch1", ["ch3"]),
        LOST.ends,
        Until(read("ch3", key=1), shows(204), pause_s=0.2),
        Do(read("ch3", key=0)),
        Do(read("ch1", key=0)),
    ),
    finding=Finding("convergence", "diverged"),
)

CUT = "zk-cut-response"
UNHEARD = lurking(CUT, "ch1")


MISSED_DROP = Scenario(
    name="missed-drop",
    text="the answer to the commit of an insert is lost, and its partition is dropped before the "
    "insert asks whether it was committed: its replica keeps the rows, and no other has them",
    workload=ScriptedSet(
        name="scenario-missed-drop",
        quorum=None,
        sequential=False,
        retry_after_ms=5_000,
        # The others take rows of a dropped partition for lost ones.
        judges=(Stats(min_ok={}, min_ok_total=1), Convergence()),
    ),
    nemesis=CUT,
    clients=2,
    steps=(
        Do(insert(0, "ch2")),
        *everywhere(0),
        *UNHEARD.begins,
        # A server that retries finds its session gone, and asks again five seconds later.
        Do(insert(1, "ch1"), ends=(Kind.OK, Kind.INFO), wait=False),
        Until(read("ch2"), shows(1), by=1, tries=100, pause_s=0.02),
        Do(_drop(0, "ch2"), by=1),
        Until(read("ch1"), Lacks(0), by=1, tries=200, pause_s=0.05),
        Joined(),
        UNHEARD.ends,
    ),
    finding=Finding("convergence", "diverged"),
)
