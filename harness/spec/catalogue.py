"""Explicit catalogue of the workloads and checkers, and the plug-ins beside them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_type_hints

from checkers.ladder import Level
from harness.core import plugins
from harness.core.errors import UsageError
from harness.core.protocols import Checker, Workload
from harness.core.ranges import unknown_name
from harness.core.seed import Seed
from workloads.alter import AlterOptions, alter
from workloads.availability import AvailabilityOptions, availability
from workloads.block_numbers import BlockNumbersOptions, block_numbers
from workloads.blocks import BlockOptions
from workloads.config_reload import ConfigReloadOptions, ConfigReloadWorkload
from workloads.ddl import DdlOptions, DdlWorkload
from workloads.dedup import DedupOptions, dedup
from workloads.distributed import DistributedOptions, DistributedWorkload
from workloads.failed_parts import FailedPartsOptions, failed_parts
from workloads.keeper_map import KeeperMapOptions, keeper_map
from workloads.list_append import TransactionsOptions, transactions
from workloads.liveness_nodes import LivenessNodesOptions, liveness_nodes
from workloads.merges import MergesOptions, merges
from workloads.options import WorkloadOptions
from workloads.phantom import PhantomOptions, phantom
from workloads.quorum_durability import quorum_durability
from workloads.quorum_set import QuorumSet, QuorumSetOptions
from workloads.replication import ReplicationOptions, replication
from workloads.serial import SerialOptions, serial
from workloads.statement_presets import (
    DropPartitionOptions,
    MutationsOptions,
    drop_partition,
    mutations,
)
from workloads.statements import StatementsOptions, statements
from workloads.truncation import TruncationOptions, truncation
from workloads.unknown_insert import UnknownInsertOptions, unknown_insert
from workloads.zero_copy import ZeroCopyOptions, zero_copy
from workloads.zookeeper import ZkRegisterOptions, ZooKeeperOptions, ZooKeeperWorkload


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """Workload of the catalogue: its description, and how to make it."""

    text: str
    options: type[WorkloadOptions]
    make: Callable[[Any, Seed, Level, bool], Workload]
    """Function of the options, the seed, the promise, and whether a run in which no fault took
    effect is UNKNOWN."""
    simulated: bool = False
    """True if simulated servers can run it."""
    store: bool = False
    """True if its tables are on an object store, which is then a node of the cluster."""
    former: Mapping[str, str] = field(default_factory=dict)
    """Options that it had while its calls had another form, and what takes the place of each."""


WORKLOADS: Mapping[str, CatalogueEntry] = {
    "quorum-set": CatalogueEntry(
        "unique values inserted with a quorum; the whole set of a key selected sequentially "
        "consistently, at any replica",
        QuorumSetOptions,
        QuorumSet,
        simulated=True,
    ),
    "zk-register": CatalogueEntry(
        "compare-and-set registers in ZooKeeper itself, the control experiment: linearizable "
        "with a sync before each read, sequentially consistent without; try "
        "partition-one",
        ZkRegisterOptions,
        ZooKeeperWorkload,
        simulated=True,
    ),
    "zookeeper": CatalogueEntry(
        "ZooKeeper itself, in the shape that -o shape=… names: registers as zk-register, nodes "
        "that a multi writes together, sequential nodes, children; try partition, kill",
        ZooKeeperOptions,
        ZooKeeperWorkload,
        simulated=True,
    ),
    "keeper-map": CatalogueEntry(
        "rows of a KeeperMap table, written and read on any server, in the shape that -o shape=… "
        "names: registers, compare-and-sets, sets, mutexes; try coordinated-cut-response, and "
        "-o retries=0",
        KeeperMapOptions,
        keeper_map,
    ),
    "serial": CatalogueEntry(
        "generateSerialID on any server: the numbers of a series are unique, and increase with "
        "real time without a gap that no lost call explains; try coordinated-cut-response",
        SerialOptions,
        serial,
    ),
    "transactions": CatalogueEntry(
        "transactions of MergeTree tables, which append to lists, or insert into sets, and read "
        "them: snapshot isolation on each server; try kill-clickhouse, coordinated-cut-response",
        TransactionsOptions,
        transactions,
    ),
    "quorum-durability": CatalogueEntry(
        "quorum inserts, and ZooKeeper's /quorum: on a quorum when acknowledged, one at a time, "
        "no block goes back; try kill, partition, stop-fetches",
        BlockOptions,
        quorum_durability,
        simulated=True,
    ),
    "failed-parts": CatalogueEntry(
        "quorum inserts whose part cannot be fetched and whose replica dies: never acknowledged, "
        "never read again; try partition-one,kill-clickhouse-one with --links interserver "
        "--duration 9",
        FailedPartsOptions,
        failed_parts,
        simulated=True,
    ),
    "unknown-insert": CatalogueEntry(
        "quorum inserts that time out: finally on every replica or on none; try "
        "stop-fetches, partition",
        UnknownInsertOptions,
        unknown_insert,
        simulated=True,
    ),
    "block-numbers": CatalogueEntry(
        "concurrent inserts into one partition: block numbers unique and increasing; try "
        "pause-clickhouse with --duration 7",
        BlockNumbersOptions,
        block_numbers,
        simulated=True,
    ),
    "phantom": CatalogueEntry(
        "refused and unknown quorum inserts: in no sequentially consistent read unless "
        "committed; try partition, pause-zookeeper",
        PhantomOptions,
        phantom,
        simulated=True,
    ),
    "dedup": CatalogueEntry(
        "identical blocks inserted again and again, on any replica, until one is acknowledged: "
        "each value once; try partition, kill",
        DedupOptions,
        dedup,
        simulated=True,
    ),
    "replication": CatalogueEntry(
        "plain inserts of small and big blocks: in the end the same parts everywhere, nothing "
        "lost, no block ever seen in part; try partition, kill",
        ReplicationOptions,
        replication,
        simulated=True,
    ),
    "availability": CatalogueEntry(
        "plain inserts, plain and sequential reads: which servers answer while others are down",
        AvailabilityOptions,
        availability,
        simulated=True,
    ),
    "ddl": CatalogueEntry(
        "CREATE, DROP, RENAME and ALTER ON CLUSTER, or in a Replicated database, each exactly once "
        "on each host",
        DdlOptions,
        DdlWorkload,
    ),
    "distributed": CatalogueEntry(
        "inserts through Distributed tables, for --shards 2 --replicas 2",
        DistributedOptions,
        DistributedWorkload,
    ),
    "config-reload": CatalogueEntry(
        "cluster definition and macros changed in files and reloaded without a restart",
        ConfigReloadOptions,
        ConfigReloadWorkload,
    ),
    "mutations": CatalogueEntry(
        "ALTER UPDATE and DELETE from any replica beside inserts: each once, on what was there "
        "before; try kill-clickhouse",
        MutationsOptions,
        mutations,
        simulated=True,
        former={"mutations": "inserts", "pause_ms": "ops-per-s"},
    ),
    "alter": CatalogueEntry(
        "ALTER ADD and DROP COLUMN from any replica: the same columns everywhere, those that "
        "were acknowledged; try kill-clickhouse, and -o alters=3 without faults",
        AlterOptions,
        alter,
        simulated=True,
    ),
    "drop-partition": CatalogueEntry(
        "DROP PARTITION from any replica beside inserts and merges: what was there before it is "
        "gone for good, what came after it stays; try kill-clickhouse, partition",
        DropPartitionOptions,
        drop_partition,
        simulated=True,
        former={"drops": "inserts", "pause_ms": "ops-per-s"},
    ),
    "liveness-nodes": CatalogueEntry(
        "is_active gone when its replica is away for a session, and back; try pause-clickhouse "
        "with --duration 10",
        LivenessNodesOptions,
        liveness_nodes,
        simulated=True,
    ),
    "truncation": CatalogueEntry(
        "more inserts than the log keeps: only entries that no replica needs are removed, and a "
        "replica that falls behind is lost, clones and returns; try kill-clickhouse with "
        "--duration 9",
        TruncationOptions,
        truncation,
        simulated=True,
    ),
    "merges": CatalogueEntry(
        "small inserts and OPTIMIZE on any replica: rows kept, parts equal, one leader, and "
        "OPTIMIZE waits as its settings say; try kill-clickhouse",
        MergesOptions,
        merges,
        simulated=True,
    ),
    "zero-copy": CatalogueEntry(
        "a table on an object store, with zero-copy replication: what parts refer to exists, once, "
        "and nothing else does; try kill-clickhouse-one or store-errors, and -o zero-copy=false",
        ZeroCopyOptions,
        zero_copy,
        simulated=True,
        store=True,
    ),
    "statements": CatalogueEntry(
        "rows updated, moved, copied, replaced, dropped, detached and attached between two tables, "
        "from any replica: what is left of each is what an order of the statements leaves",
        StatementsOptions,
        statements,
        simulated=True,
    ),
}
CHECKERS: Mapping[str, str] = {
    "stats": "enough was acknowledged, and the faults took effect; else UNKNOWN",
    "set-full": "lost, stale, never read, duplicated and phantom values",
    "hidden": "rows on a replica at rest are in its sequentially consistent reads",
    "durability": "on its quorum when acknowledged, one quorum insert at a time",
    "failed-parts": "a part whose quorum failed is never acknowledged and never read again",
    "unknown-outcomes": "an insert of unknown outcome is finally on every replica or on none",
    "block-numbers": "block numbers are unique and increase with real time",
    "dedup": "no retry of a block that the table remembers put its rows in twice",
    "parts": "at rest the same parts with the same content on every replica, none intersecting",
    "whole-blocks": "a block is seen whole or not at all",
    "temporary": "a part that is fetched is no part before it is whole, and leaves nothing behind",
    "merged-rows": "merges keep the rows of partitions that nobody else writes to",
    "assigners": "merges and mutations are assigned by the replica that leads at that moment",
    "mutation-log": "mutated parts carry the mutation's number, and no mutation_pointer goes back",
    "alters": "columns are those that acknowledged ALTERs make, on every replica",
    "alter-waits": "an ALTER returns when the replicas that it waits for have its columns",
    "conformance": "what replicas do in ZooKeeper is what the model of the protocol allows",
    "health": "no server reports a failed assertion, a crash, a lost part, or a table that is not "
    "whole at rest",
    "record": "UNKNOWN if a line of the journal cannot be read",
    "activity": "is_active vanishes when its replica is away for a session, and returns",
    "truncation": "only log entries that no replica needs are removed; a lost replica clones",
    "objects": "an object store has what active parts refer to, once, and nothing else",
    "optimize": "OPTIMIZE returns when its merge is done, as its settings say",
    "leaders": "no two replicas lead a table at the same time",
    "log-pointers": "a replica's log pointer goes back only when it clones",
    "convergence": "all replicas equal and all queues empty once the cluster is at rest",
    "monotonic-reads": "a process reads whatever it has read before",
    "read-your-writes": "a process reads whatever it has written",
    "monotonic-writes": "the writes of one process are seen in their order",
    "writes-follow-reads": "a write is seen only with what its process had read before it",
    "sequential": "one order of all calls explains every read, and keeps each process's order",
    "linearizable": "one order of all calls explains every read, and keeps real time",
    "isolation": "transactions on lists satisfy a level of isolation",
    "snapshots": "transactions see each other whole or not at all, in one order of commits",
    "atomic": "an insert of several values is seen whole or not at all",
    "answers": "every call made after the heal is eventually answered",
    "availability": "which servers answer without ZooKeeper, and while other replicas are dead",
    "ddl": "a task of the DDL queue is finished on a host exactly if it was executed there, once",
    "active-tasks": "a task of the DDL queue is executed by hosts that it lists, and once",
    "macros": "tables created ON CLUSTER with {shard} and {replica} have paths of their own",
    "distributed": "rows are on the shards where they belong, each as often as it should be",
    "replica-choice": "a Distributed table reads from the replica with the fewest errors",
    "protocol": "what simulated servers wrote to ZooKeeper obeys the rules of replication",
    "reload": "the servers show a changed configuration without a restart",
    "multi": "a multi of ZooKeeper is seen whole or not at all, and in the order of its versions",
    "ephemeral-nodes": "ZooKeeper's ephemeral nodes live as long as their sessions",
    "watches": "a watch of ZooKeeper fires once, and before its client sees the change",
    "sequential-nodes": "ZooKeeper's sequential nodes have unique and increasing numbers, and stay",
    "statement-rows": "what all replicas show of a row at rest is what an order of its statements "
    "leaves",
    "mutation-ends": "no mutation is left at rest that has nothing to change and is not done",
    "statement-reads": "a read shows what its replica had, and no row before a statement brings it",
}


WORKLOAD_MEMBERS = ("name", "live_anomalies", "session", "generator", "final", "checkers")
"""Members of the protocol `Workload`."""


def workload_entry(name: str) -> CatalogueEntry:
    """Return the entry of a workload: of the catalogue, of an installed package, or MODULE:NAME.
    Raises UsageError for an unknown name and for a plug-in that cannot be used."""
    if name in WORKLOADS:
        return WORKLOADS[name]
    if plugins.reference(plugins.WORKLOADS, name) is None:
        known = [*WORKLOADS, *plugins.installed(plugins.WORKLOADS)]
        raise UsageError(unknown_name(name, known, "harness list workloads"))
    plugin = plugins.load(plugins.WORKLOADS, name)

    def make(options: Any, seed: Seed, promise: Level, faults_expected: bool) -> Workload:
        made: Workload = plugin(options, seed, promise, faults_expected)
        plugins.require_members(name, made, WORKLOAD_MEMBERS, "a workload")
        return made

    return CatalogueEntry(
        plugins.described(plugin),
        _options_of(plugin, name),
        make,
        simulated=getattr(plugin, "simulated", True),
        store=getattr(plugin, "store", False),
    )


def _options_of(plugin: Callable[..., Any], name: str) -> type[WorkloadOptions]:
    """Return the options of a plug-in: the type of its parameter `options`."""
    try:
        kind = get_type_hints(plugin).get("options") or get_type_hints(plugin.__init__).get(
            "options"
        )
    except (NameError, TypeError) as error:
        raise UsageError(f"{name}: its type hints cannot be read: {error}") from error
    if not (isinstance(kind, type) and issubclass(kind, WorkloadOptions)):
        raise UsageError(
            f"{name}: expected a class or function of (options, seed, promise, faults_expected), "
            "whose options are declared as a subclass of workloads.options.WorkloadOptions"
        )
    return kind


def plugin_checkers(names: Sequence[str]) -> Sequence[Checker]:
    """Return the checkers of the plug-ins among these names; those of the catalogue belong to
    workloads. Raises UsageError."""
    return [_plugin_checker(name) for name in names if name not in CHECKERS]


def _plugin_checker(name: str) -> Checker:
    if plugins.reference(plugins.CHECKERS, name) is None:
        known = [*CHECKERS, *plugins.installed(plugins.CHECKERS)]
        raise UsageError(unknown_name(name, known, "harness list checkers"))
    plugin = plugins.load(plugins.CHECKERS, name)
    try:
        made: Checker = plugin()
    except TypeError as error:
        text = f"{name}: expected a checker that is made without arguments: {error}"
        raise UsageError(text) from error
    plugins.require_members(name, made, ("name", "check"), "a checker")
    return made
