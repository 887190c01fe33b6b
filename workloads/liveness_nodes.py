"""Inserts beside a look at every replica's `is_active` ten times a second.

The node is ephemeral: it vanishes when its replica has been away a little longer than its session
lives, and returns with the replica. Try pause-clickhouse, kill-clickhouse, or partition-one with
--links keeper, each with --duration 10.
"""

from dataclasses import dataclass

from checkers.ladder import Level
from checkers.replication.activity import FINAL, OBSERVE, Activity
from checkers.sets.convergence import Convergence
from checkers.sets.set_full import SetFull
from checkers.stats import Stats
from harness.clients.set_calls import SET_SCHEMA, inserts, reads
from harness.clients.table_session import TableSession
from harness.core.protocols import Cluster, Session, Workload
from harness.core.seed import Seed
from workloads.options import PacedOptions
from workloads.table import TableWorkload, inserts_and_reads, look_once
from workloads.zookeeper_looks import active


@dataclass(frozen=True, slots=True, kw_only=True)
class LivenessNodesOptions(PacedOptions):
    """Options of `liveness-nodes`: how long a replica may be away before it counts as inactive."""

    session_s: float = 5.0
    """Session timeout of the replicas, as the cluster sets it."""
    slack_s: float = 2.0
    """Time that ZooKeeper may need on top: it ends sessions on a tick, and the last request that it
    got may be that old."""
    ops_per_s: float = 20.0
    timeout_s: float = 5.0


def liveness_nodes(
    options: LivenessNodesOptions, seed: Seed, promise: Level, faults_expected: bool
) -> Workload:
    """Return the workload `liveness-nodes`."""

    def create(cluster: Cluster, token: str) -> Session:
        table = TableSession.table(cluster, token, SET_SCHEMA)
        keepers = {name: cluster.topology.node(name).keepers for name in table.replicas}
        return TableSession(
            cluster,
            table,
            writes={"insert": inserts(table.name)},
            reads={"read": reads(table.name), "final-read": reads(table.name)},
            timeout_s=options.timeout_s,
            looks={OBSERVE: active(keepers), FINAL: active(keepers)},
        )

    return TableWorkload(
        name="liveness-nodes",
        seed=seed,
        promise=promise,
        create=create,
        calls=inserts_and_reads(seed, 1, 1),
        per_s=options.ops_per_s,
        observer=(OBSERVE, 10.0),
        look=look_once(FINAL),
        judges=(
            Stats(faults_expected=faults_expected),
            Activity(timeout_s=options.session_s, slack_s=options.slack_s),
            SetFull(linearizable=False),
            Convergence(),
        ),
    )
