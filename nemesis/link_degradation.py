"""Degraded links: packets from and to a server that are late, overtaken, doubled, slow or lost.

The servers run on and stay connected, unless their own timeouts end the connections. The effect is
verified by probes, link by link and in either direction.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from harness.core.capabilities import CanDegradeLinks
from harness.core.errors import UsageError
from harness.core.link_quality import LinkFault, shown
from harness.core.op import Json
from harness.core.protocols import Cluster
from harness.core.seed import Seed
from harness.core.topology import Link
from nemesis.family import Needs, Watch
from nemesis.fault import ONE, FaultChoice, FaultEntry
from nemesis.node_fault import NodeFault


class LinkDegradation(NodeFault):
    """Family of one fault of links. Restarting a server does not end it."""

    needs: Needs = (CanDegradeLinks,)
    heal_rank = 0
    """Healed with the cuts: a server that starts needs its links."""

    def __init__(self, choice: FaultChoice) -> None:
        """Raise UsageError if no server of the specifications has a link of the classes."""
        topology, classes = choice.topology, choice.options.link_classes
        self._fault = LinkFault(choice.name)
        self._amount = choice.options.link_amounts.of[self._fault]
        self._links = topology.links(classes)
        ends = {end for link in self._links for end in (link.source, link.target)}
        roles = {str(topology.node(end).role) for end in ends}
        kept = [s for s in choice.specs if s.role in roles or (s.role == "both" and roles)]
        if not kept:
            raise UsageError(
                f"nemesis {choice.name}: none of {' '.join(map(str, choice.specs))} has a link of "
                f"{','.join(classes)}; choose other --links"
            )
        super().__init__(replace(choice, specs=tuple(kept)))
        self._seed = 0
        self._unseen: set[Link] = set()
        """Links on which the effect of the fault in force was not seen yet. Few of the packets of a
        link may be affected, so that it is not seen on all at once."""
        self._measured: dict[Link, str] = {}

    def plan(self, seed: Seed, turn: int) -> Mapping[str, Json]:
        """Return the nodes to affect, the amount, and the seed of the choices among packets."""
        own = seed.child("packets", turn).value >> 1  # a number that every reader of JSON has
        return {**super().plan(seed, turn), "amount": self._amount, "seed": own}

    def begin(self, cluster: Cluster, plan: Mapping[str, Json], watch: Watch) -> dict[str, Json]:
        """Degrade the links of the planned nodes, and see it on each of them."""
        seed, amount = plan.get("seed", 0), plan.get("amount", self._amount)
        assert isinstance(seed, int), "a plan has a seed"
        assert isinstance(amount, int | float), "a plan has an amount"
        self._seed, self._amount = seed, float(amount)
        self._measured.clear()
        done = super().begin(cluster, plan, watch)
        links = [link for link in self._links if link in self._measured]
        seen = f"{len(links)} links, {self._measured[links[0]]}"
        text = f"{done['text']}: {shown(self._fault, self._amount)}, seen on {seen}"
        return {**done, "text": text}

    def _eligible(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:  # noqa: ARG002
        return [node for node in nodes if self._of([node])]

    def _inject(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        links = self._of(nodes)
        self._unseen = set(links)
        cluster.part(CanDegradeLinks).degrade_links(links, self._fault, self._amount, self._seed)

    def _unverified(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:  # noqa: ARG002
        looked_at = [link for link in self._links if link in self._unseen]
        found = cluster.part(CanDegradeLinks).link_evidence(looked_at, self._fault, self._amount)
        for link, evidence in found.items():
            if evidence.seen:
                self._unseen.discard(link)
                self._measured[link] = evidence.text
        return [f"{_arrow(link)}: {found[link].text}" for link in looked_at if link in self._unseen]

    def _revert(self, cluster: Cluster, nodes: Sequence[str]) -> None:  # noqa: ARG002
        cluster.part(CanDegradeLinks).restore_links([self._fault])

    def _remaining(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        links = self._of(nodes)
        found = cluster.part(CanDegradeLinks).link_evidence(links, self._fault, self._amount)
        return [
            f"{_arrow(link)}: {self.f} goes on: {found[link].text}"
            for link in links
            if found[link].seen is not False
        ]

    def _of(self, nodes: Sequence[str]) -> list[Link]:
        return [link for link in self._links if {link.source, link.target} & set(nodes)]


def _arrow(link: Link) -> str:
    return f"link {link.source} → {link.target}"


_TEXTS: Final[Mapping[LinkFault, str]] = {
    LinkFault.DELAY: "every packet from and to a server takes 100 ms longer",
    LinkFault.JITTER: "packets from and to a server take up to 100 ms longer, and stay in order",
    LinkFault.REORDER: "a quarter of the packets from and to a server is overtaken by later ones",
    LinkFault.DUPLICATE: "a quarter of the packets from and to a server arrives twice",
    LinkFault.RATE: "each link from and to a server carries 512 kilobits a second",
    LinkFault.LOSS: "30 % of the packets from and to a server are lost",
}
"""Descriptions, with the default amounts."""

_PROBED: Final[Mapping[LinkFault, tuple[str, str]]] = {
    LinkFault.DELAY: ("each takes as much longer", "they arrive without the delay"),
    LinkFault.JITTER: ("they take longer, each by another time", "they arrive at once"),
    LinkFault.REORDER: ("some were overtaken by later ones", "none was overtaken"),
    LinkFault.DUPLICATE: ("some arrived twice", "none arrived twice"),
    LinkFault.RATE: ("they arrive no faster than that", "they arrive faster"),
    LinkFault.LOSS: ("some were lost", "none was lost"),
}
"""What probes show when a fault begins and when it has ended."""

FAULTS: Final = tuple(
    FaultEntry(
        name=fault.value,
        text=text,
        seen=f"probes over every link of those servers: {_PROBED[fault][0]}; on a link that is cut "
        "or has another fault too, the queue's counters",
        gone=f"probes over every link of those servers: {_PROBED[fault][1]}",
        make=LinkDegradation,
        aim=ONE,
    )
    for fault, text in _TEXTS.items()
)
