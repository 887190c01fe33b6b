"""Faults of single messages: a request or an answer that is cut, delayed or lost.

A packet filter cannot inject them, because it knows neither where a message begins nor what it
requests. A proxy in the replica's pod does; it is installed only in runs that name such a fault.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from harness.core.capabilities import CanIntercept
from harness.core.dialect import COORDINATED
from harness.core.op import Json
from harness.core.protocols import Cluster
from nemesis.family import Needs, Watch
from nemesis.fault import REPLICA, FaultChoice, FaultEntry
from nemesis.node_fault import NodeFault
from nemesis.targets import NodeSpec

DELAY_S = 1.0
EXPIRED_S = 7.0
"""A session that is silent this long has expired (5 s, and a tick of ZooKeeper's)."""

COMMIT = ["/harness/", "/log/log-"]
"""Words of a transaction that commits an insert or assigns a merge of the workloads' tables."""
FETCH = ["endpoint=DataPartsExchange"]
SECOND = [*FETCH, "_1_1_0"]
"""The fetch of a part that holds the second block of its partition and nothing else."""
QUORUM_END = ["/quorum/status", "/quorum/last_part"]
"""Words of the transaction that ends a quorum."""
LAST_PART = ["/quorum/last_part"]
ACTIVE = ["/harness/", "/is_active", "tcp_port: "]
"""Words of the transaction that makes a replica of the workloads' tables active. It contains the
replica's address; a quorum insert, which checks the same node, does not."""
FAILED = ["/harness/", "/quorum/failed_parts/"]
"""Words of the transaction that records that a quorum has failed."""
APPLIED = ["/harness/", "/replicas/", "/columns", "/metadata"]
"""Words of the transaction in which a replica applies the columns of an ALTER, where ALTERs are
entries of the log; the transaction that assigns the ALTER names no replica."""
STORED = ["/zero_copy/", "/replicas/", "/parts/"]
"""Words of the transaction that registers a part with the locks of its objects; that of an insert
has those of a commit, too."""
UNLOCKED = ["/zero_copy/"]
"""Word of the request that releases a lock of a part's objects."""
WRITTEN = [f"{COORDINATED}/"]
"""Word of a request about a KeeperMap table, a series or the log of transactions."""
FINISH = ["/finished/"]
"""Words of the transaction that records that a host has finished a task of the DDL queue."""

VARIANTS: Mapping[str, tuple[str, Mapping[str, Json]]] = {
    "zk-cut-request": (
        "a commit does not reach ZooKeeper, and the session's connection ends",
        {"channel": "zookeeper", "edge": "request", "do": "cut", "words": COMMIT},
    ),
    "zk-shut-request": (
        "a commit does not reach ZooKeeper, and neither does anything else until the fault ends",
        {"channel": "zookeeper", "edge": "request", "do": "shut", "words": COMMIT},
    ),
    "zk-cut-response": (
        "a commit reaches ZooKeeper, its answer does not come back, and the connection ends",
        {"channel": "zookeeper", "edge": "response", "do": "cut", "words": COMMIT},
    ),
    "zk-drop-request": (
        "from a commit on, nothing reaches ZooKeeper, while the connection stays open",
        {"channel": "zookeeper", "edge": "request", "do": "drop", "words": COMMIT},
    ),
    "zk-drop-response": (
        "from the answer to a commit on, nothing comes back, while the connection stays open",
        {"channel": "zookeeper", "edge": "response", "do": "drop", "words": COMMIT},
    ),
    "zk-delay-request": (
        "commits reach ZooKeeper a second late",
        {
            "channel": "zookeeper", "edge": "request", "do": "delay", "words": COMMIT,
            "delay_s": DELAY_S,
        },
    ),
    "zk-delay-response": (
        "answers to commits come back a second late",
        {
            "channel": "zookeeper", "edge": "response", "do": "delay", "words": COMMIT,
            "delay_s": DELAY_S,
        },
    ),
    "zk-expire-request": (
        "commits reach ZooKeeper seven seconds late, when their session has expired",
        {
            "channel": "zookeeper", "edge": "request", "do": "delay", "words": COMMIT,
            "delay_s": EXPIRED_S,
        },
    ),
    "zk-delay-quorum-end": (
        "the transaction that ends a quorum reaches ZooKeeper a third of a second late",
        {
            "channel": "zookeeper", "edge": "request", "do": "delay", "words": QUORUM_END,
            "delay_s": DELAY_S / 3,
        },
    ),
    "zk-delay-last-part": (
        "a replica that is about to end a quorum reads a second late which part was the last",
        {
            "channel": "zookeeper", "edge": "request", "do": "delay", "words": LAST_PART,
            "delay_s": DELAY_S, "op": "get",
        },
    ),
    "zk-delay-active": (
        "a replica that comes back is active two seconds later than it reports",
        {
            "channel": "zookeeper", "edge": "request", "do": "delay", "words": ACTIVE,
            "delay_s": 2 * DELAY_S,
        },
    ),
    "zk-delay-failed": (
        "the record that a quorum has failed reaches ZooKeeper a second late",
        {
            "channel": "zookeeper", "edge": "request", "do": "delay", "words": FAILED,
            "delay_s": DELAY_S,
        },
    ),
    "zk-drop-applied": (
        "a replica writes the columns of an ALTER to ZooKeeper, and the answer does not come back",
        {"channel": "zookeeper", "edge": "response", "do": "drop", "words": APPLIED},
    ),
    "zk-cut-register": (
        "a merged, mutated or fetched part on an object store is not registered in ZooKeeper, and "
        "the session's connection ends",
        {
            "channel": "zookeeper", "edge": "request", "do": "cut", "words": STORED,
            "without": ["/log/log-"],
        },
    ),
    "zk-cut-unlock": (
        "a lock of objects is released in ZooKeeper, the answer does not come back, and the "
        "session's connection ends",
        {
            "channel": "zookeeper", "edge": "response", "do": "cut", "words": UNLOCKED,
            "without": ["/replicas/", "part_exclusive_lock"], "op": "write",
        },
    ),
    "coordinated-cut-request": (
        "a write to a KeeperMap table, a series or a transaction log does not reach "
        "ZooKeeper, and the session's connection ends",
        {
            "channel": "zookeeper", "edge": "request", "do": "cut", "words": WRITTEN, "op": "write",
        },
    ),
    "coordinated-cut-response": (
        "a write to a KeeperMap table, a series or a transaction log reaches ZooKeeper, its "
        "answer does not come back, and the connection ends",
        {
            "channel": "zookeeper", "edge": "response", "do": "cut", "words": WRITTEN,
            "op": "write",
        },
    ),
    "coordinated-drop-response": (
        "from the answer to a write to a KeeperMap table, a series or a transaction log "
        "on, nothing comes back, while the connection stays open",
        {
            "channel": "zookeeper", "edge": "response", "do": "drop", "words": WRITTEN,
            "op": "write",
        },
    ),
    "coordinated-delay-request": (
        "writes to KeeperMap tables, series and transaction logs reach ZooKeeper a second late",
        {
            "channel": "zookeeper", "edge": "request", "do": "delay", "words": WRITTEN,
            "op": "write", "delay_s": DELAY_S,
        },
    ),
    "ddl-drop-finish": (
        "a host's record that it has finished a DDL task does not reach ZooKeeper",
        {"channel": "zookeeper", "edge": "request", "do": "drop", "words": FINISH},
    ),
    "fetch-cut-request": (
        "requests for parts do not reach the replica that has them",
        {"channel": "interserver", "edge": "request", "do": "cut", "words": FETCH},
    ),
    "fetch-cut-half": (
        "parts are sent incompletely, then the connection ends",
        {"channel": "interserver", "edge": "response", "do": "half", "words": FETCH},
    ),
    "fetch-delay-response": (
        "parts are sent a second late",
        {
            "channel": "interserver", "edge": "response", "do": "delay", "words": FETCH,
            "delay_s": DELAY_S,
        },
    ),
    "fetch-hold-second": (
        "the second block of each partition is not sent before the fault ends",
        {"channel": "interserver", "edge": "response", "do": "hold", "words": SECOND},
    ),
}  # fmt: skip
"""Description and rule of the proxy, by name. On the interserver channel the fault is at the
replica that sends the parts."""


ENDING: Final = ("cut", "half", "shut")
"""What rules do that end connections."""
RARE = frozenset(
    {"zk-delay-active", "zk-delay-failed", "zk-cut-register", "zk-cut-unlock", "fetch-hold-second"}
)
"""Variants for messages that are too rare to wait for one."""


class Message(NodeFault):
    """Family of one message fault.

    Its effect is seen when a message was stopped. A fault that lurks, because its variant is rare
    or its plan says so, has begun when the proxies have the rule; its end says how many messages
    were stopped.
    """

    needs: Needs = (CanIntercept,)
    heal_rank = 0
    """Healed with the links: what waits for ZooKeeper may wait for a stopped message."""

    def __init__(self, choice: FaultChoice) -> None:
        super().__init__(choice)
        self._rule: dict[str, Json] = {"name": self.f, **VARIANTS[self.f][1]}
        if choice.options.cut == "reject" and self._rule["do"] in ENDING:
            self._rule["resets"] = True
        self._lurks = False

    def begin(self, cluster: Cluster, plan: Mapping[str, Json], watch: Watch) -> dict[str, Json]:
        """Install the rule; wait for a stopped message unless the fault lurks."""
        self._lurks = self.f in RARE or plan.get("lurks") is True
        return super().begin(cluster, plan, watch)

    def _name(self, spec: NodeSpec) -> str:
        return f"{self.f}-{spec.target}"

    def _eligible(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        """Return the nodes whose proxy has no rule.

        Of two rules for a message the proxy follows only the first, and clears both when one ends.
        """
        free = super()._eligible(cluster, nodes)
        return [node for node in free if not cluster.part(CanIntercept).intercepted(node)["hits"]]

    def _inject(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        cluster.part(CanIntercept).intercept(nodes, self._rule)

    def _unverified(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        # One stopped message suffices: nobody knows which replica sends the next one.
        if self._lurks:
            unarmed = [node for node in nodes if not self._hits(cluster, node, armed=True)]
            return [f"the proxy of {node} has no rule" for node in unarmed]
        hits = [self._hits(cluster, node) for node in nodes]
        return [] if any(hits) else [f"no message of {' '.join(nodes)} was stopped yet"]

    def _revert(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        cluster.part(CanIntercept).clear_rules(nodes)

    def _note(self, cluster: Cluster, nodes: Sequence[str]) -> str:
        return f", {sum(self._hits(cluster, node) for node in nodes)} stopped"

    def _remaining(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        return [
            f"the proxy of {node} still stops messages"
            for node in nodes
            if self._hits(cluster, node, armed=True)
            or cluster.part(CanIntercept).intercepted(node)["stalled"]
        ]

    def _hits(self, cluster: Cluster, node: str, *, armed: bool = False) -> int:
        """Return how many messages a proxy has stopped; if `armed`, whether it has the rule."""
        hits = cluster.part(CanIntercept).intercepted(node)["hits"]
        assert isinstance(hits, Mapping), "the proxy counts hits by rule"
        return int(self.f in hits) if armed else int(hits.get(self.f, 0))


_STOPPED: Final[Mapping[str, str]] = {
    "cut": "the proxy in its pod cut a connection at such a message",
    "half": "the proxy in its pod cut a connection in the middle of such a message",
    "drop": "the proxy in its pod dropped such a message, and forwards nothing after it",
    "shut": "the proxy in its pod cut a connection at such a message, and accepts none after it",
    "delay": "the proxy in its pod held back such a message",
    "hold": "the proxy in its pod holds back such a message",
}
"""Evidence for a stopped message, by the rule's action."""
_ARMED: Final = "the proxy in its pod has the rule; the end of the fault says how many it stopped"

FAULTS: Final = tuple(
    FaultEntry(
        name=name,
        text=text,
        seen=_ARMED if name in RARE else _STOPPED[str(rule["do"])],
        gone="the proxy has no such rule any more and holds back nothing",
        make=Message,
        aim=REPLICA,
    )
    for name, (text, rule) in VARIANTS.items()
)
