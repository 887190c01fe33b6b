"""A cluster on which an audit can be tried: a shop's orders, one of which is held back on its way
to ZooKeeper, so that it gets its quorum after one that began later.

`/quorum/last_part`, by which sequentially consistent reads know what they must have, then goes back
from the later order's part to the earlier one's. The scenario `overtaken-insert` has the same, with
a read that misses an order. What clients see and what replicas log is as it should be: ZooKeeper's
log alone has it.
"""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from compose.releases import ImageChoice
from harness.clusters.parallel import on_each
from harness.clusters.replica import execute
from harness.core.capabilities import CanConfigure, CanIntercept
from harness.core.clock import utc_now
from harness.core.errors import ClusterError
from harness.core.history import History
from harness.core.op import Json
from harness.core.protocols import Cluster
from harness.core.record_capabilities import KeepsTransactions
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.run.audit import AuditRequest, audited
from harness.run.audit_log import ZooKeeperLogs
from harness.run.bring_up import fresh_cluster
from harness.run.made_history import Origin, origin_of
from harness.store.store import Store

DATABASE: Final = "shop"
TABLE: Final = "orders"
PATH: Final = "/clickhouse/tables/shop/orders"
ORDERS: Final = 12
"""Number of orders before one is held back."""
EARLY: Final = 100
"""Order that begins first, and is held back."""
LATE: Final = 101
"""Order that overtakes it, on another replica."""
HELD: Final = "commit"
"""Name of the rule by which a proxy holds it back: it has its block number and no commit."""
PATIENCE_S: Final = 120.0
"""Time limit of an insert, and of waiting for what must come."""
_LOG: Final = """<{0}><database>system</database><table>{0}</table>
<flush_interval_milliseconds>1000</flush_interval_milliseconds></{0}>"""
LOGS: Final = f"<clickhouse>{_LOG.format('query_log')}{_LOG.format('part_log')}</clickhouse>"
"""The logs that ClickHouse's own configuration has, and the harness leaves out for speed."""
QUORUM: Final = {"insert_quorum": 2, "insert_quorum_parallel": 0, "log_queries": 1}


def audit_demo(store: Store, note: Callable[[str], None]) -> tuple[History, Origin]:
    """Bring up servers, write orders, overtake one, and return what the servers logged. Nothing is
    left of the servers. Raises ClusterError."""
    name = f"harness-{Seed.fresh().value:08x}"
    cluster = fresh_cluster(
        Topology.of(),
        store.cluster(name),
        note,
        name=name,
        keep=False,
        choice=ImageChoice(),
        accept=lambda _: None,
    )
    began = utc_now()
    cluster.up()
    try:
        note("switching on query_log and part_log")
        for node in cluster.topology.replicas:
            cluster.part(CanConfigure).configure(node, "logs.xml", LOGS)
        cluster.part(CanIntercept).interpose()  # restarts the replicas
        _create(cluster)
        note(f"writing {ORDERS} orders with a quorum of two replicas, to each replica in turn")
        replicas = cluster.topology.replicas
        for order in range(ORDERS):
            _insert(cluster, replicas[order % len(replicas)], order)
        _overtake(cluster, note)
        note("reading the servers' logs")
        on_each(replicas, lambda node: execute(cluster.endpoint(node), "SYSTEM FLUSH LOGS"))
        return _read(cluster, began), origin_of(cluster)
    finally:
        note("removing the servers")
        cluster.down()


def _create(cluster: Cluster) -> None:
    for node in cluster.topology.replicas:
        endpoint = cluster.endpoint(node)
        execute(endpoint, f"CREATE DATABASE {DATABASE}")
        execute(
            endpoint,
            f"CREATE TABLE {DATABASE}.{TABLE} (number Int64) "
            f"ENGINE = ReplicatedMergeTree('{PATH}', '{node}') ORDER BY number",
        )


def _insert(cluster: Cluster, node: str, order: int) -> None:
    text = f"INSERT INTO {DATABASE}.{TABLE} SELECT {order}"
    execute(cluster.endpoint(node), text, timeout_s=PATIENCE_S, settings=QUORUM)


def _overtake(cluster: Cluster, note: Callable[[str], None]) -> None:
    """Insert an order that is held back, and one elsewhere before the first is committed."""
    slow, other = cluster.topology.replicas[:2]
    proxies = cluster.part(CanIntercept)
    rule: dict[str, Json] = {"channel": "zookeeper", "edge": "request", "op": "multi"}
    rule |= {"name": HELD, "do": "hold", "words": [PATH, "/log/log-"], "alone": True}
    proxies.intercept([slow], rule)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(_insert, cluster, slow, EARLY)
        try:
            _await(lambda: first.done() or _held(proxies, slow), f"{slow} commits order {EARLY}")
            if first.done():
                first.result()
                raise ClusterError(f"order {EARLY} was committed and not held back; try it again")
            note(f"holding back what commits order {EARLY} on {slow}")
            _insert(cluster, other, LATE)
            note(f"{other} acknowledged order {LATE}, which began later")
        finally:
            proxies.release([slow], HELD)
        first.result()
    note(f"{slow} acknowledged order {EARLY}")


def _held(proxies: CanIntercept, node: str) -> bool:
    hits = proxies.intercepted(node)["hits"]
    assert isinstance(hits, Mapping), "the proxy counts hits by rule"
    return bool(hits.get(HELD))


def _read(cluster: Cluster, began: datetime) -> History:
    with TemporaryDirectory() as directory:
        paths = []
        for node, log in cluster.part(KeepsTransactions).transactions().items():
            paths.append(Path(directory) / node)
            paths[-1].write_bytes(log)
        keepers = len(cluster.topology.keepers)
        request = AuditRequest(
            database=DATABASE,
            table=TABLE,
            since=began,
            until=utc_now() + timedelta(seconds=1),
            clock_error_s=1.0,
            zookeeper=ZooKeeperLogs(paths=paths, servers=keepers),
        )
        return audited(cluster, request)


def _await(seen: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not seen():
        if time.monotonic() > deadline:
            raise ClusterError(f"not within {PATIENCE_S:g} s: {what}")
        time.sleep(0.05)
