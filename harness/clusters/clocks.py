"""Clocks of real servers: a library loaded into each, and the answers to "what time is it?".

The library is compiled beside the compose file, and /etc/ld.so.preload of each server's container
names it: servers of today clear LD_PRELOAD. The harness writes the file that the library reads.
"""

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from compose.plan import CLOCKS, PRELOAD, ClusterPlan
from harness.clusters import keeper, replica
from harness.clusters.clock_library import change_state, compile_library, write_state
from harness.clusters.containers import Containers
from harness.clusters.engine import engine_request
from harness.clusters.parallel import on_each
from harness.core.capabilities import CanSetClocks
from harness.core.clock_fault import SECOND, ClockFault, ClockReading, shows
from harness.core.dialect import Coordination
from harness.core.errors import ClusterError
from harness.core.topology import Role

_PROBE: Final = ClockFault(offset_s=20.0)
"""Fault that shows before a run whether a clock obeys."""
_ANSWER_S: Final = 3.0
_PROBE_S: Final = 30.0
_WORD: Final = "isro"
"""Request that ZooKeeper logs with its own time. Nothing else of the harness sends it."""
_LOGGED: Final = re.compile(
    rb"^(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)[,.](\d{3}).*Processing isro command", re.MULTILINE
)
_POLL_S: Final = 0.05


class NodeClocks(CanSetClocks):
    """Clocks of the servers of a cluster of containers."""

    def __init__(self, containers: Containers) -> None:
        self._containers = containers
        self._faults: dict[str, ClockFault] = {}

    def clocked(self) -> Sequence[str]:
        """Return the servers that load the library."""
        return [server.node.name for server in self._containers.plan.servers if server.clocked]

    def why_unavailable(self) -> str | None:
        """Return why a clock cannot be set; None if each server's obeys, which is tried."""
        if not self._containers.settings.wrong_clocks:
            return "its servers were started without the library; expected a cluster made for it"
        servers = {node: self._containers.plan.server(node).engine for node in self.clocked()}
        for node, engine in servers.items():
            if engine.coordination is Coordination.KEEPER:
                return f"{node} is {engine}, which does not say its time"
        deadline = time.monotonic() + _PROBE_S
        self.set_clocks(servers, _PROBE)
        try:
            while True:
                found = self.read_clocks(servers)
                deaf = [n for n, r in found.items() if isinstance(r, str) or shows(_PROBE, [r])]
                if not deaf:
                    return None
                if time.monotonic() > deadline:
                    named = ", ".join(f"{node} ({servers[node]})" for node in deaf)
                    return f"the clock of {named} does not obey a library that is loaded first"
        finally:
            self.reset_clocks(servers)

    def set_clocks(self, nodes: Iterable[str], fault: ClockFault) -> None:
        for node in nodes:
            change_state(self._containers.directory / CLOCKS / node / "state", fault)
            self._faults[node] = fault

    def clock_fault(self, node: str) -> ClockFault:
        return self._faults.get(node, ClockFault())

    def reset_clocks(self, nodes: Iterable[str]) -> None:
        """Make the clocks of these servers right. What a rate added to a monotonic clock stays, for
        such a clock never jumps. Idempotent."""
        if self._containers.settings.wrong_clocks:
            self.set_clocks(nodes, ClockFault())

    def read_clocks(self, nodes: Iterable[str]) -> Mapping[str, ClockReading | str]:
        def read(node: str) -> ClockReading | str:
            try:
                return self._read_clock(node)
            except (ClusterError, OSError) as error:
                return f"does not say its time: {error}"

        return on_each(nodes, read)

    def _read_clock(self, node: str) -> ClockReading:
        before = time.time_ns()
        if self._containers.topology.node(node).role is Role.ZOOKEEPER:
            shown, resolution = self._logged(node, before), SECOND // 1000
        else:
            shown, resolution = replica.clock_of(self._containers.endpoint(node), _ANSWER_S)
        after = time.time_ns()
        return ClockReading(time.monotonic_ns(), shown - after, shown + resolution - before)

    def _logged(self, node: str, since_ns: int) -> int:
        """Send a request to a ZooKeeper server and return the time at which its log has it."""
        keeper.request(self._containers.endpoint(node), _WORD, _ANSWER_S)
        deadline = time.monotonic() + _ANSWER_S
        while True:
            with engine_request(f"read the log of {node}"):
                container = self._containers.container(node)
                text = container.logs(since=since_ns / SECOND)
            found = _LOGGED.findall(text)
            if found:
                day, second, ms = (part.decode() for part in found[-1])
                at = datetime.fromisoformat(f"{day}T{second}.{ms}").replace(tzinfo=UTC)
                return round(at.timestamp() * 1000) * (SECOND // 1000)
            if time.monotonic() > deadline:
                raise ClusterError(f"{node}: its log has no request {_WORD}")
            time.sleep(_POLL_S)


def prepare_clocks(plan: ClusterPlan, directory: Path) -> None:
    """Compile the library and write a file for each server that loads it. Raises ClusterError."""
    clocked = [server for server in plan.servers if server.clocked]
    if not clocked:
        return
    (directory / CLOCKS).mkdir(exist_ok=True)
    library = directory / CLOCKS / "fake_clock.so"
    compile_library(library)
    (directory / CLOCKS / PRELOAD).write_text(f"/harness/{library.name}\n")
    for server in clocked:
        own = directory / CLOCKS / server.node.name
        own.mkdir(exist_ok=True)
        write_state(own / "state", ClockFault())
        own.chmod(0o755)
    for file in (directory / CLOCKS).rglob("*"):
        file.chmod(0o755)
    (directory / CLOCKS).chmod(0o755)
