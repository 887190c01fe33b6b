"""An acknowledged row of a Distributed table that is thrown away."""

from harness.core.op import Call, Kind
from harness.core.seed import Seed
from harness.generators.script import Do, Rest, Until
from workloads.distributed import DistributedOptions, DistributedWorkload
from workloads.scenarios.scenario import Finding, Scenario, begin, end, once

PAUSE, KILL, RESTART = "pause-zookeeper-one", "kill-clickhouse-one", "restart-zookeeper-one"


def _insert(value: int, node: str) -> Call:
    return Call(f="insert", value=value, node=node)


LOST_DISTRIBUTED_INSERT = Scenario(
    name="lost-distributed-insert",
    text="an asynchronous insert into a Distributed table is acknowledged, and never sent again "
    "when the server that was about to take it dies, for its file is taken for broken",
    workload=DistributedWorkload(DistributedOptions(), Seed(1)),
    nemesis=f"{RESTART},{PAUSE},{KILL}",
    shards=2,
    # Of two replicas the sender would draw one.
    replicas=1,
    steps=(
        # So that zk2, through which ch2 reads, does not lead: the others go on without it.
        Do(once("restart", 1, RESTART, ["zk2"])),
        Until(_insert(0, "ch2"), lambda op: op.kind is Kind.OK, tries=60, pause_s=0.5),
        Do(_insert(1, "ch1")),
        Rest(1.0),
        Do(begin("pause", 2, PAUSE, nodes=["zk2"])),
        Do(_insert(2, "ch1")),
        # ch2 has the rows, and waits for ZooKeeper before it commits them.
        Rest(1.0),
        Do(begin("kill", 3, KILL, nodes=["ch2"])),
        Rest(0.5),
        Do(end("pause", 2, PAUSE)),
        Do(end("kill", 3, KILL)),
    ),
    finding=Finding("distributed", "lost"),
)
