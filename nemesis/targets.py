"""Node specifications, and the nodes that a seed draws for them. The term is Jepsen's."""

from dataclasses import dataclass

from harness.core.errors import UsageError
from harness.core.seed import Seed
from harness.core.topology import Topology


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """Role and target of a fault, such as zookeeper and minority."""

    role: str
    """Element of nemesis.options.ROLES, or "store", which only faults of the object store have."""
    target: str
    """Element of nemesis.options.TARGETS."""

    def __str__(self) -> str:
        return f"{self.role}-{self.target}"


def why_unsupported(spec: NodeSpec, topology: Topology) -> str | None:
    """Return why a topology has no nodes for the specification; None if it has."""
    if spec.target == "leader":
        return None if spec.role == "zookeeper" else f"no leader is drawn among {spec.role} nodes"
    for group in _groups(spec.role, topology):
        if not group:
            return "this cluster has no object store of its own"
        if spec.target == "minority" and len(group) < 3:
            return f"{len(group)} {spec.role} nodes have no minority, at least 3 are needed"
    return None


def node_specs(
    role: str | None,
    target: str | None,
    roles: tuple[str, ...],
    targets: tuple[str, ...],
    topology: Topology,
) -> tuple[NodeSpec, ...]:
    """Return every specification that a name allows; where it has None, the lists are used.

    "leader" without a role means ZooKeeper's leader; the replica that leads the table is chosen
    only if the name has both. Raises UsageError, with the reasons, if this topology has no nodes
    for any of them.
    """
    if (role, target) == ("clickhouse", "leader"):
        return (NodeSpec("clickhouse", "leader"),)
    if role is None and target == "leader":
        role = "zookeeper"
    every = tuple(
        NodeSpec(r, t)
        for r in ((role,) if role else roles)
        for t in ((target,) if target else targets)
    )
    supported = tuple(spec for spec in every if why_unsupported(spec, topology) is None)
    if not supported:
        reasons = dict.fromkeys(f"{spec}: {why_unsupported(spec, topology)}" for spec in every)
        raise UsageError("no node to affect: " + "; ".join(reasons))
    return supported


def nodes(spec: NodeSpec, topology: Topology, seed: Seed) -> tuple[str, ...]:
    """Draw nodes for a specification and return them in the topology's order.

    A minority is fewer than half of the nodes, a majority more than half but, if possible, not all.
    "both" draws that many of either role. Leaders cannot be drawn: only the run knows who leads.
    """
    assert spec.target != "leader", "who leads is not drawn from a seed"
    chosen: list[str] = []
    for at, group in enumerate(_groups(spec.role, topology)):
        own = seed.child("group", at)
        chosen += own.shuffled(0, group)[: _size(spec.target, len(group), own)]
    return tuple(name for name in topology.names if name in chosen)


def _groups(role: str, topology: Topology) -> tuple[tuple[str, ...], ...]:
    return {
        "clickhouse": (topology.replicas,),
        "zookeeper": (topology.keepers,),
        "both": (topology.replicas, topology.keepers),
        "store": (topology.stores,),
    }[role]


def _size(target: str, count: int, seed: Seed) -> int:
    majority = count // 2 + 1
    least, most = {
        "one": (1, 1),
        "minority": (1, (count - 1) // 2),
        "majority": (majority, max(majority, count - 1)),
        "all": (count, count),
    }[target]
    return least + seed.below(1, most - least + 1)
