"""Inserts, and beside them a look at every replica's `is_active` ten times a second.

The node is ephemeral: gone when its replica was away for as long as its session lives and a
little more, back when the replica is. Try pause-clickhouse, kill-clickhouse, or partition-one with
--links keeper, each with --duration 10.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from checkers.activity import FINAL, OBSERVE, Activity
from checkers.convergence import Convergence
from checkers.ladder import Level
from checkers.set_full import SetFull
from checkers.stats import Stats
from harness.clients.replicated_table import TableSchema
from harness.clients.set_calls import COLUMNS, inserts, reads
from harness.clients.table_in_zookeeper import active
from harness.clients.table_session import TableSession
from harness.core.op import Call
from harness.core.protocols import Checker, Cluster, Generator, Session
from harness.core.ranges import settle_numbers
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.generators.calls import numbered, repeat
from harness.generators.choose import mix
from harness.generators.finals import everywhere
from harness.generators.observed import observed
from harness.generators.order import phases
from harness.generators.timing import rate

SCHEMA = TableSchema(
    columns=COLUMNS, partition_by="key", order_by="value", settings={"old_parts_lifetime": 10}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LivenessNodesOptions:
    """What may be chosen of it."""

    session_s: float = 5.0
    """The session timeout of the replicas, as the cluster sets it."""
    slack_s: float = 2.0
    """ZooKeeper ends sessions on a tick, and the last thing it heard may be that old."""
    ops_per_s: float = 20.0
    """Of all workers together."""
    timeout_s: float = 5.0
    """A call without an answer ends as info after this."""

    def settle(self, topology: Topology) -> None:  # noqa: ARG002
        """Raises UsageError for what cannot be asked."""
        settle_numbers(self)


@dataclass(frozen=True, slots=True)
class LivenessNodes:
    """The workload."""

    options: LivenessNodesOptions
    seed: Seed
    promise: Level = Level.EVENTUAL
    faults_expected: bool = False
    name: str = field(default="liveness-nodes", init=False)
    live_anomalies: bool = field(default=False, init=False)

    def session(self, cluster: Cluster, token: str) -> Session:
        """Creates the table."""
        table = TableSession.table(cluster, token, SCHEMA)
        keepers = {name: cluster.topology.node(name).keepers for name in table.replicas}
        return TableSession(
            cluster,
            table,
            writes={"insert": inserts(table.name)},
            reads={"read": reads(table.name), "final-read": reads(table.name)},
            timeout_s=self.options.timeout_s,
            looks={OBSERVE: active(keepers), FINAL: active(keepers)},
        )

    def generator(self) -> Generator:
        """Inserts and reads; worker 0 looks."""
        calls = mix(
            self.seed.child("calls"),
            [
                (1, numbered(lambda n: Call(f="insert", value=n, key=0))),
                (1, repeat(Call(f="read", key=0))),
            ],
        )
        limited = rate(calls, self.options.ops_per_s, self.seed.child("rate"))
        return observed(limited, OBSERVE, 10.0, self.seed)

    def final(self, keys: Sequence[int], nodes: Sequence[str]) -> Generator:
        """A last look, then each key on each replica."""
        sets = everywhere((Call(f="final-read", key=key) for key in keys), nodes)
        return phases(everywhere([Call(f=FINAL)], nodes[:1]), sets)

    def checkers(self) -> Sequence[Checker]:
        """Who is there, and that what was acknowledged is."""
        options = self.options
        return (
            Stats(faults_expected=self.faults_expected),
            Activity(timeout_s=options.session_s, slack_s=options.slack_s),
            SetFull(linearizable=False),
            Convergence(),
        )
