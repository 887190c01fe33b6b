"""Losing some of a node's packets in the kernel's packet filter, and seeing that they are lost.

As with cuts, a packet is lost where it comes in: on the way to the node in its own pod, on the way
from it in the pods of the others.
"""

import threading
from collections.abc import Iterable, Mapping
from typing import Final

from harness.clusters.chain import Chain
from harness.clusters.links import Links
from harness.clusters.parallel import on_each
from harness.clusters.pods import PodAgent
from harness.clusters.probes import Probes
from harness.core.errors import ClusterError
from harness.core.topology import Link

_LOST: Final = "-m statistic --mode random --probability 0.3 -j DROP"
_NOBODY: Final = "192.0.2.1"
"""Nobody's address, RFC 5737."""
_PROBES: Final = 16
"""Over a link that loses three of ten, all of them arrive once in 300 times."""
_WAIT_S: Final = 0.05


class Losses:
    """Of one cluster. A link whose packets are all lost to a cut loses its share of them all the
    same: its chain comes before the cuts'."""

    def __init__(
        self, pods: Mapping[str, PodAgent], addresses: Mapping[str, str], links: Links
    ) -> None:
        self._nodes = tuple(pods)
        self._addresses = addresses
        self._links = links
        self._chain = Chain(pods, "HARNESS-LOSS", first=True)
        self._probes = Probes(pods, addresses)
        self._lock = threading.Lock()
        self._lossy: set[str] = set()

    def unfit(self) -> str | None:
        """Why packets cannot be lost here: a kernel without the match. None: they can."""
        node = self._nodes[0]
        with self._lock:
            try:
                self._chain.write(node, [f"-s {_NOBODY} {_LOST}"])
            except ClusterError as error:
                return str(error)
            self._write(node)
        return None

    def begin(self, nodes: Iterable[str]) -> None:
        """On all links of these nodes; those of others stay as they are."""
        with self._lock:
            self._lossy |= set(nodes)
            on_each(self._nodes, self._write)

    def end(self, nodes: Iterable[str]) -> None:
        """Whoever began it."""
        with self._lock:
            self._lossy -= set(nodes)
            on_each(self._nodes, self._write)

    def seen(self, node: str) -> dict[Link, bool]:
        """Of each link of the node, whether packets are lost on it. Probes are sent over all of
        them: where there is a rule its own count decides, and where there is none the probes do,
        unless the link is cut."""
        others = [other for other in self._nodes if other != node]
        links = [link for other in others for link in (Link(node, other), Link(other, node))]
        sent = self._probes.named(links, _PROBES)
        heard = self._probes.exchange(sent, _WAIT_S)
        missed = {link for nonce, link in sent.items() if nonce not in heard}
        dropped = on_each(self._nodes, self._chain.dropped)

        def lossy(link: Link) -> bool:
            count = dropped[link.target].get(self._addresses[link.source])
            if count is not None:
                return count > 0
            return link in missed and not self._links.is_cut(link)

        return {link: lossy(link) for link in links}

    def _write(self, node: str) -> None:
        sources = (other for other in self._nodes if other != node and {node, other} & self._lossy)
        self._chain.replace(node, (f"-s {self._addresses[source]} {_LOST}" for source in sources))
