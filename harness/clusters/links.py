"""Faults of links in the packet filter of each pod: cut links and lost packets, seen by probes.

A packet is dropped where it comes in. A link a → b is cut in b's pod: packets from a's address are
dropped there, those of established connections too, and nothing happens to b → a. A node that loses
packets loses those to it in its own pod and those from it in the pods of the others.
"""

import re
import threading
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from harness.clusters.parallel import on_each
from harness.clusters.pods import PodAgent
from harness.core.errors import ClusterError
from harness.core.topology import Link

_ROUNDS_S: Final = (0.02, 0.08, 0.2)
"""Waits for the missing probes after each round: an address may have had to be resolved first, or a
lossy link lost one."""
_LOSS: Final = "-m statistic --mode random --probability 0.3 -j DROP"
_UNUSED_ADDRESS: Final = "192.0.2.1"
"""Address for documentation, RFC 5737."""
_LOSS_PROBES: Final = 16
"""Probes per link. If a link loses 30 % of its packets, all of them arrive once in 300 times."""
_LOSS_WAIT_S: Final = 0.05


class Links:
    """Links of one cluster, which can be cut and mended."""

    def __init__(self, pods: Mapping[str, PodAgent], addresses: Mapping[str, str]) -> None:
        self._addresses = addresses
        self._chain = FilterChain(pods, "HARNESS-CUT", first=False)
        self._probes = LinkProbes(pods, addresses)
        self._lock = threading.Lock()
        self._cut: dict[str, set[str]] = {node: set() for node in pods}

    def cut(self, links: Iterable[Link]) -> None:
        """Drop every packet of these links; others stay as they are."""
        with self._lock:
            changed = []
            for link in links:
                if link.source not in self._cut[link.target]:
                    self._cut[link.target].add(link.source)
                    changed.append(link.target)
            on_each(changed, self._write)

    def mend(self) -> None:
        """End every cut."""
        with self._lock:
            for sources in self._cut.values():
                sources.clear()
            on_each(self._cut, self._write)

    def is_cut(self, link: Link) -> bool:
        """Return whether a link is to be cut now."""
        return link.source in self._cut[link.target]

    def reachable(self, links: Iterable[Link]) -> dict[Link, bool]:
        """Send a datagram over each link and return whether it arrived."""
        sent = self._probes.new(dict.fromkeys(links))
        arrived: frozenset[str] = frozenset()
        for wait_s in _ROUNDS_S:
            missing = {nonce: link for nonce, link in sent.items() if nonce not in arrived}
            if not missing:
                break
            arrived |= self._probes.exchange(missing, wait_s)
        return {link: nonce in arrived for nonce, link in sent.items()}

    def _write(self, node: str) -> None:
        sources = sorted(self._cut[node])
        self._chain.replace(node, (f"-s {self._addresses[source]} -j DROP" for source in sources))


class PacketLoss:
    """Random loss of packets on the links of some nodes.

    Its chain comes before that of the cuts, so a cut link counts its share of lost packets too.
    """

    def __init__(
        self, pods: Mapping[str, PodAgent], addresses: Mapping[str, str], links: Links
    ) -> None:
        self._nodes = tuple(pods)
        self._addresses = addresses
        self._links = links
        self._chain = FilterChain(pods, "HARNESS-LOSS", first=True)
        self._probes = LinkProbes(pods, addresses)
        self._lock = threading.Lock()
        self._lossy: set[str] = set()

    def why_unsupported(self) -> str | None:
        """Return why packets cannot be lost here: a kernel without the match. None: they can."""
        node = self._nodes[0]
        with self._lock:
            try:
                self._chain.write(node, [f"-s {_UNUSED_ADDRESS} {_LOSS}"])
            except ClusterError as error:
                return str(error)
            self._write(node)
        return None

    def begin(self, nodes: Iterable[str]) -> None:
        """Lose packets on all links of these nodes; other nodes stay as they are."""
        with self._lock:
            self._lossy |= set(nodes)
            on_each(self._nodes, self._write)

    def end(self, nodes: Iterable[str]) -> None:
        """Stop losing packets on the links of these nodes."""
        with self._lock:
            self._lossy -= set(nodes)
            on_each(self._nodes, self._write)

    def seen(self, node: str) -> dict[Link, bool]:
        """Send probes over each link of a node and return whether packets are lost on it.

        If a link has a rule, the rule's own counter decides; otherwise the probes do, unless the
        link is cut.
        """
        others = [other for other in self._nodes if other != node]
        links = [link for other in others for link in (Link(node, other), Link(other, node))]
        sent = self._probes.new(links, _LOSS_PROBES)
        arrived = self._probes.exchange(sent, _LOSS_WAIT_S)
        missed = {link for nonce, link in sent.items() if nonce not in arrived}
        dropped = on_each(self._nodes, self._chain.dropped)

        def lossy(link: Link) -> bool:
            count = dropped[link.target].get(self._addresses[link.source])
            if count is not None:
                return count > 0
            return link in missed and not self._links.is_cut(link)

        return {link: lossy(link) for link in links}

    def _write(self, node: str) -> None:
        sources = (other for other in self._nodes if other != node and {node, other} & self._lossy)
        self._chain.replace(node, (f"-s {self._addresses[source]} {_LOSS}" for source in sources))


