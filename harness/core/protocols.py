"""The seams: what a generator, client, workload, nemesis, cluster and checker are.

A fault that a cluster cannot do is refused before the run starts: a nemesis states the capability
Protocols that it needs, a cluster has them or not.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, TypeAlias, cast, runtime_checkable

import msgspec

from harness.core.clock import Clock, WallClock
from harness.core.dialect import Engines, Mechanism
from harness.core.history import History
from harness.core.op import Call, Done, Json, Op, Written
from harness.core.topology import Link, Topology
from harness.core.verdict import Verdict

# --- generators -----------------------------------------------------------------------------


ANY_NODE: Final = "*"
"""The node of a worker that roams: each of its calls names the node to be done on."""


class Worker(msgspec.Struct, frozen=True, gc=False):
    """One thread of the test: it runs one process after the other, always on one node unless it
    roams."""

    number: int
    """From 0; the nemesis is -1."""
    process: int
    """The process that it runs now: `number` plus a multiple of the number of workers."""
    node: str
    """ "" for the nemesis; ANY_NODE for one that roams."""


class Context(msgspec.Struct, frozen=True, gc=False):
    """What a generator may look at."""

    time_ns: int
    free: tuple[Worker, ...]
    """Workers without a call in flight, the preferred one first; the nemesis among them when
    it is free."""
    busy: tuple[Worker, ...]
    """Workers with a call in flight, the nemesis among them when it is busy. A combinator that
    gives its part only some workers narrows both."""


class Ready(msgspec.Struct, frozen=True, gc=False):
    """A call for a free worker, now."""

    call: Call
    worker: Worker


class Pending(msgspec.Struct, frozen=True, gc=False):
    """Nothing now; ask again at `wake_ns`, or (None) when some call has ended."""

    wake_ns: int | None = None
    firm: bool = False
    """Whatever begins or ends before `wake_ns` changes nothing: nobody need ask meanwhile."""


class Exhausted(msgspec.Struct, frozen=True, gc=False):
    """Nothing any more."""


Step: TypeAlias = Ready | Pending | Exhausted


class Generator(Protocol):
    """A pure value: what to do next. Neither method changes the generator; both return the next."""

    def op(self, context: Context) -> tuple[Step, "Generator"]:
        """What to do at `context.time_ns`."""
        ...

    def update(self, context: Context, event: Op) -> "Generator":
        """The generator after the end of a call, its own or another's. `context` is that of the
        whole run, whichever part of it the generator has."""
        ...


# --- clients and workloads ------------------------------------------------------------------


class Client(Protocol):
    """Turns one op into one call to the database. Used by one worker at a time."""

    def invoke(self, op: Op) -> Done:
        """Ends the op. Database and network errors become fail or info, by the table of
        outcomes; anything that raises is info."""
        ...

    def close(self) -> None:
        """May be called twice."""
        ...


class Session(Protocol):
    """A workload that has been set up on one cluster."""

    def client(self, node: str) -> Client:
        """A new client of one node; connects on first use."""
        ...

    def pending(self) -> Sequence[str]:
        """Why the cluster has not come to rest, a reason each, such as "ch2 has 3 queue
        entries"; empty when it has."""
        ...

    def observe(self) -> Mapping[str, Json]:
        """State read off the database at rest, by name, for the checkers."""
        ...

    def drop(self) -> None:
        """Removes what it made, where the servers answer."""
        ...

    def close(self) -> None:
        """Ends its connections; may be called twice."""
        ...


class Workload(Protocol):
    """What to do to a database, and how it is judged. One file each."""

    @property
    def name(self) -> str:
        """As it is called on the command line."""
        ...

    @property
    def live_anomalies(self) -> bool:
        """Whether it inserts and reads sets that must not be stale: then stale reads are counted
        while the run goes on."""
        ...

    def session(self, cluster: "Cluster", token: str) -> Session:
        """Creates tables under names and paths made fresh by `token` (letters, digits,
        underscores). Raises ClusterError."""
        ...

    def generator(self) -> Generator:
        """The clients' calls, without end; the run limits it."""
        ...

    def final(self, keys: Sequence[int], nodes: Sequence[str]) -> Generator:
        """The calls after the cluster has come to rest: each of these keys read on each of these
        replicas."""
        ...

    def checkers(self) -> Sequence["Checker"]:
        """Which judge a history of it."""
        ...


# --- clusters and what they can do ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the harness reaches a node's service."""

    host: str
    port: int


