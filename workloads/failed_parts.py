"""Quorum inserts whose part cannot be fetched, on a replica that then dies.

Once its session has expired, another replica that has the insert in its queue finds the part
nowhere and marks it failed: it was not acknowledged, is in no later sequentially consistent read,
and is gone when its replica comes back. What brings it about: no fetches, and a kill longer than a
session (`--nemesis partition-one,kill-clickhouse-one --links interserver --duration 9`)."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from checkers.convergence import Convergence
from checkers.durability import Durability
from checkers.failed_parts import FailedParts
from checkers.ladder import Level
from checkers.quorum_parts import FINAL, OBSERVE
from checkers.set_full import SetFull
from checkers.stats import Stats
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
class FailedPartsOptions:
    """What may be chosen of it."""

    quorum: int = 2
    """Replicas that must have a part before its insert is acknowledged."""
    quorum_timeout_ms: int = 1000
    """After this an insert that has no quorum ends as info."""
    ops_per_s: float = 60.0
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
class FailedPartsWorkload:
    """The workload."""

    options: FailedPartsOptions
    seed: Seed
    promise: Level = Level.EVENTUAL
    faults_expected: bool = False
    name: str = field(default="failed-parts", init=False)
    live_anomalies: bool = field(default=False, init=False)

    def session(self, cluster: Cluster, token: str) -> Session:
        """Creates the table."""
        settings = quorum(self.options.quorum, self.options.quorum_timeout_ms)
        return unmerged(cluster, token, settings, self.options.timeout_s)

    def generator(self) -> Generator:
        """Inserts, sequentially consistent reads, and which part has what; worker 0 looks."""
        per_key = self.options.values_per_key
        calls = mix(
            self.seed.child("calls"),
            [
                (2, numbered(lambda n: Call(f="insert", value=n, key=n // per_key))),
                (1, numbered(lambda n: Call(f="read", key=n * 2 // 1 // per_key))),
                (3, numbered(lambda n: Call(f="where", key=n * 2 // 3 // per_key))),
            ],
        )
        limited = rate(calls, self.options.ops_per_s, self.seed.child("rate"))
        return observed(limited, OBSERVE, 10.0, self.seed)

    def final(self, keys: Sequence[int], nodes: Sequence[str]) -> Generator:
        """A look at every part, then each key on each replica: its values and their parts."""
        calls = [Call(f=f, key=key) for key in keys for f in ("final-read", "final-where")]
        return phases(everywhere([Call(f=FINAL)], nodes[:1]), everywhere(calls, nodes))

    def checkers(self) -> Sequence[Checker]:
        """Failed parts stay out, and what was acknowledged is there."""
        return (
            Stats(faults_expected=self.faults_expected),
            FailedParts(),
            Durability(self.options.quorum),
            SetFull(linearizable=False),
            Convergence(),
        )
