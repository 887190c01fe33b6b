"""Interfaces: what a generator, client, workload, nemesis, cluster and checker are."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol, TypeAlias, TypeGuard, TypeVar, runtime_checkable

import msgspec

from harness.core.connections import QueryChannel, StoreChannel, ZooKeeper
from harness.core.dialect import Mechanism
from harness.core.engines import Engines
from harness.core.history import History
from harness.core.op import Call, Done, Json, Op, Written
from harness.core.runtime import Runtime
from harness.core.time_limit import OutOfTime, time_limit
from harness.core.topology import Topology
from harness.core.verdict import Status, Verdict

P = TypeVar("P")

# --- generators -----------------------------------------------------------------------------


ANY_NODE: Final = "*"
"""Node of a worker that roams: each of its calls names its own node."""


class Worker(msgspec.Struct, frozen=True, gc=False):
    """Thread of the test that runs one process after the other, on one node unless it roams."""

    number: int
    """Number from 0; that of the nemesis is -1."""
    process: int
    """Process that it runs now: `number` plus a multiple of the number of workers."""
    node: str
    """Node of its calls; "" for the nemesis; ANY_NODE if it roams."""


class Context(msgspec.Struct, frozen=True, gc=False):
    """State of the run that a generator may look at."""

    time_ns: int
    free: tuple[Worker, ...]
    """Workers without a call in flight, the preferred one first, and the nemesis if it has none."""
    busy: tuple[Worker, ...]
    """Workers with a call in flight, and the nemesis if it has one. A combinator that gives its
    part only some workers narrows both fields."""


class Ready(msgspec.Struct, frozen=True, gc=False):
    """Step of a generator: a free worker makes this call now."""

    call: Call
    worker: Worker


class Pending(msgspec.Struct, frozen=True, gc=False):
    """Step of a generator that has no call now. It is asked again at `wake_ns`, and whenever a call
    ends; None: only then."""

    wake_ns: int | None = None
    firm: bool = False
    """True if no call that begins or ends before `wake_ns` changes the step, so that the generator
    need not be asked before."""


class Exhausted(msgspec.Struct, frozen=True, gc=False):
    """Step of a generator that has no more calls."""


Step: TypeAlias = Ready | Pending | Exhausted


class Generator(Protocol):
    """Pure value that says what to do next. Neither method changes it; both return its
    successor."""

    def op(self, context: Context) -> tuple[Step, "Generator"]:
        """Return the step at `context.time_ns`."""
        ...

    def update(self, context: Context, event: Op) -> "Generator":
        """Return the generator after the end of a call, its own or another's. `context` covers the
        whole run, also for a generator that has only some of the workers."""
        ...


# --- clients and workloads ------------------------------------------------------------------


class Client(Protocol):
    """Turns one op into one call to the database. One worker at a time uses it."""

    def invoke(self, op: Op) -> Done:
        """Make the call and return how it ended. Database and network errors become fail or info,
        by the table of outcomes; any exception counts as info."""
        ...

    def close(self) -> None:
        """Close the connection; idempotent."""
        ...


@runtime_checkable
class HasFunctions(Protocol):
    """Client that calls a function of the workload for each op."""

    def function_of(self, f: str) -> Callable[..., object]:
        """Return the function that makes the calls of this name."""
        ...


class Session(Protocol):
    """Workload that is set up on one cluster."""

    def client(self, node: str) -> Client:
        """Return a new client of one node, which connects on first use."""
        ...

    def pending(self) -> Sequence[str]:
        """Return why the cluster is not at rest, a reason each, such as "ch2 has 3 queue entries";
        empty if it is."""
        ...

    def observe(self) -> Mapping[str, Json]:
        """Return the state of the database at rest, by name, for the checkers."""
        ...

    def drop(self) -> Sequence[str] | None:
        """Remove what it created from the servers that answer. Return what is left elsewhere, a
        sentence each."""
        ...

    def close(self) -> None:
        """Close its connections; idempotent."""
        ...


class Workload(Protocol):
    """Calls to a database, and the checkers that judge them."""

    @property
    def name(self) -> str:
        """Name on the command line."""
        ...

    @property
    def live_anomalies(self) -> bool:
        """Return whether stale reads are counted during the run, because it reads sets that must
        not be stale."""
        ...

    def session(self, cluster: "Cluster", token: str) -> Session:
        """Create tables, whose names and paths `token` (letters, digits, underscores) makes unique.
        Raises ClusterError."""
        ...

    def generator(self) -> Generator:
        """Return the clients' calls, without end; the run limits them."""
        ...

    def final(self, keys: Sequence[int], nodes: Sequence[str]) -> Generator:
        """Return the calls at rest: reads of each of these keys on each of these replicas."""
        ...

    def checkers(self) -> Sequence["Checker"]:
        """Return the checkers that judge its history."""
        ...


# --- clusters -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Address at which the harness reaches a node's service."""

    host: str
    port: int
    user: str = "default"
    """User of a ClickHouse server."""
    password: str = field(default="", repr=False)
    secure: bool = False
    """Whether the server speaks TLS."""