class Cluster(Protocol):
    """Running database servers."""

    name: str
    topology: Topology

    @property
    def engines(self) -> Engines:
        """Which servers they are, and by their versions what they understand."""
        ...

    def up(self) -> None:
        """Returns when every server answers. Raises ClusterError, with the reason."""
        ...

    def down(self) -> None:
        """Leaves nothing; may be called twice, and after `up` failed half-way."""
        ...

    def ping(self) -> None:
        """Raises ClusterError when what runs the servers (an engine, a simulator) is gone."""
        ...

    def close(self) -> None:
        """Lets go of the cluster and leaves it running; may be called twice."""
        ...

    def endpoint(self, node: str) -> Endpoint:
        """A replica's native port, a ZooKeeper server's client port."""
        ...

    def versions(self) -> Mapping[str, str]:
        """What each node says it runs."""
        ...

    def unready(self) -> Sequence[str]:
        """Why the servers cannot serve now, a reason each: "zk2 has no leader"; empty when all
        can."""
        ...

    def collect(self, directory: Path) -> None:
        """Moves every node's logs to `directory`/<node>/: the next run has its own."""
        ...


@runtime_checkable
class CanPartition(Protocol):
    """Cuts links, per direction."""

    def cut(self, links: Iterable[Link]) -> None:
        """Drops every packet of these links; others stay as they are."""
        ...

    def mend(self) -> None:
        """Ends every cut; may be called twice."""
        ...

    def reachable(self, links: Iterable[Link]) -> Mapping[Link, bool]:
        """Sends something over each link and says whether it arrived."""
        ...


@runtime_checkable
class CanKill(Protocol):
    """Ends server processes at once (SIGKILL) and starts them again."""

    def kill(self, nodes: Iterable[str]) -> None:
        """Returns when the processes are gone."""
        ...

    def start(self, nodes: Iterable[str]) -> None:
        """Starts what does not run, and returns when each server answers."""
        ...

    def running(self, node: str) -> bool:
        """Whether the server process exists."""
        ...


@runtime_checkable
class CanRestart(Protocol):
    """Stops servers gracefully and starts them again."""

    def restart(self, nodes: Iterable[str]) -> None:
        """SIGTERM, wait, start; returns when each server answers."""
        ...


@runtime_checkable
class CanUpgrade(Protocol):
    """Restarts servers on another version, with the data that they have."""

    def upgrade(self, node: str, version: str) -> float:
        """SIGTERM, wait, start on that version, as a Node names it. Returns when the server
        answers: the seconds since SIGTERM. Its data, its network and what is cut stay. Raises
        StartError, with the end of its log, when it does not answer: it has that version then all
        the same."""
        ...

    def inactive(self, node: str) -> Sequence[str]:
        """Why the server does not do its part in the cluster, a reason each, such as a replica of
        a table that is not active; empty when it does."""
        ...


@runtime_checkable
class CanPause(Protocol):
    """Freezes server processes (SIGSTOP, SIGCONT)."""

    def pause(self, nodes: Iterable[str]) -> None:
        """Returns when they are stopped."""
        ...

    def resume(self, nodes: Iterable[str]) -> None:
        """Of what is not paused, nothing happens."""
        ...

    def paused(self, node: str) -> bool:
        """Whether every process of the server is stopped, as the kernel says."""
        ...


@runtime_checkable
class CanLead(Protocol):
    """Knows its leader."""

    def leader(self) -> str | None:
        """The ZooKeeper server that leads now; None: none does."""
        ...

    def serving(self) -> frozenset[str]:
        """The ZooKeeper servers that say that they lead or follow. One that was cut off goes on
        saying so for tickTime x syncLimit."""
        ...


@runtime_checkable
class CanLeadTables(Protocol):
    """Knows which replica leads a table, that is, assigns its merges and mutations."""

    def table_leader(self) -> str | None:
        """The replica that leads most of the run's tables now; None: none leads any."""
        ...


@runtime_checkable
class CanStopFetches(Protocol):
    """Keeps a replica from fetching parts, so that it lags."""

    def stop_fetches(self, nodes: Iterable[str]) -> None:
        """Of every table."""
        ...

    def start_fetches(self, nodes: Iterable[str]) -> None:
        """May be called twice."""
        ...

    def fetching(self, node: str) -> bool:
        """Whether a part put on another replica now reaches this one (asks with a probe)."""
        ...


@runtime_checkable
class HasFailpoints(Protocol):
    """Arms points in the source of database servers at which they fail or wait."""

    def arm(self, nodes: Iterable[str], point: str) -> bool:
        """Return whether every server knows the point, and armed it."""
        ...

    def disarm(self, nodes: Iterable[str], point: str) -> None:
        """Also wakes who waits at it. Of one that is not armed or not known, nothing happens."""
        ...

    def armed(self, node: str, point: str) -> bool | None:
        """Return whether the server lists the point as armed; None: it has no list."""
        ...


@runtime_checkable
class CanLosePackets(Protocol):
    """Loses some of the packets from and to a node."""

    def unfit_for_loss(self) -> str | None:
        """Why it cannot, such as a kernel that lacks the match; None: it can."""
        ...

    def lose_packets(self, nodes: Iterable[str]) -> None:
        """Three of ten, on all links of these nodes."""
        ...

    def keep_packets(self, nodes: Iterable[str]) -> None:
        """Ends that; may be called twice."""
        ...

    def losing_packets(self, node: str) -> Mapping[Link, bool]:
        """Of each link from or to it, whether packets are lost on it."""
        ...


