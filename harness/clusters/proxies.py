"""The proxies in the pods of replicas, and the rules of the kernel that lead to them.

The kernel redirects new connections: of the database's user to ZooKeeper, and of anybody to the
interserver port. The proxy's own are of root, and pass.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from harness.clusters.parallel import on_each
from harness.clusters.pods import PodAgent
from harness.core.errors import ClusterError
from harness.core.op import Json

_REDIRECTS: Final = (
    ("OUTPUT", "-p", "tcp", "--dport", "2181", "-m", "owner", "!", "--uid-owner", "0",
     "-j", "REDIRECT", "--to-ports", "12181"),
    ("PREROUTING", "-p", "tcp", "--dport", "9009", "-j", "REDIRECT", "--to-ports", "19009"),
)  # fmt: skip
_WAIT_S: Final = 10.0


class Proxies:
    """Of one cluster's replicas, by the agents of their pods."""

    def __init__(self, pods: Mapping[str, PodAgent]) -> None:
        self._pods = pods

    def install(self) -> Sequence[str]:
        """Starts those that do not run; returns the replicas where one was started. Raises
        ClusterError where the kernel cannot redirect."""
        started = on_each(self._pods, self._install)
        return [node for node, new in started.items() if new]

    def arm(self, nodes: Iterable[str], rule: Mapping[str, Json]) -> None:
        """One more rule."""
        on_each(nodes, lambda node: self._told(node, "arm", rule))

    def clear(self, nodes: Iterable[str]) -> None:
        """No rule, and nothing hangs."""
        on_each(nodes, lambda node: self._told(node, "clear", {}))

    def state(self, node: str) -> Mapping[str, Json]:
        """Hits by rule, and how many connections hang."""
        return self._told(node, "state", {})

    def _install(self, node: str) -> bool:
        pod = self._pods[node]
        new = bool(pod.ask("proxy_start"))
        for chain, *rule in _REDIRECTS:
            table = ("iptables", "-w", "-t", "nat")
            there = pod.ask("run", wait_s=_WAIT_S, argv=[*table, "-C", chain, *rule], text="")
            if there["status"]:
                pod.run(*table, "-A", chain, *rule)
        return new

    def _told(self, node: str, command: str, arguments: Mapping[str, Json]) -> Mapping[str, Json]:
        try:
            told: Mapping[str, Json] = self._pods[node].ask(
                "proxy", what=command, arguments=dict(arguments)
            )
        except KeyError:
            raise ClusterError(f"{node}: has no proxy, it is no replica") from None
        return told
