"""Members of a simulated cluster: disks that are emptied or restored, replicas and ZooKeeper
servers that leave and come back."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final

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


class SimulatedMembers:
    """CanReplaceDisks, CanReplaceReplicas and CanReconfigure of simulated servers."""

    topology: Topology
    simulation: Simulation

    @cached_property
    def _members(self) -> Members:
        return Members(self.simulation.servers)

    # --- CanReplaceDisks ----------------------------------------------------------------------

    def why_no_disks(self) -> str | None:
        """Return None: simulated disks can be replaced."""

    def empty_disks(self, nodes: Iterable[str], parts_only: bool) -> None:
        """Remove everything on the disks of these servers, or only the parts of tables."""
        for node in nodes:
            self._require_disk(node, parts_only)
            self._members.empty_disk(node, parts_only)

    def disk_files(self, node: str, parts_only: bool) -> int:
        """Return how many tables and parts a replica has, and one for a file of its own, or how
        many parts; of a ZooKeeper server, the number of entries of its log."""
        return self._members.files(node, parts_only)

    def back_up_disks(self, nodes: Iterable[str]) -> None:
        """Copy the disks of these servers in place of an older copy."""
        for node in nodes:
            self._require_disk(node)
            self._members.back_up_disk(node)

    def restore_disks(self, nodes: Iterable[str]) -> None:
        """Put the copy in place of the disks of these servers."""
        for node in nodes:
            self._require_disk(node)
            if not self._members.restore_disk(node):
                raise ClusterError(f"{node}: no copy of its disk was made")

    def _require_disk(self, node: str, parts_only: bool = False) -> None:
        if self.simulation.servers.running(node):
            raise ClusterError(f"{node} runs, and its disk is its own")
        if not parts_only and self._members.refers_to_store(node):
            # Its locks, and objects that only it refers to, would be left behind.
            raise ClusterError(f"{node}: a disk with tables in an object store is not simulated")

    # --- CanReplaceReplicas -------------------------------------------------------------------

    def note_tables(self, nodes: Iterable[str]) -> None:
        """Note the tables of these replicas, for `add_replicas`. Raises ClusterError."""
        for node in nodes:
            self._require_answer(node)
            self._members.note_tables(node)

    def drop_replicas(self, nodes: Iterable[str]) -> None:
        """Have other replicas drop those of these servers, which do not run. Raises
        ClusterError."""
        for node in nodes:
            deadline = self.simulation.world.now_ns + _EXPIRED_NS
            for table in self._members.noted_tables(node):
                self._drop(node, table, deadline)

    def _drop(self, node: str, table: str, deadline: int) -> None:
        statement = f"SYSTEM DROP REPLICA '{node}' FROM TABLE {table}"
        while self._members.registered(node, table) is not False:
            try:
                self.simulation.ask(self._other(node), statement, None, {}, _STATEMENT_NS)
            except (ClusterError, ServerError) as error:
                if self.simulation.world.now_ns > deadline:
                    raise ClusterError(f"{node}: {table}: {error}") from error
                self.simulation.world.sleep(_RETRY_NS)

    def add_replicas(self, nodes: Iterable[str]) -> None:
        """Create the noted tables that these servers do not have; idempotent. Raises
        ClusterError."""
        for node in nodes:
            self._require_answer(node)
            for table in self._members.missing_tables(node):
                number = self.simulation.world.number()
                self._members.add_table(self.simulation.servers, number, node, table)
                try:
                    self.simulation.answer(number)
                except ServerError as error:
                    raise ClusterError(f"{node}: {table}: {error}") from error

    def lacks_tables(self, node: str) -> bool:
        """Return whether a replica has none of its noted tables. Raises ClusterError."""
        self._require_answer(node)
        noted = self._members.noted_tables(node)
        return bool(noted) and self._members.missing_tables(node) == noted

    def registered(self, node: str) -> bool:
        """Return whether others know the server as a member."""
        if node in self.topology.keepers:
            return self._members.followers() == len(self.topology.keepers) - 1
        tables = self._members.noted_tables(node)
        return any(self._members.registered(node, table) is not False for table in tables)

    def behind(self, node: str) -> Sequence[str]:
        """Return which tables of a replica wait for parts, a reason each."""
        if node in self.topology.keepers:
            return []
        if not self.simulation.servers.answers(node):
            return [f"{node} does not answer"]
        tables = self._members.tables_behind(node)
        inactive = [f"{node}: {table} is not active" for table, active, _ in tables if not active]
        waits = [f"{node}: {table} waits for {n} parts" for table, _, n in tables if n]
        return [*inactive, *waits]

    def _other(self, node: str) -> str:
        """Return a replica of the same shard that answers. Raises ClusterError."""
        shard = next(shard for shard in self.topology.shards if node in shard)
        for other in shard:
            if other != node and self.simulation.servers.answers(other):
                return other
        raise ClusterError(f"{node}: no other replica of its shard answers")

    def _require_answer(self, node: str) -> None:
        if not self.simulation.servers.answers(node):
            raise ClusterError(f"{node} does not answer")

    # --- CanReconfigure -----------------------------------------------------------------------

    def why_no_reconfig(self) -> str | None:
        """Return None: ZooKeeper 3.8 is simulated as if it had reconfigEnabled."""

    def reconfigure(self, node: str, role: str) -> None:
        """Make the server "participant" or "observer", or remove it, for "", through another
        server. What became of an unanswered request `ensemble` tells. Raises ClusterError."""
        deadline = self.simulation.world.now_ns + _ANSWER_NS
        others = [other for other in self.topology.keepers if other != node]
        while self.simulation.world.now_ns < deadline:
            for by in filter(self.simulation.servers.answers, others):
                if self._is_sent(by, node, role):
                    return
            self.simulation.world.sleep(_RETRY_NS)

    def _is_sent(self, by: str, node: str, role: str) -> bool:
        """Make the request through a server. Return whether a session could be opened."""
        number = self.simulation.world.number()
        self._members.reconfigure(self.simulation.servers, number, by, node, role)
        try:
            self.simulation.answer(number)
        except KeeperError as error:
            if error.code in _REFUSED:
                raise ClusterError(f"ZooKeeper: reconfig: {error}") from error
            return error.code != _NO_SESSION
        return True

    def ensemble(self) -> Mapping[str, str]:
        """Return the role of each member, as the leader's configuration has it. Raises
        ClusterError."""
        members = self._members.ensemble()
        if members is None:
            raise ClusterError("no ZooKeeper server leads")
        return dict(members)
