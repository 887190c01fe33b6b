"""A chain of rules in the packet filter of each pod: it sees every packet that comes in."""

import re
from collections.abc import Iterable, Mapping

from harness.clusters.pods import PodAgent


class Chain:
    """Empty, and nowhere in the way, until it is first replaced."""

    def __init__(self, pods: Mapping[str, PodAgent], name: str, *, first: bool) -> None:
        """`first`: it sees a packet before those chains that are not."""
        self._pods = pods
        self._name = name
        self._place = "-I" if first else "-A"
        self._counted = re.compile(
            rf"^\[(\d+):\d+\] -A {re.escape(name)} -s ([\d.]+)", re.MULTILINE
        )

    def replace(self, node: str, rules: Iterable[str]) -> None:
        """All rules of this node at once, in one transaction of the kernel's. Each begins with
        "-s" and an address. Raises ClusterError where the kernel has no such rule."""
        self.write(node, rules)
        jump = ("INPUT", "-j", self._name)
        pod = self._pods[node]
        if pod.ask("run", wait_s=10, argv=["iptables", "-w", "-C", *jump], text="")["status"]:
            pod.run("iptables", "-w", self._place, *jump)

    def write(self, node: str, rules: Iterable[str]) -> None:
        """The same, and no packet is led to them that was not before."""
        lines = (f"-A {self._name} {rule}" for rule in rules)
        text = "\n".join(("*filter", f":{self._name} - [0:0]", *lines, "COMMIT", ""))
        self._pods[node].run("iptables-restore", "--noflush", "--wait", text=text)

    def dropped(self, node: str) -> dict[str, int]:
        """By the address of each rule: the packets that it has taken since it was written."""
        saved = self._pods[node].run("iptables-save", "-c", "-t", "filter")
        return {source: int(count) for count, source in self._counted.findall(saved)}