class Cluster(Protocol):
    """Running database servers."""

    name: str
    runtime: Runtime
    """Runtime with which runs on the cluster make calls and spend time."""
    readings: Sequence[str]
    """Values of the setting `sequential_reading`; () if the servers do not have it."""

    @property
    def topology(self) -> Topology:
        """Nodes of the cluster, each with its version."""
        ...

    @classmethod
    def has(cls, capability: type) -> bool:
        """Return whether clusters of this class have a capability, such as CanPartition."""
        ...

    def part(self, capability: type[P]) -> P:
        """Return the part of the cluster that has a capability. Raises UsageError if it lacks the
        capability, which is checked before a run."""
        ...

    @property
    def engines(self) -> Engines:
        """Engines of the servers, whose versions decide what they understand."""
        ...

    def up(self) -> None:
        """Start the servers and return when each answers. Raises ClusterError with the reason."""
        ...

    def down(self) -> None:
        """Remove everything; idempotent, and possible after `up` has failed."""
        ...

    def ping(self) -> None:
        """Raise ClusterError if what runs the servers (an engine, a simulator) is gone."""
        ...

    def close(self) -> None:
        """Release the cluster and leave it running; idempotent."""
        ...

    def endpoint(self, node: str) -> Endpoint:
        """Return a replica's native port or a ZooKeeper server's client port."""
        ...

    def query_channel(self, node: str, timeout_s: float) -> QueryChannel:
        """Return a new connection to a replica. `timeout_s` bounds each whole answer."""
        ...

    def store_channel(self, timeout_s: float) -> StoreChannel:
        """Return a new connection to the object store of the topology, which has one. `timeout_s`
        bounds each answer."""
        ...

    def zookeeper(self, keepers: Sequence[str], timeout_s: float = 3.0) -> ZooKeeper:
        """Return a new session with any of these ZooKeeper servers. `timeout_s` bounds each
        answer."""
        ...

    def protocol_trace(self, now_ns: int) -> Written | None:
        """Return everything that was agreed on in ZooKeeper, as facts of
        `checkers/replication/protocol.py`, on a clock that shows `now_ns` now; None if the cluster
        does not record it."""
        ...

    def versions(self) -> Mapping[str, str]:
        """Return the version that each node reports."""
        ...

    def unready(self) -> Sequence[str]:
        """Return why the servers cannot serve now, a reason each, such as "zk2 has no leader";
        empty if they can."""
        ...

    def collect(self, directory: Path) -> None:
        """Move every node's logs to `directory`/<node>/, so that the next run has its own."""
        ...


# --- nemeses and checkers -------------------------------------------------------------------


class Nemesis(Protocol):
    """Injects faults as ops."""

    name: str
    fs: frozenset[str]
    """Names `f` of the ops that it executes."""
    needs: tuple[type | Mechanism, ...]
    """Capabilities of the cluster, such as CanPartition, and mechanisms of its servers, that it
    needs."""

    def generator(self) -> Generator:
        """Return the schedule of its faults, without end; its seed decides every choice."""
        ...

    def invoke(self, cluster: Cluster, op: Op) -> Done:
        """Inject or end a fault. It is ok only if its effect was seen, otherwise info with the
        reason. The value of an ok is an object with "fault" (the number that begin and end share),
        "edge" ("begin", "end", "once"), "name" and "text"."""
        ...

    def heal(self, cluster: Cluster) -> None:
        """End every fault that it began, and verify that; idempotent. Raises FaultError."""
        ...


class JudgesMechanism(Protocol):
    """Checker of a mechanism that only some servers have; it does not judge others."""

    needs: tuple[Mechanism, ...]


class Checker(Protocol):
    """Pure function from a history to a verdict."""

    name: str

    def check(self, history: History) -> Verdict:
        """Return the verdict: UNKNOWN with the reason if too little was seen."""
        ...


class BudgetedChecker(Checker, Protocol):
    """Checker whose work may grow beyond any bound, so that it can stop when its time is over. Its
    `check` has no limit."""

    def check_within(self, history: History, budget_s: float) -> Verdict:
        """Return the verdict: UNKNOWN with the reason if `budget_s` seconds were not enough."""
        ...


# Before Python 3.12 isinstance() with a protocol takes 200 times as long as hasattr().


def judges_mechanism(checker: object) -> TypeGuard[JudgesMechanism]:
    """Return whether a checker says which mechanisms it judges."""
    return hasattr(checker, "needs")


def only_reports(checker: object) -> bool:
    """Return whether a checker's verdict is reported and never decides a run: whether it has an
    attribute `only_reports` that is true."""
    return bool(getattr(checker, "only_reports", False))


def is_budgeted(checker: Checker) -> TypeGuard[BudgetedChecker]:
    """Return whether a checker takes a time budget."""
    return hasattr(checker, "check_within")


def check_within(checker: Checker, history: History, budget_s: float) -> Verdict:
    """Return the verdict of a checker: UNKNOWN with the reason if `budget_s` seconds were not
    enough. One that takes no budget is ended then."""
    if is_budgeted(checker):
        return checker.check_within(history, budget_s)
    try:
        with time_limit(budget_s):
            return checker.check(history)
    except OutOfTime:
        late = f"not decided within {budget_s:,.1f} s"
        return Verdict(
            checker=checker.name, status=Status.UNKNOWN, summary=late, checked=0, cut_short=True
        )


@runtime_checkable
class NeedsCalls(Protocol):
    """Checker that concludes nothing from a history with too few acknowledged calls."""

    def lacking(self, ok: Mapping[str, int]) -> Sequence[str]:
        """Return what is lacking, a sentence each, given the number of acknowledged calls by f."""
        ...
