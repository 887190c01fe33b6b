"""A statement of the DDL queue that a host executes twice."""

from harness.core.op import Call, Kind
from harness.core.seed import Seed
from harness.generators.script import Do, Joined
from workloads.ddl import DdlOptions, DdlWorkload
from workloads.scenarios.scenario import Finding, Scenario
from workloads.scenarios.steps import KILL, killed, message

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
