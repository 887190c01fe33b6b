"""Faults of the object store: it answers some requests wrongly, late or not at all."""

from collections.abc import Mapping, Sequence
from typing import Final

from harness.core.capabilities import CanDegradeStore
from harness.core.op import Json
from harness.core.protocols import Cluster
from harness.core.seed import Seed
from nemesis.family import Needs, Watch
from nemesis.fault import Aim, FaultChoice, FaultEntry
from nemesis.node_fault import NodeFault
from nemesis.targets import NodeSpec

VARIANTS: Final[Mapping[str, tuple[str, Mapping[str, Json]]]] = {
    "store-errors": (
        "half of the requests to the object store are answered 503 and not done",
        {"do": "refuse", "share": 0.5},
    ),
    "store-timeouts": (
        "a third of the requests to the object store are neither done nor answered",
        {"do": "hang", "share": 0.34},
    ),
    "store-lost-answers": (
        "half of the requests to the object store are done, and the connection ends without an "
        "answer",
        {"do": "lose", "share": 0.5},
    ),
    "store-slow": (
        "the object store answers every request a third of a second late",
        {"do": "delay", "delay_s": 0.33},
    ),
    "store-down": (
        "the object store ends every connection without an answer, and does nothing",
        {"do": "close"},
    ),
}
"""Description and rule of the store, by name. A server repeats a refused deletion three times,
and a refused write more often, so that few of them fail for good."""

_PLANNED: Final = ("share", "methods", "delay_s")
"""Words of a rule that a plan may have in place of the variant's."""


class StoreFault(NodeFault):
    """Family of one fault of the object store.

    Its effect is seen when it applied to a request. A fault whose plan says that it lurks has begun
    when the store has the rule; the end says to how many requests it applied.
    """

    needs: Needs = (CanDegradeStore,)
    heal_rank = 2
    """Healed after paused processes: a paused store does not give up its rule."""

    def __init__(self, choice: FaultChoice) -> None:
        super().__init__(choice)
        self._rule: dict[str, Json] = {}
        self._lurks = False

    def plan(self, seed: Seed, turn: int) -> Mapping[str, Json]:
        """Return also the seed that decides to which requests the rule applies."""
        return {**super().plan(seed, turn), "seed": seed.child("requests", turn).below(0, 2**32)}

    def begin(self, cluster: Cluster, plan: Mapping[str, Json], watch: Watch) -> dict[str, Json]:
        """Set the rule; wait for a request to which it applies unless the fault lurks."""
        planned = {word: plan[word] for word in _PLANNED if word in plan}
        self._rule = {**VARIANTS[self.f][1], **planned, "name": self.f, "seed": plan.get("seed", 0)}
        self._lurks = plan.get("lurks") is True
        return super().begin(cluster, plan, watch)

    def _name(self, spec: NodeSpec) -> str:  # noqa: ARG002
        return self.f

    def _eligible(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        """Return the store if it answers and has no rule; a second would end the first."""
        return [node for node in super()._eligible(cluster, nodes) if not _name(cluster)]

    def _inject(self, cluster: Cluster, nodes: Sequence[str]) -> None:  # noqa: ARG002
        cluster.part(CanDegradeStore).set_store_rule(self._rule)

    def _unverified(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        if self._lurks:
            return [] if _name(cluster) == self.f else [f"{nodes[0]} has no rule {self.f}"]
        met = cluster.part(CanDegradeStore).store_rule()["hits"]
        return [] if met else [f"no request met {self.f} yet"]

    def _revert(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        # Another family's rule stays.
        if nodes and _name(cluster) == self.f:
            cluster.part(CanDegradeStore).set_store_rule({})

    def _note(self, cluster: Cluster, nodes: Sequence[str]) -> str:  # noqa: ARG002
        return f", {cluster.part(CanDegradeStore).store_rule()['hits']} struck"

    def _remaining(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        if not nodes:
            return []
        state = cluster.part(CanDegradeStore).store_rule()
        ruled = [f"{nodes[0]} still has the rule {self.f}"] if state["name"] == self.f else []
        held = [f"{nodes[0]} still holds {state['held']} requests"] if state["held"] else []
        return [*ruled, *(held if not state["name"] else [])]


def _name(cluster: Cluster) -> Json:
    return cluster.part(CanDegradeStore).store_rule()["name"]


FAULTS: Final = tuple(
    FaultEntry(
        name=name,
        text=text,
        seen="the store applied the rule to a request, whose line in its log names the fault",
        gone="the store has no such rule any more and holds no request",
        make=StoreFault,
        aim=Aim(role="store", target="one"),
    )
    for name, (text, _) in VARIANTS.items()
)
