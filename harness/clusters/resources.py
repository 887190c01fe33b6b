"""Shortages of real servers: memory, CPU time, file descriptors, connections, names."""

import resource as limits
import socket
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from harness.clusters.containers import Containers
from harness.clusters.engine import engine_request
from harness.clusters.parallel import on_each
from harness.clusters.readiness import Readiness
from harness.core.capabilities import CanStarve
from harness.core.errors import ClusterError
from harness.core.resources import Resource

_MIB: Final = 1 << 20
_SPARE_BYTES: Final = (32 * _MIB, 64 * _MIB, 128 * _MIB)
"""Limit above what the kernel cannot reclaim. The least that the kernel accepts is taken."""
_NO_LIMIT: Final = 1 << 50
"""Limit of memory in place of none, which an engine of 2022 refuses to set."""
_BALLOON: Final = ("sh", "-c", "head -c 160M /dev/zero | tail > /dev/null")
"""Command that takes the spare memory, so that the OOM killer strikes: `tail` keeps its last line.
The server is the largest process, and so the one that is killed."""
_PERIOD_US: Final = 100_000
_QUOTA_US: Final = 2_000
_ASKED: Final = 3
_ROUNDS: Final = 6
"""Rounds of half as many connections as a server accepts: it lets others wait, and closes some."""
_CONNECT_S: Final = 0.5
_KEPT_FILES: Final = 0.75
"""Descriptors that a server may have, as a share of those that it has."""
_LOOKUP_S: Final = 10.0
_NO_LOOKUPS: Final = ("OUTPUT", "-d", "127.0.0.11", "-j", "DROP")
"""Rule of the packet filter of a pod: nothing reaches the engine's name server."""


