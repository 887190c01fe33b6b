"""Connections to a cluster's ClickHouse servers, with the outcomes of their dialect."""

from harness.clients.clickhouse import ClickHouse
from harness.core.protocols import Cluster


def connect(cluster: Cluster, node: str, *, timeout_s: float = 10.0) -> ClickHouse:
    """Return a connection that is made on first use. `timeout_s` bounds each wait for the
    server."""
    channel = cluster.query_channel(node, timeout_s)
    return ClickHouse(channel, outcomes=cluster.engines.dialect.write_outcomes)
