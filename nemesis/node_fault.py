"""What faults that strike single nodes share: whom they strike, and what they remember of it."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from harness.core.dialect import Mechanism
from harness.core.errors import FaultError
from harness.core.op import Json
from harness.core.protocols import CanLead, CanLeadTables, Cluster
from harness.core.seed import Seed
from harness.core.topology import Topology
from nemesis import targets
from nemesis.family import NotBegunError, Watch, names, standing
from nemesis.targets import Aim


class NodeFault(ABC):
    """A family that strikes nodes. A subclass says how it strikes, releases, and looks."""

    f: str
    once = False
    heal_rank: int

    def __init__(self, aims: Sequence[Aim], topology: Topology, *needs: type) -> None:
        self._aims = tuple(aims)
        self._topology = topology
        asked = (need for aim in aims if aim.target == "leader" for need in _asked(aim.role))
        self.needs: tuple[type | Mechanism, ...] = tuple(dict.fromkeys((*needs, *asked)))
        self._touched: frozenset[str] = frozenset()
        """Every node ever struck. Only grows: a call that was given up may still act late, and
        the next heal must repair that too."""
        self._struck: frozenset[str] = frozenset()
        """The nodes of the fault in force, and of those whose end was not seen."""

    def plan(self, seed: Seed, turn: int) -> Mapping[str, Json]:
        """The nodes to strike; for a leader, only that it is the leader."""
        aim = seed.choice(turn, self._aims)
        if aim.target == "leader":
            return {"name": self._name(aim), "role": aim.role, "target": aim.target}
        struck = targets.nodes(aim, self._topology, seed.child("nodes", turn))
        return {"name": self._name(aim), "nodes": list(struck)}

    def begin(self, cluster: Cluster, plan: Mapping[str, Json], watch: Watch) -> dict[str, Json]:
        """Strikes, and sees that it struck."""
        leads = plan.get("target") == "leader"
        decided = {**plan, **(_leader(cluster, plan.get("role")) if leads else {})}
        chosen = decided["nodes"]
        assert isinstance(chosen, list), "a plan has its nodes by now"
        struck = self._able(cluster, [str(node) for node in chosen])
        if not struck:
            raise NotBegunError(f"{names(map(str, chosen))}: other faults hold all of them")
        watch.check()
        self._touched |= frozenset(struck)
        self._struck |= frozenset(struck)
        self._strike(cluster, struck)
        wrong = watch.until_none(lambda: self._unstruck(cluster, struck))
        if wrong:
            raise FaultError("; ".join(wrong))
        suffix = " (leader)" if "leader" in decided else ""
        return {**decided, "nodes": list(struck), "text": names(struck) + suffix}

    def end(self, cluster: Cluster, watch: Watch) -> dict[str, Json]:
        """Ends it, and sees that it ended."""
        struck = self._ordered(self._struck)
        watch.check()
        note = self._note(cluster, struck)
        self._release(cluster, struck)
        wrong = watch.until_none(lambda: self._unreleased(cluster, struck))
        if wrong:
            raise FaultError("; ".join(wrong))
        self._struck = frozenset()
        return {"text": names(struck) + note}

    def undo(self, cluster: Cluster) -> None:
        """Releases every node ever struck; raises when the cluster cannot."""
        touched = self._ordered(self._touched)
        if touched:
            self._release(cluster, touched)

    def broken(self, cluster: Cluster) -> Sequence[str]:
        """The nodes, ever struck, that are not as they were."""
        return self._unreleased(cluster, self._ordered(self._touched))

    def _name(self, aim: Aim) -> str:
        return f"{self.f}-{aim}"

    def _able(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        """Those that can be struck now."""
        return standing(cluster, nodes)

    def _note(self, cluster: Cluster, nodes: Sequence[str]) -> str:  # noqa: ARG002
        """What there is to say of a fault that is about to end, behind the names of its nodes."""
        return ""

    def _ordered(self, nodes: frozenset[str]) -> tuple[str, ...]:
        return tuple(name for name in self._topology.names if name in nodes)

    @abstractmethod
    def _strike(self, cluster: Cluster, nodes: Sequence[str]) -> None: ...

    @abstractmethod
    def _unstruck(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        """Where the effect is not seen, a reason each."""

    @abstractmethod
    def _release(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        """Of what is not struck, nothing happens."""

    @abstractmethod
    def _unreleased(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        """Where the fault still is, a reason each."""


def _asked(role: str) -> tuple[type | Mechanism, ...]:
    """What it takes to strike a leader."""
    return (CanLeadTables, Mechanism.TABLE_LEADER) if role == "clickhouse" else (CanLead,)


def _leader(cluster: Cluster, role: Json) -> dict[str, Json]:
    if role == "clickhouse":
        assert isinstance(cluster, CanLeadTables), "capabilities are checked before the run"
        leader, none = cluster.table_leader(), "no replica leads a table now"
    else:
        assert isinstance(cluster, CanLead), "capabilities are checked before the run"
        leader, none = cluster.leader(), "no ZooKeeper server leads now"
    if leader is None:
        raise NotBegunError(none)
    return {"leader": leader, "nodes": [leader]}