class NodeResources(CanStarve):
    """Resources of the servers of a cluster of containers."""

    def __init__(self, containers: Containers, readiness: Readiness) -> None:
        self._containers = containers
        self._agents = containers.agents
        self._readiness = readiness
        self._held: dict[str, list[socket.socket]] = {}
        """Connections that take up servers' limits, by node."""
        self._throttled: dict[str, int] = {}
        """Number of throttled periods of each server when it was last read."""

    def why_not_starved(self, resource: Resource) -> str | None:
        if resource in (Resource.MEMORY, Resource.CPU):
            flag = "MemoryLimit" if resource is Resource.MEMORY else "CpuCfsQuota"
            with engine_request("ask for its features"):
                has = self._containers.engine().info().get(flag)
            return None if has else f"the engine reports {flag}: {has}"
        tried = {Resource.FILES: ("prlimit", "--version"), Resource.NAMES: ("iptables", "-w", "-L")}
        try:
            if resource in tried:
                next(iter(self._agents.values())).run(*tried[resource])
        except ClusterError as error:
            return str(error)
        return None

    def starve(self, nodes: Iterable[str], resource: Resource) -> None:
        on_each(nodes, lambda node: _STARVE[resource](self, node))

    def feed(self, nodes: Iterable[str], resource: Resource) -> None:
        on_each(nodes, lambda node: _FEED[resource](self, node))

    def feed_all(self) -> None:
        """Give every resource back to every server; idempotent."""
        for resource in Resource:
            self.feed(self._agents, resource)

    def shortages(self, nodes: Iterable[str], resource: Resource) -> Mapping[str, str | None]:
        return on_each(nodes, lambda node: _SHORTAGE[resource](self, node))

    # --- memory, CPU time ---------------------------------------------------------------------

    def limit_memory(self, node: str) -> None:
        """Set a limit at which the kernel must kill the server, and fill what is left."""
        container = self._containers.container(node)
        stats = self._stats(node)["memory_stats"]["stats"]
        needed = stats["inactive_anon"] + stats["active_anon"]
        for spare in _SPARE_BYTES:
            try:
                with engine_request(f"limit the memory of {node}"):
                    container.update(mem_limit=needed + spare, memswap_limit=needed + spare)
                break
            except ClusterError:
                if spare == _SPARE_BYTES[-1]:
                    raise
        # The engine reports an error if the command dies with its container.
        with suppress(ClusterError), engine_request(f"fill the memory of {node}"):
            container.exec_run(list(_BALLOON), detach=True)

    def free_memory(self, node: str) -> None:
        """End the limit of a server's memory."""
        if 0 < self._host(node)["Memory"] < _NO_LIMIT:
            with engine_request(f"end the memory limit of {node}"):
                self._containers.container(node).update(
                    mem_limit=_NO_LIMIT, memswap_limit=_NO_LIMIT
                )

    def out_of_memory(self, node: str) -> str | None:
        """Return whether the OOM killer struck in the server's container."""
        with engine_request(f"look at {node}"):
            killed = self._containers.container(node).attrs["State"]["OOMKilled"]
        return "it was killed for its memory" if killed else None

    def limit_cpu(self, node: str) -> None:
        """Give a server little CPU time."""
        self._throttled[node] = self._throttled_periods(node)
        with engine_request(f"limit the CPU time of {node}"):
            self._containers.container(node).update(cpu_period=_PERIOD_US, cpu_quota=_QUOTA_US)

    def free_cpu(self, node: str) -> None:
        """End the limit of a server's CPU time."""
        if self._host(node)["CpuQuota"] > 0:
            with engine_request(f"end the CPU limit of {node}"):
                self._containers.container(node).update(cpu_quota=-1)
            self._throttled[node] = self._throttled_periods(node)

    def out_of_cpu(self, node: str) -> str | None:
        """Return how much more often the server was throttled than when last read.

        It is asked for something first, for a server that has nothing to do needs no CPU.
        """
        for _ in range(_ASKED):
            self._readiness.why_not_alive(node)
        now = self._throttled_periods(node)
        more = now - self._throttled.get(node, now)
        self._throttled[node] = now
        return f"throttled in {more} periods" if more > 0 else None

    def _throttled_periods(self, node: str) -> int:
        stats = self._stats(node).get("cpu_stats", {})
        return int(stats.get("throttling_data", {}).get("throttled_periods", 0))

    def _stats(self, node: str) -> Any:
        with engine_request(f"read the statistics of {node}"):
            return self._containers.container(node).stats(stream=False, one_shot=True)

    def _host(self, node: str) -> Any:
        with engine_request(f"look at {node}"):
            return self._containers.container(node).attrs["HostConfig"]

    # --- file descriptors ---------------------------------------------------------------------

    def limit_files(self, node: str) -> None:
        """Allow a server fewer descriptors than it has, so that it gets no further one."""
        for pid in self._pids(node):
            most = max(1, int(self._open_files(node, pid) * _KEPT_FILES))
            self._as_owner(node, pid, "prlimit", f"--pid={pid}", f"--nofile={most}:")

    def free_files(self, node: str) -> None:
        """Allow a server as many descriptors as it may ever have."""
        for pid in self._pids(node):
            if self._files_limit(node, pid) is not None:
                hard = self._prlimit(node, pid, "HARD")
                self._as_owner(node, pid, "prlimit", f"--pid={pid}", f"--nofile={hard}:")

    def out_of_files(self, node: str) -> str | None:
        """Return the limit of the server's descriptors if it is reached, and what it refuses."""
        for pid in self._pids(node):
            most = self._files_limit(node, pid)
            if most is None:
                continue
            have = self._open_files(node, pid)
            why = self._readiness.why_not_alive(node)
            if have >= most and why is not None:
                return f"{have} descriptors of {most}: {why}"
        return None

    def _files_limit(self, node: str, pid: int) -> int | None:
        """Return the limit of a process if it is lower than it could be."""
        soft, hard = self._prlimit(node, pid, "SOFT"), self._prlimit(node, pid, "HARD")
        return soft if soft < hard else None

    def _prlimit(self, node: str, pid: int, kind: str) -> int:
        argv = ("prlimit", f"--pid={pid}", "--nofile", "--noheadings", "--raw", f"--output={kind}")
        return int(self._as_owner(node, pid, *argv))

    def _open_files(self, node: str, pid: int) -> int:
        return len(self._as_owner(node, pid, "ls", f"/proc/{pid}/fd").split())

    def _pids(self, node: str) -> list[int]:
        return [int(process["pid"]) for process in self._agents[node].call("processes")]

    def _as_owner(self, node: str, pid: int, *argv: str) -> str:
        """Run a program in the pod as the user of a process: the kernel lets it change its own."""
        user, group = self._agents[node].run("stat", "-c", "%u %g", f"/proc/{pid}").split()
        own = ("setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups")
        return self._agents[node].run(*own, *argv)

    # --- connections, names -------------------------------------------------------------------

    def hold_connections(self, node: str) -> None:
        """Open connections to a server until it accepts no more. They end with this process."""
        _, hard = limits.getrlimit(limits.RLIMIT_NOFILE)
        limits.setrlimit(limits.RLIMIT_NOFILE, (hard, hard))
        to, held = self._containers.endpoint(node), self._held.setdefault(node, [])
        for _ in range(_ROUNDS):
            for _ in range(self._containers.settings.connections_max // 2):
                with suppress(OSError):  # one that is refused is no longer needed
                    held.append(socket.create_connection((to.host, to.port), _CONNECT_S))
            if self._readiness.why_not_alive(node) is not None:
                return

    def free_connections(self, node: str) -> None:
        """Close the connections to a server."""
        for held in self._held.pop(node, []):
            held.close()

    def out_of_connections(self, node: str) -> str | None:
        """Return why a server does not serve a new connection."""
        return self._readiness.why_not_alive(node)

    def stop_lookups(self, node: str) -> None:
        """Keep a server from the engine's name server."""
        if not self._filtered(node):
            self._agents[node].run("iptables", "-w", "-I", *_NO_LOOKUPS)

    def free_lookups(self, node: str) -> None:
        """Let a server reach the engine's name server."""
        while self._filtered(node):
            self._agents[node].run("iptables", "-w", "-D", *_NO_LOOKUPS)

    def out_of_names(self, node: str) -> str | None:
        """Return why a lookup of another server's name in the pod fails."""
        other = next(name for name in self._containers.topology.names if name != node)
        argv = ["timeout", "1", "getent", "ahostsv4", other]
        done = self._agents[node].call("run", wait_s=_LOOKUP_S, argv=argv, text="")
        return f"{other} cannot be looked up" if done["status"] else None

    def _filtered(self, node: str) -> bool:
        argv = ["iptables", "-w", "-C", *_NO_LOOKUPS]
        done = self._agents[node].call("run", wait_s=_LOOKUP_S, argv=argv, text="")
        return int(done["status"]) == 0


_STARVE: Final[Mapping[Resource, Callable[[NodeResources, str], None]]] = {
    Resource.MEMORY: NodeResources.limit_memory,
    Resource.CPU: NodeResources.limit_cpu,
    Resource.FILES: NodeResources.limit_files,
    Resource.CONNECTIONS: NodeResources.hold_connections,
    Resource.NAMES: NodeResources.stop_lookups,
}
_FEED: Final[Mapping[Resource, Callable[[NodeResources, str], None]]] = {
    Resource.MEMORY: NodeResources.free_memory,
    Resource.CPU: NodeResources.free_cpu,
    Resource.FILES: NodeResources.free_files,
    Resource.CONNECTIONS: NodeResources.free_connections,
    Resource.NAMES: NodeResources.free_lookups,
}
_SHORTAGE: Final[Mapping[Resource, Callable[[NodeResources, str], str | None]]] = {
    Resource.MEMORY: NodeResources.out_of_memory,
    Resource.CPU: NodeResources.out_of_cpu,
    Resource.FILES: NodeResources.out_of_files,
    Resource.CONNECTIONS: NodeResources.out_of_connections,
    Resource.NAMES: NodeResources.out_of_names,
}
