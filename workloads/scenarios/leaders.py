"""A leader that was paused past its session, and says that it leads though another one does."""

from collections.abc import Mapping

from checkers.ladder import Level
from checkers.replication.leaders import LEADS
from harness.core.dialect import Mechanism
from harness.core.op import Call, Kind, Op
from harness.core.seed import Seed
from harness.generators.script import Do, Joined, Rest, Until
from workloads.merges import MergesOptions, merges
from workloads.scenarios.scenario import Finding, Scenario
from workloads.scenarios.steps import SESSION_GONE_S, fault, insert

PAUSE = "pause-clickhouse-one"
FROZEN = fault("pause", PAUSE, nodes=["ch1"])
FIRST = Call(f=LEADS, node="ch1")
NEXT = Call(f=LEADS, node="ch2")
POLLS = 100
"""Number of claims that each of the two is asked for after the resume: about a second."""


def _leads(op: Op) -> bool:
    return isinstance(op.value, Mapping) and bool(op.value.get("leads"))


TWO_LEADERS = Scenario(
    name="two-leaders",
    text="two replicas say at one time that they lead: one that was paused past its ZooKeeper "
    "session, and the one that was elected meanwhile",
    workload=merges(
        MergesOptions(own_rows=10, timeout_s=40.0), Seed(1), Level.EVENTUAL, faults_expected=True
    ),
    needs=(Mechanism.TABLE_LEADER,),
    nemesis=PAUSE,
    clients=2,
    steps=(
        Do(insert(0, "ch1")),
        # The first replica of a new table leads, and the second is next in line.
        Until(FIRST, _leads, pause_s=0.1),
        *FROZEN.begins,
        Rest(SESSION_GONE_S),
        Until(NEXT, _leads, by=1, pause_s=0.1),
        Do(FROZEN.ends.call, wait=False),
        *(
            Do(call, by=1, ends=(Kind.OK, Kind.FAIL, Kind.INFO))
            for _ in range(POLLS)
            for call in (FIRST, NEXT)
        ),
        Joined(),
    ),
    finding=Finding("leaders", "both"),
)
