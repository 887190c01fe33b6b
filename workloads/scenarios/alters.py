"""ALTERs after which a table or its servers are gone."""

from harness.core.op import Call, Kind
from harness.generators.script import Do, Joined, Rest, Until
from workloads.scenarios.inserts import SESSION_GONE_S
from workloads.scenarios.reads import REPLICAS
from workloads.scenarios.scenario import (
    Finding,
    Scenario,
    armed,
    begin,
    disarmed,
    end,
    insert,
    read,
    shows,
)
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

DELAY = "zk-delay-request"

CRASHING_MUTATION = Scenario(
    name="crashing-mutation",
    text="an ALTER UPDATE while an insert that came before it is about to be committed: every "
    "server of the table dies of a segmentation fault",
    workload=ScriptedSet(name="scenario-crashing-mutation", quorum=None, sequential=False),
    nemesis=DELAY,
    clients=2,
    steps=(
        *armed(DELAY, "ch1"),
        # It has its block number at once, and is committed a second later.
        Do(insert(0, "ch1"), ends=tuple(Kind), wait=False),
        Do(read("ch2"), by=1),
        Rest(0.3),
        Do(Call(f="update", value=0, node="ch2"), by=1, ends=UNFINISHED),
        Joined(),
        disarmed(DELAY),
    ),
    finding=Finding("answers", "unanswered"),
    quiesce_s=5,
)
