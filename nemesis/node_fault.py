"""Base class of the families whose faults affect single nodes."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from harness.core.capabilities import ReportsLeader, ReportsTableLeader
from harness.core.dialect import Mechanism
from harness.core.disk_loss import Takes
from harness.core.op import Json
from harness.core.protocols import Cluster
from harness.core.seed import Seed
from nemesis import targets
from nemesis.cluster_state import responsive
from nemesis.family import Needs, NotBegunError, Watch, names
from nemesis.fault import FaultChoice
from nemesis.targets import NodeSpec


class NodeFault(ABC):
    """Family whose faults affect nodes. A subclass injects, verifies and reverts one fault."""

    f: str
    needs: Needs
    takes: Takes | None = None
    """What its faults take from the disks of replicas; None for nothing."""
    once = False
    heal_rank: int

    def __init__(self, choice: FaultChoice) -> None:
        self.f = choice.name
        self._specs = choice.specs
        self._topology = choice.topology
        roles = dict.fromkeys(spec.role for spec in choice.specs if spec.target == "leader")
        leader_needs = (need for role in roles for need in _leader_needs(role))
        self.needs = tuple(dict.fromkeys((*self.needs, *leader_needs)))
        self._touched: frozenset[str] = frozenset()
        """Every node that a fault was ever injected into. It only grows: a call that was abandoned
        may still act late, and the next heal must repair that too."""
        self._affected: frozenset[str] = frozenset()
        """The nodes of the fault in force, and of those whose end was not seen."""

    def plan(self, seed: Seed, turn: int) -> Mapping[str, Json]:
        """Return the nodes to affect, for a leader its role, since only the run knows who leads;
        and what the fault takes from disks, if it does."""
        spec = seed.choice(turn, self._specs)
        takes: dict[str, Json] = {"takes": self.takes.value} if self.takes else {}
        if spec.target == "leader":
            return {"name": self._name(spec), "role": spec.role, "target": spec.target, **takes}
        drawn = targets.nodes(spec, self._topology, seed.child("nodes", turn))
        return {"name": self._name(spec), "nodes": list(drawn), **takes}

    def begin(self, cluster: Cluster, plan: Mapping[str, Json], watch: Watch) -> dict[str, Json]:
        """Inject the fault into the planned nodes, and verify its effect."""
        leads = plan.get("target") == "leader"
        decided = {**plan, **(_leader(cluster, plan.get("role")) if leads else {})}
        chosen = decided["nodes"]
        assert isinstance(chosen, list), "a plan has its nodes by now"
        affected = self._eligible(cluster, [str(node) for node in chosen])
        if not affected:
            raise NotBegunError(f"{names(map(str, chosen))}: other faults hold all of them")
        watch.check()
        self._touched |= frozenset(affected)
        self._affected |= frozenset(affected)
        self._inject(cluster, affected)
        watch.require_none(lambda: self._unverified(cluster, affected))
        suffix = " (leader)" if "leader" in decided else ""
        return {**decided, "nodes": list(affected), "text": names(affected) + suffix}

    def end(self, cluster: Cluster, watch: Watch) -> dict[str, Json]:
        """Revert the fault, and verify that it is over."""
        affected = self._ordered(self._affected)
        watch.check()
        note = self._note(cluster, affected)
        self._revert(cluster, affected)
        watch.require_none(lambda: self._remaining(cluster, affected))
        self._affected = frozenset()
        return {"text": names(affected) + note}

    def undo(self, cluster: Cluster) -> None:
        """Revert the fault on every node ever touched; raise if the cluster cannot."""
        touched = self._ordered(self._touched)
        if touched:
            self._revert(cluster, touched)

    def broken(self, cluster: Cluster) -> Sequence[str]:
        """Return where a fault remains among the nodes ever touched, a reason each."""
        return self._remaining(cluster, self._ordered(self._touched))

    def _name(self, spec: NodeSpec) -> str:
        return f"{self.f}-{spec}"

    def _eligible(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        """Return the nodes that the fault can be injected into now."""
        return responsive(cluster, nodes)

    def _note(self, cluster: Cluster, nodes: Sequence[str]) -> str:  # noqa: ARG002
        """Return what the end of a fault says after the names of its nodes."""
        return ""

    def _ordered(self, nodes: frozenset[str]) -> tuple[str, ...]:
        return tuple(name for name in self._topology.names if name in nodes)

    @abstractmethod
    def _inject(self, cluster: Cluster, nodes: Sequence[str]) -> None: ...

    @abstractmethod
    def _unverified(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        """Return where the effect is not seen, a reason each."""

    @abstractmethod
    def _revert(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        """Revert the fault on these nodes; no-op on a node without it."""

    @abstractmethod
    def _remaining(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        """Return where the fault remains, a reason each."""


def _leader_needs(role: str) -> Needs:
    """Return what a fault of a leader needs of the cluster."""
    return (
        (ReportsTableLeader, Mechanism.TABLE_LEADER) if role == "clickhouse" else (ReportsLeader,)
    )


def _leader(cluster: Cluster, role: Json) -> dict[str, Json]:
    if role == "clickhouse":
        leader = cluster.part(ReportsTableLeader).table_leader()
        none = "no replica leads a table now"
    else:
        leader = cluster.part(ReportsLeader).leader()
        none = "no ZooKeeper server leads now"
    if leader is None:
        raise NotBegunError(none)
    return {"leader": leader, "nodes": [leader]}
