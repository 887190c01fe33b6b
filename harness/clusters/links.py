"""Cutting links in the kernel's packet filter, and seeing for oneself that they are cut.

A link a → b is cut in b's pod: packets whose source is a's address are dropped as they come in,
those of established connections too. Nothing is done to b → a.
"""

import threading
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from harness.clusters.parallel import on_each
from harness.clusters.pods import PodAgent
from harness.core.topology import Link

_CHAIN: Final = "HARNESS-CUT"
_ROUNDS_S: Final = (0.02, 0.08, 0.2)
"""After each round of probes, how long to wait for those still missing. A probe over a link that
carries packets is in the target's queue when `sendto` returns, unless an address had to be
resolved first or a lossy link ate it: hence the rounds."""


class Links:
    """Of one cluster."""

    def __init__(self, pods: Mapping[str, PodAgent], addresses: Mapping[str, str]) -> None:
        self._pods = pods
        self._addresses = addresses
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
            on_each(self._pods, self._write)

    def reachable(self, links: Iterable[Link]) -> dict[Link, bool]:
        """Sends a datagram over each link and asks the target whether it came."""
        asked = tuple(dict.fromkeys(links))
        run = uuid.uuid4().hex[:12]
        nonces = {link: f"{run} {number}" for number, link in enumerate(asked)}
        heard: set[str] = set()
        for wait_s in _ROUNDS_S:
            missing = [link for link in asked if nonces[link] not in heard]
            if not missing:
                break
            self._send(missing, nonces)
            heard |= self._heard(missing, nonces, wait_s)
        return {link: nonces[link] in heard for link in asked}

    def _send(self, links: Iterable[Link], nonces: Mapping[Link, str]) -> None:
        ports = on_each((link.target for link in links), lambda n: self._pods[n].probe_port())
        by_source: dict[str, list[Mapping[str, str | int]]] = defaultdict(list)
        for link in links:
            probe: dict[str, str | int] = {
                "address": self._addresses[link.target],
                "port": ports[link.target],
                "nonce": nonces[link],
            }
            by_source[link.source].append(probe)
        on_each(by_source, lambda node: self._pods[node].ask("send", probes=by_source[node]))

    def _heard(
        self, links: Iterable[Link], nonces: Mapping[Link, str], wait_s: float
    ) -> frozenset[str]:
        by_target: dict[str, list[str]] = defaultdict(list)
        for link in links:
            by_target[link.target].append(nonces[link])
        answers = on_each(
            by_target,
            lambda node: self._pods[node].ask("heard", wait_s=wait_s, nonces=by_target[node]),
        )
        return frozenset(nonce for answer in answers.values() for nonce in answer)

    def _write(self, node: str) -> None:
        """Replaces the node's chain as a whole, in one transaction of the kernel's."""
        drops = (
            f"-A {_CHAIN} -s {self._addresses[source]} -j DROP"
            for source in sorted(self._cut[node])
        )
        rules = "\n".join(("*filter", f":{_CHAIN} - [0:0]", *drops, "COMMIT", ""))
        pod = self._pods[node]
        pod.run("iptables-restore", "--noflush", "--wait", text=rules)
        jump = ("INPUT", "-j", _CHAIN)
        if pod.ask("run", wait_s=10, argv=["iptables", "-w", "-C", *jump], text="")["status"]:
            pod.run("iptables", "-w", "-I", *jump)
