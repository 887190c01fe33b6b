"""The final call that reads ZooKeeper's transaction log, for workloads on one table."""

from collections.abc import Sequence

from checkers.look import encode
from checkers.replication.agreed import TRANSACTIONS, AgreedFacts
from harness.clients.table_session import Look
from harness.conform.agreed import agreed
from harness.conform.ensemble import merged, read_packed
from harness.conform.entries import UnreadableError
from harness.core.errors import HarnessError
from harness.core.op import Call
from harness.core.protocols import Cluster, Generator
from harness.core.record_capabilities import KeepsTransactions
from harness.generators.order import final_reads_on


def transactions(cluster: Cluster) -> Look:
    """Return a look at what ZooKeeper's transaction log says about the table."""

    return lambda table: encode(_facts(cluster, table.path))


def _facts(cluster: Cluster, path: str) -> AgreedFacts:
    if not cluster.has(KeepsTransactions):
        return AgreedFacts(unavailable=f"cluster {cluster.name} keeps none")
    keepers = cluster.topology.keepers
    try:
        logs = cluster.part(KeepsTransactions).transactions()
        if len(logs) * 2 <= len(keepers):
            return AgreedFacts(unavailable=f"{len(logs)} of {len(keepers)} servers have one")
        servers = [read_packed(log, node, path) for node, log in logs.items()]
        ensemble = merged(servers, len(keepers))
        return AgreedFacts([*ensemble.gaps], [*agreed(path, ensemble.txns)])
    except (HarnessError, UnreadableError) as error:
        return AgreedFacts(unavailable=str(error))


def look_at_transactions(nodes: Sequence[str]) -> Generator:
    """Return the final call, until it is answered."""
    return final_reads_on([Call(f=TRANSACTIONS)], nodes[:1])
