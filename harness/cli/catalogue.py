"""Everything that has a name: an explicit list, so that reading it is knowing it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from checkers.ladder import Level
from harness.core.dialect import Mechanism
from harness.core.protocols import Workload
from harness.core.seed import Seed
from workloads.alter import Alter, AlterOptions
from workloads.availability import AvailabilityOptions, AvailabilityWorkload
from workloads.block_numbers import BlockNumbersOptions, block_numbers
from workloads.blocks import BlockOptions
from workloads.config_reload import ConfigReloadOptions, ConfigReloadWorkload
from workloads.ddl import DdlOptions, DdlWorkload
from workloads.dedup import DedupOptions, DedupRetries
from workloads.distributed import DistributedOptions, DistributedWorkload
from workloads.failed_parts import FailedPartsOptions, failed_parts
from workloads.liveness_nodes import LivenessNodes, LivenessNodesOptions
from workloads.merges import Merges, MergesOptions
from workloads.mutations import MutationsOptions, MutationsWorkload
from workloads.phantom import PhantomOptions, phantom
from workloads.quorum_durability import quorum_durability
from workloads.quorum_set import QuorumSet, QuorumSetOptions
from workloads.replication import Replication, ReplicationOptions
from workloads.truncation import LogTruncation, TruncationOptions
from workloads.unknown_insert import UnknownInsertOptions, unknown_insert
from workloads.zk_register import ZkRegister, ZkRegisterOptions

CLUSTERS: Mapping[str, str] = {
    "docker": "real ClickHouse and ZooKeeper servers in containers",
    "auto": "docker where an engine answers, else sim",
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
    needs: Callable[[Any], tuple[Mechanism, ...]] = lambda _: ()
    """Mechanisms of the servers without which it cannot be run, given the options."""
    simulated: bool = False
    """Whether simulated servers understand what it says."""


WORKLOADS: Mapping[str, Entry] = {
    "quorum-set": Entry(
        "unique values inserted with a quorum; the whole set of a key selected sequentially "
        "consistently, at any replica",
        QuorumSetOptions,
        QuorumSet,
        lambda options: options.promise,
        lambda options: options.needs,
        simulated=True,
    ),
    "zk-register": Entry(
        "compare-and-set registers in ZooKeeper itself, the control experiment: linearizable "
        "with a sync before each read, sequentially consistent without; try "
        "partition-one",
        ZkRegisterOptions,
        ZkRegister,
        lambda options: options.promise,
        simulated=True,
    ),
    "quorum-durability": Entry(
        "quorum inserts, and ZooKeeper's /quorum: on a quorum when acknowledged, one at a time, "
        "no block goes back; try kill, partition, stop-fetches",
        BlockOptions,
        quorum_durability,
        needs=lambda options: options.needs,
        simulated=True,
    ),
    "failed-parts": Entry(
        "quorum inserts whose part cannot be fetched and whose replica dies: never acknowledged, "
        "never read again; try partition-one,kill-clickhouse-one with --links interserver "
        "--duration 9",
        FailedPartsOptions,
        failed_parts,
        needs=lambda options: options.needs,
        simulated=True,
    ),
    "unknown-insert": Entry(
        "quorum inserts with a timeout that strikes: in the end everywhere or nowhere; try "
        "stop-fetches, partition",
        UnknownInsertOptions,
        unknown_insert,
        needs=lambda options: options.needs,
        simulated=True,
    ),
    "block-numbers": Entry(
        "concurrent inserts into one partition: block numbers unique and increasing; try "
        "pause-clickhouse with --duration 7",
        BlockNumbersOptions,
        block_numbers,
        needs=lambda options: options.needs,
        simulated=True,
    ),
    "phantom": Entry(
        "refused and unknown quorum inserts: in no sequentially consistent read unless "
        "committed; try partition, pause-zookeeper",
        PhantomOptions,
        phantom,
        needs=lambda options: options.needs,
        simulated=True,
    ),
    "dedup": Entry(
        "identical blocks inserted again and again, on any replica, until one is acknowledged: "
        "each value once; try partition, kill",
        DedupOptions,
        DedupRetries,
        needs=lambda options: options.needs,
        simulated=True,
    ),
    "replication": Entry(
        "plain inserts of small and big blocks: in the end the same parts everywhere, nothing "
        "lost, no part of a block ever seen; try partition, kill",
        ReplicationOptions,
        Replication,
        simulated=True,
    ),
    "availability": Entry(
        "plain inserts, plain and sequential reads: who answers while something is down",
        AvailabilityOptions,
        AvailabilityWorkload,
        simulated=True,
    ),
    "ddl": Entry(
        "CREATE, DROP, RENAME and ALTER ON CLUSTER, or in a Replicated database, each exactly once "
        "on each host",
        DdlOptions,
        DdlWorkload,
        needs=lambda options: options.needs,
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
    "mutations": Entry(
        "ALTER UPDATE and DELETE from any replica beside inserts: each once, on what was there "
        "before; try kill-clickhouse",
        MutationsOptions,
        MutationsWorkload,
        simulated=True,
    ),
    "alter": Entry(
        "ALTER ADD and DROP COLUMN from any replica: the same columns everywhere, those that "
        "were acknowledged; try kill-clickhouse, and -o alters=3 without faults",
        AlterOptions,
        Alter,
    ),
    "liveness-nodes": Entry(
        "is_active gone when its replica is away for a session, and back; try pause-clickhouse "
        "with --duration 10",
        LivenessNodesOptions,
        LivenessNodes,
        simulated=True,
    ),
    "truncation": Entry(
        "more inserts than the log keeps: only what nobody needs is cut, who falls behind is "
        "lost, clones and comes back; try kill-clickhouse with --duration 9",
        TruncationOptions,
        LogTruncation,
        simulated=True,
    ),
    "merges": Entry(
        "small inserts and OPTIMIZE on any replica: rows kept, parts equal, one leader, and "
        "OPTIMIZE waits as it was told; try kill-clickhouse",
        MergesOptions,
        Merges,
        simulated=True,
    ),
}
CHECKERS: Mapping[str, str] = {
    "stats": "enough was acknowledged, and the faults took effect; else UNKNOWN",
    "set-full": "lost, stale, never read, duplicated and phantom values",
    "hidden": "rows on a replica at rest are in its sequentially consistent reads",
    "durability": "on its quorum when acknowledged, one quorum insert at a time",
    "failed-parts": "a part whose quorum failed is never acknowledged and never read again",
    "unknown-outcomes": "an insert of unknown outcome is in the end everywhere or nowhere",
    "block-numbers": "block numbers are unique and increase with real time",
    "dedup": "no retry of a block that the table remembers put its rows in twice",
    "parts": "at rest the same parts with the same content on every replica, none intersecting",
    "whole-blocks": "a block is seen whole or not at all",
    "mutations": "every mutation once, on what was there before it, and on nothing later",
    "alters": "columns are those that acknowledged ALTERs make, on every replica",
    "activity": "is_active goes when its replica is away for a session, and comes back",
    "truncation": "the log is cut where nobody needs it; who falls behind is lost and comes back",
    "optimize": "OPTIMIZE returns when its merge is done, as it was told to wait",
    "leaders": "no two replicas lead a table at one time",
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
    "protocol": "what simulated servers agreed on in ZooKeeper keeps the rules of replication",
    "reload": "what was written into the configuration is shown, without a restart",
}
