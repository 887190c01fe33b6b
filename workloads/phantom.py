"""Quorum inserts that are refused or of unknown outcome, and sequentially consistent reads.

A value that is in no committed part is in no such read: none that was refused, and none that is
read once and at rest is on no replica. That could break: the connection to ZooKeeper lost at the
commit (partition, pause-zookeeper, kill)."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from checkers.convergence import Convergence
from checkers.ladder import Level
from checkers.quorum_parts import FINAL, OBSERVE
from checkers.set_full import SetFull
from checkers.stats import Stats
from checkers.unknown_outcomes import UnknownOutcomes
from harness.clients.quorum_table import unmerged
from harness.clients.set_calls import quorum
from harness.core.errors import UsageError
from harness.core.op import Call
from harness.core.protocols import Checker, Cluster, Generator, Session
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.generators.calls import numbered
from harness.generators.choose import mix
from harness.generators.finals import everywhere
from harness.generators.observed import observed
from harness.generators.order import phases
from harness.generators.timing import rate


@dataclass(frozen=True, slots=True, kw_only=True)
class PhantomOptions:
    """What may be chosen of it."""

    quorum: int = 2
    """Replicas that must have a part before its insert is acknowledged."""
    quorum_timeout_ms: int = 3000
    """After this an insert that has no quorum ends as info."""
    ops_per_s: float = 80.0
    """Of all workers together."""
    values_per_key: int = 400
    """Then a fresh key, which is a partition, is taken."""
    timeout_s: float = 10.0
    """A call without an answer ends as info after this."""

    def settle(self, topology: Topology) -> None:
        """Raises UsageError for what cannot be asked of this topology."""
        replicas = len(topology.shards[0])
        if not 2 <= self.quorum <= replicas:
            raise UsageError(f"--quorum {self.quorum}: expected 2 to {replicas}")
        if self.values_per_key < 1:
            raise UsageError(f"values-per-key {self.values_per_key}: expected at least 1")


@dataclass(frozen=True, slots=True)
class Phantom:
    """The workload."""

    options: PhantomOptions
    seed: Seed
    promise: Level = Level.EVENTUAL
    faults_expected: bool = False
    name: str = field(default="phantom", init=False)
    live_anomalies: bool = field(default=False, init=False)

    def session(self, cluster: Cluster, token: str) -> Session:
        """Creates the table."""
        settings = quorum(self.options.quorum, self.options.quorum_timeout_ms)
        return unmerged(cluster, token, settings, self.options.timeout_s)

    def generator(self) -> Generator:
        """Inserts and twice as many reads; worker 0 looks at ZooKeeper."""
        per_key = self.options.values_per_key
        calls = mix(
            self.seed.child("calls"),
            [
                (1, numbered(lambda n: Call(f="insert", value=n, key=n // per_key))),
                (2, numbered(lambda n: Call(f="read", key=n * 1 // 2 // per_key))),
            ],
        )
        limited = rate(calls, self.options.ops_per_s, self.seed.child("rate"))
        return observed(limited, OBSERVE, 2.0, self.seed)

    def final(self, keys: Sequence[int], nodes: Sequence[str]) -> Generator:
        """A look at every part, then each key on each replica: its values and their parts."""
        calls = [Call(f=f, key=key) for key in keys for f in ("final-read", "final-where")]
        return phases(everywhere([Call(f=FINAL)], nodes[:1]), everywhere(calls, nodes))

    def checkers(self) -> Sequence[Checker]:
        """Phantoms, and what was acknowledged is there."""
        return (
            Stats(faults_expected=self.faults_expected),
            SetFull(linearizable=False),
            UnknownOutcomes(),
            Convergence(),
        )
