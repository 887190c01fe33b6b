"""Partitions: links that drop every packet, or also reset TCP connections, in the eight shapes of
VARIANTS, or around nodes of a role (AIMED).

The servers keep running, so two parts of the cluster may disagree. The effect is verified link by
link: the chosen links are dead, and all others are alive.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final, TypeAlias

from harness.core.capabilities import CanPartition, CanReject, ReportsLeader
from harness.core.errors import UsageError
from harness.core.op import Json
from harness.core.protocols import Cluster
from harness.core.seed import Seed
from harness.core.topology import Link, LinkClass, Topology
from nemesis import grudge
from nemesis.family import Needs, NotBegunError, Watch
from nemesis.fault import FaultChoice, FaultEntry
from nemesis.options import CUTS
from nemesis.targets import NodeSpec, nodes, why_unsupported

Cut: TypeAlias = tuple[frozenset[Link], str]
"""Links to drop, and their description."""


@dataclass(frozen=True, slots=True)
class PartitionScope:
    """Links and nodes among which a partition may be made."""

    topology: Topology
    classes: tuple[LinkClass, ...]
    links: tuple[Link, ...]
    """Links of these classes."""
    nodes: tuple[str, ...]
    """Nodes with such a link, in the topology's order."""

    @staticmethod
    def of(topology: Topology, classes: Sequence[LinkClass]) -> "PartitionScope":
        """Return the scope of the links of these classes."""
        links = topology.links(classes)
        ends = {link.source for link in links} | {link.target for link in links}
        nodes = tuple([name for name in topology.names if name in ends])
        return PartitionScope(topology, tuple(classes), links, nodes)

    def split(self, part: Sequence[str]) -> Cut:
        """Return the cut between these nodes and all others."""
        sides = (self.ordered(part), self.ordered(set(self.nodes) - set(part)))
        return grudge.complete(self.links, sides), _braces(sides)

    def ordered(self, part: Sequence[str] | set[str]) -> tuple[str, ...]:
        """Return nodes in the topology's order."""
        return tuple([name for name in self.nodes if name in part])


def _one(scope: PartitionScope, seed: Seed) -> Cut:
    return scope.split((seed.choice(0, scope.nodes),))


def _majority(scope: PartitionScope, seed: Seed) -> Cut:
    """Cut off a minority of at least two nodes if there are enough; one node is `partition-one`."""
    most = (len(scope.nodes) - 1) // 2
    least = min(2, most)
    size = least + seed.below(0, most - least + 1)
    return scope.split(seed.shuffled(1, scope.nodes)[:size])


