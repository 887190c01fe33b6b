"""Kills that strike at a named moment: in mid-merge, in mid-fetch, in mid-clone, in mid-step.

A kill at random hits the few milliseconds of a merge or a fetch by luck. These faults look for the
moment, or hold it with the replicas' proxies, and kill a server in it; what the dead server has on
disk, or what a proxy had stopped, shows that it was hit. A kill that missed is info.

A step is a transaction of the replication protocol (docs/conformance.md). Its moments are two: the
request is sent and not in ZooKeeper, so that what led to it is done and the step is not; or it is
in ZooKeeper and its answer has not come, so that the server never learns what it has done.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeVar

from harness.core.capabilities import CanIntercept, CanListFiles, ReportsTableLeader
from harness.core.connections import QueryError
from harness.core.dialect import Mechanism
from harness.core.errors import FaultError
from harness.core.op import Json
from harness.core.protocols import Cluster
from harness.core.seed import Seed
from nemesis.cluster_state import responsive
from nemesis.family import NotBegunError, Watch, names
from nemesis.fault import Aim, FaultChoice, FaultEntry
from nemesis.message import COMMIT, FETCH, QUORUM_END
from nemesis.process import Kill
from nemesis.targets import NodeSpec

T = TypeVar("T")
POLL_NS: Final = 5_000_000
HELD_NS: Final = 500_000_000
"""Time after which a fetch that is not held has ended."""
FETCHED: Final = "tmp?fetch_*/"
"""Directories of parts that are being fetched: tmp_fetch_…, today tmp-fetch_…."""
HEAD_BYTES: Final = 1000
"""Bytes of an answer, its header included, with which a fetch begins."""
CLONE_S: Final = 25.0
"""Time for a killed replica to be marked lost, and for a lost one to begin its clone."""
ANSWER_S: Final = 2.0
TABLE: Final = ("/harness/", "/replicas/")
"""Words of a request about a replica of the workloads' tables."""
MERGES: Final = (
    "SELECT result_part_name FROM system.merges WHERE database LIKE 'harness_%' "
    "AND progress < 0.8 AND rows_written > 0 AND total_size_bytes_compressed > 1000000"
)
"""The merges that have begun to write and go on for long enough to be hit."""
DROPPED: Final = "harness_*.t.*.sql"
"""Metadata of a dropped table of an Atomic database, which go when its data have gone."""
DROP_S: Final = 25.0
"""Time to wait for a client that drops a table."""
PATHS: Final = (
    "SELECT DISTINCT zookeeper_path FROM system.replicas WHERE zookeeper_path LIKE '/harness/%'"
)


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment that was found: whom to kill, and what shows it."""

    victim: str
    text: str
    seen: tuple[str, ...]
    """Parts or directories that were under way."""


@dataclass(frozen=True, slots=True)
class MomentVariant:
    """Rule by which a moment is found, and what on the victim's disk proves that it was hit."""

    text: str
    find: Callable[["MomentKill", Cluster, Sequence[str], Watch], Moment]
    proof: str = ""
    """Pattern of what the dead server must have on its disk; "" if a proxy proves it."""
    proxied: bool = True
    reads_files: bool = True
    """Whether the moment or its proof is looked up in the servers' data."""
    needs: tuple[Mechanism, ...] = ()


