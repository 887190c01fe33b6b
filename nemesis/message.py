"""Faults of single messages: a request that never arrives, or an answer that never comes back.

What packet filters cannot do: they know neither where a message begins nor what it asks. A proxy in
the replica's pod does; it is in the way only of runs that name such a fault.
"""

from collections.abc import Mapping, Sequence

from harness.core.op import Json
from harness.core.protocols import CanIntercept, Cluster
from harness.core.topology import Topology
from nemesis.node_fault import NodeFault
from nemesis.targets import Aim

DELAY_S = 1.0

COMMIT = ["/harness/", "/log/log-"]
"""Words of the transaction that commits an insert or assigns a merge, of the workloads' tables."""
FETCH = ["endpoint=DataPartsExchange"]
SECOND = [*FETCH, "_1_1_0"]
"""The fetch of a part that holds the second block of its partition and nothing else."""
QUORUM_END = ["/quorum/status", "/quorum/last_part"]
"""Of the transaction that ends a quorum."""
LAST_PART = ["/quorum/last_part"]
ACTIVE = ["/harness/", "/is_active", "tcp_port: "]
"""Of the transaction that makes a replica of the workloads' tables active: it tells its address,
which that of a quorum insert, where the node is checked, does not."""
FAILED = ["/harness/", "/quorum/failed_parts/"]
"""Of the transaction that says that a quorum has failed."""
APPLIED = ["/harness/", "/replicas/", "/columns", "/metadata"]
"""Words of the transaction in which a replica takes over the columns of an ALTER, where ALTERs are
entries of the log; the transaction that assigns the ALTER names no replica."""
FINISH = ["/finished/"]
"""Of the transaction that says that a host has finished a task of the DDL queue."""

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
        "from a commit on nothing reaches ZooKeeper, while the connection stays",
        {"channel": "zookeeper", "edge": "request", "do": "drop", "words": COMMIT},
    ),
    "zk-drop-response": (
        "from the answer to a commit on nothing comes back, while the connection stays",
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
    "zk-delay-quorum-end": (
        "what ends a quorum reaches ZooKeeper a third of a second late",
        {
            "channel": "zookeeper", "edge": "request", "do": "delay", "words": QUORUM_END,
            "delay_s": DELAY_S / 3,
        },
    ),
    "zk-delay-last-part": (
        "whoever is about to end a quorum learns a second late which part was the last",
        {
            "channel": "zookeeper", "edge": "request", "do": "delay", "words": LAST_PART,
            "delay_s": DELAY_S, "op": "get",
        },
    ),
    "zk-delay-active": (
        "a replica that comes back is active two seconds later than it says",
        {
            "channel": "zookeeper", "edge": "request", "do": "delay", "words": ACTIVE,
            "delay_s": 2 * DELAY_S,
        },
    ),
    "zk-delay-failed": (
        "the word that a quorum has failed reaches ZooKeeper a second late",
        {
            "channel": "zookeeper", "edge": "request", "do": "delay", "words": FAILED,
            "delay_s": DELAY_S,
        },
    ),
    "zk-drop-applied": (
        "a replica writes an ALTER's columns to ZooKeeper, and the answer does not come back",
        {"channel": "zookeeper", "edge": "response", "do": "drop", "words": APPLIED},
    ),
    "ddl-drop-finish": (
        "a host's word that it has finished a DDL task does not reach ZooKeeper",
        {"channel": "zookeeper", "edge": "request", "do": "drop", "words": FINISH},
    ),
    "fetch-cut-request": (
        "questions for parts do not reach the replica that has them",
        {"channel": "interserver", "edge": "request", "do": "cut", "words": FETCH},
    ),
    "fetch-cut-half": (
        "parts are sent in part, then the connection ends",
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
"""By name: what it does, and the rule of the proxy. Of the interserver channel it strikes the
replica that is asked."""


RARE = frozenset({"zk-delay-active", "zk-delay-failed", "fetch-hold-second"})
"""Variants of messages that few calls send: nobody can wait for one."""


class Message(NodeFault):
    """One of the variants, on some replicas. It is seen when a message was stopped; a rare one when
    the proxies would stop it, and its end tells how many were."""

    heal_rank = 0
    """With the links: what waits for ZooKeeper may wait for this."""

    def __init__(self, name: str, aims: Sequence[Aim], topology: Topology) -> None:
        super().__init__(aims, topology, CanIntercept)
        self.f = name
        self._rule = {"name": name, **VARIANTS[name][1]}

    def _name(self, aim: Aim) -> str:
        return f"{self.f}-{aim.target}"

    def _able(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        """Those whose proxy has no rule: of two rules for a message only the first is followed, and
        both go when one ends."""
        free = super()._able(cluster, nodes)
        return [node for node in free if not _interceptable(cluster).intercepted(node)["hits"]]

    def _strike(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        _interceptable(cluster).intercept(nodes, self._rule)

    def _unstruck(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        """One stopped message is enough: which replica sends the next one nobody knows."""
        if self.f in RARE:
            unarmed = [node for node in nodes if not self._hits(cluster, node, armed=True)]
            return [f"the proxy of {node} has no rule" for node in unarmed]
        hits = [self._hits(cluster, node) for node in nodes]
        return [] if any(hits) else [f"no message of {' '.join(nodes)} was stopped yet"]

    def _release(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        _interceptable(cluster).let_pass(nodes)

    def _note(self, cluster: Cluster, nodes: Sequence[str]) -> str:
        return f", {sum(self._hits(cluster, node) for node in nodes)} stopped"

    def _unreleased(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        return [
            f"the proxy of {node} still stops messages"
            for node in nodes
            if self._hits(cluster, node, armed=True)
            or _interceptable(cluster).intercepted(node)["stalled"]
        ]

    def _hits(self, cluster: Cluster, node: str, *, armed: bool = False) -> int:
        """How many messages were stopped; or, `armed`, whether any would be."""
        hits = _interceptable(cluster).intercepted(node)["hits"]
        assert isinstance(hits, Mapping), "the proxy tells hits by rule"
        return int(self.f in hits) if armed else int(hits.get(self.f, 0))


def _interceptable(cluster: Cluster) -> CanIntercept:
    assert isinstance(cluster, CanIntercept), "capabilities are checked before the run"
    return cluster
