"""Asks servers at rest what they say of themselves, for the checker `health`."""

from datetime import timedelta
from typing import Final

from checkers.health import REST_S, Complaint, HealthReport, complaints_in, questions
from harness.clients.clickhouse import ClickHouse, DatabaseError, connect
from harness.clusters.parallel import on_each
from harness.core.clock import utc_now
from harness.core.errors import ClusterError
from harness.core.protocols import Cluster
from harness.core.record_capabilities import KeepsErrors

LOG_BYTES_MAX: Final = 4 << 20
"""Length of an error log of which no more than the end is read."""
ANSWER_S: Final = 10.0
"""Time limit of an answer about system tables."""


def asked(cluster: Cluster, rested_s: float) -> HealthReport | None:
    """Return what the servers of a cluster, which was healed so many seconds ago, say of themselves
    now; None where nobody reads their logs. A server that does not answer is left out in part, with
    the reason."""
    if not cluster.has(KeepsErrors):
        return None
    errors, topology = cluster.part(KeepsErrors), cluster.topology
    rest = None if rested_s < 2 * REST_S else utc_now() - timedelta(seconds=REST_S)

    def ask(node: str) -> tuple[list[Complaint], str]:
        complaints: list[Complaint] = []
        try:
            log = errors.errors(node, LOG_BYTES_MAX)
            complaints += complaints_in(log, rest)
            if node in topology.replicas:
                complaints += _rows(cluster, node)
        except (ClusterError, DatabaseError) as error:
            return complaints, str(error)
        whole = len(log.encode()) < LOG_BYTES_MAX
        return (
            complaints,
            "" if whole else f"only the last {LOG_BYTES_MAX:,} bytes of its log were read",
        )

    found = on_each((*topology.replicas, *topology.keepers), ask)
    return HealthReport(
        {node: complaints for node, (complaints, _) in found.items()},
        {node: why for node, (_, why) in found.items() if why},
    )


def _rows(cluster: Cluster, node: str) -> list[Complaint]:
    """Return what the system tables of a server say. Raises DatabaseError."""
    connection = connect(cluster, node, timeout_s=ANSWER_S)
    try:
        asked_of = questions(cluster.engines.on(node))
        found = {kind: _texts(connection, sql) for kind, sql in asked_of.items()}
    finally:
        connection.close()
    return [Complaint(kind, texts[0], len(texts)) for kind, texts in found.items() if texts]


def _texts(connection: ClickHouse, sql: str) -> list[str]:
    return [text for (text,) in connection.rows(sql, (str,))]
