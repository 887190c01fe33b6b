"""A table of sets, a partition for each key, in which nothing merges: a block stays a part under
its own name, so that every value can be told to its block."""

from collections.abc import Mapping, Sequence

from harness.clients.replicated_table import TableSchema
from harness.clients.set_calls import COLUMNS, SEQUENTIAL, inserts, reads, where
from harness.clients.table_in_zookeeper import parts_of_replicas, quorum_state
from harness.clients.table_session import TableSession
from harness.core.protocols import Cluster

SCHEMA = TableSchema(
    columns=COLUMNS,
    partition_by="key",
    order_by="value",
    settings={"max_bytes_to_merge_at_max_space_in_pool": 1},
)


def unmerged(
    cluster: Cluster, token: str, settings: Sequence[Mapping[str, int | str]], timeout_s: float
) -> TableSession:
    """Made on every replica. Calls: "insert", which takes the settings in turn; "read",
    sequentially consistent; "final-read", plain; "where", "final-where"; "observe-quorum" and
    "final-quorum", which look at ZooKeeper. Raises ClusterError."""
    table = TableSession.table(cluster, token, SCHEMA)
    return TableSession(
        cluster,
        table,
        writes={"insert": inserts(table.name, *settings)},
        reads={
            "read": reads(table.name, SEQUENTIAL),
            "final-read": reads(table.name),
            "where": where(table.name),
            "final-where": where(table.name),
        },
        timeout_s=timeout_s,
        looks={"observe-quorum": quorum_state, "final-quorum": parts_of_replicas},
    )