class FilterChain:
    """Chain of rules in each pod's packet filter, called for every packet that comes in.

    Nothing jumps to the chain of a pod until it is first replaced.
    """

    def __init__(self, pods: Mapping[str, PodAgent], name: str, *, first: bool) -> None:
        """Make a chain; if `first`, it sees packets before the chains that are not."""
        self._pods = pods
        self._name = name
        self._place = "-I" if first else "-A"
        self._counted = re.compile(
            rf"^\[(\d+):\d+\] -A {re.escape(name)} -s ([\d.]+)", re.MULTILINE
        )

    def replace(self, node: str, rules: Iterable[str]) -> None:
        """Replace all rules of a node in one transaction of the kernel, and put them in force.

        Each rule begins with "-s" and an address. Raises ClusterError if the kernel lacks a match.
        """
        self.write(node, rules)
        jump = ("INPUT", "-j", self._name)
        pod = self._pods[node]
        if pod.call("run", wait_s=10, argv=["iptables", "-w", "-C", *jump], text="")["status"]:
            pod.run("iptables", "-w", self._place, *jump)

    def write(self, node: str, rules: Iterable[str]) -> None:
        """Replace all rules of a node without adding the jump that puts them in force."""
        lines = (f"-A {self._name} {rule}" for rule in rules)
        text = "\n".join(("*filter", f":{self._name} - [0:0]", *lines, "COMMIT", ""))
        self._pods[node].run("iptables-restore", "--noflush", "--wait", text=text)

    def dropped(self, node: str) -> dict[str, int]:
        """Return the number of packets that each rule has dropped, by the rule's address."""
        saved = self._pods[node].run("iptables-save", "-c", "-t", "filter")
        return {source: int(count) for count, source in self._counted.findall(saved)}


class LinkProbes:
    """Datagrams between the pods of one cluster that show what a link does with packets.

    A probe over a link that carries packets is in the target's queue when `sendto` returns, unless
    an address had to be resolved first.
    """

    def __init__(self, pods: Mapping[str, PodAgent], addresses: Mapping[str, str]) -> None:
        self._pods = pods
        self._addresses = addresses

    def new(self, links: Iterable[Link], count: int = 1) -> dict[str, Link]:
        """Return `count` new probes for each link, by nonce."""
        run = uuid.uuid4().hex[:12]
        every = [link for link in links for _ in range(count)]
        return {f"{run} {number}": link for number, link in enumerate(every)}

    def exchange(self, probes: Mapping[str, Link], wait_s: float) -> frozenset[str]:
        """Send each probe once and return the nonces that arrived, once all have or after `wait_s`.

        A probe that arrives later is heard when its nonce is sent again.
        """
        self._send(probes)
        by_target: dict[str, list[str]] = defaultdict(list)
        for nonce, link in probes.items():
            by_target[link.target].append(nonce)
        answers = on_each(
            by_target,
            lambda node: self._pods[node].call("heard", wait_s=wait_s, nonces=by_target[node]),
        )
        return frozenset(nonce for answer in answers.values() for nonce in answer)

    def _send(self, probes: Mapping[str, Link]) -> None:
        targets = (link.target for link in probes.values())
        ports = on_each(targets, lambda node: self._pods[node].probe_port())
        by_source: dict[str, list[Mapping[str, str | int]]] = defaultdict(list)
        for nonce, link in probes.items():
            probe: dict[str, str | int] = {
                "address": self._addresses[link.target],
                "port": ports[link.target],
                "nonce": nonce,
            }
            by_source[link.source].append(probe)
        on_each(by_source, lambda node: self._pods[node].call("send", probes=by_source[node]))
