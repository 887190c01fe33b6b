"""Members of a simulated cluster: disks that are emptied or restored, replicas and ZooKeeper
servers that leave and come back."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from harness.core.capabilities import CanReconfigure, CanReplaceDisks, CanReplaceReplicas
from harness.core.errors import ClusterError
from harness.core.topology import Topology
from harness.native.simulator import Members
from harness.sim.simulation import KeeperError, ServerError, Simulation
from harness.sim.world import MS, SECOND

_EXPIRED_NS: Final = 30 * SECOND
"""Time for the session of a killed replica to end, until which it cannot be dropped."""
_STATEMENT_NS: Final = 20 * SECOND
_RETRY_NS: Final = 500 * MS
_ANSWER_NS: Final = 10 * SECOND
_NO_SESSION: Final = "NOSESSION"
_REFUSED: Final = frozenset({"NEWCONFIGNOQUORUM", "RECONFIGINPROGRESS"})
"""Errors after which nothing was changed. After any other the change may have been made."""


class SimulatedStorage(CanReplaceDisks):
    """Data of simulated servers. A replica has a file of its own and one for each table and part,
    a ZooKeeper server one for each entry of its log."""

    def __init__(self, simulation: Simulation, members: Members) -> None:
        self._simulation = simulation
        self._members = members

    def why_unavailable(self) -> str | None:
        return None

    def empty_disks(self, nodes: Iterable[str], parts_only: bool) -> None:
        for node in nodes:
            self._require_disk(node, parts_only)
            self._members.empty_disk(node, parts_only)

    def disk_files(self, node: str, parts_only: bool) -> int:
        return self._members.files(node, parts_only)

    def back_up_disks(self, nodes: Iterable[str]) -> None:
        for node in nodes:
            self._require_disk(node)
            self._members.back_up_disk(node)

    def restore_disks(self, nodes: Iterable[str]) -> None:
        for node in nodes:
            self._require_disk(node)
            if not self._members.restore_disk(node):
                raise ClusterError(f"{node}: no copy of its disk was made")

    def _require_disk(self, node: str, parts_only: bool = False) -> None:
        if self._simulation.servers.running(node):
            raise ClusterError(f"{node} runs, and its disk is its own")
        if not parts_only and self._members.refers_to_store(node):
            # Its locks, and objects that only it refers to, would be left behind.
            raise ClusterError(f"{node}: a disk with tables in an object store is not simulated")


class SimulatedReplicas(CanReplaceReplicas):
    """Replicas of tables on simulated servers."""

    def __init__(self, simulation: Simulation, topology: Topology, members: Members) -> None:
        self._simulation = simulation
        self._topology = topology
        self._members = members

    def note_tables(self, nodes: Iterable[str]) -> None:
        for node in nodes:
            self._require_answer(node)
            self._members.note_tables(node)

    def drop_replicas(self, nodes: Iterable[str]) -> None:
        for node in nodes:
            deadline = self._simulation.world.now_ns + _EXPIRED_NS
            for table in self._members.noted_tables(node):
                self._drop(node, table, deadline)

    def _drop(self, node: str, table: str, deadline: int) -> None:
        statement = f"SYSTEM DROP REPLICA '{node}' FROM TABLE {table}"
        while self._members.registered(node, table) is not False:
            try:
                self._simulation.ask(self._other(node), statement, None, {}, _STATEMENT_NS)
            except (ClusterError, ServerError) as error:
                if self._simulation.world.now_ns > deadline:
                    raise ClusterError(f"{node}: {table}: {error}") from error
                self._simulation.world.sleep(_RETRY_NS)

    def add_replicas(self, nodes: Iterable[str]) -> None:
        for node in nodes:
            self._require_answer(node)
            for table in self._members.missing_tables(node):
                number = self._simulation.world.number()
                self._members.add_table(self._simulation.servers, number, node, table)
                try:
                    self._simulation.answer(number)
                except ServerError as error:
                    raise ClusterError(f"{node}: {table}: {error}") from error

    def lacks_tables(self, node: str) -> bool:
        self._require_answer(node)
        noted = self._members.noted_tables(node)
        return bool(noted) and self._members.missing_tables(node) == noted

    def registered(self, node: str) -> bool:
        if node in self._topology.keepers:
            return self._members.followers() == len(self._topology.keepers) - 1
        tables = self._members.noted_tables(node)
        return any(self._members.registered(node, table) is not False for table in tables)

    def behind(self, node: str) -> Sequence[str]:
        if node in self._topology.keepers:
            return []
        if not self._simulation.servers.answers(node):
            return [f"{node} does not answer"]
        tables = self._members.tables_behind(node)
        inactive = [f"{node}: {table} is not active" for table, active, _ in tables if not active]
        waits = [f"{node}: {table} waits for {n} parts" for table, _, n in tables if n]
        return [*inactive, *waits]

    def _other(self, node: str) -> str:
        """Return a replica of the same shard that answers. Raises ClusterError."""
        shard = next(shard for shard in self._topology.shards if node in shard)
        for other in shard:
            if other != node and self._simulation.servers.answers(other):
                return other
        raise ClusterError(f"{node}: no other replica of its shard answers")

    def _require_answer(self, node: str) -> None:
        if not self._simulation.servers.answers(node):
            raise ClusterError(f"{node} does not answer")


class SimulatedEnsemble(CanReconfigure):
    """Members of the simulated ensemble, which is changed as if it had reconfigEnabled."""

    def __init__(self, simulation: Simulation, topology: Topology, members: Members) -> None:
        self._simulation = simulation
        self._topology = topology
        self._members = members

    def why_unavailable(self) -> str | None:
        return None

    def reconfigure(self, node: str, role: str) -> None:
        """Send the request to another server. What became of an unanswered one `ensemble` tells."""
        deadline = self._simulation.world.now_ns + _ANSWER_NS
        others = [other for other in self._topology.keepers if other != node]
        while self._simulation.world.now_ns < deadline:
            for by in filter(self._simulation.servers.answers, others):
                if self._is_sent(by, node, role):
                    return
            self._simulation.world.sleep(_RETRY_NS)

    def _is_sent(self, by: str, node: str, role: str) -> bool:
        """Make the request through a server. Return whether a session could be opened."""
        number = self._simulation.world.number()
        self._members.reconfigure(self._simulation.servers, number, by, node, role)
        try:
            self._simulation.answer(number)
        except KeeperError as error:
            if error.code in _REFUSED:
                raise ClusterError(f"ZooKeeper: reconfig: {error}") from error
            return error.code != _NO_SESSION
        return True

    def ensemble(self) -> Mapping[str, str]:
        members = self._members.ensemble()
        if members is None:
            raise ClusterError("no ZooKeeper server leads")
        return dict(members)
