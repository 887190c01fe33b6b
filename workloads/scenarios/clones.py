"""Lost replicas: one moves its log pointer past entries whose parts it has yet to fetch, and parts
that they fetch do not count for their quorums."""

from checkers.ddl.optimize import OPTIMIZE
from checkers.ladder import Level
from harness.core.op import Call, Kind
from harness.core.seed import Seed
from harness.generators.script import Do, Joined, Rest, Until
from workloads.merges import OWN_PARTITION, MergesOptions, merges
from workloads.scenarios.scenario import Finding, Scenario
from workloads.scenarios.steps import (
    KILL,
    LOG_TRUNCATED_S,
    MESSAGES,
    SESSION_GONE_S,
    everywhere,
    fault,
    held,
    insert,
    killed,
    read,
    shows,
)
from workloads.scenarios.waits import cut_log, lost, sessions_gone
from workloads.scripted_set import ScriptedSet
from workloads.table import SHORT_LOG

PAUSE = "pause-clickhouse-one"
AWAY = fault("pause", PAUSE, nodes=["ch3"])
MERGED = Call(f=OPTIMIZE, value={"partition": OWN_PARTITION, "sync": 2}, node="ch1")

UNWAITED_CLONE = Scenario(
    name="unwaited-clone",
    text="OPTIMIZE that was to wait for every replica returns while one that was lost, and clones "
    "another, has not what was merged",
    workload=merges(
        MergesOptions(own_rows=10, short_log=True, timeout_s=40.0),
        Seed(1),
        Level.EVENTUAL,
        faults_expected=True,
    ),
    nemesis=PAUSE,
    clients=2,
    steps=(
        Do(insert(0, "ch1")),
        *everywhere(0),
        *AWAY.begins,
        Rest(SESSION_GONE_S),
        *(Do(insert(100 + i, "ch1")) for i in range(20)),
        Rest(LOG_TRUNCATED_S),
        *(Do(insert(200 + i, "ch1")) for i in range(5)),
        Rest(LOG_TRUNCATED_S),
        Do(MERGED, by=1, wait=False),
        # The two others merge at once; then it waits until the third has moved on in the log, which
        # is what a clone does first.
        Do(read("ch1")),
        Rest(2.0),
        AWAY.ends,
        Joined(),
    ),
    finding=Finding("optimize", "not-done"),
)

LOST = fault("pause", PAUSE, nodes=["ch2", "ch3"])
LATER = range(100, 125)
"""Values whose inserts cut the log behind the lost replicas."""

UNCOUNTED_CLONE = Scenario(
    name="uncounted-clone",
    text="two lost replicas fetch the part of a pending quorum insert from the third, so that all "
    "have it; none counts, and every quorum insert is refused",
    workload=ScriptedSet(
        name="scenario-uncounted-clone",
        quorum_timeout_ms=1_000,
        sequential=False,
        plain=frozenset(LATER),
        final_insert=9,
        table_settings=SHORT_LOG,
    ),
    nemesis=PAUSE,
    steps=(
        Do(insert(0, "ch1")),
        *everywhere(0),
        # The others are active until their sessions end, so that the insert is not refused.
        *LOST.begins,
        Do(insert(1, "ch1"), ends=(Kind.INFO,)),
        *cut_log(LATER, ["ch2", "ch3"]),
        LOST.ends,
        *(Until(read(node), shows(1), tries=200, pause_s=0.2) for node in ("ch2", "ch3")),
    ),
    finding=Finding("answers", "unanswered"),
    quiesce_s=5,
)

GONE = fault("pause", PAUSE, nodes=["ch1"])
KILLED = killed("ch1", number=2)
_REGISTERED = ("/replicas/ch1/parts/1_",)
"""Words of the transaction in which ch1 registers a part of the second key."""

SUSPICIOUS_CLONE = Scenario(
    name="suspicious-clone",
    text="a lost replica is killed when it has fetched a part with most of the rows, and not yet "
    "registered it: after the start its table is read-only for good",
    workload=ScriptedSet(
        name="scenario-suspicious-clone",
        quorum=None,
        sequential=False,
        final_insert=9,
        table_settings=SHORT_LOG,
    ),
    nemesis=f"{PAUSE},{MESSAGES},{KILL}",
    steps=(
        Do(insert(0, "ch1")),
        *everywhere(0),
        *GONE.begins,
        sessions_gone("ch2"),
        *(Do(insert(value, "ch2", key=1)) for value in LATER[:20]),
        Rest(LOG_TRUNCATED_S),
        *(Do(insert(value, "ch2", key=1)) for value in LATER[20:]),
        *lost("ch2", ["ch1"]),
        Do(Call(f="optimize", key=1, node="ch2")),
        held("hold", 3, "ch1", "multi", _REGISTERED),
        GONE.ends,
        held("await", 4, "ch1", "multi", _REGISTERED),
        *KILLED.begins,
        held("cut", 5, "ch1", "multi", _REGISTERED),
        KILLED.ends,
    ),
    finding=Finding("answers", "unanswered"),
    quiesce_s=10,
)
