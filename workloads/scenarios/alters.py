"""A table that is gone after its server was away."""

from harness.core.op import Call, Kind
from harness.generators.script import Do, Rest, Until
from workloads.scenarios.inserts import SESSION_GONE_S
from workloads.scenarios.reads import REPLICAS
from workloads.scenarios.scenario import Finding, Scenario, begin, end, insert, read, shows
from workloads.scripted_set import ScriptedSet

KILL = "kill-clickhouse-one"
UNFINISHED = (Kind.OK, Kind.INFO)
"""An ALTER says that a replica which is away has yet to follow."""

MISSING_TABLE = Scenario(
    name="missing-table",
    text="a server that was away for three ALTERs ADD COLUMN comes back without the table",
    workload=ScriptedSet(name="scenario-missing-table", quorum=None, sequential=False),
    nemesis=KILL,
    steps=(
        Do(insert(0, "ch1")),
        *(Until(read(node), shows(0), pause_s=0.05) for node in REPLICAS),
        Do(begin("kill", 1, KILL, nodes=["ch3"])),
        Rest(SESSION_GONE_S),
        *(Do(Call(f="add-column", value=n, node="ch1"), ends=UNFINISHED) for n in range(3)),
        Do(end("kill", 1, KILL)),
    ),
    finding=Finding("answers", "unanswered"),
    quiesce_s=10,
)
