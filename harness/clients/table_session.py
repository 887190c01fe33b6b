"""A workload set up on one replicated table: what all such workloads share."""

from collections.abc import Callable, Mapping, Sequence

from harness.clients.replicated_table import ReplicatedTable
from harness.core.op import Json
from harness.core.protocols import Client


class TableSession:
    """`client(node)` is the workload's own; the rest is the table's. `more_pending` says what
    else must come to rest."""

    def __init__(
        self,
        table: ReplicatedTable,
        client: Callable[[str], Client],
        more_pending: Callable[[], Sequence[str]] = lambda: (),
    ) -> None:
        self._table = table
        self._more_pending = more_pending
        self.client = client

    def pending(self) -> Sequence[str]:
        """Of the table, then the rest."""
        return (*self._table.pending(), *self._more_pending())

    def observe(self) -> Mapping[str, Json]:
        """For each replica its state."""
        return self._table.observe()

    def drop(self) -> None:
        """Drops the table."""
        self._table.drop()

    def close(self) -> None:
        """May be called twice."""
        self._table.close()
