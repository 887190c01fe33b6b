"""What workloads of quorum inserts share that tell every value to its part: one row is one block,
and blocks are never merged. What each of them adds is its shares of calls and its checkers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from checkers.ladder import Level
from checkers.quorum_parts import FINAL, OBSERVE
from harness.clients.insert_modes import InsertMode, mechanisms_of, modes_of
from harness.clients.quorum_table import unmerged
from harness.clients.set_calls import quorum
from harness.core.dialect import Mechanism
from harness.core.errors import UsageError
from harness.core.op import Call
from harness.core.protocols import Checker, Cluster, Generator, Session
from harness.core.ranges import AUTO, Quorum, majority, settle_numbers
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.generators.calls import numbered
from harness.generators.choose import mix
from harness.generators.finals import everywhere
from harness.generators.observed import observed
from harness.generators.order import phases
from harness.generators.timing import rate

SEQUENTIAL_READS = (
    "what is judged are sequentially consistent reads, which do not work with parallel quorum "
    "inserts"
)
"""Why the inserts of some workloads cannot be parallel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockOptions:
    """What may be chosen of each."""

    quorum_least: ClassVar[int] = 2
    serial_only: ClassVar[str] = ""
    """Why inserts cannot be parallel here; "" if they can."""

    insert: str = "quorum"
    """"quorum", or "parallel": quorum inserts that do not wait for each other."""
    quorum: Quorum = 2
    """Replicas that must have a part before its insert is acknowledged; 1: no quorum; "auto": a
    majority."""
    quorum_timeout_ms: int = 3000
    """After this an insert that has no quorum ends as info."""
    ops_per_s: float = 60.0
    """Of all workers together."""
    values_per_key: int = 400
    """Then a fresh key, which is a partition, is taken."""
    timeout_s: float = 10.0
    """A call without an answer ends as info after this."""

    def settle(self, topology: Topology) -> None:
        """Raises UsageError for what cannot be asked of this topology."""
        settle_numbers(self)
        least, replicas = self.quorum_least, len(topology.shards[0])
        if not least <= (majority(replicas) if self.quorum == AUTO else self.quorum) <= replicas:
            raise UsageError(f"--quorum {self.quorum}: expected {least} to {replicas}")
        if self.insert not in (InsertMode.QUORUM, InsertMode.PARALLEL):
            raise UsageError(f"--insert {self.insert!r}: expected one of quorum parallel")
        if self.parallel and self.serial_only:
            raise UsageError(f"--insert {self.insert}: {self.serial_only}; expected quorum")

    @property
    def parallel(self) -> bool:
        """Whether several quorum inserts may be in flight."""
        return self.insert == InsertMode.PARALLEL

    @property
    def needs(self) -> tuple[Mechanism, ...]:
        """What servers must have."""
        return mechanisms_of(modes_of(self.insert), self.quorum)


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """A workload of them."""

    name: str
    options: BlockOptions
    seed: Seed
    promise: Level
    shares: Mapping[str, int]
    """Of calls: "insert"; "read", sequentially consistent; "where", which part has what."""
    looks_per_s: float
    """At ZooKeeper, by worker 0."""
    judges: Sequence[Checker]
    patience: Sequence[int] = (1,)
    """Multiples of the timeout, which inserts take in turn."""
    live_anomalies: bool = field(default=False, init=False)

    def session(self, cluster: Cluster, token: str) -> Session:
        """Creates the table."""
        options = self.options
        settings = [
            quorum(options.quorum, n * options.quorum_timeout_ms, parallel=options.parallel)
            for n in self.patience
        ]
        return unmerged(cluster, token, settings, options.timeout_s)

    def generator(self) -> Generator:
        """Inserts, looks at what was inserted lately, and at ZooKeeper."""
        per_key, inserts = self.options.values_per_key, self.shares["insert"]

        def call(f: str, share: int) -> Generator:
            if f == "insert":
                return numbered(lambda n: Call(f=f, value=n, key=n // per_key))
            return numbered(lambda n: Call(f=f, key=n * inserts // share // per_key))

        parts = [(share, call(f, share)) for f, share in self.shares.items()]
        calls = mix(self.seed.child("calls"), parts)
        limited = rate(calls, self.options.ops_per_s, self.seed.child("rate"))
        return observed(limited, OBSERVE, self.looks_per_s, self.seed)

    def final(self, keys: Sequence[int], nodes: Sequence[str]) -> Generator:
        """A look at every part, then each key on each replica: its values and their parts."""
        calls = [Call(f=f, key=key) for key in keys for f in ("final-read", "final-where")]
        return phases(everywhere([Call(f=FINAL)], nodes[:1]), everywhere(calls, nodes))

    def checkers(self) -> Sequence[Checker]:
        """Those that it was made with."""
        return self.judges
