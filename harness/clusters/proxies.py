"""Proxies in the pods of replicas, and the kernel rules that redirect connections to them.

The kernel redirects new connections: those of the database's user to ZooKeeper, and all to the
interserver port. The proxy runs as root, so its own connections are not redirected.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from harness.clusters.parallel import on_each
from harness.clusters.pods import PodAgent
from harness.clusters.processes import Processes
from harness.clusters.readiness import Readiness
from harness.core.capabilities import CanIntercept
from harness.core.errors import ClusterError
from harness.core.op import Json

_REDIRECTS: Final = (
    ("OUTPUT", "-p", "tcp", "--dport", "2181", "-m", "owner", "!", "--uid-owner", "0",
     "-j", "REDIRECT", "--to-ports", "12181"),
    ("PREROUTING", "-p", "tcp", "--dport", "9009", "-j", "REDIRECT", "--to-ports", "19009"),
)  # fmt: skip
_WAIT_S: Final = 10.0


class Proxies(CanIntercept):
    """Proxies of the replicas of one cluster, controlled through the agents of their pods."""

    def __init__(
        self,
        pods: Mapping[str, PodAgent],
        replicas: Sequence[str],
        processes: Processes,
        readiness: Readiness,
    ) -> None:
        self._pods = pods
        self._replicas = tuple(replicas)
        self._processes = processes
        self._readiness = readiness

    def interpose(self) -> None:
        """Start the proxies that do not run, and restart their replicas: connections that exist
        already do not pass through them. Raises ClusterError if a kernel cannot redirect
        connections."""
        started = on_each(self._replicas, self._install)
        if fresh := [node for node, new in started.items() if new]:
            self._processes.restart(fresh)
            self._readiness.await_ready()

    def intercept(self, nodes: Iterable[str], rule: Mapping[str, Json]) -> None:
        on_each(nodes, lambda node: self._execute(node, "arm", rule))

    def release(self, nodes: Iterable[str], name: str, cut: bool = False) -> None:
        on_each(nodes, lambda node: self._execute(node, "release", {"name": name, "cut": cut}))

    def clear_rules(self, nodes: Iterable[str]) -> None:
        on_each(nodes, lambda node: self._execute(node, "clear", {}))

    def intercepted(self, node: str) -> Mapping[str, Json]:
        return self._execute(node, "state", {})

    def _install(self, node: str) -> bool:
        pod = self._pods[node]
        new = bool(pod.call("start", program="proxy"))
        for chain, *rule in _REDIRECTS:
            table = ("iptables", "-w", "-t", "nat")
            there = pod.call("run", wait_s=_WAIT_S, argv=[*table, "-C", chain, *rule], text="")
            if there["status"]:
                pod.run(*table, "-A", chain, *rule)
        return new

    def _execute(
        self, node: str, command: str, arguments: Mapping[str, Json]
    ) -> Mapping[str, Json]:
        if node not in self._replicas:
            raise ClusterError(f"{node}: has no proxy because it is not a replica")
        state: Mapping[str, Json] = self._pods[node].call(
            "ask", program="proxy", message=[command, dict(arguments)]
        )
        return state