def _halves(scope: PartitionScope, seed: Seed) -> Cut:
    return scope.split(seed.shuffled(0, scope.nodes)[: len(scope.nodes) // 2])


def _ring(scope: PartitionScope, seed: Seed) -> Cut:
    order = seed.shuffled(0, scope.nodes)
    reach = grudge.ring_reach(len(order))
    text = f"ring {' '.join(order)}, each hears {reach} on either side"
    return grudge.ring(scope.links, order), text


def _bridge(scope: PartitionScope, seed: Seed) -> Cut:
    middle, *rest = seed.shuffled(0, scope.nodes)
    sides = (scope.ordered(rest[: len(rest) // 2]), scope.ordered(rest[len(rest) // 2 :]))
    return grudge.bridge(scope.links, middle, sides), f"{_braces(sides)}, bridge {middle}"


def _one_way(scope: PartitionScope, seed: Seed) -> Cut:
    node = seed.choice(0, scope.nodes)
    if seed.below(1, 2):
        return grudge.deaf(scope.links, node), f"{node} hears nobody"
    return grudge.mute(scope.links, node), f"nobody hears {node}"


def _pair(scope: PartitionScope, seed: Seed) -> Cut:
    replica = scope.topology.node(seed.choice(0, scope.topology.replicas))
    return scope.split((replica.name, seed.choice(1, replica.keepers)))


FOLLOWER = "partition-keeper-follower"

AIMED: Mapping[str, NodeSpec] = {
    f"partition-{spec}": spec
    for role in ("clickhouse", "zookeeper")
    for target in ("one", "minority")
    for spec in [NodeSpec(role, target)]
}
"""Partitions that cut nodes of a role off from all others, by name; from ZooKeeper alone if the
link class is keeper. `partition` does not draw them."""


def _aimed(spec: NodeSpec) -> "Callable[[PartitionScope, Seed], Cut]":
    def draw(scope: PartitionScope, seed: Seed) -> Cut:
        part = nodes(spec, scope.topology, seed)
        dropped, _ = scope.split(part)
        ends = {end for link in dropped for end in (link.source, link.target)}
        return dropped, _braces((scope.ordered(part), scope.ordered(ends - set(part))))

    return draw


SHAPES: Mapping[str, Callable[[PartitionScope, Seed], Cut]] = {
    "partition-one": _one,
    "partition-majority": _majority,
    "partition-halves": _halves,
    "partition-ring": _ring,
    "partition-bridge": _bridge,
    "partition-one-way": _one_way,
    "partition-pair": _pair,
    **{name: _aimed(spec) for name, spec in AIMED.items()},
}
"""Shapes that a seed can draw. The follower's is missing: only the run knows who leads."""

VARIANTS: Mapping[str, str] = {
    "partition-one": "one node, a replica or a ZooKeeper server, is cut off from all others",
    "partition-majority": "a minority of the nodes is cut off from the majority",
    "partition-halves": "half of the nodes is cut off from the other half",
    "partition-ring": "each node hears a majority, and no two nodes hear the same majority",
    "partition-bridge": "two halves are connected only through one node",
    "partition-one-way": "a node hears nobody, or nobody hears it",
    FOLLOWER: "a ZooKeeper follower is cut off from its peers, and its clients stay connected",
    "partition-pair": "a replica and the ZooKeeper server it reads through are cut off together",
}

NODES_MIN: Mapping[str, int] = {
    "partition-one": 2,
    "partition-majority": 3,
    "partition-halves": 2,
    "partition-ring": 4,
    "partition-bridge": 3,
    "partition-one-way": 2,
    FOLLOWER: 2,
    "partition-pair": 3,
    **dict.fromkeys(AIMED, 2),
}
"""Minimum number of nodes (for FOLLOWER, ZooKeeper servers); with fewer there is no such shape."""

FOREMOST = (FOLLOWER, "partition-pair")
"""Variants that come first, in either order. They cut the ZooKeeper server that a replica reads
through off from its quorum while the replica still answers, which is how stale reads arise."""

REDRAWS_MAX = 64
"""Number of draws after which a variant is taken to cut nothing. A single draw may cut nothing,
such as replicas from ZooKeeper servers if the links between them are left out."""


@cache
def unsupported(topology: Topology, classes: tuple[LinkClass, ...]) -> Mapping[str, str]:
    """Return the variants that cannot be made of the links of these classes, and why."""
    scope = PartitionScope.of(topology, classes)
    reasons = {variant: _why_unsupported(variant, scope) for variant in (*VARIANTS, *AIMED)}
    return {variant: reason for variant, reason in reasons.items() if reason}


def _why_unsupported(variant: str, scope: PartitionScope) -> str | None:
    least = NODES_MIN[variant]
    if variant == FOLLOWER:
        if LinkClass.PEER not in scope.classes:
            return "it cuts peer links, which are not among the link classes"
        if len(scope.topology.keepers) < least:
            return f"it needs {least} ZooKeeper servers, {len(scope.topology.keepers)} given"
        return None
    if variant in AIMED and (why := why_unsupported(AIMED[variant], scope.topology)):
        return why
    if len(scope.nodes) < least:
        return f"it needs {least} nodes with such links, {len(scope.nodes)} given"
    if not _draw(variant, scope, Seed(0)):
        return "no link of the link classes would be cut"
    return None


class Partition:
    """Family of partitions: one after the other, drawn from the named variants."""

    f = "partition"
    once = False
    heal_rank = 0
    """Healed first: a server cannot rejoin a quorum that it cannot reach."""

    def __init__(
        self,
        variants: Sequence[str],
        topology: Topology,
        classes: Sequence[LinkClass],
        cut: str = CUTS[0],
    ) -> None:
        """Raise UsageError, which names the first variant that this topology does not allow."""
        self._scope = PartitionScope.of(topology, classes)
        reasons = unsupported(topology, self._scope.classes)
        for variant in variants:
            if variant in reasons:
                raise UsageError(f"nemesis {variant!r}: {reasons[variant]}")
        self._links = topology.links()
        self._first = tuple([variant for variant in variants if variant in FOREMOST])
        self._rest = tuple([variant for variant in variants if variant not in FOREMOST])
        leads: tuple[type, ...] = (ReportsLeader,) if FOLLOWER in variants else ()
        self._rejects = cut == "reject"
        rejects: tuple[type, ...] = (CanReject,) if self._rejects else ()
        self.needs: Needs = (CanPartition, *rejects, *leads)

    def plan(self, seed: Seed, turn: int) -> Mapping[str, Json]:
        """Return the grudge and its text; for a follower, an order whose first follower is cut off.

        Every variant comes once before any comes again, so that a short run sees the foremost.
        """
        rounds, at = divmod(turn, len(self._first) + len(self._rest))
        variant = _order(seed.child("round", rounds), self._first, self._rest)[at]
        own = seed.child("turn", turn)
        if variant == FOLLOWER:
            order = own.shuffled(0, self._scope.topology.keepers)
            return {"name": variant, "order": list(order)}
        drawn = _draw(variant, self._scope, own)
        assert drawn is not None, "unsupported variants are refused when the nemesis is made"
        dropped, text = drawn
        return {"name": variant, "grudge": grudge.to_json(dropped), "text": text}

    def begin(self, cluster: Cluster, plan: Mapping[str, Json], watch: Watch) -> dict[str, Json]:
        """Cut the links of the grudge, and verify that exactly those are dead, and reset TCP
        connections if they are to."""
        target = cluster.part(CanPartition)
        decided = {**plan, **(self._follower(cluster, plan) if "order" in plan else {})}
        shape = decided["grudge"]
        assert isinstance(shape, dict), "the grudge is decided by now"
        dropped = grudge.from_json(shape)
        watch.check()
        if not self._rejects:
            target.cut(sorted(dropped))
            watch.require_none(lambda: _differences(target, self._links, dropped))
            return decided
        rejecting = cluster.part(CanReject)
        rejecting.reject(sorted(dropped))
        watch.require_none(
            lambda: _differences(target, self._links, dropped) or _silent(rejecting, dropped)
        )
        return {**decided, "text": f"{decided['text']}, TCP is reset"}

    def end(self, cluster: Cluster, watch: Watch) -> dict[str, Json]:
        """Mend all links, and verify that every one is alive."""
        watch.check()
        self.undo(cluster)
        watch.require_none(lambda: self.broken(cluster))
        return {"text": "every link is alive"}

    def undo(self, cluster: Cluster) -> None:
        """End every cut."""
        cluster.part(CanPartition).mend()

    def broken(self, cluster: Cluster) -> Sequence[str]:
        """Return the links of the cluster that drop packets, a reason each."""
        return _differences(cluster.part(CanPartition), self._links, frozenset())

    def _follower(self, cluster: Cluster, plan: Mapping[str, Json]) -> dict[str, Json]:
        leader = cluster.part(ReportsLeader).leader()
        if leader is None:
            raise NotBegunError("no ZooKeeper server leads now, so none follows")
        order = plan["order"]
        assert isinstance(order, list), "a follower's plan is a list of servers"
        follower = next(str(name) for name in order if name != leader)
        keepers = self._scope.topology.keepers
        others = tuple(name for name in keepers if name != follower)
        sides = ((follower,), others)
        dropped = grudge.complete(self._scope.topology.links((LinkClass.PEER,)), sides)
        return {
            "leader": leader,
            "follower": follower,
            "grudge": grudge.to_json(dropped),
            "text": f"{_braces(sides)}, leader {leader}, clients connected",
        }


@lru_cache(maxsize=1)
def _order(seed: Seed, first: tuple[str, ...], rest: tuple[str, ...]) -> tuple[str, ...]:
    """Return the order of the variants in one round. The cache serves all turns of a round."""
    return (*seed.shuffled(0, first), *seed.shuffled(1, rest))


def _draw(variant: str, scope: PartitionScope, seed: Seed) -> Cut | None:
    for attempt in range(REDRAWS_MAX):
        dropped, text = SHAPES[variant](scope, seed.child("shape", attempt))
        if dropped:
            return dropped, text
    return None


def _differences(
    cluster: CanPartition, links: Sequence[Link], dropped: frozenset[Link]
) -> tuple[str, ...]:
    alive = cluster.reachable(links)
    wrong = [link for link, arrived in alive.items() if arrived == (link in dropped)]
    return tuple(
        f"link {link.source} → {link.target} is {'alive' if alive[link] else 'dead'}, "
        f"{'dead' if alive[link] else 'alive'} expected"
        for link in sorted(wrong)
    )


def _silent(cluster: CanReject, dropped: frozenset[Link]) -> tuple[str, ...]:
    """Return the links that no reset answers."""
    resetting = cluster.resetting(sorted(dropped))
    return tuple(
        f"link {link.source} → {link.target} is not answered with a reset"
        for link, reset in resetting.items()
        if not reset
    )


def _braces(sides: Sequence[Sequence[str]]) -> str:
    return "{" + " | ".join(" ".join(side) for side in sides) + "}"


def _make(choice: FaultChoice) -> Partition:
    """Return the family of the chosen variants. "partition" stands for all that can be made."""
    names, classes = choice.names, choice.options.link_classes
    if Partition.f in names:
        refused = unsupported(choice.topology, classes)
        every = (variant for variant in VARIANTS if variant not in refused)
        names = tuple(dict.fromkeys((*every, *(name for name in names if name != Partition.f))))
    if not names:
        raise UsageError(
            "nemesis 'partition': this cluster has no two nodes with a link of " + ",".join(classes)
        )
    return Partition(names, choice.topology, classes, choice.options.cut)


_AIM_TEXTS: Final = {
    "partition-clickhouse-one": "a replica is cut off from all others; with --links keeper from "
    "ZooKeeper alone",
    "partition-clickhouse-minority": "fewer than half of the replicas are cut off so",
    "partition-zookeeper-one": "a ZooKeeper server is cut off from all others; with --links peer "
    "from its peers alone",
    "partition-zookeeper-minority": "fewer than half of the ZooKeeper servers are cut off so",
}

FAULTS: Final = tuple(
    FaultEntry(
        name=name,
        text=text,
        seen="every link was probed: exactly the cut ones are dead, all others alive; with --cut "
        "reject each of them answered a TCP connection with a reset",
        gone="every link was probed: all alive",
        make=_make,
        f=Partition.f,
    )
    for name, text in {
        Partition.f: "the partitions below in turn: the last two first, the others in random order",
        **VARIANTS,
        **_AIM_TEXTS,
    }.items()
)
