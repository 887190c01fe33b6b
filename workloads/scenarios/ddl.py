"""A statement of the DDL queue that a host executes twice."""

from harness.core.op import Call, Kind
from harness.core.seed import Seed
from harness.generators.script import Do, Joined
from workloads.ddl import DdlOptions, DdlWorkload
from workloads.scenarios.scenario import Finding, Scenario, armed, begin, disarmed, end

DROP, KILL = "ddl-drop-finish", "kill-clickhouse-one"

DDL_TWICE = Scenario(
    name="ddl-twice",
    text="a host that dies after it has executed a statement ON CLUSTER and before it has said so "
    "executes it again, and reports the error of the second time",
    workload=DdlWorkload(DdlOptions(statements=1, task_timeout_s=4), Seed(1)),
    nemesis=f"{DROP},{KILL}",
    steps=(
        *armed(DROP, "ch2"),
        Do(Call(f="alter", value=0, node="ch1"), ends=(Kind.INFO,)),
        Joined(),
        Do(begin("kill", 2, KILL, nodes=["ch2"])),
        disarmed(DROP),
        Do(end("kill", 2, KILL)),
    ),
    finding=Finding("ddl", "executed-twice"),
)