@runtime_checkable
class CanSlowFetches(Protocol):
    """Slows the fetches of a replica down."""

    def slow_fetches(self, nodes: Iterable[str]) -> None:
        """A hundredfold."""
        ...

    def speed_fetches(self, nodes: Iterable[str]) -> None:
        """Ends that; may be called twice."""
        ...

    def fetching_slowly(self, node: str) -> bool:
        """Whether it does."""
        ...


@runtime_checkable
class CanSkewClocks(Protocol):
    """Lets the clock of a ZooKeeper server go slowly, so that its timers come late."""

    def skew_clocks(self, nodes: Iterable[str]) -> None:
        """A third of the speed."""
        ...

    def right_clocks(self, nodes: Iterable[str]) -> None:
        """Ends that; may be called twice."""
        ...

    def skewed(self, node: str) -> bool:
        """Whether its clock goes wrong."""
        ...


@runtime_checkable
class KeepsTime(Protocol):
    """Has a time of its own, which goes on only while somebody waits: a simulated cluster.

    What is called in one of its tasks may wait on its clock, and so may what is called from
    outside of them; the tasks go on meanwhile.
    """

    def clock(self) -> Clock:
        """Its time, from now on."""
        ...


@runtime_checkable
class KeepsRecord(Protocol):
    """Knows everything that was agreed on in ZooKeeper."""

    def record(self, now_ns: int) -> Written:
        """Facts, as `checkers/protocol.py` has them, on a clock that shows `now_ns` now."""
        ...


@runtime_checkable
class CanIntercept(Protocol):
    """Stops single messages on a replica's connections, by what they are."""

    def interpose(self) -> None:
        """Puts a proxy in the way of every replica's connections to ZooKeeper and of every
        fetch from it; returns when all pass through. Restarts replicas the first time; may be
        called twice. Without it nothing is in the way."""
        ...

    def intercept(self, nodes: Iterable[str], rule: Mapping[str, Json]) -> None:
        """From now on the proxies of these replicas follow this rule too, see pod_proxy.py."""
        ...

    def let_pass(self, nodes: Iterable[str]) -> None:
        """Forgets every rule and ends what hangs; may be called twice."""
        ...

    def intercepted(self, node: str) -> Mapping[str, Json]:
        """ "hits": how often each rule in force was followed, by name; "stalled": connections
        that hang because of one."""
        ...


@runtime_checkable
class CanLook(Protocol):
    """Lists the files of a database server."""

    def files(self, node: str, directory: str, name: str) -> Sequence[str]:
        """Paths below `directory` of the server's data directory whose file name fits the pattern
        `name`, such as "*.bin"; none where there is no such directory. Raises ClusterError."""
        ...


@runtime_checkable
class CanConfigure(Protocol):
    """Changes the configuration of servers that run."""

    def configure(self, node: str, name: str, text: str) -> None:
        """Writes a file that the server merges into its configuration; "" takes it away."""
        ...


def clock_of(cluster: Cluster) -> Clock:
    """A new clock that shows the cluster's time: its own, or the machine's."""
    # By class, for which Python knows the answer; an object's methods it goes through each time.
    if issubclass(type(cluster), KeepsTime):
        return cast(KeepsTime, cluster).clock()
    return WallClock()


# --- nemeses and checkers -------------------------------------------------------------------


class Nemesis(Protocol):
    """Injects faults as ops."""

    name: str
    fs: frozenset[str]
    """The f of the ops that it takes."""
    needs: tuple[type | Mechanism, ...]
    """Capabilities of the cluster, such as CanPartition, and mechanisms of its servers."""

    def generator(self) -> Generator:
        """The schedule of its faults, without end, all choices from its seed."""
        ...

    def invoke(self, cluster: Cluster, op: Op) -> Done:
        """Ok only when the effect was seen. The value of an ok is an object with "fault" (the
        number that begin and end share), "edge" ("begin", "end", "once"), "name", "text".
        A fault whose effect was not seen is info, with the reason."""
        ...

    def heal(self, cluster: Cluster) -> None:
        """Ends every fault it began, and verifies that. May be called twice. Raises FaultError."""
        ...


@runtime_checkable
class JudgesMechanism(Protocol):
    """A checker of something that only some servers have: on others it does not judge."""

    needs: tuple[Mechanism, ...]


class Checker(Protocol):
    """Pure: history in, verdict out."""

    name: str

    def check(self, history: History, *, deadline_s: float) -> Verdict:
        """UNKNOWN, with the reason, when the deadline passes or too little was seen."""
        ...


@runtime_checkable
class NeedsCalls(Protocol):
    """A checker that concludes nothing from a history with too few acknowledged calls."""

    def lacking(self, ok: Mapping[str, int]) -> Sequence[str]:
        """Return what is lacking, a sentence each, if so many calls were acknowledged by f."""
        ...
