"""Everything that has a name: an explicit list, so that reading it is knowing it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from checkers.ladder import Level
from harness.core.protocols import Workload
from harness.core.seed import Seed
from workloads.availability import AvailabilityOptions, AvailabilityWorkload
from workloads.config_reload import ConfigReloadOptions, ConfigReloadWorkload
from workloads.ddl import DdlOptions, DdlWorkload
from workloads.dedup import DedupOptions, DedupRetries
from workloads.distributed import DistributedOptions, DistributedWorkload
from workloads.quorum_set import QuorumSet, QuorumSetOptions
from workloads.replication import Replication, ReplicationOptions
from workloads.zk_register import ZkRegister, ZkRegisterOptions

CLUSTERS: Mapping[str, str] = {
    "docker": "real ClickHouse and ZooKeeper servers in containers",
    "sim": "simulated ones on virtual time: the same seed is the same run, byte for byte",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A workload by name."""

    text: str
    options: type[Any]
    """A frozen dataclass: a default for every field, and `settle(topology)`, which raises
    UsageError for what cannot be asked of a topology."""
    make: Callable[[Any, Seed, Level, bool], Workload]
    """Of options, seed, promise, and whether a run without one fault that took effect says
    nothing."""
    promise: Callable[[Any], Level] = lambda _: Level.EVENTUAL
    """What is promised, given the options, unless the command line says another."""


WORKLOADS: Mapping[str, Entry] = {
    "quorum-set": Entry(
        "unique values inserted with a quorum; the whole set of a key selected sequentially "
        "consistently, at any replica",
        QuorumSetOptions,
        QuorumSet,
        lambda _: Level.LINEARIZABLE,
    ),
    "zk-register": Entry(
        "compare-and-set registers in ZooKeeper itself, the control experiment: linearizable "
        "with a sync before each read, sequentially consistent without; try "
        "partition-one",
        ZkRegisterOptions,
        ZkRegister,
        lambda options: options.promise,
    ),
    "dedup": Entry(
        "identical blocks inserted again and again, on any replica, until one is acknowledged: "
        "each value once; try partition, kill",
        DedupOptions,
        DedupRetries,
    ),
    "replication": Entry(
        "plain inserts of small and big blocks: in the end the same parts everywhere, nothing "
        "lost, no part of a block ever seen; try partition, kill",
        ReplicationOptions,
        Replication,
    ),
    "availability": Entry(
        "plain inserts, plain and sequential reads: who answers while something is down",
        AvailabilityOptions,
        AvailabilityWorkload,
    ),
    "ddl": Entry(
        "CREATE, DROP, RENAME and ALTER ON CLUSTER, each exactly once on each host",
        DdlOptions,
        DdlWorkload,
    ),
    "distributed": Entry(
        "inserts through Distributed tables, for --shards 2 --replicas 2",
        DistributedOptions,
        DistributedWorkload,
    ),
    "config-reload": Entry(
        "cluster definition and macros changed in files and reloaded without a restart",
        ConfigReloadOptions,
        ConfigReloadWorkload,
    ),
}
CHECKERS: Mapping[str, str] = {
    "stats": "enough was acknowledged, and the faults took effect; else UNKNOWN",
    "set-full": "lost, stale, never read, duplicated and phantom values",
    "dedup": "no retry of an identical block put its rows in twice",
    "parts": "at rest the same parts with the same content on every replica, none intersecting",
    "whole-blocks": "a block is seen whole or not at all",
    "log-pointers": "a replica's place in the replication log goes back only when it clones",
    "convergence": "all replicas equal and all queues empty once the cluster is at rest",
    "monotonic-reads": "a process reads whatever it has read before",
    "read-your-writes": "a process reads whatever it has written",
    "monotonic-writes": "the writes of one process are seen in their order",
    "writes-follow-reads": "a write is seen only with what its process had read before it",
    "sequential": "one order of all calls explains every read, and keeps each process's order",
    "linearizable": "one order of all calls explains every read, and keeps real time",
    "atomic": "an insert of several values is seen whole or not at all",
    "answers": "every call that is made when all is healed is answered in the end",
    "availability": "who answers without ZooKeeper, and while other replicas are dead",
    "ddl": "a task of the DDL queue is finished on a host exactly if it was executed there, once",
    "distributed": "rows are on the shards where they belong, so often as they should be",
    "reload": "what was written into the configuration is shown, without a restart",
}
