"""Cutting links in the kernel's packet filter, and seeing for oneself that they are cut.

A link a → b is cut in b's pod: packets whose source is a's address are dropped as they come in,
those of established connections too. Nothing is done to b → a.
"""

import threading
from collections.abc import Iterable, Mapping
from typing import Final

from harness.clusters.chain import Chain
from harness.clusters.parallel import on_each
from harness.clusters.pods import PodAgent
from harness.clusters.probes import Probes
from harness.core.topology import Link

_ROUNDS_S: Final = (0.02, 0.08, 0.2)
"""After each round of probes, how long to wait for those still missing: an address may have had
to be resolved first, or a lossy link ate one."""


class Links:
    """Of one cluster."""

    def __init__(self, pods: Mapping[str, PodAgent], addresses: Mapping[str, str]) -> None:
        self._addresses = addresses
        self._chain = Chain(pods, "HARNESS-CUT", first=False)
        self._probes = Probes(pods, addresses)
        self._lock = threading.Lock()
        self._cut: dict[str, set[str]] = {node: set() for node in pods}

    def cut(self, links: Iterable[Link]) -> None:
        """Drops every packet of these links; others stay as they are."""
        with self._lock:
            changed = []
            for link in links:
                if link.source not in self._cut[link.target]:
                    self._cut[link.target].add(link.source)
                    changed.append(link.target)
            on_each(changed, self._write)

    def mend(self) -> None:
        """Ends every cut, of whoever made it."""
        with self._lock:
            for sources in self._cut.values():
                sources.clear()
            on_each(self._cut, self._write)

    def is_cut(self, link: Link) -> bool:
        """Whether it was told to cut it."""
        return link.source in self._cut[link.target]

    def reachable(self, links: Iterable[Link]) -> dict[Link, bool]:
        """Sends a datagram over each link and asks the target whether it came."""
        sent = self._probes.named(dict.fromkeys(links))
        heard: frozenset[str] = frozenset()
        for wait_s in _ROUNDS_S:
            missing = {nonce: link for nonce, link in sent.items() if nonce not in heard}
            if not missing:
                break
            heard |= self._probes.exchange(missing, wait_s)
        return {link: nonce in heard for nonce, link in sent.items()}

    def _write(self, node: str) -> None:
        sources = sorted(self._cut[node])
        self._chain.replace(node, (f"-s {self._addresses[source]} -j DROP" for source in sources))
