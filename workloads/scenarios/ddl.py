"""A statement of the DDL queue that a host executes twice."""

from harness.core.op import Call, Kind
from harness.core.seed import Seed
from harness.generators.script import Do, Joined, Rest
from workloads.ddl import DdlOptions, DdlWorkload
from workloads.scenarios.scenario import Finding, Scenario, begin, end

DROP, KILL = "ddl-drop-finish", "kill-clickhouse-one"

DDL_TWICE = Scenario(
    name="ddl-twice",
    text="a host that dies after it has executed a statement ON CLUSTER and before it has said so "
    "executes it again, and reports the error of the second time",
    workload=DdlWorkload(DdlOptions(statements=1, task_timeout_s=4), Seed(1)),
    nemesis=f"{DROP},{KILL}",
    steps=(
        Do(begin(DROP, 1, f"{DROP}-one", nodes=["ch2"]), wait=False),
        Rest(0.5),
        Do(Call(f="alter", value=0, node="ch1"), ends=(Kind.INFO,)),
        Joined(),
        Do(begin("kill", 2, KILL, nodes=["ch2"])),
        Do(end(DROP, 1, f"{DROP}-one")),
        Do(end("kill", 2, KILL)),
    ),
    finding=Finding("ddl", "executed-twice"),
)
