"""Scripts that show what a failing disk of one replica takes."""

from harness.core.op import Call, Kind
from harness.generators.script import Do, Until
from workloads.merges import ASKED_FOR
from workloads.scenarios.scenario import FAULTY_DISKS, Finding, Scenario
from workloads.scenarios.steps import (
    HasRows,
    everywhere,
    fault,
    insert,
    read,
)
from workloads.scenarios.waits import cut_log
from workloads.scripted_set import ScriptedSet
from workloads.table import SHORT_LOG

READS_FAIL = fault(
    "disk-eio-reads", "disk-eio-reads-clickhouse-one", nodes=["ch1"], kind="fail-reads"
)

ACKNOWLEDGED_FAILURE = Scenario(
    name="acknowledged-failure",
    text="a quorum insert is acknowledged and on no replica: its replica cannot read the part that "
    "it has written, and removes it, so that the quorum fails while that replica is active",
    # On 18.16.1 the others fetch again after ten seconds, and find then that nobody has the part.
    workload=ScriptedSet(
        name="scenario-acknowledged-failure", quorum_timeout_ms=30_000, timeout_s=40.0
    ),
    nemesis="disk-eio-reads",
    steps=(
        Do(insert(0, "ch1")),
        *everywhere(0),
        *READS_FAIL.begins,
        Do(insert(1, "ch1"), ends=(Kind.OK, Kind.INFO)),
        READS_FAIL.ends,
    ),
    finding=Finding("set-full", "lost"),
    quiesce_s=10,
    settings=FAULTY_DISKS,
)

PAUSE = "pause-clickhouse-one"
AWAY = fault("pause", PAUSE, number=2, nodes=["ch2"])
LATER = range(100, 125)
"""Values of another partition, whose inserts cut the log behind the replica that is away."""

DISCARDED_COPY = Scenario(
    name="discarded-copy",
    text="acknowledged rows that both replicas had are on neither: one cannot read the part that "
    "it merged them into, and the other, which was lost, clones it and removes its own parts",
    workload=ScriptedSet(
        name="scenario-discarded-copy",
        sequential=False,
        plain=frozenset(LATER),
        table_settings={**SHORT_LOG, **ASKED_FOR},
    ),
    nemesis=f"{PAUSE},disk-eio-reads",
    replicas=2,
    steps=(
        Do(insert(0, "ch1")),
        Do(insert(1, "ch1")),
        *everywhere(1, ("ch1", "ch2")),
        *AWAY.begins,
        *cut_log(LATER, ["ch2"], key=1),
        Do(Call(f="optimize", key=0, node="ch1")),
        *READS_FAIL.begins,
        Until(read("ch1"), HasRows(some=False), tries=100, pause_s=0.2),
        READS_FAIL.ends,
        AWAY.ends,
    ),
    finding=Finding("set-full", "lost"),
    quiesce_s=20,
    settings=FAULTY_DISKS,
)
