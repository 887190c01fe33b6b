"""Whom a process fault strikes: a role and a target, and the nodes that a seed draws for them."""

from dataclasses import dataclass

from harness.core.errors import UsageError
from harness.core.seed import Seed
from harness.core.topology import Topology


@dataclass(frozen=True, slots=True)
class Aim:
    """A role and a target, such as zookeeper and minority."""

    role: str
    """One of nemesis.options.ROLES."""
    target: str
    """One of nemesis.options.TARGETS."""

    def __str__(self) -> str:
        return f"{self.role}-{self.target}"


def unfit(aim: Aim, topology: Topology) -> str | None:
    """Why there is no such aim in this topology; None: there is."""
    if aim.target == "leader":
        return None if aim.role == "zookeeper" else f"no leader is drawn among {aim.role} nodes"
    for group in _groups(aim.role, topology):
        if aim.target == "minority" and len(group) < 3:
            return f"{len(group)} {aim.role} nodes have no minority, at least 3 are needed"
    return None


def aims(
    role: str | None,
    target: str | None,
    roles: tuple[str, ...],
    targets: tuple[str, ...],
    topology: Topology,
) -> tuple[Aim, ...]:
    """Every aim that a name allows; None is what the name leaves open, filled from the lists.

    "leader" without a role is ZooKeeper's; the replica that leads the table is struck only where
    both are named. Raises UsageError, with the reasons, when this topology has no such aim.
    """
    if (role, target) == ("clickhouse", "leader"):
        return (Aim("clickhouse", "leader"),)
    if role is None and target == "leader":
        role = "zookeeper"
    every = tuple(
        Aim(r, t) for r in ((role,) if role else roles) for t in ((target,) if target else targets)
    )
    fit = tuple(aim for aim in every if unfit(aim, topology) is None)
    if not fit:
        reasons = dict.fromkeys(f"{aim}: {unfit(aim, topology)}" for aim in every)
        raise UsageError("no node to strike: " + "; ".join(reasons))
    return fit


def nodes(aim: Aim, topology: Topology, seed: Seed) -> tuple[str, ...]:
    """The nodes to strike, in the topology's order; of "both" that many of either role.

    A minority is fewer than half, a majority more than half but not all where that can be.
    Not for leaders, who are known at run time only.
    """
    assert aim.target != "leader", "who leads is not drawn from a seed"
    chosen: list[str] = []
    for at, group in enumerate(_groups(aim.role, topology)):
        own = seed.child("group", at)
        chosen += own.shuffled(0, group)[: _size(aim.target, len(group), own)]
    return tuple(name for name in topology.names if name in chosen)


def _groups(role: str, topology: Topology) -> tuple[tuple[str, ...], ...]:
    return {
        "clickhouse": (topology.replicas,),
        "zookeeper": (topology.keepers,),
        "both": (topology.replicas, topology.keepers),
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
