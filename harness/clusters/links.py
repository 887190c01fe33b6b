"""Cuts of links in the packet filter of each pod, seen by probes and resets.

A packet is dropped where it comes in. A link a → b is cut in b's pod: packets from a's address are
dropped there, those of established connections too, and nothing happens to b → a. Where TCP is
answered with a reset, a has to hear that of b although b → a may be cut: resets pass.
"""

import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from harness.clusters.parallel import on_each
from harness.clusters.pods import PodAgent
from harness.core.capabilities import CanPartition, CanReject
from harness.core.topology import Link

_ROUNDS_S: Final = (0.02, 0.08, 0.2)
"""Waits for the missing probes after each round: an address may have had to be resolved first, or a
lossy link lost one."""


_CHAIN: Final = "HARNESS-CUT"
_RESETS: Final = (
    "-p tcp -m tcp --tcp-flags RST RST -j RETURN",
    "-p tcp -j REJECT --reject-with tcp-reset",
)
"""Rules of a link whose TCP packets are answered with a reset, before the one that drops."""
_CONNECT: Final = """
import errno, socket, sys
for address in sys.argv[1:]:
    with socket.socket() as connection:
        connection.settimeout(1)
        try:
            print(errno.errorcode.get(connection.connect_ex((address, 9)), ""))
        except OSError as error:
            print(error)
"""
"""Program that says how the opening of a connection to each address ends; port 9 has no server."""


class Links(CanPartition, CanReject):
    """Links of one cluster, which can be cut and mended."""

    def __init__(
        self,
        pods: Mapping[str, PodAgent],
        addresses: Mapping[str, str],
        slack_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """Make the links; `slack_s` returns how much longer than usual a packet takes now."""
        self._pods = pods
        self._addresses = addresses
        self._slack_s = slack_s
        self._chain = FilterChain(pods, _CHAIN, "filter", ("INPUT",))
        self._probes = LinkProbes(pods, addresses)
        self._lock = threading.Lock()
        self._cut: dict[str, dict[str, bool]] = defaultdict(dict)
        """Sources of the links that are cut, by target, and whether TCP is reset."""

    def cut(self, links: Iterable[Link]) -> None:
        self._add(links, resets=False)

    def reject(self, links: Iterable[Link]) -> None:
        self._add(links, resets=True)

    def _add(self, links: Iterable[Link], *, resets: bool) -> None:
        with self._lock:
            changed = []
            for link in links:
                if link.source not in self._cut[link.target]:
                    self._cut[link.target][link.source] = resets
                    changed.append(link.target)
            on_each(changed, self._write)

    def mend(self) -> None:
        with self._lock:
            for sources in self._cut.values():
                sources.clear()
            on_each(self._pods, self._write)

    def is_cut(self, link: Link) -> bool:
        """Return whether a link is to be cut now."""
        return link.source in self._cut.get(link.target, ())

    def reachable(self, links: Iterable[Link]) -> dict[Link, bool]:
        sent = self._probes.new(dict.fromkeys(links))
        arrived: frozenset[str] = frozenset()
        slack_s = self._slack_s()
        for wait_s in _ROUNDS_S:
            missing = {nonce: link for nonce, link in sent.items() if nonce not in arrived}
            if not missing:
                break
            arrived |= self._probes.exchange(missing, wait_s + slack_s)
        return {link: nonce in arrived for nonce, link in sent.items()}

    def resetting(self, links: Iterable[Link]) -> dict[Link, bool]:
        by_source: dict[str, list[str]] = defaultdict(list)
        links = list(dict.fromkeys(links))
        for link in links:
            by_source[link.source].append(link.target)
        refused = on_each(by_source, lambda node: self._refused(node, by_source[node]))
        answered = on_each({link.target for link in links}, self._answered)
        return {
            link: link.target in refused[link.source]
            and self._addresses[link.source] in answered[link.target]
            for link in links
        }

    def _refused(self, node: str, targets: Sequence[str]) -> frozenset[str]:
        """Return the targets that refuse a connection of a node."""
        addresses = [self._addresses[target] for target in targets]
        wait_s = 10.0 + len(targets)
        output = self._pods[node].run("python3", "-c", _CONNECT, *addresses, wait_s=wait_s)
        ends = zip(targets, output.splitlines(), strict=True)
        return frozenset(target for target, end in ends if end == "ECONNREFUSED")

    def _answered(self, node: str) -> frozenset[str]:
        """Return the addresses to which a node's packet filter has sent a reset."""
        listed = self._pods[node].run("iptables", "-w", "-nvxL", _CHAIN).splitlines()
        rules = [line.split() for line in listed if " REJECT " in line]
        return frozenset(rule[7] for rule in rules if int(rule[0]))

    def _write(self, node: str) -> None:
        self._chain.replace(
            node,
            (
                f"-s {self._addresses[source]} {rule}"
                for source, resets in sorted(self._cut[node].items())
                for rule in (*(_RESETS if resets else ()), "-j DROP")
            ),
        )


class FilterChain:
    """Chain of rules in a table of each pod's packet filter, called for packets that come in.

    Nothing jumps to the chain of a pod until it is first replaced.
    """

    def __init__(
        self, pods: Mapping[str, PodAgent], name: str, table: str, hook: Sequence[str]
    ) -> None:
        """Make a chain; `hook` is the chain of the kernel that jumps to it, with a match."""
        self._pods = pods
        self._name = name
        self._table = table
        self._hook = tuple(hook)

    def replace(self, node: str, rules: Iterable[str]) -> None:
        """Replace all rules of a node in one transaction of the kernel, and put them in force.

        Raises ClusterError if the kernel lacks a match or a target.
        """
        self.write(node, rules)
        table, jump = ("iptables", "-w", "-t", self._table), (*self._hook, "-j", self._name)
        pod = self._pods[node]
        if pod.call("run", wait_s=10, argv=[*table, "-C", *jump], text="")["status"]:
            pod.run(*table, "-A", *jump)

    def write(self, node: str, rules: Iterable[str]) -> None:
        """Replace all rules of a node without adding the jump that puts them in force."""
        lines = (f"-A {self._name} {rule}" for rule in rules)
        text = "\n".join((f"*{self._table}", f":{self._name} - [0:0]", *lines, "COMMIT", ""))
        self._pods[node].run("iptables-restore", "--noflush", "--wait", text=text)


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
