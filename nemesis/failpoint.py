"""Failpoints of replicas: points in the server's source at which it fails or waits once armed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.core.capabilities import HasFailpoints
from harness.core.dialect import Mechanism
from harness.core.op import Json
from harness.core.protocols import Cluster
from harness.core.seed import Seed
from nemesis.cluster_state import responsive, running
from nemesis.family import Needs, NotBegunError, Watch
from nemesis.fault import REPLICA, FaultChoice, FaultEntry
from nemesis.node_fault import NodeFault

NAME: Final = "failpoint"


@dataclass(frozen=True, slots=True)
class Variant:
    """Failpoints that are armed together (ClickHouse, src/Common/FailPoint.cpp)."""

    text: str
    points: tuple[str, ...]
    lasts: bool = False
    """True if the points stay armed until they are disarmed; otherwise each triggers once."""


VARIANTS: Mapping[str, Variant] = {
    "failpoint-commit-answer": Variant(
        "the answer to one insert's commit is lost (servers since 23.4)",
        ("replicated_merge_tree_commit_zk_fail_after_op",),
    ),
    "failpoint-commit-retry": Variant(
        "the same, and that insert waits before it checks whether its commit succeeded",
        (
            "replicated_merge_tree_commit_zk_fail_after_op",
            "replicated_merge_tree_insert_retry_pause",
        ),
    ),
    "failpoint-quorum-wait": Variant(
        "the first request of an insert that waits for its quorum is lost",
        ("replicated_merge_tree_insert_quorum_fail_0",),
    ),
    "failpoint-failed-part": Variant(
        "a replica waits after it has marked a part's quorum as failed or dropped such a part",
        ("finish_set_quorum_failed_parts", "finish_clean_quorum_failed_parts"),
    ),
    "failpoint-sends": Variant(
        "a replica fails to send parts to others",
        ("replicated_sends_failpoint",),
        lasts=True,
    ),
    "failpoint-slow-commit": Variant(
        "every commit of a part takes five seconds longer (servers of 2026)",
        ("rmt_delay_commit_part",),
        lasts=True,
    ),
}
"""Variants by name."""


class Failpoint(NodeFault):
    """Family of failpoints: SYSTEM ENABLE FAILPOINT, and DISABLE when the fault ends.

    DISABLE also wakes the threads that wait at the point. The servers decide which points they
    know: the first variant, in random order, whose points are all known is used. A server forgets
    its failpoints when it is restarted, so a restart ends the fault early.
    """

    needs: Needs = (HasFailpoints, Mechanism.FAILPOINTS)
    heal_rank = 3
    """Healed last: the command needs a server that answers."""

    def __init__(self, choice: FaultChoice) -> None:
        """Draw among the chosen variants; "failpoint" stands for all of them."""
        super().__init__(choice)
        self.f = NAME
        self._variants = tuple(VARIANTS) if NAME in choice.names else choice.names
        self._order: tuple[str, ...] = ()
        self._chosen = ""
        self._armed: tuple[str, ...] = ()
        """Every point that was ever armed; it only grows."""

    def plan(self, seed: Seed, turn: int) -> Mapping[str, Json]:
        """Return the replicas, and the variants in the order in which they are tried."""
        variants = seed.child("variants", turn).shuffled(0, self._variants)
        return {**super().plan(seed, turn), "name": variants[0], "variants": list(variants)}

    def begin(self, cluster: Cluster, plan: Mapping[str, Json], watch: Watch) -> dict[str, Json]:
        """Arm the first variant whose points the servers know."""
        order = plan.get("variants") or self._variants
        assert isinstance(order, list | tuple), "a plan has its variants in order"
        self._order = tuple(str(name) for name in order)
        decided = super().begin(cluster, plan, watch)
        points = VARIANTS[self._chosen].points
        text = f"{decided['text']}: {' '.join(points)}"
        return {**decided, "name": self._chosen, "points": list(points), "text": text}

    def _inject(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        servers = cluster.part(HasFailpoints)
        for name in self._order:
            points = VARIANTS[name].points
            self._armed = tuple(dict.fromkeys((*self._armed, *points)))
            if all(servers.arm(nodes, point) for point in points):
                self._chosen = name
                return
            for point in points:
                servers.disarm(nodes, point)
        raise NotBegunError(f"{' '.join(nodes)}: no failpoint of {' '.join(self._order)} is known")

    def _unverified(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        variant = VARIANTS[self._chosen]
        if not variant.lasts:
            # It may have triggered already, and some servers disarm a failpoint when
            # system.fail_points is read (ClickHouse#103403).
            return []
        servers = cluster.part(HasFailpoints)
        return [
            f"{node} does not list {point} as enabled"
            for node in nodes
            for point in variant.points
            if servers.armed(node, point) is False
        ]

    def _revert(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        ready = responsive(cluster, nodes)
        for point in self._armed if ready else ():
            cluster.part(HasFailpoints).disarm(ready, point)

    def _remaining(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        # A server that does not run has forgotten its failpoints.
        alive = running(cluster, nodes)
        ready = responsive(cluster, alive)
        servers = cluster.part(HasFailpoints)
        paused = [f"{n} is paused, its failpoints are enabled" for n in alive if n not in ready]
        return paused + [
            f"{node} lists {point} as enabled"
            for node in ready
            for point in self._armed
            if servers.armed(node, point)
        ]


FAULTS: Final = tuple(
    FaultEntry(
        name=name,
        text=text,
        seen="the server accepted the command, which refuses unknown names; if it has "
        "system.fail_points, a failpoint that lasts is listed there as enabled",
        gone="the server accepted the command, and system.fail_points, if it exists, lists none as "
        "enabled",
        make=Failpoint,
        f=NAME,
        aim=REPLICA,
    )
    for name, text in {
        NAME: "the failpoints below that the servers know, in random order",
        **{name: variant.text for name, variant in VARIANTS.items()},
    }.items()
)
