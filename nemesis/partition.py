"""Partitions: links that drop every packet, in nine shapes.

The servers run on, so two parts of the cluster may each believe what they like. The effect is
verified link by link, both that what was to be cut is cut and that nothing else is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TypeAlias, cast

from harness.core.dialect import Mechanism
from harness.core.errors import FaultError, UsageError
from harness.core.op import Json
from harness.core.protocols import CanLead, CanPartition, Cluster
from harness.core.seed import Seed
from harness.core.topology import Link, LinkClass, Topology
from nemesis import grudge
from nemesis.family import NotBegunError, Watch

Cut: TypeAlias = tuple[frozenset[Link], str]
"""What to drop, and that in words."""


@dataclass(frozen=True, slots=True)
class Field:
    """Where a partition may be laid."""

    topology: Topology
    classes: tuple[LinkClass, ...]
    links: tuple[Link, ...]
    """Of these classes."""
    nodes: tuple[str, ...]
    """The nodes with such a link, in the topology's order."""

    @staticmethod
    def of(topology: Topology, classes: Sequence[LinkClass]) -> "Field":
        """The field of the links of these classes."""
        links = topology.links(classes)
        ends = {link.source for link in links} | {link.target for link in links}
        nodes = tuple([name for name in topology.names if name in ends])
        return Field(topology, tuple(classes), links, nodes)

    def split(self, part: Sequence[str]) -> Cut:
        """These nodes on one side, all others on the other."""
        sides = (self.ordered(part), self.ordered(set(self.nodes) - set(part)))
        return grudge.complete(self.links, sides), _braces(sides)

    def ordered(self, part: Sequence[str] | set[str]) -> tuple[str, ...]:
        """In the topology's order."""
        return tuple([name for name in self.nodes if name in part])


def _one(field: Field, seed: Seed) -> Cut:
    return field.split((seed.choice(0, field.nodes),))


def _majority(field: Field, seed: Seed) -> Cut:
    """A minority of two or more where there are enough nodes: of one is the variant `one`."""
    most = (len(field.nodes) - 1) // 2
    least = min(2, most)
    size = least + seed.below(0, most - least + 1)
    return field.split(seed.shuffled(1, field.nodes)[:size])


