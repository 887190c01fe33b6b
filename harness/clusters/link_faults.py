"""Methods of a cluster of pods whose links can be cut and degraded."""

from collections.abc import Iterable, Mapping

from harness.clusters.link_quality import LinkQuality
from harness.clusters.links import Links
from harness.core.link_quality import LinkEvidence, LinkFault
from harness.core.topology import Link


class HasLinkFaults:
    """CanPartition and CanDegradeLinks, by the pods' packet filters."""

    _links: Links
    _quality: LinkQuality

    # --- CanPartition -------------------------------------------------------------------------

    def cut(self, links: Iterable[Link]) -> None:
        """Drop every packet of these links; others stay as they are."""
        self._links.cut(links)

    def mend(self) -> None:
        """End every cut; idempotent."""
        self._links.mend()

    def reachable(self, links: Iterable[Link]) -> Mapping[Link, bool]:
        """Send a probe over each link and return whether it arrived."""
        return self._links.reachable(links)

    # --- CanDegradeLinks ----------------------------------------------------------------------

    def why_no_link_faults(self) -> str | None:
        """Return what the pods or the kernel lack; None if links can be degraded."""
        return self._quality.why_unsupported()

    def degrade_links(
        self, links: Iterable[Link], fault: LinkFault, amount: float, seed: int
    ) -> None:
        """Give these links a fault; other links, and other faults, stay as they are."""
        self._quality.begin(links, fault, amount, seed)

    def restore_links(self, faults: Iterable[LinkFault] = tuple(LinkFault)) -> None:
        """End these faults on every link; idempotent."""
        self._quality.end(faults)

    def link_evidence(
        self, links: Iterable[Link], fault: LinkFault, amount: float
    ) -> Mapping[Link, LinkEvidence]:
        """Send probes over these links and return what they show of a fault."""
        return self._quality.evidence(links, fault, amount)
