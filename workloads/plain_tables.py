"""Tables of the workload `statements` beside the replicated ones: plain ones, and those of
refreshable views."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from harness.clients.clickhouse import ClickHouse
from harness.clients.replicated_table import ReplicatedTable, TableSchema
from harness.core.op import Json
from harness.core.protocols import Cluster


class StagingTable(ReplicatedTable):
    """Plain table on every replica, which is at rest when no statement runs."""

    def pending(self) -> Sequence[str]:
        """Return nothing: there is no queue."""
        return ()

    def unfinished_mutations(self) -> Sequence[str]:
        """Return nothing: no statement mutates it."""
        return ()

    def endless_mutations(self, node: str) -> Mapping[str, Sequence[str]]:  # noqa: ARG002
        """Return nothing: no statement mutates it."""
        return {}

    def observe(self, *, parts: bool = False) -> Mapping[str, Json]:  # noqa: ARG002
        """Return no figures of any replica."""
        return {node: {} for node in self.replicas}


class RefreshedTable(StagingTable):
    """Plain table of a refreshable view on every replica, which refreshes only when it is told to,
    once."""

    def __init__(
        self, cluster: Cluster, token: str, schema: TableSchema, source: str, *, appends: bool
    ) -> None:
        """Name the table and the view, which is beside its source; `appends` says whether it keeps
        the rows of before."""
        own = replace(schema, engine="MergeTree")
        suffix = "appending_view" if appends else "view"
        super().__init__(cluster, f"{token}_{suffix}", own)
        self._view, self._source = f"{source}_{suffix}", source
        self._append = "APPEND " if appends else ""

    def create_on(self, connection: ClickHouse, node: str) -> None:
        """Create the table and the view. Raises DatabaseError."""
        super().create_on(connection, node)
        connection.command(
            f"CREATE MATERIALIZED VIEW {self._view} REFRESH EVERY 100 YEAR "
            f"SETTINGS refresh_retries = 0 {self._append}TO {self.name} EMPTY "
            f"AS SELECT p, id, v FROM {self._source}"
        )
