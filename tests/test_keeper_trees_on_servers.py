"""Trees of real ZooKeeper servers: equal ones, and one whose log has lost a record."""

import base64
import struct
import tarfile
from collections.abc import Iterator
from contextlib import closing
from io import BytesIO
from pathlib import Path

import pytest
from real_servers import wait_until

from checkers.look import encode
from checkers.trees import TREES, Trees
from harness.clients.clickhouse import connect
from harness.clients.replicated_table import ReplicatedTable, TableSchema
from harness.clusters.docker_cluster import DockerCluster
from harness.clusters.images import build_images
from harness.conform.keeper_disk import read_disk
from harness.core.capabilities import CanKill, ReportsLeader
from harness.core.history import History
from harness.core.op import NEMESIS, Kind, Op
from harness.core.record_capabilities import KeepsTransactions
from harness.core.topology import Topology
from harness.core.verdict import Status, Verdict
from harness.run.keeper_trees import asked

pytestmark = pytest.mark.containers
_RECORD = struct.Struct(">qi")
"""Checksum and length of a record of a log."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DockerCluster]:
    """Yield a replica and three ZooKeeper servers, whose data a test may damage."""
    own = DockerCluster(Topology.of(replicas=1), tmp_path, images=build_images(lambda _: None))
    try:
        own.up()
        yield own
    finally:
        own.down()


def judged(cluster: DockerCluster) -> Verdict:
    """Return the verdict on the servers' trees now."""
    report = asked(cluster)
    assert report is not None
    own = {"process": NEMESIS, "f": TREES}
    said = Op(index=1, kind=Kind.OK, time_ns=1, value=encode(report), **own)
    return Trees().check(History([Op(index=0, kind=Kind.INVOKE, time_ns=0, **own), said]))


def transactions(cluster: DockerCluster, node: str) -> bytes:
    """Return the archive of a server's files."""
    return cluster.part(KeepsTransactions).transactions()[node]


def without_record(log: bytes, zxid: int) -> bytes:
    """Return a log file without the record of a transaction, and without the zeros at its end."""
    at = 16
    kept = bytearray(log[:at])
    while any(log[at : at + _RECORD.size]):
        _, length = _RECORD.unpack_from(log, at)
        end = at + _RECORD.size + length + 1
        (_, _, own) = struct.unpack_from(">qiq", log, at + _RECORD.size)
        if own != zxid:
            kept += log[at:end]
        at = end
    return bytes(kept)


def test_a_record_that_is_taken_out_of_a_log_is_found(cluster: DockerCluster) -> None:
    table = ReplicatedTable(cluster, "trees", TableSchema("key Int64, value Int64"))
    table.create()
    with closing(table), closing(connect(cluster, "ch1")) as client:
        for value in range(5):
            client.insert(table.name, [(0, value)], {})
        verdict = judged(cluster)
        assert verdict.status is Status.VALID, verdict.summary
        assert "3 servers show the same" in verdict.summary

        leader = cluster.part(ReportsLeader).leader()
        follower = next(node for node in cluster.topology.keepers if node != leader)
        agent = cluster._containers.agents[follower]
        made = [
            txn.zxid
            for txn in read_disk(transactions(cluster, follower), follower).records
            for change in txn.changes
            if change.path.endswith("/block_numbers/0")
        ]
        assert len(made) == 1
        cluster.part(CanKill).kill([follower])
        (file,) = agent.files("/volumes/datalog/version-2", "log.*")
        with tarfile.open(fileobj=BytesIO(transactions(cluster, follower))) as archive:
            log = archive.extractfile(f"version-2/{Path(file).name}")
            assert log is not None
            holed = without_record(log.read(), made[0])
        agent.run("sh", "-c", f"base64 -d > {file}", text=base64.b64encode(holed).decode())
        cluster.part(CanKill).start([follower])
        wait_until(lambda: not cluster.unready(), "the server follows again")
        verdict = judged(cluster)
        kinds = {one.kind for one in verdict.anomalies}
        assert verdict.status is Status.INVALID
        assert {"hole", "differs"} <= kinds, verdict.summary
        (hole,) = [one for one in verdict.anomalies if one.kind == "hole"]
        assert f"{follower}: its log lacks 1 committed transaction" in hole.text