class MomentKill(Kill):
    """Family of one such fault: SIGKILL at the moment, and start when the fault ends."""

    def __init__(self, choice: FaultChoice) -> None:
        super().__init__(choice)
        self.variant = VARIANTS[self.f]
        proxy = (CanIntercept,) if self.variant.proxied else ()
        files = (CanListFiles,) if self.variant.reads_files else ()
        self.needs = (*self.needs, *files, *proxy, *self.variant.needs)

    def plan(self, seed: Seed, turn: int) -> Mapping[str, Json]:
        """Return the replicas in the order in which they are looked at."""
        nodes = seed.child("order", turn).shuffled(0, self._topology.replicas)
        return {"name": self.f, "nodes": list(nodes)}

    def begin(self, cluster: Cluster, plan: Mapping[str, Json], watch: Watch) -> dict[str, Json]:
        """Find the moment, kill the victim in it, and look for the proof."""
        given = plan["nodes"]
        assert isinstance(given, list), "a plan has its nodes"
        nodes = responsive(cluster, [str(node) for node in given])
        if len(nodes) < 2:
            raise NotBegunError(f"{names(map(str, given))}: other faults hold all but one of them")
        watch.check()
        self._touched |= frozenset(nodes)
        try:
            found = self.variant.find(self, cluster, nodes, watch)
            self._affected |= {found.victim}
            self._inject(cluster, [found.victim])
            wrong = watch.until_none(lambda: self._unverified(cluster, [found.victim]))
        finally:
            self.release(cluster)
        if wrong:
            raise FaultError("; ".join(wrong))
        left = directories(cluster, found.victim, self.variant.proof) if self.variant.proof else ()
        if self.variant.proof and not left:
            raise FaultError(f"{found.victim} was killed too late: no {self.variant.proof} is left")
        return {
            **plan,
            "nodes": [found.victim],
            "seen": list(found.seen),
            "left": list(left),
            "text": found.text,
        }

    def strike(self, cluster: Cluster, node: str) -> None:
        """Kill a server in preparation of the moment; the end of the fault starts it, if nothing
        else has."""
        self._affected |= {node}
        self._inject(cluster, [node])

    def restore(self, cluster: Cluster, node: str) -> None:
        """Start a server that was killed in preparation of the moment."""
        super()._revert(cluster, [node])
        self._affected -= {node}

    def release(self, cluster: Cluster) -> None:
        """Remove the rules from all proxies."""
        if self.variant.proxied:
            cluster.part(CanIntercept).clear_rules(self._topology.replicas)

    def _name(self, spec: NodeSpec) -> str:  # noqa: ARG002
        return self.f

    def _revert(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        self.release(cluster)
        super()._revert(cluster, nodes)


def _merging(_kill: MomentKill, cluster: Cluster, nodes: Sequence[str], watch: Watch) -> Moment:
    """Wait for a merge; where one replica leads, for one of the leader's."""
    leader = None
    if cluster.engines.dialect.has(Mechanism.TABLE_LEADER) and cluster.has(ReportsTableLeader):
        leader = cluster.part(ReportsTableLeader).table_leader()
    order = nodes if leader is None or leader not in nodes else (leader,)
    with _asking(cluster, order) as ask:

        def look() -> Moment | None:
            for node in order:
                parts = ask(node, MERGES)
                if parts:
                    role = " (leader)" if node == leader else ""
                    return Moment(node, f"{node}{role} while it merged into {parts[0]}", parts)
            return None

        return _until(cluster, watch, watch.within_s, look, "no replica merged")


def _dropping(_kill: MomentKill, cluster: Cluster, nodes: Sequence[str], watch: Watch) -> Moment:
    """Wait for a replica that has given up a table of a workload and has yet to remove its data."""

    def look() -> Moment | None:
        for node in nodes:
            seen = directories(cluster, node, DROPPED)
            if seen:
                return Moment(node, f"{node} while it dropped a table", seen)
        return None

    return _until(cluster, watch, DROP_S, look, "no replica dropped a table")


def _fetching(_kill: MomentKill, cluster: Cluster, nodes: Sequence[str], watch: Watch) -> Moment:
    """Hold fetches in the middle; the victim is a replica with an incomplete part."""
    receiver, source, seen = _half_fetched(cluster, nodes, watch)
    return Moment(receiver, f"{receiver} while it fetched {seen[0]} from {source}", seen)


def _sending(_kill: MomentKill, cluster: Cluster, nodes: Sequence[str], watch: Watch) -> Moment:
    """Hold fetches in the middle; the victim is the replica that has sent half of a part."""
    receiver, source, seen = _half_fetched(cluster, nodes, watch)
    return Moment(source, f"{source} while {receiver} fetched {seen[0]} from it", seen)


def _half_fetched(
    cluster: Cluster, nodes: Sequence[str], watch: Watch
) -> tuple[str, str, tuple[str, ...]]:
    """Return a replica with an incomplete part, the one that sends it, and the directories."""
    proxies = cluster.part(CanIntercept)
    for node in nodes:  # one sender at a time, so that it is known who sends what was found
        rule = {"name": "stall", "channel": "interserver", "edge": "response", "do": "stall"}
        size = HEAD_BYTES + max(cluster.engines.on(other).fetch_buffer_bytes for other in nodes)
        proxies.intercept([node], {**rule, "words": list[Json](FETCH), "stall_bytes": size})

        def look(sender: str = node) -> tuple[str, str, tuple[str, ...]] | None:
            if not proxies.intercepted(sender)["stalled"]:
                return None
            for other in nodes:
                seen = _held(cluster, other) if other != sender else ()
                if seen:
                    return other, sender, seen
            return None

        try:
            return _until(cluster, watch, watch.within_s, look, "nobody fetched")
        except FaultError:
            proxies.clear_rules([node])
    raise FaultError("nobody fetched a part in time")


def _held(cluster: Cluster, node: str) -> tuple[str, ...]:
    """Return the directories of fetches that stay: those of other senders come and go."""
    first = directories(cluster, node, FETCHED)
    if not first:
        return ()
    clock = cluster.runtime.clock()
    clock.sleep_until(clock.now_ns() + HELD_NS)
    again = directories(cluster, node, FETCHED)
    return tuple(one for one in first if one in again)


@dataclass(frozen=True, slots=True)
class ClonePhase:
    """Moment of a clone: a message between the lost replica and ZooKeeper that a proxy holds."""

    text: str
    edge: str
    words: Sequence[str]
    """Words of the request, in which {lost} and {source} stand for the replicas."""
    without: Sequence[str] = ()
    skip: int = 0
    kills_source: bool = False
    """Whether the replica that is cloned is killed, not the one that clones it."""

    @property
    def names_source(self) -> bool:
        """Return whether its request tells which replica is cloned."""
        return any("{source}" in word for word in self.words)


def _cloning(phase: ClonePhase) -> Callable[[MomentKill, Cluster, Sequence[str], Watch], Moment]:
    """Return the rule of a phase: kill a replica until it is lost, start it, and hold its message;
    the victim is one of the two that take part in the clone."""

    def find(kill: MomentKill, cluster: Cluster, nodes: Sequence[str], watch: Watch) -> Moment:
        lost, *others = nodes
        proxies = cluster.part(CanIntercept)
        kill.strike(cluster, lost)
        _await_lost(cluster, lost, others, watch)
        for source in others if phase.names_source else (lost,):
            rule: dict[str, Json] = {"name": source, "channel": "zookeeper", "edge": phase.edge}
            rule |= {"op": "write", "do": "hold", "skip": phase.skip}
            words = [word.format(lost=lost, source=source) for word in phase.words]
            proxies.intercept([lost], {**rule, "words": [*words], "without": [*phase.without]})
        kill.restore(cluster, lost)

        def begun() -> Moment | None:
            for source in _hits(proxies, lost):
                text = phase.text.format(lost=lost, source=source)
                seen = f"{lost} from {source}" if phase.names_source else lost
                return Moment(source if phase.kills_source else lost, text, (seen,))
            return None

        return _until(cluster, watch, CLONE_S, begun, f"{lost} did not clone")

    return find


def _await_lost(cluster: Cluster, lost: str, others: Sequence[str], watch: Watch) -> None:
    """Wait until ZooKeeper has a killed replica as lost. Raises FaultError."""
    with _asking(cluster, others) as ask:

        def marked() -> bool | None:
            for path in ask(others[0], PATHS):
                place = f"path = '{path}/replicas/{lost}' AND name = 'is_lost'"
                if ask(others[0], f"SELECT value FROM system.zookeeper WHERE {place}") == ("1",):
                    return True
            return None

        _until(cluster, watch, CLONE_S, marked, f"{lost} was not lost")


def _in_step(
    step: str, edge: str, words: Sequence[str], without: Sequence[str] = ()
) -> Callable[["MomentKill", Cluster, Sequence[str], Watch], Moment]:
    """Return the rule of a step: hold the next transaction with these words, or the answer to it;
    the victim is the replica that made it."""

    def find(_kill: MomentKill, cluster: Cluster, nodes: Sequence[str], watch: Watch) -> Moment:
        proxies = cluster.part(CanIntercept)
        rule: dict[str, Json] = {"name": step, "channel": "zookeeper", "edge": edge, "do": "hold"}
        rule |= {"op": "write", "words": [*words], "without": [*without]}
        proxies.intercept(nodes, rule)

        def look() -> Moment | None:
            for node in nodes:
                if _hits(proxies, node):
                    when = "before" if edge == "request" else "after"
                    return Moment(node, f"{node} just {when} {step}", (step,))
            return None

        return _until(cluster, watch, watch.within_s, look, f"{step}: nobody sent it")

    return find


def directories(cluster: Cluster, node: str, pattern: str) -> tuple[str, ...]:
    """Return the names in a server's data that match a pattern: of directories if it ends with a
    slash, else of files."""
    found = cluster.part(CanListFiles).files(node, "", pattern)
    return tuple(sorted(path.rstrip("/").rpartition("/")[2] for path in found))


@contextmanager
def _asking(
    cluster: Cluster, nodes: Sequence[str]
) -> Iterator[Callable[[str, str], tuple[str, ...]]]:
    """Yield a function that returns the first column of a query on a node; () if it does not
    answer."""
    channels = {node: cluster.query_channel(node, ANSWER_S) for node in nodes}

    def ask(node: str, sql: str) -> tuple[str, ...]:
        try:
            columns = channels[node].ask(sql, {}, None)
        except QueryError:
            return ()
        return tuple(str(value) for value in columns[0]) if columns else ()

    try:
        yield ask
    finally:
        for channel in channels.values():
            channel.disconnect()


def _until(
    cluster: Cluster, watch: Watch, within_s: float, look: Callable[[], T | None], why: str
) -> T:
    """Return what `look` returns once it returns something. Raises FaultError, with the reason,
    when the time is over or the call was abandoned."""
    clock = cluster.runtime.clock()
    while clock.now_ns() < within_s * 1e9:
        watch.check()
        found = look()
        if found is not None:
            return found
        clock.sleep_until(clock.now_ns() + POLL_NS)
    raise FaultError(f"{why} within {within_s:.0f} s")


def _hits(proxies: CanIntercept, node: str) -> list[str]:
    """Return the rules of a node's proxy that have stopped a message."""
    hits = proxies.intercepted(node)["hits"]
    assert isinstance(hits, Mapping), "the proxy counts hits by rule"
    return [str(name) for name, count in hits.items() if count]


_NOT_LOST: Final = "/replicas/{lost}/is_lost"
_TAKES_PLACE: Final = ("/replicas/{lost}/log_pointer", "/replicas/{source}/is_lost")
"""Words of the transaction in which a lost replica takes the log pointer of the one it clones."""
CLONE_PHASES: Final[Sequence[tuple[str, str, ClonePhase]]] = (
    (
        "clone-kill-source",
        "the other one is killed when its place in the log was taken and its parts not yet listed",
        ClonePhase("{source} while {lost} cloned it", "response", _TAKES_PLACE, kills_source=True),
    ),
    (
        "clone-kill-pointer",
        "it is killed when it is about to take the place of the other one in the log",
        ClonePhase("{lost} just before it cloned {source}", "request", _TAKES_PLACE),
    ),
    (
        "clone-kill",
        "it is killed when it has taken that place, and has yet to list the parts",
        ClonePhase("{lost} while it cloned {source}", "response", _TAKES_PLACE),
    ),
    (
        "clone-kill-queue",
        "it is killed when one of the parts to fetch is in its queue, and others are not",
        ClonePhase(
            "{lost} while it filled its queue",
            "request",
            ("/replicas/{lost}/queue/queue-",),
            without=("/log_pointer",),
            skip=1,
        ),
    ),
    (
        "clone-kill-end",
        "it is killed when it is about to say that it is no longer lost",
        ClonePhase("{lost} just before the end of its clone", "request", (_NOT_LOST,)),
    ),
)
"""Names of the faults in a clone, who is killed when, and the moment."""

VARIANTS: Final[Mapping[str, MomentVariant]] = {
    "merge-kill": MomentVariant(
        "a replica, the leader if there is one, is killed while it merges",
        _merging,
        proof="tmp_merge_*/",
        proxied=False,
    ),
    "drop-kill": MomentVariant(
        "a replica is killed while it drops a table",
        _dropping,
        proof=DROPPED,
        proxied=False,
        needs=(Mechanism.ATOMIC_DATABASES,),
    ),
    "fetch-kill-receiver": MomentVariant(
        "a replica is killed while it has half of a part that it fetches",
        _fetching,
        proof=FETCHED,
    ),
    "fetch-kill-source": MomentVariant(
        "a replica is killed while another has half of a part that it fetches from it", _sending
    ),
    **{
        name: MomentVariant(
            f"a replica is away until it is lost, and clones another; {text}",
            _cloning(phase),
            reads_files=False,
        )
        for name, text, phase in CLONE_PHASES
    },
    "commit-kill": MomentVariant(
        "a replica is killed when its commit is in ZooKeeper and has not been answered",
        _in_step("a commit", "response", COMMIT),
        reads_files=False,
    ),
    "pull-kill": MomentVariant(
        "a replica is killed when it has copied log entries into its queue and does not know it",
        _in_step("a pull of the log", "response", [*TABLE, "/log_pointer", "/queue/queue-"]),
        reads_files=False,
    ),
    "register-kill": MomentVariant(
        "a replica is killed when it has fetched or merged a part that is not in ZooKeeper yet",
        _in_step(
            "the registration of a part",
            "request",
            [*TABLE, "/parts/", "format version"],
            ["/log/log-"],
        ),
        reads_files=False,
    ),
    "finish-kill": MomentVariant(
        "a replica is killed when it has done a queue's entry that is not removed yet",
        _in_step("the end of an entry", "request", [*TABLE, "/queue/queue-"], ["/log_pointer"]),
        reads_files=False,
    ),
    "quorum-end-kill": MomentVariant(
        "a replica is killed when it is about to end a quorum",
        _in_step("the end of a quorum", "request", QUORUM_END),
        reads_files=False,
    ),
}
"""Variants by name."""


_STRUCK: Final = "no server process is left, and what it had begun is on its disk, unfinished"
_HELD: Final = "no server process is left, and a proxy held its message or that of its partner"

FAULTS: Final = tuple(
    FaultEntry(
        name=name,
        text=variant.text,
        seen=_STRUCK if variant.proof else _HELD,
        gone="the servers run and answer",
        make=MomentKill,
        aim=Aim(role="clickhouse", target="all"),
    )
    for name, variant in VARIANTS.items()
)
