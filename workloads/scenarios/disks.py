"""Scripts that show what a failing disk of one replica takes."""

from harness.core.op import Kind
from harness.generators.script import Do
from workloads.scenarios.scenario import Finding, Scenario
from workloads.scenarios.steps import everywhere, fault, insert
from workloads.scripted_set import ScriptedSet

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
    disks=True,
)
