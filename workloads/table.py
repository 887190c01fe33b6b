"""Workloads on one replicated table, as values: calls, final reads and checkers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from checkers.ladder import Level
from harness.core.op import Call
from harness.core.protocols import Checker, Cluster, Generator, Session
from harness.core.seed import Seed
from harness.generators.calls import numbered, repeat
from harness.generators.choose import mix
from harness.generators.order import final_reads_on, phases
from harness.generators.timing import rate
from harness.generators.workers import together, with_observer

SHORT_LOG: Final[Mapping[str, int]] = {
    "max_replicated_logs_to_keep": 10,
    "min_replicated_logs_to_keep": 2,
    "cleanup_delay_period": 1,
    "cleanup_delay_period_random_add": 0,
}
"""Settings of a short replication log: a replica that is away for ten inserts is lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableWorkload:
    """Workload whose calls, final reads and checkers are its fields."""

    name: str
    seed: Seed
    promise: Level
    create: Callable[[Cluster, str], Session]
    """Function of a cluster and a token that creates the table."""
    calls: Generator
    """Calls of the clients, without a limit of their rate."""
    per_s: float
    """Rate of these calls, over all workers."""
    beside: Generator | None = None
    """Calls that are made at the same time and do not count towards the rate."""
    observer: tuple[str, float] | None = None
    """Call by which worker 0 looks at ZooKeeper, and how many of them it makes a second."""
    look: Callable[[Sequence[str]], Generator] | None = None
    """Function of the replicas that returns the calls before the final reads."""
    final_once: Sequence[str] = ()
    """Final calls that have no key."""
    final_reads: Sequence[str] = ("final-read",)
    """Final calls that are made for every key."""
    after: Callable[[Sequence[int], Sequence[str]], Generator] | None = None
    """Function of the keys and of the replicas that returns the calls after the final reads."""
    rounds: int = 1
    """Number of times that each replica answers the final calls."""
    judges: Sequence[Checker]
    live_anomalies: bool = field(default=False, init=False)

    def session(self, cluster: Cluster, token: str) -> Session:
        """Create the table."""
        return self.create(cluster, token)

    def generator(self) -> Generator:
        """Return the calls at their rate, the observer's, and those beside them."""
        calls = rate(self.calls, self.per_s, self.seed.child("rate"))
        if self.observer is not None:
            calls = with_observer(calls, *self.observer, self.seed)
        return calls if self.beside is None else together(self.beside, calls)

    def final(self, keys: Sequence[int], nodes: Sequence[str]) -> Generator:
        """Return the final look, the final calls on every replica, and those after them."""
        once = [Call(f=f) for f in self.final_once]
        of_keys = [Call(f=f, key=key) for key in keys for f in self.final_reads]
        reads = final_reads_on([*once, *of_keys], nodes, rounds=self.rounds)
        before = [] if self.look is None else [self.look(nodes)]
        after = [] if self.after is None else [self.after(keys, nodes)]
        return phases(*before, reads, *after) if before or after else reads

    def checkers(self) -> Sequence[Checker]:
        """Return the checkers that the workload was made with."""
        return self.judges


def inserts_and_reads(seed: Seed, inserts: int, reads: int) -> Generator:
    """Return inserts of 0, 1, … and reads of one set, mixed in this ratio."""
    calls = (
        (inserts, numbered(lambda n: Call(f="insert", value=n, key=0))),
        (reads, repeat(Call(f="read", key=0))),
    )
    return mix(seed.child("calls"), calls)


def look_once(f: str) -> Callable[[Sequence[str]], Generator]:
    """Return a final look at ZooKeeper: one call, until it is answered."""
    return lambda nodes: final_reads_on([Call(f=f)], nodes[:1])