def _halves(field: Field, seed: Seed) -> Cut:
    return field.split(seed.shuffled(0, field.nodes)[: len(field.nodes) // 2])


def _ring(field: Field, seed: Seed) -> Cut:
    order = seed.shuffled(0, field.nodes)
    reach = grudge.ring_reach(len(order))
    text = f"ring {' '.join(order)}, each hears {reach} on either side"
    return grudge.ring(field.links, order), text


def _bridge(field: Field, seed: Seed) -> Cut:
    middle, *rest = seed.shuffled(0, field.nodes)
    sides = (field.ordered(rest[: len(rest) // 2]), field.ordered(rest[len(rest) // 2 :]))
    return grudge.bridge(field.links, middle, sides), f"{_braces(sides)}, bridge {middle}"


def _one_way(field: Field, seed: Seed) -> Cut:
    node = seed.choice(0, field.nodes)
    if seed.below(1, 2):
        return grudge.deaf(field.links, node), f"{node} hears nobody"
    return grudge.mute(field.links, node), f"nobody hears {node}"


def _pair(field: Field, seed: Seed) -> Cut:
    replica = field.topology.node(seed.choice(0, field.topology.replicas))
    return field.split((replica.name, seed.choice(1, replica.keepers)))


FOLLOWER = "partition-keeper-follower"

SHAPES: Mapping[str, Callable[[Field, Seed], Cut]] = {
    "partition-one": _one,
    "partition-majority": _majority,
    "partition-halves": _halves,
    "partition-ring": _ring,
    "partition-bridge": _bridge,
    "partition-one-way": _one_way,
    "partition-pair": _pair,
}
"""All but the follower's, which is chosen when it is known who leads."""

VARIANTS: Mapping[str, str] = {
    "partition-one": "one node, replica or ZooKeeper server, alone",
    "partition-majority": "a minority of all nodes from the majority",
    "partition-halves": "half of all nodes from the other half",
    "partition-ring": "each node hears a majority, no two the same one",
    "partition-bridge": "two halves that meet in one node only",
    "partition-one-way": "a node hears nobody, or nobody hears it",
    FOLLOWER: "a ZooKeeper follower from its peers, its clients still connected",
    "partition-pair": "a replica and the ZooKeeper server it reads through, from the rest",
}

LEAST_NODES: Mapping[str, int] = {
    "partition-one": 2,
    "partition-majority": 3,
    "partition-halves": 2,
    "partition-ring": 4,
    "partition-bridge": 3,
    "partition-one-way": 2,
    FOLLOWER: 2,
    "partition-pair": 3,
}
"""With fewer nodes (of FOLLOWER: ZooKeeper servers) the shape is another one, or none."""

FOREMOST = (FOLLOWER, "partition-pair")
"""These two part a replica's source of truth from its quorum while the replica still answers,
which is where stale reads come from. They come first, in either order."""

REDRAWS = 64
"""A draw may happen to cut nothing, such as replicas from ZooKeeper servers with the links
between them left out; then the next one is taken. That many in a row means it never cuts."""


@cache
def unfit(topology: Topology, classes: tuple[LinkClass, ...]) -> Mapping[str, str]:
    """The variants that cannot be laid on the links of these classes, and why."""
    field = Field.of(topology, classes)
    reasons = {variant: _unfit(variant, field) for variant in VARIANTS}
    return {variant: reason for variant, reason in reasons.items() if reason}


def _unfit(variant: str, field: Field) -> str | None:
    least = LEAST_NODES[variant]
    if variant == FOLLOWER:
        if LinkClass.PEER not in field.classes:
            return "it cuts peer links, which are not among the link classes"
        if len(field.topology.keepers) < least:
            return f"it needs {least} ZooKeeper servers, {len(field.topology.keepers)} given"
        return None
    if len(field.nodes) < least:
        return f"it needs {least} nodes with such links, {len(field.nodes)} given"
    if not _drawn(variant, field, Seed(0)):
        return "no link of the link classes would be cut"
    return None


class Partition:
    """One variant after the other, drawn from those named."""

    f = "partition"
    once = False
    heal_rank = 0
    """First: a server cannot come back into a quorum that it cannot reach."""

    def __init__(
        self, variants: Sequence[str], topology: Topology, classes: Sequence[LinkClass]
    ) -> None:
        """Raises UsageError, naming the first variant that this topology has no room for."""
        self._field = Field.of(topology, classes)
        reasons = unfit(topology, self._field.classes)
        for variant in variants:
            if variant in reasons:
                raise UsageError(f"nemesis {variant!r}: {reasons[variant]}")
        self._links = topology.links()
        self._first = tuple([variant for variant in variants if variant in FOREMOST])
        self._rest = tuple([variant for variant in variants if variant not in FOREMOST])
        leads: tuple[type, ...] = (CanLead,) if FOLLOWER in variants else ()
        self.needs: tuple[type | Mechanism, ...] = (CanPartition, *leads)

    def plan(self, seed: Seed, turn: int) -> Mapping[str, Json]:
        """The grudge and its text; for a follower an order: the first that follows is cut.

        Every variant comes once before any comes again, so that a short run sees the foremost.
        """
        rounds, at = divmod(turn, len(self._first) + len(self._rest))
        variant = _order(seed.child("round", rounds), self._first, self._rest)[at]
        drawing = seed.child("turn", turn)
        if variant == FOLLOWER:
            order = drawing.shuffled(0, self._field.topology.keepers)
            return {"name": variant, "order": list(order)}
        drawn = _drawn(variant, self._field, drawing)
        assert drawn is not None, "unfit variants are refused when the nemesis is made"
        dropped, text = drawn
        return {"name": variant, "grudge": grudge.to_json(dropped), "text": text}

    def begin(self, cluster: Cluster, plan: Mapping[str, Json], watch: Watch) -> dict[str, Json]:
        """Cuts, and sees that exactly those links are dead."""
        target = _partitionable(cluster)
        decided = {**plan, **(self._follower(cluster, plan) if "order" in plan else {})}
        shape = decided["grudge"]
        assert isinstance(shape, dict), "a plan has its grudge by now"
        dropped = grudge.from_json(shape)
        watch.check()
        target.cut(sorted(dropped))
        wrong = watch.until_none(lambda: _differences(target, self._links, dropped))
        if wrong:
            raise FaultError("; ".join(wrong))
        return decided

    def end(self, cluster: Cluster, watch: Watch) -> dict[str, Json]:
        """Mends, and sees that every link is alive."""
        watch.check()
        self.undo(cluster)
        wrong = watch.until_none(lambda: self.broken(cluster))
        if wrong:
            raise FaultError("; ".join(wrong))
        return {"text": "every link is alive"}

    def undo(self, cluster: Cluster) -> None:
        """Ends every cut."""
        _partitionable(cluster).mend()

    def broken(self, cluster: Cluster) -> Sequence[str]:
        """The links that drop packets, any link of the cluster."""
        return _differences(_partitionable(cluster), self._links, frozenset())

    def _follower(self, cluster: Cluster, plan: Mapping[str, Json]) -> dict[str, Json]:
        assert isinstance(cluster, CanLead), "capabilities are checked before the run"
        leader = cluster.leader()
        if leader is None:
            raise NotBegunError("no ZooKeeper server leads now, so none follows")
        order = plan["order"]
        assert isinstance(order, list), "a follower's plan is a list of servers"
        follower = next(str(name) for name in order if name != leader)
        keepers = self._field.topology.keepers
        others = tuple(name for name in keepers if name != follower)
        sides = ((follower,), others)
        dropped = grudge.complete(self._field.topology.links((LinkClass.PEER,)), sides)
        return {
            "leader": leader,
            "follower": follower,
            "grudge": grudge.to_json(dropped),
            "text": f"{_braces(sides)}, leader {leader}, clients connected",
        }


@lru_cache(maxsize=1)
def _order(seed: Seed, first: tuple[str, ...], rest: tuple[str, ...]) -> tuple[str, ...]:
    """Of a round, whose turns ask one after the other."""
    return (*seed.shuffled(0, first), *seed.shuffled(1, rest))


def _drawn(variant: str, field: Field, seed: Seed) -> Cut | None:
    for attempt in range(REDRAWS):
        dropped, text = SHAPES[variant](field, seed.child("shape", attempt))
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


def _partitionable(cluster: Cluster) -> CanPartition:
    assert issubclass(type(cluster), CanPartition), "capabilities are checked before the run"
    return cast(CanPartition, cluster)


def _braces(sides: Sequence[Sequence[str]]) -> str:
    return "{" + " | ".join(" ".join(side) for side in sides) + "}"
