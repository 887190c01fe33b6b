"""An acknowledged row of a Distributed table that is thrown away."""

from harness.core.op import Call
from harness.core.seed import Seed
from harness.generators.script import Do, Rest, Until
from workloads.distributed import DistributedOptions, DistributedWorkload
from workloads.scenarios.scenario import Finding, Scenario
from workloads.scenarios.steps import KILL, Ended, fault, killed, once

PAUSE, RESTART = "pause-zookeeper-one", "restart-zookeeper-one"
FROZEN, DEAD = fault("pause", PAUSE, 2, nodes=["zk2"]), killed("ch2", number=3)


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
        Until(_insert(0, "ch2"), Ended(), tries=60, pause_s=0.5),
        Do(_insert(1, "ch1")),
        Rest(1.0),
        *FROZEN.begins,
        Do(_insert(2, "ch1")),
        # ch2 has the rows, and waits for ZooKeeper before it commits them.
        Rest(1.0),
        *DEAD.begins,
        Rest(0.5),
        FROZEN.ends,
        DEAD.ends,
    ),
    finding=Finding("distributed", "lost"),
)
