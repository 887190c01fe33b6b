"""A lost replica that advances its log pointer before it has the parts of those log entries."""

from checkers.ddl.optimize import OPTIMIZE
from checkers.ladder import Level
from harness.core.op import Call
from harness.core.seed import Seed
from harness.generators.script import Do, Joined, Rest
from workloads.merges import OWN_PARTITION, MergesOptions, merges
from workloads.scenarios.scenario import Finding, Scenario
from workloads.scenarios.steps import (
    LOG_TRUNCATED_S,
    SESSION_GONE_S,
    SHORT_LOG,
    everywhere,
    fault,
    insert,
    read,
)

PAUSE = "pause-clickhouse-one"
AWAY = fault("pause", PAUSE, nodes=["ch3"])
MERGED = Call(f=OPTIMIZE, value={"partition": OWN_PARTITION, "sync": 2}, node="ch1")

UNWAITED_CLONE = Scenario(
    name="unwaited-clone",
    text="OPTIMIZE that was to wait for every replica returns while one that was lost, and clones "
    "another, has not what was merged",
    workload=merges(
        MergesOptions(own_rows=10, timeout_s=40.0),
        Seed(1),
        Level.EVENTUAL,
        faults_expected=True,
        table_settings=SHORT_LOG,
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
