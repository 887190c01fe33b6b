"""TCP connections between servers that fall silent while new ones open, and names of servers that
lead to others.

A connection falls silent as behind a firewall that has forgotten it: the packet filters of the pod
drop each of its packets, in either direction, and neither end is told. Those that are opened later
have other ports, and pass.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from harness.clusters.links import FilterChain
from harness.clusters.parallel import on_each
from harness.clusters.pods import PodAgent
from harness.core.connection_capabilities import CanMisname, CanSilence

_IN: Final = "HARNESS-SILENT-IN"
_OUT: Final = "HARNESS-SILENT-OUT"
_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")
_ESTABLISHED: Final = "01"
_MARK: Final = "# harness: misnamed"
_HOSTS: Final = "/etc/hosts"
_WRITE: Final = f"""
import sys
with open("{_HOSTS}", "r+") as file:
    kept = [line for line in file if not line.rstrip().endswith("{_MARK}")]
    file.seek(0)
    file.write(sys.stdin.read() + "".join(kept))
    file.truncate()
"""
"""Program that replaces the lines of the fault in the file, which is mounted and cannot be
renamed."""


class OpenConnections(CanSilence):
    """Connections of one cluster's servers, which can fall silent."""

    def __init__(self, pods: Mapping[str, PodAgent], addresses: Mapping[str, str]) -> None:
        self._pods = pods
        self._addresses = addresses
        self._in = FilterChain(pods, _IN, "filter", ("INPUT",))
        self._out = FilterChain(pods, _OUT, "filter", ("OUTPUT",))

    def silence(self, nodes: Iterable[str]) -> None:
        on_each(nodes, self._silence)

    def _silence(self, node: str) -> None:
        others = {at for name, at in self._addresses.items() if name != node}
        found = [
            one
            for table in _TABLES
            for one in established(self._pods[node].run("cat", table))
            if one[1] in others
        ]
        tcp = "-p tcp -m tcp"
        self._in.replace(
            node,
            (f"-s {at} {tcp} --sport {there} --dport {here} -j DROP" for here, at, there in found),
        )
        self._out.replace(
            node,
            (f"-d {at} {tcp} --sport {here} --dport {there} -j DROP" for here, at, there in found),
        )

    def end_silence(self, nodes: Iterable[str]) -> None:
        nodes = tuple(nodes)
        for chain in (self._in, self._out):
            on_each(nodes, partial(chain.write, rules=()))

    def silenced(self, node: str) -> bool:
        return any(self._dropped(node, chain) for chain in (_IN, _OUT))

    def _dropped(self, node: str, chain: str) -> bool:
        """Return whether a rule of the chain has dropped a packet."""
        argv = ["iptables", "-w", "-nvxL", chain]
        listed = self._pods[node].call("run", wait_s=10, argv=argv, text="")
        rules = [line.split() for line in listed["stdout"].splitlines() if " DROP " in line]
        return any(int(rule[0]) for rule in rules)


class ServerNames(CanMisname):
    """Names by which replicas find ZooKeeper servers, which can lead to other ones."""

    def __init__(
        self,
        pods: Mapping[str, PodAgent],
        addresses: Mapping[str, str],
        keepers: Sequence[str],
    ) -> None:
        self._pods = pods
        self._addresses = addresses
        self._keepers = tuple(keepers)

    def misname(self, nodes: Iterable[str]) -> None:
        on_each(nodes, self._misname)

    def _misname(self, node: str) -> None:
        names = self._keepers
        others = (*names[1:], *names[:1])
        self._write(
            node,
            "".join(
                f"{self._addresses[other]}\t{name}\t{_MARK}\n"
                for name, other in zip(names, others, strict=True)
            ),
        )

    def end_misnaming(self, nodes: Iterable[str]) -> None:
        on_each(nodes, lambda node: self._write(node, ""))

    def misnamed(self, node: str) -> bool:
        for name in self._keepers:
            found = self._pods[node].run("getent", "ahostsv4", name).split()
            if found[0] != self._addresses[name]:
                return True
        return False

    def _write(self, node: str, lines: str) -> None:
        self._pods[node].run("python3", "-c", _WRITE, text=lines)


def established(table: str) -> Iterator[tuple[int, str, int]]:
    """Yield the port, the other end's address and its port of each connection that is open, out of
    the kernel's table. An address of IPv4 is the last four bytes, in reverse order."""
    for line in table.splitlines()[1:]:
        _, here, there, state, *_ = line.split()
        if state == _ESTABLISHED:
            address, port = there.split(":")
            numbers = reversed(bytes.fromhex(address[-8:]))
            yield int(here.split(":")[1], 16), ".".join(map(str, numbers)), int(port, 16)
